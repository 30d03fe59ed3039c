"""The sizes of input files, on this machine or in an object store."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

__all__ = ["file_lengths"]

_LOCAL = "file://"
_REQUESTS_AT_ONCE = 16


def file_lengths(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> dict[str, int]:
    """Return {URL: bytes} of those files that exist, in the order of `urls`.

    urls: as written in Spark's log of a source. options: of the sources; only `fs.*` (Hadoop's file systems) count.
    """
    remote = [url for url in urls if not url.startswith(f"{_LOCAL}/")]
    found = _remote_lengths(session, remote, options) if remote else {}
    lengths = {url: found[url] if url in found else _local_length(unquote(url[len(_LOCAL) :])) for url in urls}
    return {url: length for url, length in lengths.items() if length is not None}


def _local_length(path: str) -> int | None:
    try:
        return os.path.getsize(path)  # noqa: PTH202 - many
    except OSError:
        return None


def _remote_lengths(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> dict[str, int | None]:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public name for Hadoop's file systems
    conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the same
    for name, value in options.items():
        if name.startswith("fs."):
            conf.set(name, value)

    def length(url: str) -> int | None:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        files = path.getFileSystem(conf)
        return int(files.getFileStatus(path).getLen()) if files.exists(path) else None

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        return dict(zip(urls, threads.map(length, urls), strict=True))
