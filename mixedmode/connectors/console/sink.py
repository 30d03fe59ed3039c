"""The terminal as an output: publishing prints the rows."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.config.sinks import ConsoleSinkSpec
from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.shown import shown_rows
from mixedmode.sinks.sink import Show, Sink, SinkContext

CONSOLE_ROWS = 20  # per epoch; more would not be read


def open_console(_sink: ConsoleSinkSpec, context: SinkContext) -> "ConsoleSink":
    """Return the sink."""
    return ConsoleSink(context.screen, context.show, context.name)


class ConsoleSink(Sink):
    """Prints the first rows of each epoch. A crash right after printing prints them once more."""

    can_roll_back = False
    cannot_report_published = True

    def __init__(self, url: str, show: Show, name: str = "") -> None:
        """`url`: a folder for staged outputs, used by this sink only. `name`: of the output, "" for the main one.
        `show` is called with up to CONSOLE_ROWS rows, the total number of rows, and the name.
        """
        self.task = SinkTask(url, "parquet")
        self.store = ObjectStore(url)
        self._show = show
        self._name = name

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Do nothing: the console needs no preparation."""

    @override
    def is_new(self) -> bool:
        return True

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
        self.store.delete([file.staged_path for file in staged])

    @override
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Report no problem for a missing file: it was printed."""
        if not self.store.exists(file.staged_path):
            return None
        found = file_problem(self.store, file.staged_path, size=file.bytes, checksum=file.checksum, reads=reads)
        return None if found is None else (file.staged_path, found)

    @override
    def newest_published(self) -> Epoch | None:
        """Return None: nobody can read back what a screen shows."""
        return None

    @override
    def oldest_published(self) -> Epoch | None:
        return None

    @override
    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        return ()

    @override
    def obstacle(self, manifest: Manifest) -> str | None:
        return None

    @override
    def roll_back(self, after: Epoch) -> int:
        """Delete the staged files that were not printed, without counting them; printed rows stay."""
        staged = ((paths.parse_staged_path(path), path) for path, _ in self.store.list(paths.STAGING))
        self.store.delete([path for file, path in staged if file is not None and file.epoch > after])
        return 0


def print_rows(rows: pa.Table, total: int, name: str) -> None:
    """Print rows as lines of name=value, below the epoch and the name of the output ("": the main output)."""
    heading = f"epoch {rows.column(EPOCH_COLUMN)[0].as_py()}" + (f", {name}" if name else "")
    print(f"{heading}: {total} rows" + (f", the first {rows.num_rows}" if rows.num_rows < total else ""))  # noqa: T201
    for row in shown_rows(rows.drop_columns([EPOCH_COLUMN])):
        print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))  # noqa: T201
