"""The frames of an epoch: what Spark is asked to do, stage by stage.

    source rows -> sql -> [map side] => [subtask] -> change log -> sql -> [map side] => ... => [subtask] -> sink

The first map side belongs to the streaming query itself, so that Spark prunes columns and pushes filters into the scan;
where a stage needs nothing from Spark SQL, the query gives files instead, and the map side reads them (direct.py).
Everything after it is built in `foreachBatch`, once per epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.checkpoint.types import Epoch, Generation, OperatorState, PathTaken, RunFile, StagedFile
from mixedmode.job.plan import JobPlan, KeyedStage
from mixedmode.runtime.analysis import apply_sql, quoted, spark_schema, views
from mixedmode.runtime.direct import DirectMapSide, assign_slices
from mixedmode.runtime.exchange import BLOCK_DDL, KEY_PREFIX, TIME_COLUMN, MapSide
from mixedmode.runtime.rows import RowsTask
from mixedmode.runtime.session import cores
from mixedmode.runtime.subtask import REPORT_COLUMN, StateTask, SubtaskReport, SubtaskTask, decode_report
from mixedmode.sinks.files import SinkTask
from operators.aggregate import WEIGHT_COLUMN, argument_name

REPORT_FIELD = pa.field(REPORT_COLUMN, pa.binary())


@dataclass(frozen=True, slots=True)
class StageSettings:
    """What holds for every epoch of a run. `checkpoint_url` is None in batch mode."""

    parallelism: int
    max_parallelism: int
    sort_memory_bytes: int
    checkpoint_url: str | None
    generation: Generation
    sink: SinkTask | None


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What the tasks of one epoch did, ready for a manifest. `migration_seconds` is that of the slowest subtask."""

    records_in: int
    max_time_us: int | None
    rows_out: int
    pairs: int
    spilled_runs: int
    migration_seconds: float
    operators: tuple[OperatorState, ...]
    outputs: tuple[StagedFile, ...]


def input_frame(
    session: SparkSession, plan: JobPlan, sources: dict[str, DataFrame], settings: StageSettings
) -> DataFrame:
    """The frame that an epoch begins with: blocks for the first keyed stage, or rows in a job without one."""
    if not plan.stages:
        return _apply_first_sql(session, plan.sql, sources)
    stage = plan.stages[0]
    return _blocks(_apply_first_sql(session, stage.sql, sources), stage, settings)


def run_stages(
    session: SparkSession,
    frame: DataFrame,
    plan: JobPlan,
    settings: StageSettings,
    *,
    epoch: Epoch,
    path: PathTaken,
    state: Sequence[OperatorState],
) -> EpochResult:
    """Run one epoch over `frame` (see `input_frame`) and the state that the epoch before left."""
    if not plan.stages:
        assert settings.sink is not None
        rows = RowsTask(settings.sink, epoch, settings.generation, plan.output_fields)
        reports = _reports(frame.mapInArrow(rows, _ddl(pa.schema([REPORT_FIELD]))))
        return _result(plan, [reports], state)
    if plan.reads:
        frame = _read_directly(session, frame, plan, settings)
    runs_before = {operator.operator_id: operator.runs for operator in state}
    all_reports = []
    held: list[DataFrame] = []
    try:
        for stage in plan.stages:
            is_last = stage is plan.stages[-1]
            task = _task(stage, settings, epoch, path, runs_before, is_last=is_last)
            output = frame.repartitionById(settings.parallelism, F.col("subtask")).mapInArrow(
                task, _ddl(task.output_schema)
            )
            if not is_last:
                # A stage writes runs, so it runs once: its rows are kept for the next stage to read twice.
                output = output.persist()
                held.append(output)
            all_reports.append(_reports(output.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN)))
            if not is_last:
                following = plan.stages[plan.stages.index(stage) + 1]
                frame = _blocks(_change_log(session, output, following), following, settings)
    finally:
        for output in held:
            output.unpersist()
    return _result(plan, all_reports, state)


def _read_directly(session: SparkSession, files: DataFrame, plan: JobPlan, settings: StageSettings) -> DataFrame:
    """Blocks of the first keyed stage from (path, length) of the epoch's files."""
    found = [(row.path, row.length) for row in files.collect()]
    tasks = assign_slices(found, cores(session))
    map_side = _map_side(plan.stages[0], settings)
    numbers = session.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(DirectMapSide(map_side, plan.reads, tuple(tasks)), BLOCK_DDL)


def _task(
    stage: KeyedStage,
    settings: StageSettings,
    epoch: Epoch,
    path: PathTaken,
    runs_before: dict[str, tuple[RunFile, ...]],
    *,
    is_last: bool,
) -> SubtaskTask:
    state = None
    if settings.checkpoint_url is not None:
        state = StateTask(settings.checkpoint_url, runs_before.get(stage.operator_id, ()))
    rows = () if is_last else (*stage.output_fields, pa.field(WEIGHT_COLUMN, pa.int64()))
    return SubtaskTask(
        stage=stage,
        epoch=epoch,
        generation=settings.generation,
        path=path,
        parallelism=settings.parallelism,
        max_parallelism=settings.max_parallelism,
        sort_memory_bytes=settings.sort_memory_bytes,
        state=state,
        sink=settings.sink if is_last else None,
        output_schema=pa.schema([*rows, REPORT_FIELD]),
    )


def _blocks(frame: DataFrame, stage: KeyedStage, settings: StageSettings) -> DataFrame:
    """The map side of a keyed stage over its input rows."""
    columns = [F.col(quoted(field.name)).alias(f"{KEY_PREFIX}{i}") for i, field in enumerate(stage.key_schema.fields)]
    columns += [F.expr(text).alias(argument_name(i)) for i, text in enumerate(stage.arguments)]
    if stage.event_time is not None:
        columns.append(F.expr(f"unix_micros(CAST({quoted(stage.event_time)} AS TIMESTAMP))").alias(TIME_COLUMN))
    if stage.is_change_log:
        columns.append(F.col(WEIGHT_COLUMN))
    return frame.select(*columns).mapInArrow(_map_side(stage, settings), BLOCK_DDL)


def _map_side(stage: KeyedStage, settings: StageSettings) -> MapSide:
    return MapSide(stage, settings.parallelism, settings.max_parallelism, slice_bytes=settings.sort_memory_bytes)


def _change_log(session: SparkSession, output: DataFrame, following: KeyedStage) -> DataFrame:
    """Rows of a stage as the next one reads them: its sql, applied to rows taken back and rows added alike."""
    rows = output.where(F.col(REPORT_COLUMN).isNull()).drop(REPORT_COLUMN)
    if not following.sql:
        return rows
    sides = [
        apply_sql(session, rows.where(F.col(WEIGHT_COLUMN) == weight).drop(WEIGHT_COLUMN), following.sql).withColumn(
            WEIGHT_COLUMN, F.lit(weight).cast("long")
        )
        for weight in (-1, 1)
    ]
    return sides[0].unionByName(sides[1])


def _apply_first_sql(session: SparkSession, steps: Sequence, sources: dict[str, DataFrame]) -> DataFrame:  # type: ignore[type-arg]
    if not steps:
        return next(iter(sources.values()))
    first, *rest = steps
    with views(session, sources):
        frame = session.sql(first.text)
    return apply_sql(session, frame, rest)


def _reports(frame: DataFrame) -> list[SubtaskReport]:
    return [decode_report(bytes(row[0])) for row in frame.collect()]


def _result(plan: JobPlan, reports: Sequence[list[SubtaskReport]], before: Sequence[OperatorState]) -> EpochResult:
    first = reports[0]
    times = [report.max_time_us for report in first if report.max_time_us is not None]
    every = [report for stage_reports in reports for report in stage_reports]
    runs_before = {operator.operator_id: operator.runs for operator in before}
    operators = []
    for stage, stage_reports in zip(plan.stages, reports, strict=False):
        if not stage.operator.states:
            continue
        new = [run for report in sorted(stage_reports, key=lambda r: r.subtask) for run in report.runs]
        schema = {"states": [dict(descriptor.as_json()) for descriptor in stage.operator.states]}
        kept = list(runs_before.get(stage.operator_id, ()))
        for merged in (run for report in stage_reports for run in report.merged):
            kept = put_in_place(kept, merged)
        operators.append(OperatorState(stage.operator_id, schema, (*kept, *new)))
    return EpochResult(
        records_in=sum(report.records for report in first),
        max_time_us=max(times, default=None),
        rows_out=sum(report.rows_out for report in reports[-1]),
        pairs=sum(report.pairs for report in every),
        spilled_runs=sum(report.spilled_runs for report in every),
        migration_seconds=max((report.migration_seconds for report in every), default=0.0),
        operators=tuple(operators),
        outputs=tuple(output for report in sorted(reports[-1], key=lambda r: r.subtask) for output in report.outputs),
    )


def put_in_place(runs: Sequence[RunFile], merged: RunFile) -> list[RunFile]:
    """`runs` with those that `merged` was merged from replaced by it, where the newest of them was. Pure."""
    replaced = set(merged.merged_from)
    newest = max(position for position, run in enumerate(runs) if run.path in replaced)
    return [
        merged if position == newest else run
        for position, run in enumerate(runs)
        if position == newest or run.path not in replaced
    ]


def _ddl(schema: pa.Schema):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return spark_schema(list(schema))
