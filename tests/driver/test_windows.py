"""Windows and watermarks in jobs: across the flip, restarts and rescaling; several sources; the end."""

import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.config import SourceSpec
from mixedmode.driver.events import EpochCommitted
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import (
    SPARK,
    Feed,
    ManualClock,
    Recording,
    Row,
    manifests,
    output_changes,
    output_rows,
    run,
    write_json,
    write_parquet,
)
from tests.local_engine import run_locally, timed_records

DDL = "k string, v bigint, at timestamp"
NOON_MS = 978_350_400_000  # 2001-01-01 12:00 UTC


def at(hour: float) -> datetime:
    """An hour of the day that all records are of."""
    return datetime.fromtimestamp(NOON_MS / 1000 + 3600 * (hour - 12), UTC)


def record(k: str, v: int, hour: float) -> Row:
    return {"k": k, "v": v, "at": at(hour).strftime("%Y-%m-%d %H:%M:%S")}


class Folder:
    """The files of one test's job over the source `t`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.inputs, self.out, self.checkpoints = base / "in", base / "out", base / "checkpoints"
        self.inputs.mkdir()
        self.clock = ManualClock(NOON_MS)
        self._files = 0

    def add(self, *rows: Row, to: Path | None = None) -> None:
        self._files += 1
        write_json(to or self.inputs, f"{self._files:03}.json", rows)

    def source(self, path: Path | None = None, **settings: Any) -> SourceSpec:
        return Source.json(path or self.inputs, **{"schema": DDL, "event_time": "at", **settings})

    def job(self, **settings: Any) -> Job:
        defaults: dict[str, Any] = {
            "sources": {"t": self.source()},
            "mode": "mixed",
            "parallelism": 2,
            "max_parallelism": 8,
            "checkpoint_dir": self.checkpoints,
            "checkpoint_interval": "50ms",
            "spark": SPARK,
        }
        return Job("windows", **{**defaults, **settings})

    def run(self, job: Job, spark: SparkSession | None, *, until: Until = Until.IDLE, feed: Iterable[Feed] = ()) -> Any:
        """One start.  spark: None for the local executor, which proves the same of windows over one source."""
        job = job.write(Sink.parquet(self.out))
        if spark is None:
            return run_locally(job, self.inputs, until=until, clock=self.clock, feed=feed, read=timed_records)
        return run(job, spark, until=until, clock=self.clock, feed=feed)

    @property
    def watermark(self) -> datetime | None:
        found = manifests(self.checkpoints)[-1].watermark_us
        return None if found is None else datetime.fromtimestamp(found / 1e6, UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def hourly(folder: Folder, **settings: Any) -> Job:
    return folder.job(**settings).key_by("k").window(tumbling="1h").aggregate(n="count(*)", s="sum(v)")


def windows(rows: Iterable[Row], *columns: str) -> list[tuple[Any, ...]]:
    """(start hour, end hour, columns) of each row, in order."""
    hours = [
        ((row["window_start"] - at(0)) / (at(1) - at(0)), (row["window_end"] - at(0)) / (at(1) - at(0))) for row in rows
    ]
    found = [(*hour, *(row[c] for c in columns)) for hour, row in zip(hours, rows, strict=True)]
    return sorted(found, key=str)


@pytest.mark.spark
def test_a_window_that_is_open_at_the_flip_fires_live_with_all_of_its_records(
    spark: SparkSession, folder: Folder
) -> None:
    folder.add(record("a", 1, 0.5), record("a", 2, 1.5))
    folder.run(hourly(folder), spark)
    assert windows(output_rows(folder.out), "k", "n", "s") == [(0, 1, "a", 1, 1)], "[1, 2) is open"
    folder.add(record("a", 4, 1.75), record("b", 8, 2.0))
    folder.run(hourly(folder), spark)
    assert windows(output_rows(folder.out), "k", "n", "s") == [(0, 1, "a", 1, 1), (1, 2, "a", 2, 6)]
    folder.run(hourly(folder), spark, until=Until.DRAINED)
    assert windows(output_rows(folder.out), "k", "n", "s")[-1] == (2, 3, "b", 1, 8), "the end closes every window"
    assert manifests(folder.checkpoints)[-1].is_final
    over = folder.run(hourly(folder), spark)
    assert "over" in over.phases, "what has ended does not begin again"
    assert {row["_op"] for row in output_changes(folder.out)} == {"insert"}, "each window is given once"


def test_late_records_are_counted_and_go_to_an_output_of_their_own(folder: Folder) -> None:
    late = folder.base / "late"
    steps = folder.job().key_by("k").window(tumbling="1h", late=Sink.json(late)).aggregate(n="count(*)")
    folder.add(record("a", 1, 0.5), record("a", 2, 3.0))
    folder.run(steps, None)
    folder.add(record("a", 4, 0.75), record("b", 8, 2.5), record("a", 16, 3.5))
    folder.run(steps, None)
    assert [m.records_late for m in manifests(folder.checkpoints)] == [0, 2]
    (file,) = late.glob("part-*.json")
    assert [(row["k"], row["v"], row["at"]) for row in map(json.loads, file.read_text().splitlines())] == [
        ("a", 4, at(0.75).isoformat()),
        ("b", 8, at(2.5).isoformat()),
    ]
    assert windows(output_rows(folder.out), "k", "n") == [(0, 1, "a", 1)], "and not to the result"


def test_a_record_within_the_allowed_lateness_gives_its_window_again(folder: Folder) -> None:
    steps = folder.job().key_by("k").window(tumbling="1h", allowed_lateness="2h").aggregate(n="count(*)")
    folder.add(record("a", 1, 0.5), record("a", 2, 2.0))
    folder.run(steps, None)
    folder.add(record("a", 4, 0.75))
    folder.run(steps, None)
    folder.add(record("a", 4, 3.0))  # 1 + 2 <= 3: the state of the window goes
    folder.run(steps, None)
    folder.add(record("a", 8, 0.75))
    folder.run(steps, None)
    changes = [row for row in output_changes(folder.out) if row["window_start"] == at(0)]
    assert [(row["n"], row["_op"]) for row in changes] == [(1, "insert"), (2, "update")]
    assert [m.records_late for m in manifests(folder.checkpoints)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"sliding": "2h", "slide": "1h"}, [(-1, 1, 3), (0, 2, 7), (1, 3, 12), (2, 4, 8)]),
        ({"cumulating": "3h", "step": "1h"}, [(0, 1, 3), (0, 2, 7), (0, 3, 15)]),
        ({"session": "30m"}, [(0.25, 1, 3), (1.5, 2, 4), (2.25, 2.75, 8)]),
        ({"tumbling": "1d", "time_zone": "America/New_York"}, [(-19, 5, 15)]),
        ({"count": 3}, [(0.25, 1.5 + 1e-6 / 3600, 7)]),
    ],
)
def test_every_kind_of_window_over_input_without_a_key(
    folder: Folder, window: dict[str, Any], expected: list[tuple[float, float, int]]
) -> None:
    steps = folder.job().window(**window).aggregate(s="sum(v)")
    folder.add(record("a", 1, 0.25), record("b", 2, 0.5))
    folder.run(steps, None)
    folder.add(record("a", 4, 1.5), record("c", 8, 2.25))
    folder.run(steps, None, until=Until.DRAINED)
    found = windows(output_rows(folder.out), "s")
    assert [row[2] for row in found] == [row[2] for row in expected]
    assert [row[:2] for row in found] == [pytest.approx(row[:2], abs=1e-9) for row in expected]
    assert "k" not in output_rows(folder.out)[0]


def test_a_late_record_joins_two_sessions_that_were_given(folder: Folder) -> None:
    steps = folder.job().key_by("k").window(session="1h", allowed_lateness="1d").aggregate(n="count(*)")
    folder.add(record("a", 1, 1), record("a", 1, 2.5), record("a", 1, 9))
    folder.run(steps, None)
    assert windows(output_rows(folder.out), "n") == [(1, 2, 1), (2.5, 3.5, 1)]
    folder.add(record("a", 1, 1.75))
    folder.run(steps, None)
    assert windows(output_rows(folder.out), "n") == [(1, 3.5, 3)]
    assert sorted(row["_op"] for row in output_changes(folder.out) if row["_epoch"] == 1) == [
        "delete",
        "delete",
        "insert",
    ]


@pytest.mark.spark
def test_the_watermark_is_the_least_of_the_sources_and_one_that_is_idle_does_not_count(
    spark: SparkSession, folder: Folder
) -> None:
    other = folder.base / "other"
    other.mkdir()
    sources = {
        "t": folder.source(out_of_orderness="30m"),
        "slow": folder.source(other, out_of_orderness="1h", idle_timeout="10m"),
    }
    steps = folder.job(sources=sources).sql("SELECT k, v, at FROM t UNION ALL SELECT k, v, at FROM slow")
    job = steps.key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    folder.add(record("a", 1, 5))
    folder.run(job, spark)
    assert folder.watermark is None, "nothing is known of the slow source"
    folder.add(record("a", 1, 3), to=other)
    folder.add(record("a", 1, 6))
    folder.run(job, spark)
    assert folder.watermark == at(2)
    folder.clock.time_ms += 60 * 60_000  # while the job is not running, nobody is idle
    folder.add(record("a", 1, 6.5))
    folder.run(job, spark)
    assert folder.watermark == at(2)
    folder.add(record("a", 1, 6.75))

    def later() -> None:
        folder.clock.time_ms += 11 * 60_000
        folder.add(record("a", 1, 7))

    folder.run(job, spark, feed=[later])
    assert folder.watermark == at(6.5)
    folder.add(record("b", 1, 6), to=other)
    folder.run(job, spark)
    assert folder.watermark == at(6.5), "it never goes back"
    progress = manifests(folder.checkpoints)[-1].sources
    assert {name: (source.records, source.watermark_us) for name, source in progress.items()} == {
        "t": (5, int(at(6.5).timestamp() * 1e6)),
        "slow": (2, int(at(5).timestamp() * 1e6)),
    }


@pytest.mark.spark
def test_partitions_of_a_source_have_watermarks_of_their_own(spark: SparkSession, folder: Folder) -> None:
    source = folder.source(schema=f"{DDL}, p int", partition_column="p")
    steps = folder.job(sources={"t": source}).key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    folder.add({**record("a", 1, 5), "p": 0}, {**record("a", 1, 2), "p": 1})
    folder.run(steps, spark)
    assert folder.watermark == at(2)
    folder.add({**record("a", 1, 9), "p": 1})
    folder.run(steps, spark)
    assert folder.watermark == at(5)
    assert set(manifests(folder.checkpoints)[-1].sources["t"].splits) == {"0", "1"}


@pytest.mark.spark
def test_a_partition_column_may_come_and_go_without_holding_the_watermark_back(
    spark: SparkSession, folder: Folder
) -> None:
    def job(**watermark: Any) -> Job:
        source = folder.source(schema=f"{DDL}, p int", **watermark)
        return folder.job(sources={"t": source}).key_by("k").window(tumbling="1h").aggregate(n="count(*)")

    settings: list[dict[str, Any]] = [{}, {"partition_column": "p"}, {}]
    for hour, watermark in enumerate(settings, 1):
        folder.add({**record("a", 1, hour), "p": hour})
        folder.run(job(**watermark), spark)
        assert folder.watermark == at(hour), "what is no longer told apart is not waited for"


@pytest.mark.spark
def test_a_file_may_have_a_column_of_any_name(spark: SparkSession, folder: Folder) -> None:
    """Among them those that the program uses between Spark and its tasks."""
    source = folder.source(schema=f"{DDL}, _source string, _partition string, _time int")
    folder.add({**record("a", 1, 1), "_source": "kafka", "_partition": "x", "_time": 5}, record("b", 1, 3))
    folder.run(folder.job(sources={"t": source}).key_by("k").window(tumbling="1h").aggregate(n="count(*)"), spark)
    assert windows(output_rows(folder.out), "k", "n") == [(1, 2, "a", 1)]


@pytest.mark.spark
def test_a_record_far_ahead_of_the_clock_does_not_move_the_watermark(spark: SparkSession, folder: Folder) -> None:
    folder.add(record("a", 1, 0.5), {**record("a", 1, 0), "at": "9999-12-31 00:00:00"}, record("a", 1, 2))
    folder.run(hourly(folder), spark)
    assert folder.watermark == at(2)
    assert manifests(folder.checkpoints)[-1].records_ahead == 1
    assert windows(output_rows(folder.out), "n") == [(0, 1, 1)]
    believing = folder.job(sources={"t": folder.source(max_ahead="none")}, checkpoint_dir=folder.base / "c2")
    folder.out = folder.base / "out2"
    folder.run(believing.key_by("k").window(tumbling="1h").aggregate(n="count(*)"), spark)
    assert windows(output_rows(folder.out), "n") == [(0, 1, 1), (2, 3, 1)], "unless it is told to believe it"


@pytest.mark.spark
@pytest.mark.parametrize("row", [{"k": "a", "v": 1, "at": None}, {"k": "a", "v": 1}])
def test_a_record_without_event_time_is_refused_before_anything_is_committed(
    spark: SparkSession, folder: Folder, row: Row
) -> None:
    folder.add(record("a", 1, 1), row)
    with pytest.raises(InvalidJobError, match=r"^a record has no event time, so it has no place in time"):
        folder.run(hourly(folder), spark)
    assert not manifests(folder.checkpoints)


@pytest.mark.spark
@pytest.mark.soak  # it is a value that does not fit its column, as in tests/faults and tests/sources
def test_an_event_time_that_is_no_time_is_refused_before_anything_is_committed(
    spark: SparkSession, folder: Folder
) -> None:
    folder.add(record("a", 1, 1), {"k": "a", "v": 1, "at": "yesterday"})
    with pytest.raises(InvalidJobError, match=r"^a record of a source is not what its format and schema say"):
        folder.run(hourly(folder), spark)
    assert not manifests(folder.checkpoints)


def test_open_windows_and_the_watermark_survive_a_restart_with_other_parallelism(folder: Folder) -> None:
    keys = "abcdefgh"
    folder.add(*(record(k, 1, 0.5) for k in keys))
    for parallelism in (2, 1, 4, 3):
        folder.run(hourly(folder, parallelism=parallelism), None)
        folder.add(*(record(k, 1, 0.75) for k in keys))
    folder.run(hourly(folder, parallelism=2), None, until=Until.DRAINED)
    assert windows(output_rows(folder.out), "k", "n") == [(0, 1, k, 5) for k in keys]


def test_with_the_greatest_watermark_max_every_window_fires_in_the_backlog(folder: Folder) -> None:
    folder.add(record("a", 1, 0.5), record("a", 2, 1.5))
    job = hourly(folder, end_of_key_watermark="max")
    folder.run(job, None)
    assert windows(output_rows(folder.out), "s") == [(0, 1, 1), (1, 2, 2)]
    assert folder.watermark == at(1.5), "the job's watermark is still that of the records"


def test_with_emit_all_the_backlog_gives_every_running_value(folder: Folder) -> None:
    rows = [record("a", 1, hour / 100) for hour in range(20, 0, -1)] + [record("b", 1, 0.1)]
    folder.add(*rows)
    job = folder.job(backlog_emit="all").key_by("k").aggregate(n="count(*)", last="last(at)")
    folder.run(job, None)
    changes = [(row["n"], row["_op"]) for row in output_changes(folder.out) if row["k"] == "a"]
    assert changes == [(1, "insert"), *((n, "update") for n in range(2, 21))], "in the order of event time"
    folder.add(record("a", 1, 1), record("a", 1, 2))
    folder.run(job, None)
    assert [row["n"] for row in output_changes(folder.out) if row["_epoch"] == 1] == [22], "live: once per changed key"


@pytest.mark.spark
def test_early_results_of_open_windows_come_by_the_clock(spark: SparkSession, folder: Folder) -> None:
    """No record comes after the first two files; the clock goes forward by four seconds an epoch."""
    stop = threading.Event()

    def later(event: EpochCommitted) -> None:
        folder.clock.time_ms += 4_000
        if event.epoch == 1:
            folder.add(record("a", 4, 0.75))
        if (event.epoch > 1 and event.rows_out) or event.epoch > 20:
            stop.set()

    folder.add(record("a", 1, 0.25), record("a", 2, 0.5))
    steps = folder.job().key_by("k").window(tumbling="1h", early_results_every="10s").aggregate(s="sum(v)")
    job = steps.write(Sink.parquet(folder.out))
    observer = Recording(on_commit=later)
    run_job(job.spec, job.where, RunOptions(observers=[observer], clock=folder.clock, stop=stop, session=spark))
    early = [(3, "insert"), (7, "update")]
    assert [(row["s"], row["_op"]) for row in output_changes(folder.out)] == early
    folder.run(steps, spark, until=Until.DRAINED)
    assert [(row["s"], row["_op"]) for row in output_changes(folder.out)] == early, "it has not changed since"
    assert windows(output_rows(folder.out), "s") == [(0, 1, 7)]


def test_an_input_that_arrives_during_an_epoch_without_records_is_read(folder: Folder) -> None:
    """The job has work that is due by the clock, which begins epochs without records, too."""
    folder.add(record("a", 1, 0.25))
    steps = folder.job().key_by("k").window(tumbling="1h", early_results_every="10s").aggregate(s="sum(v)")
    folder.run(steps, None, until=Until.DRAINED, feed=[folder.add, partial(folder.add, record("a", 2, 0.5))])
    assert windows(output_rows(folder.out), "s") == [(0, 1, 3)]


def test_the_backlog_of_the_reference_gives_all_windows_but_the_last_one(folder: Folder) -> None:
    """semantics: 10,000 backlog + 10,000 live records over 2 keys, a second apart; tumbling windows of 4 s."""

    def seconds(numbers: range) -> pa.Table:
        times = pa.array([1_000_000 * number for number in numbers], pa.timestamp("us", "UTC"))
        return pa.table({"k": [number % 2 for number in numbers], "at": times})

    def job(base: Path, **settings: Any) -> Job:
        source = Source.parquet(
            folder.inputs, schema="k bigint, at timestamp", event_time="at", **settings.pop("source", {})
        )
        steps = folder.job(sources={"t": source}, checkpoint_dir=base / "checkpoints", **settings).key_by("k")
        return steps.window(tumbling="4s").aggregate(n="count(*)").write(Sink.parquet(base / "out"))

    write_parquet(folder.inputs, "a.parquet", seconds(range(10_000)))
    more = [lambda: write_parquet(folder.inputs, "b.parquet", seconds(range(10_000, 20_000)))]
    mixed = folder.base / "mixed"
    run_locally(job(mixed), folder.inputs, clock=folder.clock, feed=more)
    first = [row for row in output_changes(mixed / "out") if row["_epoch"] == 0]
    assert [sum(row["k"] == key for row in first) for key in (0, 1)] == [2_499, 2_499]
    run_locally(job(mixed), folder.inputs, clock=folder.clock, until=Until.DRAINED)
    streaming = folder.base / "streaming"
    cut = job(streaming, mode="streaming", source={"max_files_per_epoch": 1})
    run_locally(cut, folder.inputs, clock=folder.clock, until=Until.DRAINED)
    found = windows(output_rows(mixed / "out"), "k", "n")
    assert found == windows(output_rows(streaming / "out"), "k", "n")
    assert len(found) == 10_000
    assert {row[-1] for row in found} == {2}
