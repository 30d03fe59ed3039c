"""Markers: one object per published epoch, which names the epoch's files and is written after all of them.

A listing of files does not show whether an epoch is complete; a marker exists only when it is. Epochs without rows
have a marker, too. A compaction moves rows into another file. Then a file that a marker names no longer exists, and
its rows are in the compacted file of its folder whose range of epochs includes this epoch (docs/files.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile

MARKER = DocumentKind("mixedmode-epoch", 1, "the marker of a published epoch")


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A file of an epoch, by its path in the output folder."""

    path: str
    bytes: int
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class EpochMarker:
    """All that an epoch has published to an output."""

    epoch: Epoch
    rows: int
    files: tuple[MarkedFile, ...]


def mark_epoch(store: ObjectStore, epoch: Epoch, published: Sequence[StagedFile]) -> None:
    """Write the marker of a published epoch.  published: its files, all of which must exist. Repeatable."""
    path, data = output_paths.epoch_marker_path(epoch), _encoded(epoch, published)
    if not store.put_new(path, data) and store.get(path) != data:
        store.put(path, data)  # left by a start that was killed while it went back, after which the epoch was repeated


def unmark(store: ObjectStore, *, after: Epoch) -> None:
    """Delete the markers of later epochs, newest first.
    Call it before their files are deleted, so that no marker is wrong.
    """
    parsed = ((output_paths.parse_epoch_marker_path(path), path) for path, _ in store.list(output_paths.EPOCH_MARKERS))
    later = [path for epoch, path in parsed if epoch is not None and epoch > after]
    store.delete(later[::-1])


def unmark_other(store: ObjectStore, epoch: Epoch, published: Sequence[StagedFile]) -> None:
    """Delete the marker of this epoch if it names other files, namely those of an earlier batch run."""
    path = output_paths.epoch_marker_path(epoch)
    found = store.get(path)
    if found is not None and found != _encoded(epoch, published):
        store.delete([path])


def _encoded(epoch: Epoch, published: Sequence[StagedFile]) -> bytes:
    files = (MarkedFile(file.final_path, file.bytes, file.rows, file.checksum) for file in published)
    in_order = tuple(sorted(files, key=lambda file: file.path))
    return encode_as(MARKER, EpochMarker(epoch, sum(file.rows for file in published), in_order))
