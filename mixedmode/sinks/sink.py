"""Where a job's outputs go, as the driver sees it: prepare once a start, publish once an epoch.

Tasks stage files (`files.OutputWriter`); what publishing them means is the sink's: a rename for files, printing for the
console.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN, FileFormat, SinkTask
from mixedmode.sinks.publish import (
    OutputColumn,
    OutputDescription,
    describe_output,
    publish,
    published_files,
    read_output_description,
)

CONSOLE_ROWS = 20  # of one epoch; a person reads no more


class Sink(Protocol):
    """Publication of the staged files of one output, which may be repeated. `sinks.Sinks` holds all of a job."""

    @property
    def task(self) -> SinkTask:
        """What a task needs to stage its output."""

    @property
    def store(self) -> ObjectStore:
        """The folder with the staged outputs."""

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Check the place before the first epoch. Raises InvalidJobError when it holds something else."""

    @property
    def can_take_back(self) -> bool:
        """Whether what was published can be made unseen."""

    def publish(self, staged: Sequence[StagedFile]) -> None:
        """Make the outputs of a committed epoch visible. Repeating it changes nothing more."""

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """(path in `store`, what is wrong with it) if a committed file can neither be read nor be published."""

    def newest_published(self) -> Epoch | None:
        """The newest epoch of which there is something published; None if there is none, or it cannot be told."""

    def oldest_published(self) -> Epoch | None:
        """The oldest one, as newest_published."""

    def take_back(self, after: Epoch) -> int:
        """Make outputs of later epochs unseen, published and staged ones; how many files. Repeating it is harmless."""


class FileSink:
    """A folder of Parquet or JSON files that any reader can read."""

    can_take_back = True

    def __init__(self, job: str, url: str, file_format: FileFormat, *, replaces: bool) -> None:
        """`replaces`: a batch run, which starts over, takes the place of an earlier run's output."""
        self._job = job
        self._replaces = replaces
        self.task = SinkTask(url, file_format)
        self.store = ObjectStore(url)

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """See Sink. A fresh job with checkpoints wants an empty folder: epoch 0 would meet another run's files."""
        columns = tuple(OutputColumn(field.name, str(field.type)) for field in fields)
        if not is_fresh and read_output_description(self.store) is None:
            msg = (
                "the job goes on from a checkpoint, and the output it has written so far is not in this folder. Put "
                "the old path of this output back, or move its whole folder to the new path. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        run: Literal["batch", "continuous"] = "batch" if self._replaces else "continuous"
        describe_output(self.store, OutputDescription(self._job, run, self.task.format, tuple(key_columns), columns))
        if is_fresh and not self._replaces and published_files(self.store):
            msg = (
                "the output folder holds the output of an earlier run whose checkpoints are not here, and the two "
                "would be mixed. Give this output a new path, empty the folder, or put the old checkpointing.dir back. "
                f"folder={self.store.url}"
            )
            raise InvalidJobError(msg)
        if self._replaces:  # what a batch run that died has staged is of no use to this one
            self.store.delete([path for path, _ in self.store.list(paths.STAGING)])

    def publish(self, staged: Sequence[StagedFile]) -> None:
        """See Sink."""
        if self._replaces:
            waiting = [file for file in staged if self.store.exists(file.staged_path)]
            published_before = {file.final_path for file in staged} - {file.final_path for file in waiting}
            others = [path for path, _ in published_files(self.store) if path not in published_before]
            self.store.delete(others)
        publish(self.store, staged)

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """See Sink. What was published counts; what was not, as it is staged; it may just be published."""
        found = None
        for path in (file.final_path, file.staged_path, file.final_path):
            found = file_problem(self.store, path, size=file.bytes, checksum=file.checksum, reads=reads)
            if found is None:
                return None
            if self.store.exists(path):
                return path, found
        assert found is not None, "looked three times"
        return file.final_path, found

    def newest_published(self) -> Epoch | None:
        """See Sink."""
        return max((file[0] for file in self._published()), default=None)

    def oldest_published(self) -> Epoch | None:
        """See Sink."""
        return min((file[0] for file in self._published()), default=None)

    def take_back(self, after: Epoch) -> int:
        """See Sink. From the newest to the oldest, so that after a crash `newest_published` still tells of the rest."""
        later = [path for epoch, path in sorted(self._published(), reverse=True) if epoch > after]
        for path, _ in self.store.list(paths.STAGING):
            file = paths.parse_staged_path(path)
            if file is not None and file.epoch > after:
                later.append(path)
        self.store.delete(later)
        return len(later)

    def _published(self) -> list[tuple[Epoch, str]]:
        parsed = ((paths.parse_final_path(path), path) for path, _ in published_files(self.store))
        return [(file[0], path) for file, path in parsed if file is not None]


class ConsoleSink:
    """Prints the first rows of each epoch. A crash right after printing prints them once more."""

    can_take_back = False

    def __init__(self, url: str, show: Callable[[pa.Table, int, str], None], name: str = "") -> None:
        """`url` is a folder for staged outputs, of this sink alone; `name` is the output's, "" for the main one.

        `show` gets up to CONSOLE_ROWS rows, how many there are, and the name.
        """
        self.task = SinkTask(url, "parquet")
        self.store = ObjectStore(url)
        self._show = show
        self._name = name

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Nothing can be in the way."""

    def publish(self, staged: Sequence[StagedFile]) -> None:
        """See Sink."""
        tables: list[pa.Table] = []
        for file in staged:
            data = self.store.get(file.staged_path)
            if data is not None and sum(table.num_rows for table in tables) < CONSOLE_ROWS:
                tables.append(pq.read_table(pa.BufferReader(data)))
        if tables:
            rows = pa.concat_tables(tables).slice(0, CONSOLE_ROWS)
            self._show(rows, sum(file.rows for file in staged), self._name)
        self.store.delete([file.staged_path for file in staged])

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """See Sink. A file that is gone was printed."""
        if not self.store.exists(file.staged_path):
            return None
        found = file_problem(self.store, file.staged_path, size=file.bytes, checksum=file.checksum, reads=reads)
        return None if found is None else (file.staged_path, found)

    def newest_published(self) -> Epoch | None:
        """See Sink. What is on a screen cannot be looked at."""
        return None

    def oldest_published(self) -> Epoch | None:
        """See Sink."""
        return None

    def take_back(self, after: Epoch) -> int:
        """See Sink. What was printed stays printed; what was not is taken back, and does not count."""
        staged = ((paths.parse_staged_path(path), path) for path, _ in self.store.list(paths.STAGING))
        self.store.delete([path for file, path in staged if file is not None and file.epoch > after])
        return 0


def print_rows(rows: pa.Table, total: int, name: str) -> None:
    """Rows as lines of name=value on standard output, below the epoch and the name of the output ("": the main one)."""
    heading = f"epoch {rows.column(EPOCH_COLUMN)[0].as_py()}" + (f", {name}" if name else "")
    print(f"{heading}: {total} rows" + (f", the first {rows.num_rows}" if rows.num_rows < total else ""))  # noqa: T201
    for row in rows.drop_columns([EPOCH_COLUMN]).to_pylist():
        print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))  # noqa: T201


def staging_folder(checkpoint_dir: Path | str, name: str = "") -> str:
    """Where an output waits to be printed on the console. `name` is the output's, "" for the main one."""
    folder = f"{str(checkpoint_dir).rstrip('/')}/console"
    return f"{folder}-{quote(name, safe='')}" if name else folder
