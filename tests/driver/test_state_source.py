"""The data source `mixedmode-state`: its rows are those of read_state, at one epoch, whatever is pushed down."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, InputPartition

from mixedmode import read_state
from mixedmode.driver.state_source import StateDataSource, StateReader, register_state_source
from mixedmode.errors import InvalidJobError
from tests.queryable.jobs import RunningJob, rows_of
from tests.queryable.test_reads import EPOCHS, counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def two_columns(job: Any) -> Any:
    return job.key_by("v", "k").aggregate(n="count(*)")


def windows(job: Any) -> Any:
    return job.key_by("k").window(tumbling="1m", allowed_lateness="1h").aggregate(n="count(*)")


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> RunningJob:
    found = RunningJob(tmp_path / "job", getattr(request, "param", counts))
    for rows in EPOCHS:
        found.epoch(rows)
    return found


def reader_of(job: RunningJob, *filters: Filter, **options: str) -> StateReader:
    source = StateDataSource({"path": str(job.checkpoints), "step": "aggregate-1", **options})
    reader = source.reader(source.schema())
    assert isinstance(reader, StateReader)
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark applies all filters again"
    return reader


def rows(reader: StateReader, partitions: Sequence[InputPartition] | None = None) -> list[dict[str, Any]]:
    found = partitions if partitions is not None else reader.partitions()
    return sorted((row for each in found for batch in reader.read(each) for row in batch.to_pylist()), key=repr)


@pytest.mark.parametrize("job", [counts, two_columns, windows], indirect=True)
@pytest.mark.parametrize("partitions", [None, "1", "3", "99"])
def test_the_rows_of_all_partitions_are_those_of_read_state(job: RunningJob, partitions: str | None) -> None:
    reader = reader_of(job, **({} if partitions is None else {"partitions": partitions}))
    assert len(reader.partitions()) == {None: 2, "1": 1, "3": 3, "99": 8}[partitions]
    assert rows(reader) == rows_of(read_state(job.checkpoints, "aggregate-1"))


@pytest.mark.parametrize(
    ("job", "filters", "pushed"),
    [
        (counts, [EqualTo(("k",), "a")], {"keys": ["a"]}),
        (counts, [In(("k",), ("a", "c", "zz")), GreaterThan(("n",), 0)], {"keys": ["a", "c", "zz"]}),
        (two_columns, [EqualTo(("k",), "b"), EqualTo(("v",), 5)], {"keys": [(5, "b")]}),
        (two_columns, [EqualTo(("v",), 1)], {"prefix": 1}),
        (two_columns, [EqualTo(("k",), "b")], {}),
        (two_columns, [EqualTo(("v",), 2**70)], {}),
        (windows, [EqualTo(("k",), "b")], {"keys": ["b"]}),
        (counts, [EqualTo(("n",), 1)], {}),
    ],
    indirect=["job"],
)
def test_equality_with_key_columns_is_pushed_down(
    job: RunningJob, filters: list[Filter], pushed: dict[str, Any]
) -> None:
    reader = reader_of(job, *filters)
    assert rows(reader) == rows_of(read_state(job.checkpoints, "aggregate-1", **pushed))
    assert (reader.keys is not None, bool(reader.prefix)) == ("keys" in pushed, "prefix" in pushed)


def test_a_task_refuses_another_checkpoint_of_the_planned_epoch(job: RunningJob, tmp_path: Path) -> None:
    reader = reader_of(job)
    first, second = reader.partitions()
    assert rows(reader, [first])
    again = RunningJob(tmp_path / "again", counts, clock_ms=1)
    for epoch in EPOCHS:
        again.epoch([*epoch, *epoch])
    shutil.rmtree(job.checkpoints)
    shutil.copytree(again.checkpoints, job.checkpoints)
    with pytest.raises(InvalidJobError, match="since the read was planned"):
        rows(reader, [second])


def test_all_tasks_read_the_epoch_of_the_plan_although_the_job_goes_on(job: RunningJob) -> None:
    expected = rows_of(read_state(job.checkpoints, "aggregate-1"))
    reader = reader_of(job)
    job.epoch(EPOCHS[0])
    assert rows(reader) == expected != rows_of(read_state(job.checkpoints, "aggregate-1"))
    assert rows(reader_of(job, epoch="0")) == rows_of(read_state(job.checkpoints, "aggregate-1", epoch=0))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epochs": "3"}, r"no such option\. Did you mean epoch\?"),
        ({"step": ""}, "needs the step"),
        ({"epoch": "-1"}, "a whole number from 0 on"),
        ({"partitions": "0"}, "at least one partition"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidJobError, match=says):
        StateDataSource({"path": "/nowhere", "step": "s", **options})


@pytest.mark.spark
def test_spark_reads_the_state_and_pushes_filters_down(spark: "SparkSession", job: RunningJob) -> None:
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    register_state_source(spark)
    try:
        frame = spark.read.format("mixedmode-state").option("step", "aggregate-1").load(str(job.checkpoints))
        found = [row.asDict() for row in frame.collect()]
        assert sorted(found, key=repr) == rows_of(read_state(job.checkpoints, "aggregate-1"))
        assert [row.k for row in frame.where("k = 'a'").collect()] == ["a"]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", str(before))
