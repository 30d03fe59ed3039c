"""A checkpoint of Spark Structured Streaming goes on as a job: the answer is that of all input, and that of Spark."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.driver.importing import ImportedState, import_state
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink
from tests.harness import ManualClock, Row, checkpoint_log, output_changes, output_rows, run, write_json
from tests.operators.spark_processor.tally import Tally

pytestmark = pytest.mark.spark

SCHEMA = "user string, amount bigint, at timestamp"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
NOW_MS = int((BEGIN + timedelta(days=30)).timestamp() * 1000)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def row(user: str | None, amount: int | None, minute: float) -> Row:
    """A record, this many minutes after the beginning."""
    at = (BEGIN + timedelta(minutes=minute)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"user": user, "amount": amount, "at": at}


BEFORE = [
    [row("a", 1, 0), row("b", None, 1), row("a", 5, 2), row(None, 7, 3)],
    [row("c", 10, 16), row("b", 3, 12), row("a", 4, 14)],
]
AFTER = [
    [row("a", 100, 17), row("late", 1, 2), row("d", 1, 11.5), row("c", 7, 19)],
    [row("a", 1, 21), row("b", 2, 38)],
    [row("end", 0, 3000)],
]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    """Sets settings of Spark's session for one test."""
    given = dict[str, str]()

    def set_all(settings: dict[str, str]) -> None:
        for name, value in settings.items():
            given[name] = value
            spark.conf.set(f"spark.sql.{name}", value)

    set_all({"shuffle.partitions": "2"})
    yield set_all
    for name in given:
        spark.conf.unset(f"spark.sql.{name}")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    (folder / "in").mkdir(exist_ok=True)
    return spark.readStream.schema(SCHEMA).json(str(folder / "in")).withWatermark("at", "5 minutes")


def spark_goes_on(query: DataFrame, checkpoint: Path, mode: str) -> list[tuple[Any, ...]]:
    """Spark processes what is new. Return the rows that it emits."""
    found: list[tuple[Any, ...]] = []
    writer = query.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    running = writer.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
    running.trigger(availableNow=True).start().awaitTermination()
    return found


class Story:
    """Spark runs a query over the files before; then Spark goes on in a copy, and a job from its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, query: DataFrame, mode: str) -> None:
        self.spark, self.folder, self.query, self.mode = spark, folder, query, mode
        self.emitted_before: list[tuple[Any, ...]] = []
        self.emitted_after: list[tuple[Any, ...]] = []
        for number, rows in enumerate(BEFORE):
            write_json(folder / "in", f"before-{number}.json", rows)
            self.emitted_before += spark_goes_on(query, folder / "spark", mode)
        shutil.copytree(folder / "spark", folder / "copy")

    def job(self, query: DataFrame | None = None, **arguments: Any) -> Job:
        settings = {"mode": "mixed", "checkpoint_dir": self.folder / "checkpoints", "max_parallelism": 16, **arguments}
        job = Job.from_stream(self.query if query is None else query, "moved", **settings)
        return job.write(Sink.parquet(self.folder / "out"))

    def imported(self, job: Job) -> ImportedState:
        return import_state(str(self.folder / "spark"), job.spec, job.where, session=self.spark)

    def both_go_on(self, job: Job) -> None:
        for number, rows in enumerate(AFTER):
            write_json(self.folder / "in", f"after-{number}.json", rows)
            self.emitted_after += spark_goes_on(self.query, self.folder / "copy", self.mode)
            assert run(job, self.spark, clock=ManualClock(NOW_MS)).repaired == []


def test_an_aggregate_goes_on_and_its_output_is_the_whole_table(
    spark: SparkSession, folder: Path, settings: Any
) -> None:
    settings({"streaming.stateStore.providerClass": ROCKSDB, "streaming.aggregation.stateFormatVersion": "1"})
    greatest = F.max(F.struct("amount", "at")).alias("greatest")
    sums = stream(spark, folder).groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"), greatest)
    story = Story(spark, folder, sums, "update")
    files = sorted(path for path in (folder / "spark").rglob("*"))
    found = story.imported(story.job())
    assert sorted(path for path in (folder / "spark").rglob("*")) == files, "nothing changes in Spark's folder"
    assert (found.entries, found.was_done) == ({"sql-1": 4}, False)
    assert found.with_full_snapshot == {"sql-1"}
    assert story.imported(story.job()).was_done, "a second time, it is there"
    story.both_go_on(story.job(parallelism=3))
    rows = [one for part in (*BEFORE, *AFTER) for one in part]
    users = {one["user"] for one in rows}
    expected = {
        user: (
            sum(one["user"] == user for one in rows),
            None
            if all(one["amount"] is None for one in rows if one["user"] == user)
            else sum(one["amount"] or 0 for one in rows if one["user"] == user),
            max((amount_and_time(one) for one in rows if one["user"] == user), key=lambda one: (one[0] or 0, one[1])),
        )
        for user in users
    }
    ours = {
        one["user"]: (one["n"], one["total"], amount_and_time(one["greatest"])) for one in output_rows(folder / "out")
    }
    assert ours == expected
    emitted = (*story.emitted_before, *story.emitted_after)
    by_spark = {user: (n, total, amount_and_time(most.asDict())) for user, n, total, most in emitted}
    assert by_spark == expected


def amount_and_time(one: Row) -> tuple[int | None, datetime]:
    at = one["at"]
    return one["amount"], (datetime.fromisoformat(at) if isinstance(at, str) else at).replace(tzinfo=None)


@pytest.mark.parametrize(
    "kind", ["session", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("tumbling", "sliding"))]
)
def test_windows_go_on_and_late_rows_stay_late(spark: SparkSession, folder: Path, settings: Any, kind: str) -> None:
    del settings
    window = {
        "tumbling": F.window("at", "10 minutes"),
        "sliding": F.window("at", "10 minutes", "5 minutes"),
        "session": F.session_window("at", "3 minutes"),
    }[kind]
    sums = stream(spark, folder).groupBy("user", window.alias("w")).agg(F.sum("amount").alias("total"), F.count("*"))
    story = Story(spark, folder, sums, "append")
    found = story.imported(story.job())
    assert found.watermark_ms == (BEGIN + timedelta(minutes=11)).timestamp() * 1000
    story.both_go_on(story.job())
    rows = output_changes(folder / "out")
    ours = Counter(
        (one["user"], *(one["w"][at].replace(tzinfo=None) for at in ("start", "end")), one["total"], one["count(1)"])
        for one in rows
    )
    theirs = Counter((user, w.start, w.end, total, n) for user, w, total, n in story.emitted_after)
    assert ours == theirs
    assert len(ours) > 3
    assert not any(one["user"] == "late" for one in rows)


@pytest.mark.soak
def test_windows_of_windows_go_on(spark: SparkSession, folder: Path, settings: Any) -> None:
    del settings
    sums = stream(spark, folder).groupBy("user", F.window("at", "5 minutes")).agg(F.sum("amount").alias("total"))
    most = sums.groupBy(F.window("window", "20 minutes").alias("w")).agg(F.max("total"), F.count("*"))
    story = Story(spark, folder, most, "append")
    assert len(story.imported(story.job()).entries) == 2
    story.both_go_on(story.job())
    rows = output_changes(folder / "out")
    ours = [(one["w"]["end"].replace(tzinfo=None), one["max(total)"], one["count(1)"]) for one in rows]
    assert sorted(ours) == sorted((w.end, most, n) for w, most, n in story.emitted_after)
    assert ours


def test_duplicates_of_keys_that_spark_has_seen_are_dropped(spark: SparkSession, folder: Path, settings: Any) -> None:
    del settings
    story = Story(spark, folder, stream(spark, folder).select("user", "amount").dropDuplicates(["user"]), "append")
    story.imported(story.job())
    story.both_go_on(story.job())
    assert sorted(one["user"] for one in output_changes(folder / "out")) == ["d", "end", "late"]
    assert sorted(user for user, _ in story.emitted_after) == ["d", "end", "late"]


def test_a_key_is_forgotten_when_spark_would_forget_it(spark: SparkSession, folder: Path, settings: Any) -> None:
    """Spark has forgotten a: 17 is new, and 21 is within 5 minutes of it. It knows c at 16, so 19 is a duplicate."""
    del settings
    seen = stream(spark, folder).dropDuplicatesWithinWatermark(["user"])
    story = Story(spark, folder, seen, "append")
    story.imported(story.job())
    story.both_go_on(story.job())
    found = sorted((one["user"], one["amount"]) for one in output_changes(folder / "out"))
    assert found == [("a", 100), ("b", 2), ("d", 1), ("end", 0)]


def test_a_class_of_spark_keeps_its_values_and_timers(spark: SparkSession, folder: Path, settings: Any) -> None:
    settings({"streaming.stateStore.providerClass": ROCKSDB})
    rows = stream(spark, folder).groupBy("user").transformWithState(Tally(), Tally.OUTPUT, "Update", "EventTime")
    story = Story(spark, folder, rows, "update")
    story.imported(story.job())
    story.both_go_on(story.job())
    ours = Counter((one["user"], one["what"], one["text"]) for one in output_changes(folder / "out"))
    ours = Counter(
        {key: count for key, count in ours.items() if key[0] != "late"}
    )  # a job does not drop late rows here
    assert ours == Counter(story.emitted_after)
    assert sum(what == "timer" for _, what, _ in ours) > 3


def test_another_query_is_refused_and_nothing_is_written(spark: SparkSession, folder: Path, settings: Any) -> None:
    del settings
    source = stream(spark, folder)
    story = Story(spark, folder, source.groupBy("user").agg(F.count("*"), F.sum("amount")), "update")
    others = {
        "keys_here=amount int64, keys_in_spark=user": source.groupBy("amount").agg(F.count("*"), F.sum("user")),
        "buffers_here=sum int64, count int64; buffers_in_spark=count int64, sum": source.groupBy("user").agg(
            F.sum("amount"), F.count("*")
        ),
        "function=approx_count_distinct": source.groupBy("user").agg(F.approx_count_distinct("amount")),
        "operator_in_spark=stateStoreSave by user": source.dropDuplicatesWithinWatermark(["user"]),
        "steps_here=none, operators_in_spark=stateStoreSave by user": source.select("user"),
        "keys_here=user string, keys_in_spark=user string": source.groupBy("user", F.window("at", "1 minute")).count(),
    }
    for words, other in others.items():
        with pytest.raises(InvalidJobError, match=words):
            story.imported(story.job(other))
    elsewhere = spark.readStream.schema(SCHEMA).json(str(folder)).groupBy("user").count()
    (folder / "elsewhere").mkdir()
    elsewhere = spark.readStream.schema(SCHEMA).json(str(folder / "elsewhere")).groupBy("user").count()
    with pytest.raises(
        InvalidJobError, match=r"sources_here=\(records: json .*elsewhere\), sources_in_spark=\(0: files"
    ):
        story.imported(story.job(elsewhere))
    assert not (folder / "checkpoints" / "manifests").exists()
    assert not (folder / "checkpoints" / "spark").exists()


def test_a_row_that_cannot_be_taken_over_leaves_an_empty_folder(
    spark: SparkSession, folder: Path, settings: Any
) -> None:
    """The windows of the job begin at other minutes, which only the rows of the state tell."""
    del settings
    source = stream(spark, folder)
    story = Story(spark, folder, source.groupBy("user", F.window("at", "10 minutes")).count(), "append")
    job = story.job(source.groupBy("user", F.window("at", "10 minutes", "10 minutes", "5 minutes")).count())
    with pytest.raises(InvalidJobError, match="a window that the step does not have"):
        story.imported(job)
    left = [path for path in (folder / "checkpoints").rglob("*") if path.is_file()]
    assert {path.parent.name for path in left} <= {"generations"}
    story.imported(story.job())
    manifest = checkpoint_log(folder / "checkpoints").latest()
    assert manifest is not None
    assert json.loads(manifest.offsets.split("\n")[-1]) == {"logOffset": 1}
