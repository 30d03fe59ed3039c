"""A backfill replaces the windows of its range by those of the corrected history, and nothing else."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode import Job, Sink, Source
from mixedmode.analysis.job import analyse
from mixedmode.config import SinkSpec, SourceSpec
from mixedmode.driver.backfill import backfill, backfill_range, refusal
from mixedmode.driver.run import RunOptions
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.plan.backfill import BackfillStep, closed_until_us, replaceable_step
from mixedmode.plan.job_plan import ResultPlan
from mixedmode.plan.reads import Reads
from mixedmode.sinks.table import read_output
from mixedmode.testing.local_plan import local_plan
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.checkpoint.examples import a_manifest
from tests.faults.in_process import dies_at
from tests.harness import SPARK, ManualClock, run, write_json

HOUR = 3600
Row = Mapping[str, Any]


def record(hour: int, key: str, n: int, minute: int = 10) -> Row:
    return {"k": key, "n": n, "at": f"2024-01-01 {hour:02d}:{minute:02d}:00"}


HISTORY = [record(hour, key, hour) for hour in range(8) for key in ("a", "b")]
LATER = [record(9, "a", 1)]
FORGOTTEN = [record(2, "a", 100, 20), record(2, "new", 7), record(3, "b", 50, 30)]


def a_job(folder: Path, sink: SinkSpec, **window: Any) -> Job:
    source = Source.json(folder / "in", schema="k string, n long, at timestamp", event_time="at")
    job = Job(
        "hourly",
        sources={"t": source},
        mode="mixed",
        checkpoint_dir=folder / "c",
        checkpoints_retained=1,
        spark=SPARK,
    )
    paid = job.sql("SELECT k, n, at FROM t WHERE n >= 0")
    return paid.key_by("k").window(tumbling="1h", **window).aggregate(n="count(*)", total="sum(n)").write(sink)


def hourly(records: Sequence[Row]) -> set[tuple[datetime, str, int, int]]:
    """The rows of all windows, in plain Python."""
    found: dict[tuple[datetime, str], list[int]] = {}
    for one in records:
        hour = datetime.fromisoformat(one["at"]).replace(minute=0, tzinfo=UTC)
        found.setdefault((hour, one["k"]), []).append(one["n"])
    return {(hour, key, len(values), sum(values)) for (hour, key), values in found.items()}


def rows_of(table: pa.Table) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in ("window_start", "k", "n", "total")) for row in table.to_pylist()}


@pytest.mark.spark
def test_the_table_after_a_backfill_is_that_of_the_corrected_history(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    write_json(tmp_path / "in", "0.json", HISTORY)
    job = a_job(tmp_path, Sink.parquet(tmp_path / "out"))
    job.run(until="idle")
    write_json(tmp_path / "in", "1.json", LATER)
    job.run(until="idle")
    assert rows_of(read_output(tmp_path / "out")) == hourly(HISTORY)
    write_json(tmp_path / "in", "2.json", FORGOTTEN)
    assert job.backfill("2024-01-01T02:00:00Z", "2024-01-01T05:00:00+01:00") == 5
    assert rows_of(read_output(tmp_path / "out")) == hourly([*HISTORY, *FORGOTTEN])
    result = job.run(until="drained")
    assert result.records_late == len(FORGOTTEN), "the job goes on, and leaves closed windows alone"
    assert rows_of(read_output(tmp_path / "out")) == hourly([*HISTORY, *FORGOTTEN, *LATER])
    nearest = r"such as the nearest ones around it: 2024-01-01 02:00:00\+00:00 to 2024-01-01 04:00:00\+00:00\. range="
    with pytest.raises(InvalidJobError, match=nearest):
        backfill(job.spec, job.where, backfill_range("2024-01-01T02:30:00Z", "2024-01-01T04:00:00Z"), RunOptions())


@pytest.mark.spark
def test_open_windows_and_windows_that_late_records_may_change_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "0.json", HISTORY)
    job = a_job(tmp_path, Sink.sqlite(tmp_path / "t.db", "hours"), allowed_lateness="2h")
    options = RunOptions(session=spark)
    with pytest.raises(InvalidJobError, match="has no checkpoint yet"):
        backfill(job.spec, job.where, backfill_range("2024-01-01T02:00:00Z", "2024-01-01T03:00:00Z"), options)
    job.run(until="idle")
    for end, is_closed in ((5, True), (6, False)):  # the watermark is 07:10
        windows = backfill_range("2024-01-01T02:00:00Z", f"2024-01-01T0{end}:00:00Z")
        if is_closed:
            assert [one.rows for one in backfill(job.spec, job.where, windows, options)] == [2 * (end - 2)]
        else:
            with pytest.raises(InvalidJobError, match="windows of the range are open"):
                backfill(job.spec, job.where, windows, options)


@pytest.mark.spark
def test_each_output_of_a_sql_file_has_its_windows_replaced_under_the_names_that_it_gives_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Hours by their window in files, two hours each hour by their end in a database, and rows, which are refused."""
    write_json(tmp_path / "in", "0.json", HISTORY)
    job = Job.from_file(_sql_file(tmp_path))
    clock, feed = ManualClock(1_800_000_000_000), [lambda: write_json(tmp_path / "in", "1.json", LATER)]
    run(job, spark, clock=clock, feed=feed)
    write_json(tmp_path / "in", "2.json", FORGOTTEN)
    windows, options = backfill_range("2024-01-01T02:00:00Z", "2024-01-01T04:00:00Z"), RunOptions(session=spark)
    with pytest.raises(InvalidJobError, match=r"no step with windows.* Choose others with --output\. output=raw\."):
        backfill(job.spec, job.where, windows, options)
    unlike = backfill_range("2024-01-01T02:00:00Z", "2024-01-01T03:30:00Z")
    with pytest.raises(InvalidJobError, match="does not end where one ends"):
        backfill(job.spec, job.where, unlike, options, ["pairs"])
    with pytest.raises(InvalidJobError, match="has the struct of the window as JSON"):
        backfill(job.spec, job.where, windows, options, ["windows"])
    found = backfill(job.spec, job.where, windows, options, ["hours", "pairs"])
    assert [one.rows for one in found] == [5, 1]
    rows = read_output(tmp_path / "hours").to_pylist()
    assert {(row["window"]["start"], row["k"], row["n"], row["total"]) for row in rows} == hourly(
        [*HISTORY, *FORGOTTEN]
    )
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        pairs = database.execute("SELECT substr(upto, 12, 2), total FROM pairs").fetchall()
    assert {(int(upto), total) for upto, total in pairs} == {
        (end, sum(one["n"] for one in given if end - 2 <= int(one["at"][11:13]) < end))
        for end in range(1, 10)
        for given in [[*HISTORY, *(FORGOTTEN if end == 4 else ()), *(LATER if end > 8 else ())]]
    }


def _sql_file(folder: Path) -> Path:
    file = folder / "hourly.sql"
    file.write_text(
        f"""
        SET execution.checkpointing.dir = '{folder}/c';
        SET execution.checkpointing.num-retained = 1;
        CREATE TEMPORARY VIEW t (k STRING, n BIGINT, at TIMESTAMP) USING json OPTIONS (path '{folder}/in');
        CREATE STREAMING TABLE hours USING parquet TBLPROPERTIES ('path' = '{folder}/hours') AS
          SELECT window, k, count(*) AS n, sum(n) AS total
          FROM STREAM t WATERMARK at DELAY OF INTERVAL 0 SECONDS WHERE n >= 0
          GROUP BY window(at, '1 hour'), k HAVING count(*) > 0;
        CREATE STREAMING TABLE pairs USING sqlite TBLPROPERTIES ('path' = '{folder}/t.db', 'table' = 'pairs') AS
          SELECT window.end AS upto, sum(n) AS total
          FROM STREAM t WATERMARK at DELAY OF INTERVAL 0 SECONDS GROUP BY window(at, '2 hours', '1 hour');
        CREATE STREAMING TABLE windows USING sqlite TBLPROPERTIES ('path' = '{folder}/t.db', 'table' = 'windows') AS
          SELECT window, sum(n) AS total
          FROM STREAM t WATERMARK at DELAY OF INTERVAL 0 SECONDS GROUP BY window(at, '1 hour');
        CREATE STREAMING TABLE raw USING parquet TBLPROPERTIES ('path' = '{folder}/raw') AS SELECT * FROM STREAM t;
        """,
        encoding="utf-8",
    )
    return file


NESTED = "SELECT {} FROM (SELECT window, k, count(*) AS n FROM t GROUP BY window(at, '1 hour'), k) {}"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (NESTED.format("window.start AS s, max(n) AS most", "GROUP BY window"), None),
        (NESTED.format("window.start AS s, max(n) AS most", "GROUP BY window.start"), "keeps the results of closed"),
        (NESTED.format("k, max(n) AS most", "GROUP BY k"), "so it mixes windows"),
        ("SELECT window.end AS e, k, count(*) AS n FROM t GROUP BY window(at, '1 hour', '15 minutes'), k", None),
    ],
)
def test_a_grouped_query_over_windows_keeps_them_apart_by_their_bounds(
    spark: SparkSession, tmp_path: Path, sql: str, why: str | None
) -> None:
    write_json(tmp_path / "in", "0.json", HISTORY[:1])
    source = Source.json(tmp_path / "in", schema="k string, n long, at timestamp", event_time="at")
    job = Job("hourly", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    spec = job.sql(sql).write(Sink.parquet(tmp_path / "out")).spec
    found = replaceable_step(analyse(spark, spec, lambda *_: "job").plan, "")
    if why is None:
        assert isinstance(found, BackfillStep)
    else:
        assert why in str(found)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("select", "why"),
    [
        ("window.start + INTERVAL 1 HOUR AS hour", "does not have the start or the end of the windows as it is"),
        ("window", None),
        ("window.start AS hour, to_json(named_struct('k', k)) AS j", "Spark runs the SQL after the windows"),
        ("window.start AS hour, window.start AS again", None),
    ],
)
def test_sql_after_the_windows_may_rename_their_bounds_and_not_change_them(
    spark: SparkSession, tmp_path: Path, select: str, why: str | None
) -> None:
    write_json(tmp_path / "in", "0.json", HISTORY)
    source = Source.json(tmp_path / "in", schema="k string, n long, at timestamp", event_time="at")
    job = Job("hourly", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    written = job.sql(f"SELECT {select}, k, sum(n) AS n FROM t GROUP BY window(at, '1 hour'), k")
    spec = written.write(Sink.parquet(tmp_path / "out")).spec
    within = backfill_range("2024-01-01T02:00:00Z", "2024-01-01T04:00:00Z")
    found = replaceable_step(analyse(spark, spec, lambda *_: "job").plan, "")
    limited = analyse(spark, spec, lambda *_: "job", within=within).plan
    assert "at` >= TIMESTAMP '2024-01-01 02:00:00+00:00'" in limited.stages[0].reads.sql[-1].text
    assert limited.direct, "tasks read the files, and skip what is not in the range"
    if why is None:
        assert isinstance(found, BackfillStep)
    else:
        assert why in str(found)


@pytest.mark.spark
def test_rows_that_are_committed_and_not_yet_published_are_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "0.json", HISTORY)
    job = a_job(tmp_path, Sink.sqlite(tmp_path / "t.db", "hours"))
    clock = ManualClock(1_800_000_000_000)  # of a time after that of the records
    dies_at(job, spark, "after-manifest", 0, clock=clock)
    windows, options = backfill_range("2024-01-01T02:00:00Z", "2024-01-01T04:00:00Z"), RunOptions(session=spark)
    with pytest.raises(RetryableError, match="committed and not yet published"):
        backfill(job.spec, job.where, windows, options)
    run(job, spark, clock=clock)
    assert [one.rows for one in backfill(job.spec, job.where, windows, options)] == [4]


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("2024-01-01", "2024-01-02T00:00:00Z", "the start of the range is no time with its offset"),
        ("2024-01-01T00:00:00Z", "soon", "the end of the range is no time with its offset"),
        ("2024-01-02T00:00:00Z", "2024-01-02T01:00:00+01:00", "the range is empty"),
    ],
)
def test_a_range_is_two_times_with_their_offsets(start: str, end: str, why: str) -> None:
    with pytest.raises(InvalidJobError, match=why):
        backfill_range(start, end)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0001-01-01T00:00:00Z", "0999-12-31T23:59:59.999999Z"),
        ("1582-10-04T00:00:00Z", "1582-10-15T00:00:00.000001Z"),
        ("1969-12-31T23:59:59.999999Z", "9999-12-31T00:00:00Z"),
    ],
)
def test_the_bounds_of_a_range_are_the_same_instants_in_sql(spark: SparkSession, start: str, end: str) -> None:
    windows = backfill_range(start, end)
    found = spark.sql(f"SELECT {', '.join(f'unix_micros({bound})' for bound in windows.sql_bounds)}").collect()
    assert list(found[0]) == [windows.start_us, windows.end_us]


def test_a_job_is_refused_whose_history_or_output_is_not_replaceable(tmp_path: Path) -> None:
    day = backfill_range("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z")

    def why(source: SourceSpec, **settings: Any) -> str | None:
        given = {"mode": "mixed", "checkpoint_dir": tmp_path / "c", **settings}
        job = Job("j", sources={"t": source}, **given).key_by("k").window(tumbling="1h").aggregate(n="count(*)")
        return refusal(job.write(Sink.parquet(tmp_path / "out")).spec, day)

    files = Source.parquet(tmp_path / "in", event_time="at")
    kafka = Source.kafka("topic", bootstrap_servers="localhost:9092", value="text", event_time="timestamp")
    assert why(files) is None
    assert "keeps no checkpoints" in (why(files, mode="batch", checkpoint_dir=None) or "")
    assert "may have deleted old records" in (why(kafka) or "")
    job = Job("j", sources={"t": files}, mode="mixed", checkpoint_dir=tmp_path / "c")
    job = job.output("rows", job.source("t").sql("SELECT * FROM t"), Sink.parquet(tmp_path / "out"))
    assert "no output of whole steps with this name. outputs=rows, found=row" in (refusal(job.spec, day, ["row"]) or "")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda job: job.window(session="1h"), "has no tumbling, sliding or cumulating window"),
        (lambda job: job, "its rows depend on records outside of the range, too. step=aggregate-1"),
        (lambda job: job.window(tumbling="1h", time="processing"), "has no tumbling, sliding or cumulating window"),
        (lambda job: job.window(tumbling="1h").aggregate(n="count(*)").key_by("k"), "so it mixes windows"),
        (lambda job: job.window(tumbling="1h").aggregate(n="count(*)").key_by("window_start", "window_end"), None),
        (lambda job: job.window(sliding="1h", slide="10m", allowed_lateness="1h"), None),
    ],
)
def test_only_steps_that_keep_windows_apart_can_be_computed_again(
    tmp_path: Path, step: Callable[[Any], Any], why: str | None
) -> None:
    source = Source.parquet(tmp_path / "in", schema="k string, v long, at timestamp", event_time="at")
    job = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    spec = step(job.key_by("k")).aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out")).spec
    found = replaceable_step(local_plan(spec, lambda *_: "job", {}), "")
    if why is None:
        assert isinstance(found, BackfillStep)
    else:
        assert isinstance(found, str)
        assert why in found


@pytest.mark.parametrize(
    ("watermark_us", "closed_us"),
    [(None, None), (MIN_TIME_US, None), (MIN_TIME_US + 1, MIN_TIME_US), (0, -3_600_000_000)],
)
def test_windows_are_closed_once_the_watermark_is_beyond_their_allowed_lateness(
    tmp_path: Path, watermark_us: int | None, closed_us: int | None
) -> None:
    source = Source.parquet(tmp_path / "in", schema="k string, v long, at timestamp", event_time="at")
    job = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c").key_by("k")
    counted = job.window(tumbling="1h", allowed_lateness="1h").aggregate(n="count(*)")
    step = replaceable_step(local_plan(counted.write(Sink.parquet(tmp_path / "out")).spec, lambda *_: "job", {}), "")
    assert isinstance(step, BackfillStep)
    assert closed_until_us(step, replace(a_manifest(), watermark_us=watermark_us)) == closed_us
    assert closed_until_us(step, replace(a_manifest(), watermark_us=watermark_us, is_final=True)) == MAX_TIME_US


def test_without_a_keyed_step_no_range_is_ever_closed(tmp_path: Path) -> None:
    source = Source.parquet(tmp_path / "in", schema="k string, v long, at timestamp", event_time="at")
    job = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c").key_by("k")
    spec = job.aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out")).spec
    rows = ResultPlan(Reads(("t",), sources=("t",)), (), ())
    found = replaceable_step(replace(local_plan(spec, lambda *_: "job", {}), results={"": rows}), "")
    assert isinstance(found, str)
    assert "no watermark ever closes the range" in found
