"""The claim of an output folder: of several writers that share the folder, only the newest one may publish.

Generations fence the starts that share a checkpoint folder, so all of these are one writer. Other writers may share an
output all the same: two batch runs; one job with two checkpoint folders; a checkpoint folder and its copy; a job, and a
savepoint of it that was restored elsewhere.

`_claim` names one writer. Each start writes it when it has checked the folder, and reads it before it publishes an
epoch. A start that finds another writer there stops.

    batch run A: claims . . . stages . . . . . . . . . reads the claim of B, and stops
    batch run B: . . . . . claims, deletes what is staged . . . . . stages . reads its own claim, publishes

A publication holds a shared lock of the folder, and a claim of another writer needs the lock alone. So no writer can
claim a folder, and change it, between the moment when a publication reads its own claim and its end, even if the
process is paused in between. The lock ends with its process. An object store has no locks: there, a start that is
paused inside its publication until another one has published may still delete files of the latter.
"""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError, FencedError, RetryableError

__all__ = ["Claim", "claim_of_folder", "claim_of_run", "publication", "put_claim"]

#: for the end of a publication, which takes much less, unless its process is paused
LOOK_SECONDS, LOOKS = 0.2, 50
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
    """Let only this writer publish from here on.

    Raise RetryableError if another writer publishes just now, and does not come to its end.
    """
    data = encode_as(_CLAIM, own)
    if store.get(output_paths.CLAIM) != data:
        with _locked(store, fcntl.LOCK_EX):
            store.put(output_paths.CLAIM, data)


@contextmanager
def publication(store: ObjectStore, own: Claim | None) -> Iterator[None]:
    """Publish in the block: until it ends, no other writer can claim a folder on a disk.  own: None for no check.

    Raise FencedError if another writer has claimed the folder since, RetryableError if the claim is damaged.
    `publish` reports a folder that is gone.
    """
    if own is None:
        yield
        return
    with _locked(store, fcntl.LOCK_SH):
        _check_claim(store, own)
        yield


def _check_claim(store: ObjectStore, own: Claim) -> None:
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


@contextmanager
def _locked(store: ObjectStore, kind: int) -> Iterator[None]:
    """Hold a lock of the folder during the block.  kind: of fcntl.flock."""
    root = store.local_root
    if root is None or not root.is_dir():
        yield
        return
    folder = os.open(root, os.O_RDONLY)
    try:
        _lock(folder, kind, store)
        yield
    finally:
        os.close(folder)  # ends the lock


def _lock(folder: int, kind: int, store: ObjectStore) -> None:
    for _ in range(LOOKS):
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_SECONDS)
        except OSError:  # a file system without locks
            return
        else:
            return
    msg = (
        "another start publishes to this output, and has not come to its end: it may be paused, or its disk hangs. "
        "This start has changed nothing. Let the other one go on, or end it; then start this job again. "
        f"folder={store.url}, {_writer(store)}"
    )
    raise RetryableError(msg)


def _writer(store: ObjectStore) -> str:
    data = store.get(output_paths.CLAIM)
    with suppress(CorruptStateError):
        return "writer=unknown" if data is None else decode_as(_CLAIM, Claim, data, where=store.url).writer
    return "writer=unknown"
