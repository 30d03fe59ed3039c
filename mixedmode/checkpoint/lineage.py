"""Which manifests are the past of a job that has gone back, and which are of a past that it has left.

The one idea: a start that goes back to an epoch records it before it changes anything. From then on, what an older
start commits after that epoch does not count. Such a start may be stopped right before its commit, and go on much
later: its manifest would be the first of its epoch, and belong to a past of which files are gone. The record tells it
from the manifests of the new past, whenever it comes. Going back twice adds a record; a record is never removed.

Both numbers stand in the record's name, so that a damaged record says as much as a whole one. What is in it is for a
person: what was damaged.

Invariant (tests/checkpoint/test_lineage.py):
  I1  of the manifests that any starts could write, those are left that no later start has gone back from
"""

from collections.abc import Iterable

from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import encode_as
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack

__all__ = ["encode_going_back", "is_abandoned"]

_GOING_BACK = DocumentKind("mixedmode-going-back", 1, "the record of going back")


def is_abandoned(epoch: Epoch, generation: Generation, goings_back: Iterable[GoingBack]) -> bool:
    """Whether the manifest that this start of the job made for the epoch is of a past that the job has left."""
    return any(generation < back.generation and epoch > back.to for back in goings_back)


def encode_going_back(back: GoingBack) -> bytes:
    """The bytes of went-back/<generation>-<epoch>.json."""
    return encode_as(_GOING_BACK, back)
