"""DuckDB, the practical floor: how fast the same answer comes off the same files, if nothing has to be kept.

It runs the SQL that defines the answer, so it needs no program of its own. It has no state to begin with
and leaves none: with the next record it would begin again. So it takes no part where a feed follows.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode_bench.contestant import Outcome, Task
from mixedmode_bench.tables import quoted, relation_of
from mixedmode_bench.workload import Workload

if TYPE_CHECKING:
    import duckdb

FILE = "answer.parquet"


class DuckDB:
    """`COPY (answer) TO ... (FORMAT parquet)` over the files, in one connection that stays open."""

    name: ClassVar[str] = "duckdb"
    title: ClassVar[str] = "DuckDB, keeps no state"
    events_max: ClassVar[Mapping[str, int]] = {}

    def missing(self) -> str | None:
        """Return the missing package, or None."""
        return None if find_spec("duckdb") else "the package duckdb: pip install duckdb"

    def takes(self, workload: Workload) -> bool:
        """All that has an end."""
        return workload.feed is None

    def start(self, scratch: Path, cores: int) -> None:
        """Open the connection, with a thread per core. The order of the rows is free, as it is for the others."""
        import duckdb  # noqa: PLC0415 - whoever benchmarks without it must be able to import this module

        self._connection = duckdb.connect()
        self._connection.execute(f"SET threads = {cores}")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET temp_directory = {quoted(scratch / 'duckdb')}")

    def prepare(self, task: Task) -> None:
        """Do nothing: each run makes the views anew, since a name has another meaning in another workload."""

    def run(self, task: Task) -> Outcome:
        """From the Parquet files to one Parquet file."""
        show_tables(self._connection, task.data)
        started = perf_counter()
        self._connection.execute(f"COPY ({task.workload.answer}) TO {quoted(task.work / FILE)} (FORMAT parquet)")
        return Outcome(perf_counter() - started)

    def free_memory(self) -> None:
        """Do nothing: DuckDB keeps little."""

    def answer(self, task: Task) -> pa.Table:
        """The file that the run wrote."""
        return pq.read_table(task.work / FILE)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def show_tables(connection: "duckdb.DuckDBPyConnection", data: Path) -> None:
    """A view over the files of each table: a folder below `data` is a table."""
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        connection.execute(f'CREATE OR REPLACE VIEW "{folder.name}" AS FROM {relation_of(folder)}')


def columns_of_answer(task: Task) -> list[str]:
    """The names of the columns of the workload's answer."""
    import duckdb  # noqa: PLC0415 - as above

    with duckdb.connect() as connection:
        show_tables(connection, task.data)
        return [name for name, *_ in connection.execute(f"DESCRIBE {task.workload.answer}").fetchall()]
