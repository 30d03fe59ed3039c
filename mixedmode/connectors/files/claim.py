"""The claim of an output folder: of several writers that share the folder, only the newest one may publish.

Generations fence the starts that share a checkpoint folder, so all of these are one writer. Other writers may share an
output all the same: two batch runs; one job with two checkpoint folders; a checkpoint folder and its copy; a job, and a
savepoint of it that was restored elsewhere.

`_claim` names one writer. Each start writes it when it has checked the folder, and reads it before it publishes an
epoch. A start that finds another writer there stops.

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

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError, FencedError, RetryableError

__all__ = ["Claim", "check_claim", "claim_of_folder", "claim_of_run", "put_claim"]

_CLAIM = DocumentKind("mixedmode-claim", 1, "the claim of an output folder")


@dataclass(frozen=True, slots=True)
class Claim:
    """The writer that may publish, as values of a message."""

    writer: str


def claim_of_run() -> Claim:
    """Return the claim of a batch run, which shares nothing with another one."""
    return Claim(f"host={socket.gethostname()}, process={os.getpid()}, run={secrets.token_hex(4)}")


def claim_of_folder(checkpoints: str) -> Claim:
    """Return the claim of all starts over a checkpoint folder (URL, or a path on this machine)."""
    host = "" if "://" in checkpoints else f", host={socket.gethostname()}"
    return Claim(f"checkpoints={checkpoints}{host}")


def put_claim(store: ObjectStore, own: Claim) -> None:
    """Let only this writer publish from here on."""
    data = encode_as(_CLAIM, own)
    if store.get(output_paths.CLAIM) != data:
        store.put(output_paths.CLAIM, data)


def check_claim(store: ObjectStore, own: Claim) -> None:
    """Raise FencedError if another writer has claimed the folder since, RetryableError if the claim is damaged.

    `publish` reports a folder that is gone.
    """
    data = store.get(output_paths.CLAIM)
    if data is None or data == encode_as(_CLAIM, own):
        return
    file = f"{store.url}/{output_paths.CLAIM}"
    try:
        found = decode_as(_CLAIM, Claim, data, where=file)
    except CorruptStateError as error:
        msg = (
            "the claim of this output is damaged, so nobody knows who may publish. Nothing more is published. Start "
            f"the job again: it writes the claim anew. file={file}"
        )
        raise RetryableError(msg) from error
    msg = (
        "a newer start writes to this output, so this one stops, and publishes nothing more. If the newer one is the "
        "right one, leave it. If it is unwanted, stop it, and start this job again. If both are wanted, give each an "
        "output of its own, and a checkpointing.dir of its own if it has one. "
        f"folder={store.url}, {found.writer}"
    )
    raise FencedError(msg)
