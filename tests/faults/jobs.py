"""One job for all faults, its inputs, its answer, and what must be true of its folders after any of them."""

import json
import random
import tempfile
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.gc import collect_orphans
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.job import Job
from tests.differential.oracle import Call, Row, Table, aggregate, differences, keyed
from tests.differential.stories import fold
from tests.harness import checkpoint_log, manifests, output_changes, output_rows, write_json, write_parquet, write_text

JOB = """\
name: faults
execution:
  runtime-mode: mixed
  checkpointing: {interval: 100ms, dir: ./check points}
parallelism: 2
pipeline: {max-parallelism: 16}
state.backlog.sort-memory: 64KB
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales: {format: FORMAT, path: in, schema: "shop string, item int, price long, at timestamp", event-time: at}
steps:
STEPSsink: {format: parquet, path: ./out}
"""
ONE_STEP = """\
  - key-by: [shop]
    aggregate: {items: count(*), best: max(price), income: sum(price)}
"""
TWO_STEPS = """\
  - key-by: [shop, item]
    aggregate: {sold: count(*), income: sum(price)}
  - sql: SELECT * FROM previous WHERE income > 0
  - key-by: [shop]
    aggregate: {items: count(*), best: max(income), income: sum(income)}
"""


SCHEMA = pa.schema(
    [("shop", pa.string()), ("item", pa.int32()), ("price", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
)


@dataclass
class FaultJob:
    """A job file in a folder with a space in its name, and all rows that its input has.

    Spark reads JSON; the map tasks read Parquet themselves, and compute its sql.
    """

    folder: Path
    steps: str = ONE_STEP
    file_format: Literal["parquet", "json"] = "json"
    rows: list[Row] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(11))

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "check points"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def job(self) -> Job:
        """The same job, to be run in this process."""
        return Job.from_file(self.file)

    def __post_init__(self) -> None:
        write_text(self.folder, "job.yaml", JOB.replace("STEPS", self.steps).replace("FORMAT", self.file_format))
        (self.folder / "in").mkdir()

    def add(self, name: str, count: int) -> None:
        """One file of sales and refunds, so that keys come, change and go."""
        rng = self._random
        rows: list[dict[str, Any]] = [
            {
                "shop": f"shop {rng.randrange(60)}",
                "item": rng.randrange(8),
                "price": rng.randrange(-60, 50),
                "at": datetime(2001, 1, 1, rng.randrange(24), tzinfo=UTC),
            }
            for _ in range(count)
        ]
        if self.file_format == "json":
            write_json(self.folder / "in", f"{name}.json", [{**row, "at": f"{row['at']:%F %T}"} for row in rows])
        else:
            write_parquet(self.folder / "in", f"{name}.parquet", pa.Table.from_pylist(rows, SCHEMA))
        self.rows += rows

    def answer(self) -> Table:
        if self.steps == ONE_STEP:
            calls = {"items": Call("count"), "best": Call("max", "price"), "income": Call("sum", "price")}
            return aggregate(self.rows, ["shop"], calls)
        items = aggregate(self.rows, ["shop", "item"], {"sold": Call("count"), "income": Call("sum", "price")})
        kept = [row for row in items.values() if row["income"] > 0]
        calls = {"items": Call("count"), "best": Call("max", "income"), "income": Call("sum", "income")}
        return aggregate(kept, ["shop"], calls)

    def check(self) -> None:
        """The answer is right, no row is there twice, and nothing lies about that no manifest names."""
        assert not differences(self.answer(), fold(output_changes(self.out), ["shop"]))
        assert not differences(self.answer(), keyed(output_rows(self.out), ["shop"]))
        committed = manifests(self.checkpoints)
        published = {path.name for path in self.out.iterdir() if not path.name.startswith("_")}
        assert published == {file.final_path for manifest in committed for file in manifest.outputs}
        log = checkpoint_log(self.checkpoints)
        collect_orphans(log, sinks=[ObjectStore(str(self.out))])
        named = {run.path for manifest in committed for operator in manifest.operators for run in operator.runs}
        assert {path for path, _ in log.store.list(paths.RUNS)} == named
        assert not ObjectStore(str(self.out)).list(output_paths.STAGING)
        assert not list(self.out.glob("_tmp/*")), "half-written files"
        assert self.runs_read() <= named, "a replica holds a run that no manifest names"

    def runs_read(self) -> set[str]:
        """The runs that the subtasks of this job have taken into their local copies."""
        folders = Path(tempfile.gettempdir()).glob("mixedmode-*/replicas/*/*/ingested.json")
        notes = [json.loads(path.read_text()) for path in folders if path.parent.parent.name == self._replica_name]
        return {run for note in notes for run in note["runs"]}

    @property
    def _replica_name(self) -> str:
        return uuid.uuid5(uuid.NAMESPACE_URL, str(self.checkpoints)).hex[:16]
