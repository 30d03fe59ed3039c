"""A job over a history in Parquet and live JSON, in a folder; what each side holds, and the answer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from mixedmode.job import Job
from tests.harness import write_json, write_parquet, write_text

SEAM = datetime(2024, 6, 1, tzinfo=UTC)
SCHEMA = pa.schema([("shop", pa.string()), ("price", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
JOB = """\
name: sales
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints, num-retained: 100}}
parallelism: 2
pipeline: {max-parallelism: 16}
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales:
    history: {format: parquet, path: archive}
    live: {format: json, path: live, schema: "at timestamp, shop string, price long"}
    seam: {timestamp: 2024-06-01T00:00:00Z}
    event-time: at
steps:
  - key-by: [shop]
    aggregate: {sold: count(*), income: sum(price)}
sink: {format: parquet, path: ./out}
"""

Sale = tuple[str, int, datetime]
Table = dict[str, tuple[int, int]]


def sales(first: int, count: int) -> list[Sale]:
    """One sale an hour and shop; the one with number 0 is the first at the seam. Numbers are prices too."""
    return [(f"shop {n % 7}", n, SEAM + timedelta(hours=n)) for n in range(first, first + count)]


def answer(sold: Iterable[Sale]) -> Table:
    """Count and sum by shop."""
    found: Table = {}
    for shop, price, _ in sold:
        count, income = found.get(shop, (0, 0))
        found[shop] = (count + 1, income + price)
    return found


@dataclass
class Story:
    """The job's folder. `archived` and `lived` are the records of the two sides, as often as they are there."""

    folder: Path
    text: str = JOB
    archived: list[Sale] = field(default_factory=list)
    lived: list[Sale] = field(default_factory=list)
    _files: int = 0

    def __post_init__(self) -> None:
        write_text(self.folder, "job.yaml", self.text)
        (self.folder / "archive").mkdir()
        (self.folder / "live").mkdir()

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def job(self, *overrides: str) -> Job:
        return Job.from_file(self.file, overrides)

    def archive(self, sold: list[Sale]) -> None:
        """One more file of the history."""
        rows = [{"shop": shop, "price": price, "at": at} for shop, price, at in sold]
        write_parquet(self.folder / "archive", f"{self._next()}.parquet", pa.Table.from_pylist(rows, SCHEMA))
        self.archived += sold

    def live(self, sold: list[Sale]) -> None:
        """One more live file."""
        rows = [{"shop": shop, "price": price, "at": f"{at:%F %T}"} for shop, price, at in sold]
        write_json(self.folder / "live", f"{self._next()}.json", rows)
        self.lived += sold

    def answer(self) -> Table:
        """Of what each side has to give."""
        of_history = [sale for sale in self.archived if sale[2] < SEAM]
        return answer(of_history + [sale for sale in self.lived if sale[2] >= SEAM])

    def _next(self) -> str:
        self._files += 1
        return f"{self._files:04}"


def table_of(rows: Iterable[dict[str, object]]) -> Table:
    """Rows of the job's output by shop."""
    return {str(row["shop"]): (int(str(row["sold"])), int(str(row["income"]))) for row in rows}
