"""The interface between the driver and an output of any kind: prepare it once per start, publish once per epoch.

Tasks stage files (`files.OutputWriter`). Each sink defines how staged files are published: by a rename for files, by
printing for the console, by a transaction for a table.
"""

from abc import abstractmethod
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
from mixedmode.time.window_range import ReplacedRows

#: called with the first rows of an epoch, the total number of rows, and the name of the output
Show = Callable[[pa.Table, int, str], None]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The facts about the job that a sink needs besides its own settings.

    name: the name of the output, "" for the main output. generation: that of this start; 0 in batch mode. base: the
    folder (URL) of the checkpoints; outputs that are not folders of files are staged below it. replaces: this is a
    batch run, which replaces the output of an earlier run. retained: the number of checkpoints that the job keeps, and
    so can go back to.
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
        """The folder in which this output is staged, if the output is not a folder of files itself."""
        return staging_folder(self.base, self.name)

    @property
    def screen(self) -> str:
        """The folder in which this output is staged until it is printed."""
        return staging_folder(self.base, self.name, "console")


class Sink(Protocol):
    """Publishes the staged files of one output; publishing may be repeated. `sinks.Sinks` holds all sinks of a job."""

    task: SinkTask  #: the settings that a task needs to stage this output
    store: ObjectStore  #: the folder with the staged outputs

    @property
    @abstractmethod
    def can_roll_back(self) -> bool:
        """Return whether published outputs can be rolled back: `roll_back` then removes everything of later epochs."""

    @property
    @abstractmethod
    def cannot_report_published(self) -> bool:
        """Return whether the sink cannot know what was published, like a screen.
        Then a fresh start is always allowed.
        """

    @abstractmethod
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Check the place before the first epoch, and create what is missing there. May be repeated.

        is_fresh: the job has no checkpoint that knows this output. Raises InvalidJobError if the place holds something
        else, RetryableError if the place cannot be reached.
        """

    @abstractmethod
    def is_new(self) -> bool:
        """Return whether no job has written to the place so far."""

    @abstractmethod
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Make the outputs of a committed epoch visible. `staged` is () if the epoch has none. A repeat has no further
        effect.

        Raises RetryableError if the call may be repeated, FencedError if a newer start of the job has published.
        """

    @abstractmethod
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Return (path in `store`, problem) if a committed file can be neither read nor published; else None."""

    @abstractmethod
    def newest_published(self) -> Epoch | None:
        """Return the newest epoch that has published output; None if there is none or it is not known."""

    @abstractmethod
    def oldest_published(self) -> Epoch | None:
        """Return the oldest epoch that has published output; None as for newest_published."""

    @abstractmethod
    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        """Return the published outputs of an epoch that are not among `files`, as far as the sink can know them."""

    @abstractmethod
    def obstacle(self, manifest: Manifest) -> str | None:
        """Return the reason why the output cannot return to its contents as of a checkpoint that knows it, as an error
        text.

        Return None if the output can, or if it cannot be rolled back at all (`can_roll_back`). Changes nothing.
        """

    @abstractmethod
    def roll_back(self, after: Epoch) -> int:
        """Roll back the epochs after `after`: remove their published and staged outputs, and restore what they
        replaced.

        Return the number of files or rows. Repeating the call is harmless. Raises an error, and changes nothing, if
        the output cannot be rolled back.
        """

    def no_replacement(self, replaced: ReplacedRows) -> str | None:
        """Return why these rows that were published cannot be replaced, as a clause; None if they can."""
        del replaced  # whichever they are
        return "rows that were written there cannot be replaced"

    def replace_windows(self, rows: pa.Table, replaced: ReplacedRows, before: Epoch) -> None:
        """Replace all published rows of the windows of a range by `rows`: all of them, or none.

        rows: the columns of the output. replaced: the rows of the windows. before: the oldest epoch to which the job
        may go back; the rows of the windows are of this epoch or of earlier ones. Called after `prepare`, also while
        the job runs. Raises RetryableError if nothing was replaced because of something outside, and InvalidJobError
        if the rows cannot be replaced.
        """
        raise AssertionError(self.no_replacement(replaced), rows.num_rows, replaced, before)


def staging_folder(checkpoint_dir: Path | str, name: str = "", kind: str = "staged") -> str:
    """Return the folder in which an output is staged if it is published elsewhere.
    `name`: of the output, "" for the main one.
    """
    folder = f"{str(checkpoint_dir).rstrip('/')}/{kind}"
    return f"{folder}-{quote(name, safe='')}" if name else folder
