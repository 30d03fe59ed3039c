"""The only place that does object I/O: a folder on disk, or a prefix in S3, GCS or Azure, behind one class.

The one idea: everything above sees named, immutable byte strings with one strong operation, `put_new`, which creates an
object exactly once. Object stores give it through conditional puts (remote_objects.py); folders through `link`
(local_files.py, which also says why folders do not go through obstore).

An `ObjectStore` is its URL and nothing else, so it can be sent to Spark tasks; the client opens on first use in each
process. `memory:///<name>` is the in-memory twin: one process, for tests, the same suite.

Invariants (tests/checkpoint/test_store.py, for each kind of store):
  I1  of any number of put_new for one path exactly one returns True, and its bytes are what `get` returns
  I2  when a call that writes returns, what it wrote survives a crash of the machine (memory: of nothing)
  I3  every failure of the outside is a RetryableError that names the store, the object and the next step
"""

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from mixedmode.checkpoint.checksum import checksum_of, file_checksum
from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.checkpoint.remote_objects import open_remote, retry_seconds
from mixedmode.errors import InvalidJobError, RetryableError

__all__ = ["ObjectStore"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_USE = "Use a folder, or a URL that starts with s3://, gs://, az:// or abfss://, in the job file."
_STATUS = re.compile(r"non-2xx status code: (\d{3}[ \w]*)")
_REQUESTS_AT_ONCE = 16
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class _Objects(Protocol):
    """What a kind of store has to give; LocalFiles documents each of them."""

    def put_new(self, path: str, data: bytes) -> bool: ...
    def put(self, path: str, data: bytes) -> None: ...
    def put_file(self, local_path: Path, path: str) -> None: ...
    def get(self, path: str) -> bytes | None: ...
    def chunks(self, path: str) -> Iterator[bytes]: ...
    def fetch_file(self, path: str, local_path: Path) -> bool: ...
    def size(self, path: str) -> int | None: ...
    def list(self, folder: str) -> Sequence[tuple[str, int]]: ...
    def delete(self, paths: Sequence[str]) -> None: ...
    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]: ...
    def sweep_unfinished(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Objects below one folder or URL prefix.  Equal if their URL is; picklable; may be shared between threads.

    `place` is a folder path (made absolute here, because a task may have another working folder), `file:///...`, or a
    URL that obstore knows (s3, gs, az, abfss, memory; credentials come from the environment, as obstore documents).
    Paths are relative with '/'. All methods raise RetryableError when the outside fails.
    """

    place: InitVar[str | os.PathLike[str]]
    url: str = field(init=False)

    def __post_init__(self, place: str | os.PathLike[str]) -> None:
        """Normalise the place to a URL or an absolute path."""
        text = os.fspath(place)
        object.__setattr__(self, "url", text.rstrip("/") if "://" in text else str(Path(text).absolute()))

    @property
    def local_root(self) -> Path | None:
        """The folder of this machine (or a mounted one) that objects are files of; None in an object store."""
        return _local_root(self.url)

    def put_new(self, path: str, data: bytes) -> bool:
        """Create-once and durable.  False: the path is taken, and the object there is as it was.

        After a RetryableError the object may exist or not: look before acting on either.
        """
        with _outside(self.url, path, "write"):
            return _objects(self.url).put_new(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace, atomically and durably."""
        with _outside(self.url, path, "write"):
            _objects(self.url).put(path, data)

    def put_file(self, local_path: Path | str, path: str) -> None:
        """Store a finished local file, durably.  The local file stays where it is.

        On one filesystem both are names of the same bytes (a hard link): do not write to the local file afterwards,
        delete it when you like. Otherwise it is streamed.
        """
        with _outside(self.url, path, "write"):
            _objects(self.url).put_file(Path(local_path), path)

    def get(self, path: str) -> bytes | None:
        """All bytes of an object; None if it does not exist."""
        with _outside(self.url, path, "read"):
            return _objects(self.url).get(path)

    def fetch_file(self, path: str, local_path: Path | str) -> bool:
        """Give an object a local file name, which must be free.  False: there is no such object.

        On one filesystem it is a hard link: the caller must not write to the file (RocksDB's ingestion does not), and
        may delete it. Otherwise it is streamed to the file; not synced, as a local replica can be fetched again.
        """
        with _outside(self.url, path, "read"):
            return _objects(self.url).fetch_file(path, Path(local_path))

    def copy_to(self, path: str, target: "ObjectStore") -> str | None:
        """Copy an object to another store, under its own path.  The checksum of its bytes; None: there is no object.

        Between two folders on one filesystem the copy is a hard link, else it is streamed through this machine.
        """
        root = _local_root(self.url)
        with tempfile.TemporaryDirectory(prefix="mixedmode-copy-") as folder:
            local = Path(folder, "object") if root is None else root / path
            if root is None and not self.fetch_file(path, local):
                return None
            with _outside(self.url, path, "read"):
                if not local.exists():
                    return None
                checksum = file_checksum(local)
            target.put_file(local, path)
        return checksum

    def checksum(self, path: str) -> str | None:
        """Checksum of an object's bytes, streamed; None if it does not exist."""
        with _outside(self.url, path, "read"):
            try:
                return checksum_of(_objects(self.url).chunks(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        """Whether an object exists."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Size in bytes; None if the object does not exist."""
        with _outside(self.url, path, "read"):
            return _objects(self.url).size(path)

    def list(self, folder: str = "") -> Sequence[tuple[str, int]]:
        """(path, bytes) of all objects below a folder, sorted by path; [] for a folder that does not exist."""
        with _outside(self.url, folder or ".", "list"):
            return _objects(self.url).list(folder.rstrip("/"))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in this order; those that do not exist are skipped."""
        with _outside(self.url, paths[0] if paths else ".", "delete"):
            _objects(self.url).delete(paths)

    def rename(self, source: str, target: str) -> bool:
        """As rename_all, for one."""
        return self.rename_all([(source, target)])[0]

    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
        """Rename each (source, target), replacing a target.  False where there is no source.  All targets, also those
        of a rename that was made before, are durable when it returns.

        Atomic each in a folder; in an object store a copy and then a deletion, so a crash may leave both.
        """
        with _outside(self.url, pairs[0][1] if pairs else ".", "rename"):
            objects = _objects(self.url)
            if self.local_root is not None:
                return objects.rename_all(pairs)  # which syncs each folder once
            return self.at_once(lambda pair: objects.rename_all([pair])[0], pairs)

    def at_once(self, call: Callable[[_T], _R], items: Iterable[_T]) -> Sequence[_R]:
        """What `call` gives for each item, in their order: at the same time where a call is a request on a network."""
        if self.local_root is not None:
            return [call(item) for item in items]
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            return list(pool.map(call, items))

    def sweep_unfinished(self) -> None:
        """Remove what writers that crashed left behind unnamed.  Writers that are alive are not disturbed."""
        with _outside(self.url, ".", "clean up"):
            _objects(self.url).sweep_unfinished()


def _local_root(url: str) -> Path | None:
    if url.startswith("file://"):
        return Path(unquote(urlsplit(url).path))
    return None if "://" in url else Path(url)


@cache
def _objects(url: str) -> _Objects:
    """The opened store, once a process."""
    root = _local_root(url)
    if root is not None:
        return LocalFiles(root)
    try:
        remote = open_remote(url)
    except (BaseError, ValueError) as error:
        msg = f"the store cannot be opened: obstore does not accept its URL or settings. {_USE} url={url}"
        raise InvalidJobError(msg) from error
    if remote is None:
        msg = f"the store cannot be used: a plain web server cannot create an object exactly once. {_USE} url={url}"
        raise InvalidJobError(msg)
    return remote


@contextmanager
def _outside(url: str, path: str, action: str) -> Iterator[None]:
    """Translate failures of the outside. The one adapter that looks into exceptions of the system and of obstore."""
    try:
        yield
    except (OSError, BaseError) as error:
        why, how = _explained(error)
        msg = (
            f"cannot {action} an object of the checkpoint or of the output: {why}. {how}, then start the job again; it "
            f"resumes. store={url}, object={path}"
        )
        raise RetryableError(msg) from error


def _explained(error: OSError | BaseError) -> tuple[str, str]:
    if isinstance(error, OSError) and error.errno in _FULL:
        return "no space is left on the disk", "Free space or move the folder to a larger disk"
    if isinstance(error, (PermissionDeniedError, PermissionError)) or (
        isinstance(error, OSError) and error.errno in _FORBIDDEN
    ):
        return "permission was denied", "Give this user read and write access"
    if isinstance(error, UnauthenticatedError):
        return "the credentials were not accepted", "Renew the credentials in the environment"
    if isinstance(error, NotADirectoryError):
        return "there is a file where its folder should be", "Name another folder, or remove the file"
    if isinstance(error, OSError) and error.strerror:
        return f"the system says {error.strerror!r}", "Repair the folder or the disk"
    if isinstance(error, FileNotFoundError):
        return "the bucket or container does not exist", "Create it, or correct the URL"
    status = _STATUS.search(str(error))
    asked = f"though it was asked for up to {retry_seconds():g} s"
    if status is not None and status[1].startswith(("429", "5")):
        return f"the store answered {status[1]!r}, {asked}", "Wait until the store is well, or have its limits raised"
    if status is not None:
        return f"the store answered {status[1]!r}", "Correct the URL or the settings in the environment"
    return f"the store did not answer, {asked}", "Check that the store can be reached (the cause is chained below)"
