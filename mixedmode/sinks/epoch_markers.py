"""Markers: an object per published epoch, written after all of its files, which names them.

The one idea: who lists files cannot tell whether an epoch is there whole; a marker is there only when it is. An epoch
without rows has one too. A compaction moves rows into another file: then a file that a marker names is gone, and its
rows are in the compacted file of its folder whose epochs include this one (docs/files.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile

_MARKER = DocumentKind("mixedmode-epoch", 1, "the marker of a published epoch")


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A file of an epoch, by its path in the output folder."""

    path: str
    bytes: int
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class EpochMarker:
    """What an epoch has in an output, whole."""

    epoch: Epoch
    rows: int
    files: tuple[MarkedFile, ...]


def mark_epoch(store: ObjectStore, epoch: Epoch, published: Sequence[StagedFile]) -> None:
    """Say that an epoch is published.  published: its files, all of which are there. Repeatable."""
    path, data = paths.epoch_marker_path(epoch), _encoded(epoch, published)
    if not store.put_new(path, data) and store.get(path) != data:
        store.put(path, data)  # of an epoch that was repeated, by a start that was killed while it went back


def unmark(store: ObjectStore, *, after: Epoch) -> None:
    """Take back the markers of later epochs, the newest first: before their files, so that a marker never lies."""
    later = [path for epoch, path in _markers(store) if epoch > after]
    store.delete(later[::-1])


def unmark_other(store: ObjectStore, epoch: Epoch, published: Sequence[StagedFile]) -> None:
    """Take back a marker of this epoch that is of other files: an earlier batch run's."""
    path = paths.epoch_marker_path(epoch)
    found = store.get(path)
    if found is not None and found != _encoded(epoch, published):
        store.delete([path])


def marked_epochs(store: ObjectStore) -> tuple[Epoch, ...]:
    """The epochs that are there whole, in order."""
    return tuple(epoch for epoch, _ in _markers(store))


def read_marker(store: ObjectStore, epoch: Epoch) -> EpochMarker | None:
    """What an epoch has; None if it has no marker. Raises CorruptStateError if it is damaged."""
    path = paths.epoch_marker_path(epoch)
    data = store.get(path)
    return None if data is None else decode_as(_MARKER, EpochMarker, data, where=f"{store.url}/{path}")


def _encoded(epoch: Epoch, published: Sequence[StagedFile]) -> bytes:
    files = (MarkedFile(file.final_path, file.bytes, file.rows, file.checksum) for file in published)
    in_order = tuple(sorted(files, key=lambda file: file.path))
    return encode_as(_MARKER, EpochMarker(epoch, sum(file.rows for file in published), in_order))


def _markers(store: ObjectStore) -> list[tuple[Epoch, str]]:
    parsed = ((paths.parse_epoch_marker_path(path), path) for path, _ in store.list(paths.EPOCH_MARKERS))
    return [(epoch, path) for epoch, path in parsed if epoch is not None]
