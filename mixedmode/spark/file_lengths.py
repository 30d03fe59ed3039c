"""The sizes of input files, and when they were modified, on this machine or in an object store."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from mixedmode.spark.java_classes import java_class

__all__ = ["FileState", "file_lengths", "file_states"]

_LOCAL = "file://"
_REQUESTS_AT_ONCE = 16

#: (bytes, modification time: in ns on this machine, in ms in an object store)
FileState = tuple[int, int]


def file_lengths(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> dict[str, int]:
    """Return {URL: bytes} of those files that exist, in the order of `urls`.

    urls: as written in Spark's log of a source. options: of the sources; only `fs.*` (Hadoop's file systems) count.
    """
    return {url: length for url, (length, _) in file_states(session, urls, options).items()}


def file_states(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> dict[str, FileState]:
    """Return {URL: its state} of those files that exist, in the order of `urls`. Arguments as of `file_lengths`."""
    remote = [url for url in urls if not url.startswith(f"{_LOCAL}/")]
    found = _remote_states(session, remote, options) if remote else {}
    states = {url: found[url] if url in found else _local_state(unquote(url[len(_LOCAL) :])) for url in urls}
    return {url: state for url, state in states.items() if state is not None}


def _local_state(path: str) -> FileState | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - many
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _remote_states(
    session: SparkSession, urls: Sequence[str], options: Mapping[str, str]
) -> dict[str, FileState | None]:
    path_of, uri_of = (java_class(session.sparkContext, name) for name in ("org.apache.hadoop.fs.Path", "java.net.URI"))
    conf: Any = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - PySpark has no public name
    for name, value in options.items():
        if name.startswith("fs."):
            conf.set(name, value)

    def state(url: str) -> FileState | None:
        path = path_of(uri_of(url))
        files = path.getFileSystem(conf)
        if not files.exists(path):
            return None
        found = files.getFileStatus(path)
        return int(found.getLen()), int(found.getModificationTime())

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        return dict(zip(urls, threads.map(state, urls), strict=True))
