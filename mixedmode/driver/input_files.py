"""Input files that Spark has planned to read: checks that they exist, and maps lines of Spark's offsets to sources.

Spark silently skips a planned file that does not exist any more, and its records are lost. So the driver checks all
files of an epoch before the epoch runs. Spark has made its plan by then: a file that is deleted later fails a task.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import CorruptStateError

__all__ = ["ignores_missing", "inputs_gone", "line_sources", "missing_files"]

IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
_LOCAL = "file://"
_REQUESTS_AT_ONCE = 16
_NAMES_SHOWN = 5


def missing_files(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """Return the files that do not exist, in the order of `urls`.

    urls: as written in Spark's log of a source. options: of the sources; only `fs.*` (Hadoop's file systems) count.
    """
    local = {url: url.startswith(f"{_LOCAL}/") for url in urls}
    gone = {url for url, is_local in local.items() if is_local and not os.path.exists(unquote(url[len(_LOCAL) :]))}  # noqa: PTH110 - many
    remote = [url for url, is_local in local.items() if not is_local]
    if remote:
        gone |= _missing_remote(session, remote, options)
    return [url for url in urls if url in gone]


def ignores_missing(session: SparkSession) -> bool:
    """Return whether the job's settings tell Spark to skip missing files."""
    return str(session.conf.get(IGNORE_MISSING, "false")).lower() == "true"


def inputs_gone(gone: Sequence[str], *, planned: int) -> CorruptStateError:
    """Return the error for files that do not exist. planned: the number of files that were checked."""
    more = f" (and {len(gone) - _NAMES_SHOWN} more)" if len(gone) > _NAMES_SHOWN else ""
    return CorruptStateError(
        "input files that the job has to read are gone: an epoch that was planned and not committed has to be "
        "repeated, or the job has to go back to an older checkpoint. Their records would be missing, so nothing was "
        "changed. Put the files back under their names, and start the job again. To go on without them, set "
        f"{IGNORE_MISSING}: true under `spark`. Keep input files as long as a checkpoint without them is retained. "
        f"missing={len(gone)}, planned={planned}, files={', '.join(gone[:_NAMES_SHOWN])}{more}"
    )


def line_sources(frame: DataFrame) -> tuple[int, ...]:
    """Return the number that Spark gives to the source of each line of an offset entry of a query over `frame`.

    Spark numbers sources in the order in which its plan first names them. A source named again keeps its number. For
    example, a plan that reads orders, users and orders again has the line sources (0, 1, 0).
    """
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no public name for it
    leaves = plan.collectLeaves()
    sources: list[Any] = []
    numbers = []
    for leaf in (leaves.apply(index) for index in range(leaves.size())):
        if not leaf.nodeName().startswith("StreamingRelation"):
            continue
        number = next((number for number, one in enumerate(sources) if one.equals(leaf)), len(sources))
        if number == len(sources):
            sources.append(leaf)
        numbers.append(number)
    return tuple(numbers)


def _missing_remote(session: SparkSession, urls: Sequence[str], options: Mapping[str, str]) -> set[str]:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public name for Hadoop's file systems
    conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the same
    for name, value in options.items():
        if name.startswith("fs."):
            conf.set(name, value)

    def is_missing(url: str) -> bool:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        return not path.getFileSystem(conf).exists(path)

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        return {url for url, is_gone in zip(urls, threads.map(is_missing, urls), strict=True) if is_gone}
