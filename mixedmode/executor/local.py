"""Runs the stages of an epoch in this process, one task after the other, without Spark.

The map side, the exchange, the sorter, the subtasks, their state and their outputs are those of a job: only what Spark
does between the tasks is done here. So the results are those of `executor/spark.py`, in milliseconds.

What Spark alone can do is refused: SQL, expressions, map steps, sources that are read a second time for their progress.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.config.calls import column_in
from mixedmode.errors import InvalidJobError
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.executor.stage_tasks import after, epoch_result, map_side, subtasks
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.stages import JobPlan, KeyedStage
from mixedmode.tasks.exchange import KEY_PREFIX, ROW_PREFIX, MapSide
from mixedmode.tasks.numbers import TaskNumbers
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.watching import PARTITION_COLUMN

__all__ = ["LocalExecutor"]


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs epochs in this process. The input of an epoch is a table for each map task, with the source's columns.

    `lost`: the numbers of subtasks whose first attempt does all of its work and is then lost, in every stage.
    """

    lost: AbstractSet[int] = frozenset()

    def run_epoch(self, task: EpochTask, rows: Sequence[pa.Table] | None) -> EpochResult:
        """Run the keyed stages of one epoch. Raise InvalidJobError for a plan that needs Spark."""
        _check_runs_here(task.plan)
        stages, reports = task.plan.stages, list[list[SubtaskReport]]()
        tables = [_stage_columns(table, stages[0], task.plan) for table in rows or ()]
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            subtask = subtasks(task, stage)
            found = self._run_stage(subtask, _exchanged(map_side(task, stage), tables))
            reports.append([report for report, _ in found])
            task = after(task, reports[-1])
            if subtask.waits_for_end:
                break  # later stages get no rows, so they do not run and keep their state
            if following is not None:
                tables = [_stage_columns(rows, following, task.plan) for _, rows in found]
        return epoch_result(task, reports)

    def _run_stage(
        self, task: SubtaskTask, blocks: Sequence[Sequence[pa.RecordBatch]]
    ) -> list[tuple[SubtaskReport, pa.Table]]:
        """Return the report and the rows of each subtask."""
        found = []
        for number, own in enumerate(blocks):
            if number in self.lost:
                _run_subtask(task, own, TaskNumbers(number, attempt=0, attempt_id=2 * number))
            is_repeat = number in self.lost
            found.append(_run_subtask(task, own, TaskNumbers(number, int(is_repeat), 2 * number + is_repeat)))
        return found


def _exchanged(task: MapSide, tables: Iterable[pa.Table]) -> list[list[pa.RecordBatch]]:
    """Run a map task for each table. Return the blocks of each subtask."""
    blocks: list[list[pa.RecordBatch]] = [[] for _ in range(task.parallelism)]
    for table in tables:
        for batch in task(iter(table.to_batches())):
            for row, subtask in enumerate(batch.column("subtask").to_pylist()):
                blocks[subtask].append(batch.slice(row, 1))
    return blocks


def _run_subtask(
    task: SubtaskTask, blocks: Iterable[pa.RecordBatch], numbers: TaskNumbers
) -> tuple[SubtaskReport, pa.Table]:
    table = pa.Table.from_batches(list(task.run(iter(blocks), numbers)), task.output_schema)
    is_report = table.column(REPORT_COLUMN).is_valid()
    (report,) = table.filter(is_report).column(REPORT_COLUMN).to_pylist()
    return decode_report(report), table.filter(pc.invert(is_report)).drop_columns([REPORT_COLUMN])


def _stage_columns(table: pa.Table, stage: KeyedStage, plan: JobPlan) -> pa.Table:
    """Return the columns that the map side of a stage reads (input_frames.stage_columns), from columns of `table`."""
    table = table.rename_columns([name.lower() for name in table.column_names])  # as in SQL, case does not count
    columns = {f"{KEY_PREFIX}{i}": table.column(field.name.lower()) for i, field in enumerate(stage.key_fields)}
    columns |= {argument_name(i): table.column(_column(text).lower()) for i, text in enumerate(stage.arguments)}
    if stage.event_time is not None:
        columns[TIME_COLUMN] = table.column(stage.event_time.lower()).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    if stage.is_changelog:
        columns[WEIGHT_COLUMN] = table.column(WEIGHT_COLUMN)
    columns |= {f"{ROW_PREFIX}{i}": table.column(field.name.lower()) for i, field in enumerate(stage.late_fields)}
    if stage is plan.stages[0] and plan.partitions:
        (partition,) = plan.partitions.values()
        columns[PARTITION_COLUMN] = table.column(partition.lower()).cast(pa.string())
    return pa.table(columns)


def _column(expression: str) -> str:
    name = column_in(expression)
    if name is None:
        msg = (
            "the local executor reads columns, and only Spark computes expressions. Name a column, or run the job on "
            f"Spark. expression={expression}"
        )
        raise InvalidJobError(msg)
    return name


def _check_runs_here(plan: JobPlan) -> None:
    needs_spark = {
        "sql": plan.sql or any(stage.sql for stage in plan.stages),
        "map steps": plan.maps,
        "a job without a keyed step": not plan.stages,
        "a second reading of the sources": plan.source_rows is None,
    }
    found = [name for name, is_needed in needs_spark.items() if is_needed]
    if found:
        msg = f"the local executor runs keyed steps only, and this job needs Spark. it_has={', '.join(found)}"
        raise InvalidJobError(msg)
