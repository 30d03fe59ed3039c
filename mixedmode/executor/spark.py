"""Runs the stages of an epoch on Spark, one after the other.

    source rows -> sql -> columns of a stage -> [map side] => [subtask] -> changelog -> sql -> ... => [subtask] -> sink

Map stages come first, and have their own module (map_stages.py). Up to the columns of the first stage, the frame is
part of the streaming query (input_frames.py). If the first stage needs nothing from Spark SQL, the query returns files
instead of rows, and the map side reads the files (direct.py). All later frames are built in `foreachBatch`, once per
epoch.
"""

from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.connectors.files.parquet_files import assign_slices, file_bytes, path_of_text, path_of_url, whole_input
from mixedmode.executor.input_frames import stage_columns
from mixedmode.executor.map_stages import Mapped, release, run_maps
from mixedmode.executor.protocol import WRITES_ROWS, EpochResult, EpochTask
from mixedmode.executor.rows_between import is_computed_twice, may_compute_twice, rows_of
from mixedmode.executor.stage_tasks import REPORT_FIELD, after, epoch_result, map_side, rows_task, subtasks
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.plan.stages import KeyedStage
from mixedmode.spark.frames import apply_sql, spark_schema
from mixedmode.spark.jobs import described
from mixedmode.spark.session import cores
from mixedmode.tasks.direct import DirectMapSide
from mixedmode.tasks.exchange import BLOCK_DDL
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.single_stage import SingleStage, is_single_stage
from mixedmode.tasks.subtask import SubtaskTask

_REPEATS = 3  # how often the stages of an epoch are repeated if rows between them were computed twice


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs epochs on Spark. The input of an epoch is the frame of a micro-batch (see `input_frame`)."""

    session: SparkSession

    def run_epoch(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        """Run the stages of one epoch. If rows between two of them were computed twice, run them again."""
        # a micro-batch belongs to the session of its query, which has the settings and views of that query
        run = _EpochRun(self.session if rows is None else rows.sparkSession, task)
        for _ in range(_REPEATS):
            try:
                return run.result(rows)
            except PySparkException as error:
                if not is_computed_twice(error):
                    raise
        return run.result(rows)


@dataclass(frozen=True, slots=True)
class _EpochRun:
    """One epoch in one session."""

    session: SparkSession
    task: EpochTask

    def result(self, frame: DataFrame | None) -> EpochResult:
        """Run all stages.  frame: None for an epoch without input."""
        plan = self.task.plan
        if not plan.maps or frame is None:
            return epoch_result(self.task, self.keyed_stages(frame))
        mapped = run_maps(self.session, frame, self.task)
        try:
            run = replace(self, task=replace(self.task, seen=mapped.seen))
            return epoch_result(run.task, run.keyed_stages(run.after_maps(mapped)), mapped.list_states)
        finally:
            release(mapped.held)

    def after_maps(self, mapped: Mapped) -> DataFrame:
        """Return the columns of the first keyed stage; without one, the rows for the sink."""
        plan = self.task.plan
        if not plan.stages:
            return apply_sql(self.session, mapped.rows, plan.sql)
        return stage_columns(apply_sql(self.session, mapped.rows, plan.stages[0].sql), plan.stages[0])

    def keyed_stages(self, frame: DataFrame | None) -> list[list[SubtaskReport]]:
        """Run the keyed stages over the columns of the first one. A job without keyed stages writes rows to the sink.

        Return the reports of each stage that ran.
        """
        task, plan = self.task, self.task.plan
        if not plan.stages:
            return [self._write_rows(frame)]
        blocks = self._first_blocks(frame)
        all_reports = []
        held: list[DataFrame] = []
        try:
            for stage, following in zip(plan.stages, [*plan.stages[1:], None], strict=True):
                subtask = subtasks(task, stage, tells_attempt=may_compute_twice(self.session))
                output = self._run_subtasks(blocks, subtask)
                is_inner = following is not None or bool(plan.sql)
                if is_inner:
                    # A stage writes runs, so it must run only once: persist its rows, as they are read twice.
                    output = output.persist()
                    held.append(output)
                with described(self.session, self.task.description(stage.operator_id)):
                    all_reports.append(_reports(output))
                task = after(task, all_reports[-1])
                if subtask.waits_for_end:
                    break  # later stages get no rows, so they do not run and keep their state
                if following is not None:
                    given = rows_of(output, all_reports[-1])
                    rows = stage_columns(self._input_of(following, given), following)
                    blocks = rows.mapInArrow(map_side(task, following), BLOCK_DDL)
            if plan.sql and not subtask.waits_for_end:
                rows = rows_of(output, all_reports[-1])
                all_reports.append(self._write_rows(apply_sql(self.session, rows, plan.sql)))
        finally:
            for output in held:
                output.unpersist()
        return all_reports

    def _write_rows(self, frame: DataFrame | None) -> list[SubtaskReport]:
        if frame is None:
            return []
        with described(self.session, self.task.description(WRITES_ROWS)):
            return _reports(frame.mapInArrow(rows_task(self.task), spark_schema([REPORT_FIELD])))

    def _first_blocks(self, frame: DataFrame | None) -> DataFrame | DirectMapSide:
        """Return the blocks of the first keyed stage as a frame; for small input, a map side that its subtasks run."""
        plan = self.task.plan
        stage = plan.stages[0]
        fold = map_side(self.task, stage)
        if frame is not None and not plan.reads:
            return frame.mapInArrow(fold, BLOCK_DDL)
        files = [] if frame is None else _files(frame, self.task)
        input_bytes = sum(length for _, length in files)
        if is_single_stage(input_bytes, parallelism=self.task.settings.parallelism_of(stage.operator_id)):
            return DirectMapSide(fold, plan.reads, whole_input(files))
        tasks = assign_slices(files, cores(self.session))
        numbers = self.session.range(0, len(tasks), 1, max(1, len(tasks)))
        return numbers.mapInArrow(DirectMapSide(fold, plan.reads, tuple(tasks)), BLOCK_DDL)

    def _run_subtasks(self, blocks: DataFrame | DirectMapSide, subtask: SubtaskTask) -> DataFrame:
        """Return the output frame of a keyed stage."""
        schema = spark_schema(list(subtask.output_schema))
        if isinstance(blocks, DirectMapSide):
            numbers = self.session.range(0, subtask.parallelism, 1, subtask.parallelism)
            return numbers.mapInArrow(SingleStage(blocks, subtask), schema)
        return blocks.repartitionById(subtask.parallelism, F.col("subtask")).mapInArrow(subtask, schema)

    def _input_of(self, following: KeyedStage, rows: DataFrame) -> DataFrame:
        """Return the rows of a stage as the next stage reads them, after the sql between them.

        The sql runs on rows of each weight (-1 retracts, +1 adds) separately. For example, when count 4 of a key
        becomes 5, `SELECT k, n * 2` turns (k, 4, -1), (k, 5, +1) into (k, 8, -1), (k, 10, +1).
        """
        if not following.is_changelog:
            return apply_sql(self.session, rows, following.sql)
        if not following.sql:
            return rows
        retracted, added = (
            apply_sql(
                self.session, rows.where(F.col(WEIGHT_COLUMN) == weight).drop(WEIGHT_COLUMN), following.sql
            ).withColumn(WEIGHT_COLUMN, F.lit(weight).cast("long"))
            for weight in (-1, 1)
        )
        return retracted.unionByName(added)


def _files(frame: DataFrame, task: EpochTask) -> list[tuple[str, int]]:
    """Return (path, bytes) of each file that an epoch reads."""
    if task.files is None:
        return [(path_of_text(row.path), row.length) for row in frame.collect()]
    return [(path, file_bytes(path)) for path in map(path_of_url, task.files)]


def _reports(frame: DataFrame) -> list[SubtaskReport]:
    if len(frame.columns) > 1:  # rows for the next stage, and the reports
        frame = frame.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN)
    return [decode_report(bytes(row[0])) for row in frame.collect()]
