"""A custom class as an output: it receives the staged rows of an epoch after the epoch is committed.

Staged files are deleted only after the class has stored their rows. So if all files of an epoch exist, the epoch is
handed over, again if necessary. If a file is missing, the class has already received the epoch.

    manifest -> publish(epoch, rows) returns -> staged files deleted

Invariants (tests/custom/test_sink.py):
  I1  every epoch reaches `publish` with all of its rows, and returns from it, before the next epoch does
  I2  an epoch never reaches `publish` with only a part of its rows
"""

from collections.abc import Sequence

import pyarrow as pa
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.connectors.custom.classes import CustomSink
from mixedmode.connectors.custom.instances import CUSTOM_SINK, call_user_method
from mixedmode.connectors.custom.spec import CustomSinkSpec
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.staged import StagedSink


class CustomSinkWriter(StagedSink):
    """Publishes one output to a CustomSink."""

    def __init__(self, sink: CustomSinkSpec, context: SinkContext) -> None:
        """`context.staging` is the folder in which rows are staged."""
        super().__init__(context.staging)
        self._named = CUSTOM_SINK.named(sink.class_, sink.args, sink.folder_)
        self._context = context
        self._own: CustomSink | None = None  # set once the sink is open

    @property
    @override
    def can_roll_back(self) -> bool:
        """Return whether the class defines `roll_back`."""
        return self._named.load().roll_back is not CustomSink.roll_back

    @override
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Open the sink of the class, once per start."""
        if self._own is None:
            own = self._named.create()
            columns = pa.schema([field for field in fields if field.name not in ("_op", EPOCH_COLUMN)])
            call_user_method(
                self._named, own, own.open, self._context.job, self._context.name, columns, tuple(key_columns)
            )
            self._own = own
        published = self._published()
        if is_fresh and not self._context.replaces and published is not None:
            msg = (
                "the custom sink holds the output of an earlier run whose checkpoints are not here, and the two would "
                "be mixed. Give it another place in `args`, empty the place, or put the old checkpointing.dir back. "
                f"class={self._named.label}, published={published}"
            )
            raise InvalidJobError(msg)

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        assert self._own is not None, "a sink is prepared before it publishes"
        missing = [file for file in staged if not self.store.exists(file.staged_path)]
        if not missing:
            call_user_method(self._named, self._own, self._own.publish, int(epoch), self.staged_rows(staged))
        elif not self.may_have(epoch):
            msg = (
                "a committed output is gone, and the custom sink does not have its epoch: something deletes files of "
                "the checkpoint folder. Start the job again: it goes back to the checkpoint before, and writes the "
                f"output anew. file={self.store.url}/{missing[0].staged_path}, epoch={epoch}"
            )
            raise CorruptStateError(msg)
        self.delete_staged(staged)

    @override
    def newest_published(self) -> Epoch | None:
        """Return the epoch that the class reports; None before the class is open."""
        published = self._published()
        return None if published is None else Epoch(published)

    @override
    def roll_back(self, after: Epoch) -> int:
        """Delete and count the staged files; what the class removes is not counted."""
        if self._own is not None:
            call_user_method(self._named, self._own, self._own.roll_back, int(after))
        return self.delete_staged_after(after)

    @override
    def may_have(self, epoch: Epoch) -> bool:
        """Return whether the class has received the rows of an epoch, or does not know."""
        published = self._published()
        return published is None or published >= epoch

    def _published(self) -> int | None:
        if self._own is None:
            return None
        published = call_user_method(self._named, self._own, self._own.published)
        if published is not None and (isinstance(published, bool) or not isinstance(published, int)):
            msg = (
                "`published` of the custom sink must return an epoch, a whole number, or None. Correct it. "
                f"class={self._named.label}, method=published, found={published!r:.300}"
            )
            raise InvalidJobError(msg)
        return published
