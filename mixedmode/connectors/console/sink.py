"""The terminal as an output: publishing prints the rows."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.connectors.console.spec import ConsoleSinkSpec
from mixedmode.sinks.arrow_memory import reader_of
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
                tables.append(pq.read_table(reader_of(data)))
        if tables:
            rows = pa.concat_tables(tables).slice(0, CONSOLE_ROWS)
            self._show(rows, sum(file.rows for file in staged), self._name)
        self.delete_staged(staged)
