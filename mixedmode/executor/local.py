"""Runs the stages of an epoch in this process, one task after the other, without Spark.

The map side, the exchange, the sorter, the subtasks, their state and their outputs are those of a job: only what Spark
does between the tasks is done here. So the results are those of `executor/spark.py`, in milliseconds.

What Spark alone can do is refused: SQL, expressions, map steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.config.calls import column_in
from mixedmode.errors import InvalidJobError
from mixedmode.executor.partners import partners, side_to_thin
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.executor.stage_tasks import epoch_result, map_side, measure_task, subtasks, with_progress
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.stages import ALL_ROWS, KeyedStage, key_column
from mixedmode.tasks.exchange import ROW_PREFIX, MapSide
from mixedmode.tasks.measuring import MeasureTask
from mixedmode.tasks.numbers import TaskNumbers
from mixedmode.tasks.partner_keys import KeysOfSide, hashes_in
from mixedmode.tasks.partners import Partners
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.watching import PARTITION_COLUMN, SOURCE_COLUMN

__all__ = ["LocalExecutor", "LocalInput"]


#: {source: tables with its records}
LocalInput = Mapping[str, Sequence[pa.Table]]


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs epochs in this process. The input of an epoch is {source: a table for each map task}, with its columns.

    `lost`: the numbers of subtasks whose first attempt does all of its work and is then lost, in every stage.
    """

    lost: AbstractSet[int] = frozenset()

    def run_epoch(self, task: EpochTask, rows: LocalInput | None) -> EpochResult:
        """Run the keyed stages of one epoch. Raise InvalidJobError for a plan that needs Spark."""
        plan = task.plan
        _check_runs_here(plan)
        made: dict[str, list[pa.Table]] = {name: list(tables) for name, tables in (rows or {}).items()}
        reports = dict[str, list[SubtaskReport]]()
        waiting = set[str]()
        if plan.measures_first:
            task = with_progress(task, _measured(measure_task(task), _progress_rows(plan, rows or {}, [])))
        for stage in plan.stages:
            if not stage.reads.sources and waiting.issuperset(stage.reads.stages):
                waiting.add(stage.operator_id)
                continue  # it gets no rows, so it does not run and keeps its state
            subtask = subtasks(task, stage)
            tables = [
                _stage_columns(table, stage, plan, number)
                for number, name in enumerate(stage.reads.relations)
                for table in made.get(name, ())
            ]
            if stage.operator_id == plan.measured_by:
                tables += _progress_rows(plan, rows or {}, tables)
            found = self._run_stage(
                subtask, self._exchange(map_side(task, stage, _partners(task, stage, made)), tables)
            )
            reports[stage.operator_id] = [report for report, _ in found]
            if stage.operator_id == plan.measured_by:
                task = with_progress(task, reports[stage.operator_id][:1])
            if subtask.waits_for_end:
                waiting.add(stage.operator_id)
            elif subtask.is_inner:
                made[stage.operator_id] = [rows for _, rows in found]
        return epoch_result(task, reports, {})

    def _exchange(self, task: MapSide, tables: Iterable[pa.Table]) -> list[list[pa.RecordBatch]]:
        """Run a map task for each table. Return the blocks of each subtask."""
        blocks: list[list[pa.RecordBatch]] = [[] for _ in range(task.parallelism)]
        for table in tables:
            for batch in self._run_map(task, table):
                for row, subtask in enumerate(batch.column("subtask").to_pylist()):
                    blocks[subtask].append(batch.slice(row, 1))
        return blocks

    def _run_map(self, task: MapSide, table: pa.Table) -> Iterable[pa.RecordBatch]:
        """Return the blocks of the map task that reads this table."""
        return task(iter(table.to_batches()))

    def _run_stage(
        self, task: SubtaskTask, blocks: Sequence[Sequence[pa.RecordBatch]]
    ) -> list[tuple[SubtaskReport, pa.Table]]:
        """Return the report and the rows of each subtask."""
        return [self._run_subtask(task, own, number) for number, own in enumerate(blocks)]

    def _run_subtask(
        self, task: SubtaskTask, blocks: Sequence[pa.RecordBatch], number: int
    ) -> tuple[SubtaskReport, pa.Table]:
        is_repeat = number in self.lost
        if is_repeat:
            _run_subtask(task, blocks, TaskNumbers(number, attempt=0, attempt_id=2 * number))
        return _run_subtask(task, blocks, TaskNumbers(number, int(is_repeat), 2 * number + is_repeat))


def _partners(task: EpochTask, stage: KeyedStage, made: Mapping[str, Sequence[pa.Table]]) -> Partners | None:
    side = side_to_thin(task, stage, {name: sum(len(table) for table in tables) for name, tables in made.items()})
    if side is None:
        return None
    find, number = KeysOfSide(map_side(task, stage), 1 - side), 1 - side
    tables = [_stage_columns(table, stage, task.plan, number) for table in made.get(stage.reads.relations[number], ())]
    blocks = [batch for table in tables for batch in find(iter(table.to_batches()))]
    found = [row for batch in blocks for row in batch.select(["kind", "block"]).to_pylist()]
    return partners(task, stage, side, hashes_in((row["kind"], row["block"]) for row in found))


def _measured(task: MeasureTask, tables: Iterable[pa.Table]) -> list[SubtaskReport]:
    """Return the reports of a task for each table."""
    found = [task.run(iter(table.to_batches()), TaskNumbers(number, 0, number)) for number, table in enumerate(tables)]
    return [decode_report(row) for batches in found for batch in batches for row in batch.column(0).to_pylist()]


def _run_subtask(
    task: SubtaskTask, blocks: Iterable[pa.RecordBatch], numbers: TaskNumbers
) -> tuple[SubtaskReport, pa.Table]:
    table = pa.Table.from_batches(list(task.run(iter(blocks), numbers)), task.output_schema)
    is_report = table.column(REPORT_COLUMN).is_valid()
    (report,) = table.filter(is_report).column(REPORT_COLUMN).to_pylist()
    return decode_report(report), table.filter(pc.invert(is_report)).drop_columns([REPORT_COLUMN])


def _stage_columns(table: pa.Table, stage: KeyedStage, plan: JobPlan, number: int) -> pa.Table:
    """Return the columns that the map side of a stage reads (tasks/stage_columns.py), from columns of `table`.

    number: of the relation, among those that the stage reads.
    """
    table = table.rename_columns([name.lower() for name in table.column_names])  # as in SQL, case does not count
    side = stage.sides[number] if stage.sides else None
    keys = [field.name for field in stage.key_fields] if side is None else [_column(text) for text in side.keys]
    columns = {
        key_column(i): pa.array(np.full(len(table), fill_value=True))
        if name == ALL_ROWS.name
        else table.column(name.lower())
        for i, name in enumerate(keys)
    }
    if side is not None and not side.keys:  # its rows go to every subtask
        columns = {key_column(i): pa.nulls(len(table), field.type) for i, field in enumerate(stage.key_fields)}
    for i, (text, data_type) in enumerate(zip(stage.arguments, stage.argument_types, strict=True)):
        is_own = side is None or i in side.arguments
        columns[argument_name(i)] = (
            table.column(_column(text).lower()) if is_own else pa.nulls(table.num_rows, data_type)
        )
    event_time = stage.event_time if side is None else side.event_time
    if event_time is not None:
        columns[TIME_COLUMN] = table.column(event_time.lower()).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    if side is not None:
        columns[SIDE_COLUMN] = pa.array(np.full(table.num_rows, number, np.uint8))
    if stage.is_changelog:
        is_weighted = WEIGHT_COLUMN in table.column_names
        columns[WEIGHT_COLUMN] = table.column(WEIGHT_COLUMN) if is_weighted else pa.array(np.ones(len(table), np.int64))
    for tag, numbered in stage.late_columns.items():
        is_own = side is None or tag == side.late_tag
        columns |= {
            f"{ROW_PREFIX}{i}": table.column(field.name.lower()) if is_own else pa.nulls(table.num_rows, field.type)
            for i, field in numbered
        }
    if stage is plan.stages[0] and plan.partitions and plan.source_rows is not None:
        (partition,) = plan.partitions.values()
        columns[PARTITION_COLUMN] = table.column(partition.lower()).cast(pa.string())
    return pa.table(columns)


def _progress_rows(plan: JobPlan, inputs: LocalInput, tables: list[pa.Table]) -> list[pa.Table]:
    """Return the rows that show the progress of the sources, where the rows of the first stage do not show it.

    Add the column for the number of the source to `tables`, the input of the first stage (input_frames.input_frame).
    """
    if plan.source_rows is not None:
        return []
    tables[:] = [table.append_column(SOURCE_COLUMN, pa.nulls(len(table), pa.int32())) for table in tables]
    found = []
    for number, name in enumerate(plan.sources_read):
        for table in inputs.get(name, ()):
            table = table.rename_columns([column.lower() for column in table.column_names])  # noqa: PLW2901
            columns = {SOURCE_COLUMN: pa.array(np.full(len(table), number, np.int32))}
            for target, source in ((TIME_COLUMN, plan.event_times), (PARTITION_COLUMN, plan.partitions)):
                if name in source:
                    column = table.column(source[name].lower())
                    is_time = target == TIME_COLUMN
                    columns[target] = (
                        column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()) if is_time else column.cast(pa.string())
                    )
            found.append(pa.table(columns))
    return _aligned(found, tables)


def _aligned(found: list[pa.Table], tables: list[pa.Table]) -> list[pa.Table]:
    """Return `found` with NULL in the columns that only `tables` have."""
    fields = {field.name: field.type for table in (*tables, *found) for field in table.schema}
    wanted = pa.schema(list(fields.items()))
    filled = [
        pa.table(
            [
                table.column(name) if name in table.column_names else pa.nulls(len(table), data_type)
                for name, data_type in fields.items()
            ],
            schema=wanted,
        )
        for table in (*tables, *found)
    ]
    tables[:] = filled[: len(tables)]
    return filled[len(tables) :]


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
    readers = [stage.reads for stage in plan.stages] + [result.reads for result in plan.results.values()]
    needs_spark = {
        "sql": any(reads.sql for reads in readers),
        "map steps": plan.maps,
        "rows that no keyed step makes": not plan.stages or plan.rows_results,
    }
    found = [name for name, is_needed in needs_spark.items() if is_needed]
    if found:
        msg = f"the local executor runs keyed steps only, and this job needs Spark. it_has={', '.join(found)}"
        raise InvalidJobError(msg)
