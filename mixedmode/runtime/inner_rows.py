"""The rows that one stage of an epoch hands to the next: exactly those whose attempt's report counts.

The one idea: a stage is read twice, once for its reports and once for its rows, so its frame is kept in between. On a
cluster Spark may lose a part of what it keeps with an executor, or keep it twice after speculation, and then a part
comes from another attempt than its report: its state and the rows that the next stage sees would be of two
computations, which need not agree to the last bit. So there each row says which attempt made it, and reading one of an
attempt that does not count is an error, after which the epoch's stages run again. In a local master's one process
nothing is lost, and rows say nothing.

Invariants (tests/runtime/test_inner_rows.py):
  I1  rows_of gives the rows of the attempts that count, or fails
"""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.errors import RetryableError
from mixedmode.runtime.reports import REPORT_COLUMN, SubtaskReport

__all__ = ["ATTEMPT_FIELD", "COMPUTED_TWICE", "may_compute_twice", "rows_of", "subtask_number", "with_report_column"]

ATTEMPT_FIELD = pa.field("_attempt", pa.int64())
#: by which spark_errors.py tells this error from others
COMPUTED_TWICE = "rows that one step of the epoch gave to the next were computed twice"


def subtask_number(partition: int, parallelism: int) -> int:
    """Which subtask a task is, from the number of its partition.

    Where rows are read that are no longer there, Spark computes them within the task that reads them, whose partitions
    are counted otherwise if it reads several frames. Raises RetryableError then, which has the stages run again.
    """
    if partition >= parallelism:
        msg = f"{COMPUTED_TWICE}, so they are computed once more. partition={partition}, parallelism={parallelism}"
        raise RetryableError(msg)
    return partition


def may_compute_twice(session: SparkSession) -> bool:
    """Whether rows that Spark keeps can get lost, or be there twice."""
    master = session.sparkContext.master or ""
    return master != "local" and not master.startswith("local[")


def with_report_column(rows: pa.Table, schema: pa.Schema, attempt: int) -> pa.Table:
    """A subtask's rows as its frame has them: with no report, and with their attempt if `schema` says so."""
    columns = list(rows.columns)
    if ATTEMPT_FIELD.name in schema.names:
        columns.append(pa.repeat(attempt, rows.num_rows))
    return pa.table([*columns, pa.nulls(rows.num_rows, pa.binary())], names=schema.names).cast(schema)


def rows_of(output: DataFrame, reports: Iterable[SubtaskReport]) -> DataFrame:
    """The rows of a stage's frame, without the reports; reading one of an attempt not in `reports` fails."""
    rows = output.where(F.col(REPORT_COLUMN).isNull())
    if ATTEMPT_FIELD.name in output.columns:
        counts = F.col(ATTEMPT_FIELD.name).isin([report.attempt for report in reports])
        rows = rows.where(F.when(counts, F.lit(True)).otherwise(F.raise_error(COMPUTED_TWICE).cast("boolean")))
    return rows.drop(REPORT_COLUMN, ATTEMPT_FIELD.name)
