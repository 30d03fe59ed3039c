"""All object I/O: a folder on disk, or a prefix in S3, GCS or Azure, behind one class.

All callers see named, immutable byte strings with one strong operation, `put_new`, which creates an
object exactly once. Object stores implement it by conditional puts (remote_objects.py), folders by `link`
(local_files.py, which also explains why folders do not use obstore).

An `ObjectStore` holds only its URL, so it can be sent to Spark tasks; the client opens on first use in each process.
`memory:///<name>` is an in-memory store for tests: it lives in one process, and passes the same test suite.

Invariants (tests/checkpoint/test_store.py, for each kind of store):
  I1  of any number of calls of put_new for one path, exactly one returns True, and `get` returns the bytes of that call
  I2  when a writing call returns, its data survive a crash of the machine (not in the in-memory store)
  I3  every failure of the disk, network or store is a RetryableError that names the store, the object and the next step
"""

import os
import re
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
from mixedmode.checkpoint.growing_file import GrowingFile
from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.remote_objects import is_ended_upload, open_remote, retry_seconds, timeout_variable
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.system_errors import system_words

__all__ = ["ObjectStore"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_USE = "Use a folder, or a URL that starts with s3://, gs://, az:// or abfss://, in the job file."
_STATUS = re.compile(r"non-2xx status code: (\d{3}[ \w]*)")
#: the store's own word for what is wrong, and those words that speak of credentials and of the clock
_CODE = re.compile(r"<Code>(\w+)</Code>")
_CREDENTIALS = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired"}
#: obstore's words for the answer of S3 about a bucket of another region
_REDIRECT = "redirect without LOCATION"
#: obstore's words for a request that took longer than the time of one request, be it for its bytes or for the answer
_TIMEOUT = "kind: Timeout"
_REQUESTS_AT_ONCE = 16


class _Objects(Protocol):
    """The methods that each kind of store implements; LocalFiles documents them."""

    def put_new(self, path: str, data: bytes) -> bool: ...
    def put_unsynced(self, path: str, data: bytes) -> None: ...
    def put(self, path: str, data: bytes) -> None: ...
    def put_file(self, local_path: Path, path: str) -> None: ...
    def put_growing(self, file: GrowingFile, path: str) -> None: ...
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
    """Objects below one folder or URL prefix.  Stores with equal URLs are equal; picklable; thread-safe.

    `place` is a folder path, `file:///...`, or a URL that obstore knows (s3, gs, az, abfss, memory; credentials come
    from the environment, as obstore documents). A folder path is made absolute here, because a task may have another
    working folder. Paths of objects are relative with '/'. All methods raise RetryableError if the disk, the network or
    the store fails.
    """

    place: InitVar[str | os.PathLike[str]]
    url: str = field(init=False)

    def __post_init__(self, place: str | os.PathLike[str]) -> None:
        """Normalise the place to a URL or an absolute path."""
        text = os.fspath(place)
        object.__setattr__(self, "url", text.rstrip("/") if "://" in text else str(Path(text).absolute()))

    @property
    def local_root(self) -> Path | None:
        """Return the local (or mounted) folder that holds the objects as files; None for an object store."""
        return _local_root(self.url)

    def put_new(self, path: str, data: bytes) -> bool:
        """Create an object once, durably.  Return False if the path is taken; the existing object is unchanged.

        After a RetryableError the object may or may not exist: check before relying on either.
        """
        with _outside(self.url, path, "write"):
            return _objects(self.url).put_new(path, data)

    def put_unsynced(self, path: str, data: bytes) -> None:
        """Create an object whose name is free, and wait for no disk: a power cut may lose it, or leave it empty."""
        with _outside(self.url, path, "write"):
            _objects(self.url).put_unsynced(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace an object, atomically and durably."""
        with _outside(self.url, path, "write"):
            _objects(self.url).put(path, data)

    def put_file(self, local_path: Path | str, path: str) -> None:
        """Store a finished local file, durably.  The local file stays where it is.

        On one filesystem both are names of the same bytes (a hard link): do not write to the local file afterwards; it
        may be deleted at any time. Otherwise the file is streamed.
        """
        with _outside(self.url, path, "write"):
            _objects(self.url).put_file(Path(local_path), path)

    def put_growing(self, file: GrowingFile, path: str) -> None:
        """Store a local file durably, as `put_file` does, once its writer has ended it.

        An object store gets the parts of a large file while it grows, and the disk of a folder its bytes. Nobody sees
        the object before it is complete.  Raises GivenUpError if the writer gives the file up; then nothing is stored.
        """
        with _outside(self.url, path, "write"):
            _objects(self.url).put_growing(file, path)

    def get(self, path: str) -> bytes | None:
        """Return all bytes of an object; None if it does not exist."""
        with _outside(self.url, path, "read"):
            return _objects(self.url).get(path)

    def fetch_file(self, path: str, local_path: Path | str) -> bool:
        """Create a local file of an object; its name must be free.  Return False if the object does not exist.

        On one filesystem the file is a hard link: the caller must not write to it (RocksDB's ingestion does not), and
        may delete it. Otherwise the object is streamed to the file. The file is not synced, since it can be fetched
        again.
        """
        with _outside(self.url, path, "read", to=f", local_file={local_path}"):
            return _objects(self.url).fetch_file(path, Path(local_path))

    def copy_to(self, path: str, target: "ObjectStore") -> str | None:
        """Copy an object to another store, under the same path.  Return its checksum; None if it does not exist.

        Between two folders on one filesystem the copy is a hard link; otherwise it is streamed through this machine.
        """
        root = _local_root(self.url)
        with temporary_folder("copy-") as folder:
            local = folder / "object" if root is None else root / path
            if root is None and not self.fetch_file(path, local):
                return None
            with _outside(self.url, path, "read"):
                if not local.exists():
                    return None
                checksum = file_checksum(local)
            target.put_file(local, path)
        return checksum

    def checksum(self, path: str) -> str | None:
        """Return the checksum of an object's bytes, read as a stream; None if the object does not exist."""
        with _outside(self.url, path, "read"):
            try:
                return checksum_of(_objects(self.url).chunks(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""
        with _outside(self.url, path, "read"):
            return _objects(self.url).size(path)

    def list(self, folder: str = "") -> Sequence[tuple[str, int]]:
        """Return (path, bytes) of all objects below a folder, sorted by path; [] for a folder that does not exist."""
        with _outside(self.url, folder or ".", "list"):
            return _objects(self.url).list(folder.rstrip("/"))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in this order; those that do not exist are skipped."""
        with _outside(self.url, paths[0] if paths else ".", "delete"):
            _objects(self.url).delete(paths)

    def rename(self, source: str, target: str) -> bool:
        """Rename one object, as rename_all does."""
        return self.rename_all([(source, target)])[0]

    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
        """Rename each (source, target), replacing existing targets.  Return False for each source that does not exist.

        When the call returns, all targets are durable, even if an earlier call renamed them. In a folder each rename is
        atomic. In an object store it is a copy and then a deletion, so a crash may leave both objects.
        """
        with _outside(self.url, pairs[0][1] if pairs else ".", "rename"):
            objects = _objects(self.url)
            if self.local_root is not None:
                return objects.rename_all(pairs)  # which syncs each folder once
            return self.at_once(lambda pair: objects.rename_all([pair])[0], pairs)

    def at_once(self, call: Callable[[_T], _R], items: Iterable[_T]) -> Sequence[_R]:
        """Return the results of `call` for all items, in their order. In an object store, calls run in parallel."""
        if self.local_root is not None:
            return [call(item) for item in items]
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            return list(pool.map(call, items))

    def sweep_unfinished(self) -> None:
        """Remove the unfinished files of crashed writers.  Live writers are not disturbed."""
        with _outside(self.url, ".", "clean up"):
            _objects(self.url).sweep_unfinished()


def _local_root(url: str) -> Path | None:
    if url.startswith("file://"):
        return Path(unquote(urlsplit(url).path))
    return None if "://" in url else Path(url)


@cache
def _objects(url: str) -> _Objects:
    """Return the opened store; it is opened once per process."""
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
def _outside(url: str, path: str, action: str, *, to: str = "") -> Iterator[None]:
    """Translate failures of disk, network and store. No other code inspects exceptions of the system and of obstore.

    to: one more value, the local file that the object goes to, as its disk may be the one that fails.
    """
    try:
        yield
    except (OSError, BaseError) as error:
        why, how = _explained(error, url)
        msg = (
            f"cannot {action} an object of the checkpoint or of the output: {why}. {how}, then start again; a job "
            f"resumes. store={url}, object={path}{to}"
        )
        raise RetryableError(msg) from error


def _explained(error: OSError | BaseError, url: str) -> tuple[str, str]:
    words = system_words(error)
    if words is not None:
        return words
    text = str(error)
    status, code = (match[1] if (match := part.search(text)) else "" for part in (_STATUS, _CODE))
    answer = ", ".join(filter(None, (status, code)))
    shown = f" ({answer})" if answer else ""
    if code in _CLOCK:
        return "the clock of this machine differs from that of the store", f"Set the clock (the store says {code})"
    if isinstance(error, UnauthenticatedError) or code in _CREDENTIALS:
        return f"the credentials were not accepted{shown}", "Renew the credentials in the environment"
    if isinstance(error, PermissionDeniedError) or status.startswith("403"):
        how = "Give this user read and write access, or renew the credentials in the environment"
        return f"permission was denied{shown}", how
    if isinstance(error, OSError) and error.strerror:
        return f"the system says {error.strerror!r}", "Repair the folder or the disk"
    if is_ended_upload(error):
        return "the store has ended an upload before all of its parts had arrived", "Wait until the store is well"
    if isinstance(error, FileNotFoundError) or status.startswith("404"):
        return "the bucket or container does not exist", "Create it, or correct the URL"
    asked = f"though it was asked for up to {retry_seconds():g} s"
    if status.startswith(("429", "5")):
        return f"the store answered {status!r}, {asked}", "Wait until the store is well, or have its limits raised"
    if answer or _REDIRECT in text:
        found = f"the store answered {answer!r}" if answer else "the bucket is in another region, or elsewhere"
        return found, "Correct the URL, or the region, credentials and endpoint in the environment"
    if _TIMEOUT in text:
        why = f"the store completed no request within the time limit of one, {asked}"
        how = "Check the store and the network. If they are only slow, set a longer time in the environment, such as"
        return why, f"{how} {timeout_variable(url)}=60s"
    return f"the store did not answer, {asked}", "Check that the store can be reached (the cause is chained below)"
