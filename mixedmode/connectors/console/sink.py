"""The terminal as an output: publishing prints the rows."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.config.sinks import ConsoleSinkSpec
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.shown import shown_rows
from mixedmode.sinks.sink import Show, SinkContext
from mixedmode.sinks.staged import StagedSink

CONSOLE_ROWS = 20  # per epoch; more would not be read


def open_console(_sink: ConsoleSinkSpec, context: SinkContext) -> "ConsoleSink":
    """Return the sink."""
    return ConsoleSink(context.screen, context.show, context.name)


class ConsoleSink(StagedSink):
    """Prints the first rows of each epoch. A crash right after printing prints them once more."""

    def __init__(self, url: str, show: Show, name: str = "") -> None:
        """`url`: a folder for staged outputs, used by this sink only. `name`: of the output, "" for the main one.
        `show` is called with up to CONSOLE_ROWS rows, the total number of rows, and the name.
        """
        super().__init__(url)
        self._show = show
        self._name = name

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        tables: list[pa.Table] = []
        for file in staged:
            data = self.store.get(file.staged_path)
            if data is not None and sum(table.num_rows for table in tables) < CONSOLE_ROWS:
                tables.append(pq.read_table(pa.BufferReader(data)))
        if tables:
            rows = pa.concat_tables(tables).slice(0, CONSOLE_ROWS)
            self._show(rows, sum(file.rows for file in staged), self._name)
        self.delete_staged(staged)


def print_rows(rows: pa.Table, total: int, name: str) -> None:
    """Print rows as lines of name=value, below the epoch and the name of the output ("": the main output)."""
    heading = f"epoch {rows.column(EPOCH_COLUMN)[0].as_py()}" + (f", {name}" if name else "")
    print(f"{heading}: {total} rows" + (f", the first {rows.num_rows}" if rows.num_rows < total else ""))  # noqa: T201
    for row in shown_rows(rows.drop_columns([EPOCH_COLUMN])):
        print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))  # noqa: T201
