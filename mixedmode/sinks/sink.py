"""What the driver asks of an output, whatever its kind: prepare once a start, publish once an epoch.

Tasks stage files (`files.OutputWriter`); what publishing them means is the sink's: a rename for files, printing for the
console, a transaction for a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import SparkSession

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest, StagedFile
from mixedmode.sinks.files import SinkTask

#: gets the first rows of an epoch, how many there are, and the name of the output
Show = Callable[[pa.Table, int, str], None]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink knows of the job beside its own settings.

    name: of the output, "" for the main one. generation: of this start; 0 in batch mode. base: the folder (URL) below
    which outputs are staged that are not files themselves: that of the checkpoints. replaces: it is a batch run, which
    takes the place of an earlier run's output. retained: how many checkpoints the job keeps, so that it
    can go back to them.
    """

    job: str
    name: str
    generation: Generation
    base: str
    replaces: bool
    session: SparkSession
    show: Show
    retained: int = 1

    @property
    def staging(self) -> str:
        """Where this output waits to be published, if it is not a folder of files itself."""
        return staging_folder(self.base, self.name)

    @property
    def screen(self) -> str:
        """Where it waits to be printed."""
        return staging_folder(self.base, self.name, "console")


class Sink(Protocol):
    """Publication of the staged files of one output, which may be repeated. `sinks.Sinks` holds all of a job."""

    @property
    def task(self) -> SinkTask:
        """What a task needs to stage its output."""

    @property
    def store(self) -> ObjectStore:
        """The folder with the staged outputs."""

    @property
    def can_take_back(self) -> bool:
        """Whether what was published can be made unseen: after `take_back`, nothing of later epochs is left."""

    @property
    def cannot_report_published(self) -> bool:
        """Whether it knows nothing of what was published, as a screen does; it then may always begin anew."""

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Check the place before the first epoch, and create what is missing there. May be repeated.

        is_fresh: the job has no checkpoint that knows this output. Raises InvalidJobError when the place holds
        something else, RetryableError when it cannot be reached.
        """

    def is_new(self) -> bool:
        """Whether nothing of a job has been written to the place so far."""

    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Make the outputs of a committed epoch visible; () if it has none. Repeating it changes nothing more.

        Raises RetryableError when it may be repeated, FencedError when a newer start of the job has published.
        """

    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """(path in `store`, what is wrong with it) if a committed file can neither be read nor be published."""

    def newest_published(self) -> Epoch | None:
        """The newest epoch of which there is something published; None if there is none, or it cannot be told."""

    def oldest_published(self) -> Epoch | None:
        """The oldest one, as newest_published."""

    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        """What is published of an epoch and is none of `files`, as far as it can be told."""

    def obstacle(self, manifest: Manifest) -> str | None:
        """Why the output cannot become what it was after a checkpoint that knows it; None if it can, or if the output
        cannot be rolled back at all (`can_take_back`). The text of an error. Changes nothing.
        """

    def take_back(self, after: Epoch) -> int:
        """Roll back later epochs: make what is published or staged of them unseen, and bring back what it replaced.

        How many files or rows. Repeating it is harmless. Raises an error, and has changed nothing, where it cannot.
        """


def staging_folder(checkpoint_dir: Path | str, name: str = "", kind: str = "staged") -> str:
    """Where an output waits to be published elsewhere. `name` is the output's, "" for the main one."""
    folder = f"{str(checkpoint_dir).rstrip('/')}/{kind}"
    return f"{folder}-{quote(name, safe='')}" if name else folder
