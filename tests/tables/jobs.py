"""The job of all faults (tests/faults/jobs.py) with a table for its result; deletes come from keys that vanish."""

from dataclasses import dataclass

from tests.differential.oracle import Row, differences, keyed
from tests.faults.jobs import JOB, TWO_STEPS, FaultJob
from tests.harness import write_text
from tests.tables.places import Place

COLUMNS = ("shop", "items", "best", "income")


@dataclass
class TableJob(FaultJob):
    """`sink` is that of a job file."""

    place: Place | None = None

    def __post_init__(self) -> None:
        self.steps = TWO_STEPS
        assert self.place is not None
        if self.place.kind == "sqlite":
            sink = "{format: sqlite, path: ./run/totals.db, table: totals}"
        else:
            sink = f'{{format: postgres, url: "{without_password(self.place.url)}", table: totals}}'
        super().__post_init__()
        text = JOB.replace("STEPS", self.steps).replace("FORMAT", self.file_format)
        write_text(self.folder, "job.yaml", text.replace("{format: parquet, path: ./out}", sink))

    def table(self) -> list[Row]:
        assert self.place is not None
        place = Place(self.place.kind, self.folder, self.place.url)
        return [dict(zip(COLUMNS, row, strict=True)) for row in place.rows()]

    def check(self) -> None:
        """The table is the answer, and nothing is left that waits to be published."""
        rows = self.table()
        answer = self.answer()
        assert len(rows) == len(answer)
        assert not differences(answer, keyed(rows, ["shop"]))
        assert not list((self.checkpoints / "staged").glob("_staging/*"))


def without_password(url: str) -> str:
    """The same URL as a job file would have it."""
    return url.replace(password_of(url), "${env:TABLES_PASSWORD}")


def password_of(url: str) -> str:
    """That of the test server."""
    return url.split(":")[2].split("@", maxsplit=1)[0]
