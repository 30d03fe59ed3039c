"""The claim of an output folder: of all starts that write to it, only the newest one may publish.

Generations fence the starts that share a checkpoint folder. Other starts may share an output all the same: two batch
runs; one job with two checkpoint folders; a checkpoint folder and its copy; a job, and a savepoint of it that was
restored elsewhere.

`_claim` names one start. Each start replaces the claim when it has checked the folder, and reads it before it publishes
an epoch. A start that finds another one there stops.

    batch run A: claims . . . stages . . . . . . . . . reads the claim of B, and stops
    batch run B: . . . . . claims, deletes what is staged . . . . . stages . reads its own claim, publishes

If A has read its own claim just before B began, A may still publish, but not among the files of B: B deletes what A
has staged, and later what A has published. Only a run that is shorter than the publication of another one could be
disturbed.
"""

import os
import secrets
import socket
from dataclasses import dataclass

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import FencedError

__all__ = ["Claim", "check_claim", "new_claim", "put_claim"]

_CLAIM = DocumentKind("mixedmode-claim", 1, "the claim of an output folder")


@dataclass(frozen=True, slots=True)
class Claim:
    """The start that may publish. `token` tells starts of one process apart."""

    host: str
    process: int
    token: str


def new_claim() -> Claim:
    """Return the claim of a start of this process."""
    return Claim(socket.gethostname(), os.getpid(), secrets.token_hex(8))


def put_claim(store: ObjectStore, own: Claim) -> None:
    """Let only this start publish from here on."""
    store.put(paths.CLAIM, encode_as(_CLAIM, own))


def check_claim(store: ObjectStore, own: Claim) -> None:
    """Raise FencedError if another start has claimed the folder since.  `publish` reports a folder that is gone."""
    data = store.get(paths.CLAIM)
    if data is None or data == encode_as(_CLAIM, own):
        return
    found = decode_as(_CLAIM, Claim, data, where=f"{store.url}/{paths.CLAIM}")
    msg = (
        "a newer start writes to this output, so this one stops, and publishes nothing more. If the newer one is the "
        "right one, leave it. If it is unwanted, stop it, and start this job again. If both are wanted, give each an "
        "output of its own, and a checkpointing.dir of its own if it has one. "
        f"folder={store.url}, host={found.host}, process={found.process}"
    )
    raise FencedError(msg)
