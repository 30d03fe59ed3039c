"""Tell the valid manifests of a job that has gone back from manifests that it has abandoned.

A start that goes back to an epoch records this before it changes anything. From then on, a manifest of a
later epoch by an older start does not count. Such an older start may be paused right before its commit, and continue
much later. Its manifest would then be the first one of its epoch, although files that it depends on are gone. Thanks to
the record, this manifest is recognised as abandoned whenever it appears. Going back again adds another record; a
record is never removed.

    Example: generation 4 goes back to epoch 7. Then a manifest of epoch 8 by generation 3 is abandoned. A manifest of
    epoch 8 by generation 4 counts, and so does the manifest of epoch 7 by generation 3.

The record's name holds both numbers, so a damaged record is as usable as an intact one. Its content is for people only:
it says what was damaged.

Invariant (tests/checkpoint/test_lineage.py):
  I1  of all manifests that any starts could write, exactly those count that no later start has gone back from
"""

from collections.abc import Iterable

from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import encode_as
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack

__all__ = ["encode_going_back", "is_abandoned"]

_GOING_BACK = DocumentKind("mixedmode-going-back", 1, "the record of going back")


def is_abandoned(epoch: Epoch, generation: Generation, goings_back: Iterable[GoingBack]) -> bool:
    """Return whether the job has abandoned the manifest that the start `generation` wrote for `epoch`."""
    return any(generation < back.generation and epoch > back.to for back in goings_back)


def encode_going_back(back: GoingBack) -> bytes:
    """Return the bytes of went-back/<generation>-<epoch>.json."""
    return encode_as(_GOING_BACK, back)
