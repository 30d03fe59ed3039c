"""Reads the rows between two stages of an epoch, only from attempts with a valid report (tasks/inner_rows.py).

Invariants (tests/executor/test_rows_between.py):
  I1  rows_of returns the rows of the attempts in `reports`, or fails
"""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.errors import RetryableError
from mixedmode.spark.session import is_one_process
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD, COMPUTED_TWICE
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport


def may_compute_twice(session: SparkSession) -> bool:
    """Return whether Spark may lose persisted rows, or have them twice: everywhere but on a local master."""
    return not is_one_process(session)


def rows_of(output: DataFrame, reports: Iterable[SubtaskReport]) -> DataFrame:
    """Return the rows of a stage's frame, without the reports. A row of an attempt not in `reports` raises an error."""
    rows = output.where(F.col(REPORT_COLUMN).isNull())
    if ATTEMPT_FIELD.name in output.columns:
        counts = F.col(ATTEMPT_FIELD.name).isin([report.attempt for report in reports])
        rows = rows.where(F.when(counts, F.lit(True)).otherwise(F.raise_error(COMPUTED_TWICE).cast("boolean")))
    return rows.drop(REPORT_COLUMN, ATTEMPT_FIELD.name)


def computed_twice_again(times: int) -> RetryableError:
    """Return the error for an epoch whose stages ran so many times, and each time Spark lost rows between them."""
    return RetryableError(
        f"{COMPUTED_TWICE}, each time that the epoch ran, and nothing was committed. Spark loses such rows with an "
        "executor: find out why executors end, such as for want of memory, then start the job again: it resumes. "
        f"times={times}"
    )
