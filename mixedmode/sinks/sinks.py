"""All outputs of a job together: the main output and the named ones (late records, side outputs, dead letters).

Every staged file names its output, so a manifest is enough to publish all outputs, each in its own folder. An epoch is
published when all of its outputs are. A repeat after a crash finds some outputs published, and publishes the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.crash_points import reach
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import SinkTask
from mixedmode.sinks.sink import Sink


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """Columns of an output, and the columns among them that identify a row; () if the output has no key."""

    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sinks:
    """The sinks of a job. `by_name` maps the name of an output, "" for the main one, to its sink;
    each has its own folder.
    """

    by_name: Mapping[str, Sink]

    @property
    def tasks(self) -> dict[str, SinkTask]:
        """The settings that tasks need to stage the outputs, by name of the output."""
        return {name: sink.task for name, sink in self.by_name.items()}

    @property
    def stores(self) -> tuple[ObjectStore, ...]:
        """The folders with the staged outputs."""
        return tuple(sink.store for sink in self.by_name.values())

    def prepare(self, schemas: Mapping[str, OutputSchema], *, known: Collection[str]) -> None:
        """Check every place before the first epoch; `schemas` has the same names as the sinks. See Sink.

        known: the outputs that the job had at the checkpoint from which it resumes; the other outputs start fresh.
        """
        assert schemas.keys() == self.by_name.keys(), (list(schemas), list(self.by_name))
        for name, sink in self.by_name.items():
            sink.prepare(schemas[name].fields, schemas[name].key_columns, is_fresh=name not in known)

    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Make all outputs of a committed epoch visible, also those without rows. See Sink.

        Raises InvalidJobError for files of an output that the job no longer has, because they may be unpublished.
        """
        unknown = sorted({file.sink for file in staged} - self.by_name.keys())
        if unknown:
            msg = (
                "the latest checkpoint has rows for an output that the job no longer names, and they may not be "
                "published yet. Put the output back into the job, with its old path. "
                f"output={unknown[0]!r}, outputs={sorted(self.by_name)}"
            )
            raise InvalidJobError(msg)
        for name, sink in self.by_name.items():
            files = [file for file in staged if file.sink == name]
            sink.publish(epoch, files)
            if files and len(files) < len(staged):
                reach("publish", epoch)

    def has_staged(self, staged: Iterable[StagedFile]) -> bool:
        """Return whether any of these files is still in its staging folder, and so is not published yet."""
        for name, sink in self.by_name.items():  # `publish` reports files of outputs that the job no longer has
            paths = [file.staged_path for file in staged if file.sink == name]
            if any(size is not None for size in sink.store.at_once(sink.store.size, paths)):
                return True
        return False

    @property
    def not_rolled_back(self) -> tuple[str, ...]:
        """Names of the outputs that cannot be rolled back."""
        return tuple(name for name, sink in self.by_name.items() if not sink.can_roll_back)

    def newest_published(self) -> Epoch | None:
        """Return the newest epoch of which any output has published something; None if there is none."""
        published = (sink.newest_published() for sink in self.by_name.values())
        return max((epoch for epoch in published if epoch is not None), default=None)

    def begun_after(self, epoch: Epoch, names: Iterable[str]) -> tuple[str, ...]:
        """Return those outputs of `names` whose published epochs are all later than `epoch`.
        Lists the folders of the outputs.
        """
        oldest = {name: self.by_name[name].oldest_published() for name in names}
        return tuple(name for name, first in oldest.items() if first is not None and first > epoch)

    def obstacle(self, manifest: Manifest) -> str | None:
        """Return the reason why an output that a checkpoint knows cannot return to its contents then; else None.
        See Sink.
        """
        names = [name for name in self.by_name if name in manifest.output_names]
        return next((why for name in names if (why := self.by_name[name].obstacle(manifest)) is not None), None)

    def roll_back(self, after: Epoch) -> int:
        """Roll back the outputs of later epochs where the sink can; return the number of files.
        Repeating it is harmless.
        """
        return sum(sink.roll_back(after) for sink in self.by_name.values())
