"""Runs the map stages of an epoch on Spark, and returns the lists for the manifest.

    rows -> [deal] => [map subtask] -> persisted rows -> sql -> ... -> columns of the first keyed stage

A map stage runs in one Spark action, which collects its reports. The stage changes state, so it runs only once in an
epoch: its rows are persisted until the epoch ends, and later steps read the persisted rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.checkpoint.types import ListState
from mixedmode.executor.protocol import EpochTask
from mixedmode.executor.rows_between import may_compute_twice, rows_of
from mixedmode.executor.stage_tasks import map_subtasks, map_watch
from mixedmode.plan.stages import MapStage
from mixedmode.spark.frames import map_in_arrow, relations_of, spark_schema
from mixedmode.spark.held import Hold
from mixedmode.spark.jobs import described
from mixedmode.state.lists import check_size
from mixedmode.tasks.map_task import MapTask
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.rebalance import DEALT_DDL, ORDER, Rebalance
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.watching import Watch

__all__ = ["Mapped", "run_maps"]


@dataclass(frozen=True, slots=True)
class Mapped:
    """The output rows of the last map stage, and the lists after the epoch.

    `seen` is the progress of the sources, as the first map stage measured it.
    """

    rows: DataFrame
    list_states: tuple[ListState, ...]
    seen: Progress


def run_maps(
    session: SparkSession, frame: DataFrame, task: EpochTask, tables: Mapping[str, DataFrame], hold: Hold
) -> Mapped:
    """Run the map stages of an epoch, one after the other.

    frame: the input of the first map stage, after its sql. tables: {dimension: its rows}. hold: keeps the rows of each
    stage until the epoch ends. Raise the error of a subtask, or InvalidJobError for lists that are too large or cannot
    be redistributed. Batch mode stores no lists.
    """
    keeps = task.settings.checkpoint_url is not None
    states, seen = list[ListState](), Progress()
    for number, stage in enumerate(task.plan.maps):
        rows = frame if number == 0 else _rows(session, frame, task.plan.maps[number - 1], stage, tables)
        subtask = map_subtasks(task, stage, tells_attempt=may_compute_twice(session))
        output = hold(_mapped(rows, subtask, map_watch(task) if number == 0 else None))
        with described(session, task.description(stage.operator_id)):
            reports = _reports(output, len(subtask.lists))
        seen = reduce(Progress.merged, (report.progress for report in reports), seen)
        lists = tuple(report.items for report in reports)
        if stage.keeps_list and keeps:
            check_size(stage.operator_id, lists, stage.redistribution)
            states.append(ListState(stage.operator_id, stage.redistribution, lists))
        frame = rows_of(output, reports)
    return Mapped(frame, tuple(states), seen)


def _rows(
    session: SparkSession, frame: DataFrame, before: MapStage, stage: MapStage, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the rows that a map stage reads of the one before it."""
    (rows,) = relations_of(session, {before.operator_id: frame}, stage.reads, tables)
    return rows


def _mapped(rows: DataFrame, task: MapTask, watch: Watch | None) -> DataFrame:
    parallelism = len(task.lists)
    columns = tuple(field.name for field in task.operator.record_fields)
    dealt = map_in_arrow(rows, Rebalance(task.epoch, parallelism, watch, columns), DEALT_DDL)
    in_order = dealt.repartitionById(parallelism, F.col("subtask")).sortWithinPartitions(*ORDER)
    return in_order.mapInArrow(task, spark_schema(list(task.output_schema)))


def _reports(output: DataFrame, parallelism: int) -> list[SubtaskReport]:
    """Compute all rows, and return the report of each subtask. Raise the error that a subtask sent instead."""
    rows = output.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN).collect()
    reports = sorted((decode_report(bytes(row[0])) for row in rows), key=lambda report: report.subtask)
    assert [report.subtask for report in reports] == list(range(parallelism)), reports
    return reports
