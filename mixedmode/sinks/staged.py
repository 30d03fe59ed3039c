"""The base of sinks whose output is not a folder of files: tasks stage rows as Parquet, and the driver publishes them.

    tasks stage files below the checkpoints -> manifest -> publish(epoch, files) -> staged files deleted

Staged files are deleted only after their rows are where they belong. So a missing file is a loss, unless its epoch is
published, or may be.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.errors import CorruptStateError
from mixedmode.sinks.files import EPOCH_COLUMN, SinkTask
from mixedmode.sinks.sink import Sink

BATCH_ROWS = 65_536
_OWNER = DocumentKind("mixedmode-table-owner", 1, "the id under which a job owns its tables")


@dataclass(frozen=True, slots=True)
class _Owner:
    id: str


class StagedSink(Sink):
    """A sink that cannot roll back, and does not know what it has published. A subclass implements `publish`.

    A subclass that knows more overrides `may_have`, and the methods that report or roll back published epochs.
    """

    def __init__(self, folder: str) -> None:
        """`folder`: where rows are staged, used by this sink only, such as `SinkContext.staging`."""
        self.task = SinkTask(folder, "parquet")
        self.store = ObjectStore(folder)
        self._owner = ""  # once read

    @property
    @override
    def can_roll_back(self) -> bool:
        return False

    @property
    @override
    def cannot_report_published(self) -> bool:
        return True

    def owner(self) -> str:
        """Return the id under which this checkpoint folder owns its outputs; draw one for a new folder.

        So two runs of one job over two checkpoint folders never share an output unnoticed, and a folder may be moved.
        """
        if not self._owner:
            path = output_paths.OUTPUT_DESCRIPTION
            data = self.store.get(path)
            if data is None:
                self.store.put_new(path, encode_as(_OWNER, _Owner(uuid.uuid4().hex)))
                data = self.store.get(path)
            assert data is not None, path
            self._owner = decode_as(_OWNER, _Owner, data, where=f"{self.store.url}/{path}").id
        return self._owner

    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Do nothing by default."""

    def may_have(self, epoch: Epoch) -> bool:  # noqa: ARG002 - the default knows nothing of any epoch
        """Return whether an epoch is published, or may be, so that its staged files may be gone."""
        return True

    def staged_rows(self, staged: Sequence[StagedFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of staged files, in their order, without `_epoch`. One file at a time is on the local disk."""
        with temporary_folder("sink-") as folder:
            for number, file in enumerate(staged):
                local = folder / str(number)
                if not self.store.fetch_file(file.staged_path, local):
                    msg = (
                        "a committed output disappeared while it was published. Start the job again. "
                        f"file={self.store.url}/{file.staged_path}"
                    )
                    raise CorruptStateError(msg)
                with pq.ParquetFile(local) as parquet:
                    names = [name for name in parquet.schema_arrow.names if name != EPOCH_COLUMN]
                    yield from parquet.iter_batches(BATCH_ROWS, columns=names)
                local.unlink()

    def delete_staged(self, staged: Sequence[StagedFile]) -> None:
        """Delete staged files whose rows are published."""
        self.store.delete([file.staged_path for file in staged])

    def delete_staged_after(self, after: Epoch) -> int:
        """Delete the staged files of the epochs after `after`. Return their number."""
        staged = ((output_paths.parse_staged_path(path), path) for path, _ in self.store.list(output_paths.STAGING))
        later = [path for file, path in staged if file is not None and file.epoch > after]
        self.store.delete(later)
        return len(later)

    @override
    def is_new(self) -> bool:
        return True

    @override
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Look at the file first: it is deleted only after its epoch is published."""
        found = file_problem(self.store, file.staged_path, size=file.bytes, checksum=file.checksum, reads=reads)
        parsed = output_paths.parse_staged_path(file.staged_path)
        assert parsed is not None, file
        if found is None or (not self.store.exists(file.staged_path) and self.may_have(parsed.epoch)):
            return None
        return file.staged_path, found

    @override
    def newest_published(self) -> Epoch | None:
        return None

    @override
    def oldest_published(self) -> Epoch | None:
        return None

    @override
    def published_otherwise(self, epoch: Epoch, files: Sequence[StagedFile]) -> Sequence[str]:
        """Return nothing: rows do not tell which file they came in."""
        return ()

    @override
    def obstacle(self, manifest: Manifest) -> str | None:
        return None

    @override
    def roll_back(self, after: Epoch) -> int:
        """Delete the staged files that are not published, without counting them; published rows stay."""
        self.delete_staged_after(after)
        return 0
