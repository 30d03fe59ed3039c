"""The rows that one stage of an epoch hands to the next: exactly those whose attempt's report counts.

The one idea: a stage is read twice, once for its reports and once for its rows, so its frame is kept in between. On a
cluster Spark may lose a part of what it keeps with an executor, or keep it twice after speculation, and then a part
comes from another attempt than its report: its state and the rows that the next stage sees would be of two
computations, which need not agree to the last bit. So there each row says which attempt made it, and reading one of an
attempt that does not count is an error, after which the epoch's stages run again. In a local master's one process
nothing is lost, and rows say nothing.

executor/rows_between.py reads such rows.
"""

import pyarrow as pa

from mixedmode.errors import RetryableError

ATTEMPT_FIELD = pa.field("_attempt", pa.int64())
#: tells this error from others
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


def with_report_column(rows: pa.Table, schema: pa.Schema, attempt: int) -> pa.Table:
    """A subtask's rows as its frame has them: with no report, and with their attempt if `schema` says so."""
    columns = list(rows.columns)
    if ATTEMPT_FIELD.name in schema.names:
        columns.append(pa.repeat(attempt, rows.num_rows))
    return pa.table([*columns, pa.nulls(rows.num_rows, pa.binary())], names=schema.names).cast(schema)
