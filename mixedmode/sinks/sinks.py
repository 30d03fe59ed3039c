"""All outputs of a job as one: the main one, and those by name (late records, side outputs, dead letters).

The one idea: every staged file says which output it is of, so a manifest is enough to publish all of them, each in its
own folder. An epoch is published when all of its outputs are; a repeat after a crash finds some done, does the rest.
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
    """Columns of an output, and those of them that tell its rows apart; () if every row stands for itself."""

    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sinks:
    """`by_name` are the job's sinks by the name of their output, "" for the main one; each has a folder of its own."""

    by_name: Mapping[str, Sink]

    @property
    def tasks(self) -> dict[str, SinkTask]:
        """What tasks need to stage their outputs, by name."""
        return {name: sink.task for name, sink in self.by_name.items()}

    @property
    def stores(self) -> tuple[ObjectStore, ...]:
        """The folders with the staged outputs."""
        return tuple(sink.store for sink in self.by_name.values())

    def prepare(self, schemas: Mapping[str, OutputSchema], *, known: Collection[str]) -> None:
        """Check every place before the first epoch; `schemas` has the names of the sinks. See Sink.

        known: the outputs that the job had when it took the checkpoint from which it goes on; the others begin afresh.
        """
        assert schemas.keys() == self.by_name.keys(), (list(schemas), list(self.by_name))
        for name, sink in self.by_name.items():
            sink.prepare(schemas[name].fields, schemas[name].key_columns, is_fresh=name not in known)

    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        """Make all outputs of a committed epoch visible, also those without rows. See Sink.

        Raises InvalidJobError for files of an output that the job no longer has: they may be unpublished.
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
        """Whether any of these files is still where its task put it, so that it is not, or just not yet, published."""
        for name, sink in self.by_name.items():  # of outputs that the job no longer has, publish tells
            paths = [file.staged_path for file in staged if file.sink == name]
            if any(size is not None for size in sink.store.at_once(sink.store.size, paths)):
                return True
        return False

    @property
    def lasting(self) -> tuple[str, ...]:
        """Names of the outputs that cannot be rolled back."""
        return tuple(name for name, sink in self.by_name.items() if not sink.can_take_back)

    def newest_published(self) -> Epoch | None:
        """The newest epoch of which any output has something published; None if none has."""
        published = (sink.newest_published() for sink in self.by_name.values())
        return max((epoch for epoch in published if epoch is not None), default=None)

    def begun_after(self, epoch: Epoch, names: Iterable[str]) -> tuple[str, ...]:
        """Those outputs of `names` of which all that is published is later than `epoch`. Lists their folders."""
        oldest = {name: self.by_name[name].oldest_published() for name in names}
        return tuple(name for name, first in oldest.items() if first is not None and first > epoch)

    def obstacle(self, manifest: Manifest) -> str | None:
        """Why the outputs that a checkpoint knows cannot become what they were after it; None if they can. See Sink."""
        names = [name for name in self.by_name if name in manifest.output_names]
        return next((why for name in names if (why := self.by_name[name].obstacle(manifest)) is not None), None)

    def take_back(self, after: Epoch) -> int:
        """Make outputs of later epochs unseen where the sink can; how many files. Repeating it is harmless."""
        return sum(sink.take_back(after) for sink in self.by_name.values())
