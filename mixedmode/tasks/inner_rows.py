"""The rows between two stages of an epoch: rows are valid only from the attempt whose report the driver has.

A stage is read twice: once for its reports, once for its rows. So its frame is persisted in between. On a cluster,
Spark may lose persisted rows with an executor, or have them twice after speculation. Then rows may come from another
attempt than the report. State and rows would be of two computations, which need not be equal to the last bit.

So on a cluster each row carries the id of its attempt. A row of an attempt without a valid report raises an error, and
the stages of the epoch run again. A local master has one process and loses nothing, so its rows carry no attempt.

The rows are columns of the frame, or blocks in one column of it (JobPlan.stays_in_arrow). executor/rows_between.py
returns such frames. Spark makes the rows of the readers of columns, and tasks/inner_reads.py those of blocks.
"""

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import RetryableError
from mixedmode.operators.interface import Changelog, Changes
from mixedmode.plan.stages import WINDOW_TIME, KeyedStage
from mixedmode.tasks.blocks import blocks_of, cell_of

ATTEMPT_FIELD = pa.field("_attempt", pa.int64())
BLOCK_FIELD = pa.field("_block", pa.binary())
#: the text by which the driver recognizes this error
COMPUTED_TWICE = "rows that one step of the epoch emitted for the next were computed twice"


def subtask_number(partition: int, parallelism: int) -> int:
    """Return the number of the subtask that a task runs, from the number of its partition.

    If persisted rows are lost, Spark computes them again inside the task that reads them. Such a task may read several
    frames and so have a partition number that is no subtask. Then raise RetryableError, so that the stages run again.
    """
    if partition >= parallelism:
        msg = f"{COMPUTED_TWICE}, so they are computed once more. partition={partition}, parallelism={parallelism}"
        raise RetryableError(msg)
    return partition


def rows_emitted(changes: Changes, stage: KeyedStage) -> pa.Table:
    """Return the rows of a stage for the next one, with the columns `stage.emitted_fields`."""
    is_changelog = stage.emitted.changelog is Changelog.RETRACT
    rows = changes.changelog() if is_changelog else changes.upserts()
    if stage.adds_window_time:
        end = next(name for name in rows.column_names if name.lower() == "window_end")  # a key has the name of the job
        ends_us = rows.column(end).cast(pa.int64())
        rows = rows.append_column(WINDOW_TIME, pc.subtract(ends_us, 1).cast(WINDOW_TIME.type))
    return rows.select([field.name for field in stage.emitted_fields])


def in_blocks(rows: pa.Table) -> pa.Table:
    """Return rows as blocks, of which each is a value of BLOCK_FIELD."""
    cells = [cell_of(block) for block in blocks_of(rows)]
    return pa.table([pa.chunked_array(cells, BLOCK_FIELD.type)], schema=pa.schema([BLOCK_FIELD]))


def with_report_column(rows: pa.Table, schema: pa.Schema, attempt: int) -> pa.Table:
    """Return a subtask's rows in the schema of its frame: the report is NULL; the attempt is set if `schema` has it."""
    columns = list(rows.columns)
    if ATTEMPT_FIELD.name in schema.names:
        columns.append(pa.repeat(attempt, rows.num_rows))
    return pa.table([*columns, pa.nulls(rows.num_rows, pa.binary())], names=schema.names).cast(schema)
