"""Sql over the rows of stages, whose frames Spark persists while other readers are prepared."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.plan.reads import Reads, SqlText
from mixedmode.spark.frames import relations_of

pytestmark = pytest.mark.spark


def reads(text: str) -> Reads:
    step = SqlText(makes="made", text=text, inputs={"previous": "root"})
    return Reads(relations=("made",), sql=(step,), stages=("root",))


def test_rows_that_are_being_persisted_outlive_the_views_of_another_reader(spark: SparkSession, tmp_path: Path) -> None:
    def note(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (tmp_path / str(len(list(tmp_path.iterdir())))).touch()
        yield from batches

    roots = {"root": spark.range(0, 10, 1, 1)}
    (first,) = relations_of(spark, roots, reads("SELECT id + 1 AS n FROM previous"), {})
    stage = first.mapInArrow(note, "n long").persist()
    try:
        report = stage.where("n = 1")
        report._jdf.queryExecution().executedPlan()  # the action has begun, and has computed no row yet
        (second,) = relations_of(spark, roots, reads("SELECT id + 2 AS n FROM previous"), {})
        assert [row.n for row in report.collect()] == [1]
        assert stage.count() == second.count() == 10
        assert len(list(tmp_path.iterdir())) == 1, "the stage ran once"
    finally:
        stage.unpersist()
