"""Input files that Spark has planned to read: checks that they exist, and maps lines of Spark's offsets to sources.

Spark silently skips a planned file that does not exist any more, and its records are lost. So the driver checks all
files of an epoch before the epoch runs. Spark has made its plan by then: a file that is deleted later fails a task.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import CorruptStateError

__all__ = ["ignores_missing", "inputs_gone", "line_sources"]

IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
_NAMES_SHOWN = 5


def ignores_missing(session: SparkSession) -> bool:
    """Return whether the job's settings tell Spark to skip missing files."""
    return str(session.conf.get(IGNORE_MISSING, "false")).lower() == "true"


def inputs_gone(gone: Sequence[str], *, planned: int) -> CorruptStateError:
    """Return the error for files that do not exist. planned: the number of files that were checked."""
    more = f" (and {len(gone) - _NAMES_SHOWN} more)" if len(gone) > _NAMES_SHOWN else ""
    return CorruptStateError(
        "input files that the job has to read are gone: an epoch that was planned and not committed has to be "
        "repeated, or the job has to go back to an older checkpoint. Their records would be missing, so nothing was "
        "changed. Put the files back under their names, and start the job again. If they or their folders have new "
        f"names, which is new input, or to go on without them, set {IGNORE_MISSING}: true under `spark` until the job "
        "has repeated the epoch. Keep input files as long as a checkpoint without them is retained. "
        f"missing={len(gone)}, planned={planned}, files={', '.join(gone[:_NAMES_SHOWN])}{more}"
    )


def line_sources(frame: DataFrame) -> tuple[int, ...]:
    """Return the number that Spark assigns to the source of each line of an offset entry of a query over `frame`.

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
