"""Objects below a URL prefix in S3, GCS or Azure, through obstore, over an unreliable network.

A request may fail, be throttled, or get no answer although the store has executed it. obstore repeats most of these
requests; `_repeated` repeats the rest (measured: writes without an answer, and answers cut short).

Every request except creation is idempotent. So a creator writes a unique mark into the object's metadata.
If its first answer is lost and the repeated request reports that the name is taken, the mark shows that the object is
its own.

Invariants (tests/checkpoint/test_remote_objects.py, each fault at each request; tests/checkpoint/test_store.py):
  I1  put_new returns True to exactly one creator, even if every first answer is lost
  I2  if a store stays unavailable, a request raises an error after about `retry_seconds`; it never waits for ever

Errors are those of obstore and of the operating system; store.py translates them.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import HTTPStore, from_url
from obstore.store import ObjectStore as Client

from mixedmode.checkpoint.growing_file import GrowingFile
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.errors import InvalidJobError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["RETRY_SECONDS", "is_ended_upload", "open_remote", "retry_seconds", "timeout_variable"]

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")

#: the environment variable for the time, in seconds, during which a failing request to an object store is repeated.
#: A store that throttles or restarts is back within seconds. With a longer time, a job that cannot go on looks alive.
RETRY_SECONDS = "MIXEDMODE_STORE_RETRY_SECONDS"
_RETRY_SECONDS_DEFAULT = 60.0
#: a request without an answer for this long is aborted and repeated; no request moves more than _PART_BYTES
_TIMEOUT = timedelta(seconds=20)
_CONNECT_TIMEOUT = timedelta(seconds=5)
#: an answer that takes longer is told: a start and an epoch wait for many answers, one after the other
_SLOW_SECONDS = 2.0
_TOLD_EVERY_SECONDS = 60.0
_REPEATS = 5  # of requests that obstore does not repeat by itself: answers cut short, writes without an answer
_PAUSE_SECONDS = 0.1  # before the first repeat; the pause doubles each time
_PART_BYTES = 8 * 1024 * 1024  # the part of a large object that one request moves
_PARTS_MAX = 9_000  # S3 takes 10,000
_COPIED_BYTES_MAX = 5 * 2**30  # of S3, in one request; more takes parts
_PARTS_AT_ONCE = 4  # of one object; each is in memory while it is sent
_WRITER = "mixedmodewriter"  # metadata of created objects: who wrote it. Azure allows letters and digits only
#: client options that obstore reads from the environment, but only if no options are passed to it
_CLIENT_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "timeout",
    "user_agent",
)
_ENVIRONMENT = {"s3": "AWS_", "s3a": "AWS_", "gs": "GOOGLE_"}  # all others are Azure's


@dataclass(frozen=True, slots=True)
class _RemoteObjects:
    """Objects below a URL prefix, through obstore; methods as in LocalFiles, which documents them."""

    client: Client

    def put_new(self, path: str, data: bytes) -> bool:
        writer = secrets.token_hex(8)
        try:
            _patiently(path, lambda: obstore.put(self.client, path, data, mode="create", attributes={_WRITER: writer}))
        except (AlreadyExistsError, PreconditionError):
            return self._writer(path) == writer  # True: this call created the object, and the answer was lost
        return True

    def put_unsynced(self, path: str, data: bytes) -> None:
        self.put_new(path, data)

    def put(self, path: str, data: bytes) -> None:
        _patiently(path, lambda: obstore.put(self.client, path, data))

    def put_file(self, local_path: Path, path: str) -> None:
        self._put_in_parts(path, lambda: local_path, local_path.stat().st_size)

    def put_growing(self, file: GrowingFile, path: str) -> None:
        if not file.has_ended and self._follow(file, path):
            return
        file.wait()
        self.put_file(file.path, path)

    def _follow(self, file: GrowingFile, path: str) -> bool:
        """Store the parts of a file while it grows. Return False if it becomes too large for parts of this size."""
        try:
            self._put_in_parts(path, lambda: _limited(file), 0)
        except _TooLargeError:
            return False
        return True

    def get(self, path: str) -> bytes | None:
        try:
            return _patiently(path, lambda: bytes(obstore.get(self.client, path).bytes()))
        except FileNotFoundError:
            return None

    def chunks(self, path: str) -> Iterator[bytes]:
        yield from self._parts(path, self._size(path))

    def fetch_file(self, path: str, local_path: Path) -> bool:
        size = self.size(path)
        if size is None:
            return False
        with local_path.open("xb") as file:
            file.writelines(self._parts(path, size))
        return True

    def size(self, path: str) -> int | None:
        try:
            return self._size(path)
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> Sequence[tuple[str, int]]:
        def listed() -> Sequence[tuple[str, int]]:
            pages = obstore.list(self.client, folder or None)
            return sorted((meta["path"], meta["size"]) for page in pages for meta in page)

        return _patiently(folder, listed)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                self._delete(path)

    def rename_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
        return [self._rename(source, target) for source, target in pairs]

    def sweep_unfinished(self) -> None:
        """Do nothing: an unfinished upload has no name in the store, and the bucket's lifecycle rules remove it."""

    def _size(self, path: str) -> int:
        return _patiently(path, lambda: obstore.head(self.client, path)["size"])

    def _put_in_parts(self, path: str, data: Callable[[], Path | Iterator[bytes]], size: int) -> None:
        """Create or replace an object; `data` returns its bytes, from the beginning, for each attempt."""
        part = max(_PART_BYTES, size // _PARTS_MAX)
        _repeated(lambda: obstore.put(self.client, path, data(), chunk_size=part, max_concurrency=_PARTS_AT_ONCE))

    def _parts(self, path: str, size: int) -> Iterator[bytes]:
        for start in range(0, size, _PART_BYTES):
            yield self._part(path, start, min(size, start + _PART_BYTES))

    def _part(self, path: str, start: int, end: int) -> bytes:
        return _patiently(path, lambda: bytes(obstore.get_range(self.client, path, start=start, end=end)))

    def _delete(self, path: str) -> None:
        _patiently(path, lambda: obstore.delete(self.client, path))

    def _rename(self, source: str, target: str) -> bool:
        """Copy the object, then delete the source. Each step may be repeated, but not the whole sequence."""
        try:
            self._copy(source, target)
        except FileNotFoundError:
            return False
        self._delete(source)
        return True

    def _copy(self, source: str, target: str) -> None:
        """Copy within the store, or through this machine if the object is larger than the store copies at once."""
        try:
            _patiently(target, lambda: obstore.copy(self.client, source, target))
        except GenericError:
            if self._size(source) <= _COPIED_BYTES_MAX:
                raise
            with temporary_folder("copy-") as folder:
                self.fetch_file(source, folder / "object")
                self.put_file(folder / "object", target)

    def _writer(self, path: str) -> object:
        try:
            return _patiently(
                path, lambda: obstore.get(self.client, path, options={"head": True}).attributes.get(_WRITER)
            )
        except FileNotFoundError:  # deleted since
            return None


def open_remote(url: str) -> _RemoteObjects | None:
    """Return the objects below a URL; None for a plain web server, which cannot create an object exactly once.

    Raises the errors of obstore for a URL or settings that it does not accept. Sends no request to the store.
    """
    if url.startswith("memory:"):
        return _RemoteObjects(from_url(url))
    client = from_url(url, client_options=_client_options(url, os.environ), retry_config=_retries())
    return None if isinstance(client, HTTPStore) else _RemoteObjects(client)


class _TooLargeError(Exception):
    """A file grows beyond what the parts of one upload can hold."""


def _limited(file: GrowingFile) -> Iterator[bytes]:
    size = 0
    for chunk in file.chunks():
        size += len(chunk)
        if size > _PART_BYTES * _PARTS_MAX:
            raise _TooLargeError
        yield chunk


def _patiently(path: str, request: Callable[[], _T]) -> _T:
    """Return the answer to a request about an object, as `_repeated`. Tell that the store is slow if it is."""
    began = time.monotonic()
    answer = _repeated(request)
    _slowness.tell(path, time.monotonic() - began)
    return answer


class _Slowness:
    """Tells about slow answers in this process: at most one line a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told_at: float | None = None

    def tell(self, path: str, seconds: float) -> None:
        """Log a warning about an answer that took so long."""
        if seconds < _SLOW_SECONDS:
            return
        with self._lock:
            now = time.monotonic()
            if self._told_at is not None and now - self._told_at < _TOLD_EVERY_SECONDS:
                return
            self._told_at = now
        _logger.warning(
            "the object store is slow, and the job waits for it: a start and an epoch need many answers, one after the "
            "other. Look at the store, its limits and the network. This line comes at most once a minute. "
            "seconds=%.1f, object=%s",
            seconds,
            path,
        )


_slowness = _Slowness()


def _repeated(request: Callable[[], _T]) -> _T:
    """Return the answer to a request that may be repeated.

    Only network errors are retried, and uploads that the store has ended; others are raised.
    """
    deadline = time.monotonic() + retry_seconds()
    for repeat in range(_REPEATS):
        try:
            return request()
        except (GenericError, FileNotFoundError) as error:
            is_temporary = isinstance(error, GenericError) or is_ended_upload(error)
            if not is_temporary or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS * 2**repeat)
    return request()


def is_ended_upload(error: BaseException) -> bool:
    """Return whether a store has ended an upload in parts before its end, for which obstore says that it is missing."""
    return isinstance(error, FileNotFoundError) and "NoSuchUpload" in str(error)


def retry_seconds() -> float:
    """Return for how many seconds a failing request is repeated.

    Raises InvalidJobError if the environment variable is not a number.
    """
    text = os.environ.get(RETRY_SECONDS, str(_RETRY_SECONDS_DEFAULT))
    try:
        return max(0.0, float(text))
    except ValueError as error:
        msg = (
            "the time for which requests to the object store are repeated is not a number of seconds. Correct the "
            f"environment variable, or remove it. {RETRY_SECONDS}={text!r}"
        )
        raise InvalidJobError(msg) from error


def _retries() -> "RetryConfig":
    """Return obstore's retry settings: the time is limited, the number of retries is not, and pauses grow."""
    return {
        "max_retries": 1_000,
        "retry_timeout": timedelta(seconds=retry_seconds()),
        "backoff": {
            "init_backoff": timedelta(seconds=_PAUSE_SECONDS),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }


def _client_options(url: str, environment: Mapping[str, str]) -> "ClientConfig":
    """Return the client options: the timeouts of this module, overridden by the environment."""
    found = {name: environment.get(_variable(url, name)) for name in _CLIENT_OPTIONS}
    options: ClientConfig = {"timeout": _TIMEOUT, "connect_timeout": _CONNECT_TIMEOUT}
    options.update({name: value for name, value in found.items() if value is not None})  # type: ignore[typeddict-item]
    return options


def timeout_variable(url: str) -> str:
    """Return the environment variable for the time of one request to a store."""
    return _variable(url, "timeout")


def _variable(url: str, option: str) -> str:
    return f"{_ENVIRONMENT.get(url.partition('://')[0], 'AZURE_')}{option.upper()}"
