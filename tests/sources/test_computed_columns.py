"""Columns that SQL makes of those of a record: event times of numbers and texts, in every mode and kind of source."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.testing import run_graph
from tests.harness import SPARK, output_rows, run, write_json, write_parquet
from tests.history.story import JOB, SCHEMA, SEAM, Story, answer, sales, table_of
from tests.services.fixtures import Kafka, Record

import pyarrow as pa  # isort: skip

pytestmark = pytest.mark.usefixtures("spark")

BEGIN = datetime(2024, 6, 1, tzinfo=UTC)
DDL = "user string, ts bigint, day string"
#: the columns of a live side
LIVE = '"ts bigint, shop string, price long", computed-columns: {at: timestamp_millis(ts)}'
#: {expression of the event time: whether tasks compute it}
TIMES = {
    "timestamp_millis(ts)": True,
    "timestamp_seconds(ts div 1000)": True,
    "to_timestamp(day, 'dd.MM.yyyy HH:mm')": False,
}


def records(first: int, count: int) -> list[dict[str, Any]]:
    """One record a minute, every tenth of them an hour before."""
    found = []
    for number in range(first, first + count):
        at = BEGIN + timedelta(minutes=number - (60 if number % 10 == 0 else 0))
        found.append({"user": "ab"[number % 2], "ts": int(at.timestamp()) * 1000, "day": f"{at:%d.%m.%Y %H:%M}"})
    return found


def hours(rows: list[dict[str, Any]]) -> Counter[tuple[str, datetime]]:
    return Counter(
        (row["user"], datetime.fromtimestamp(row["ts"] / 1000, UTC).replace(minute=0, second=0)) for row in rows
    )


def job(base: Path, source: Any, **settings: Any) -> Job:
    made = Job("computed", sources={"t": source}, checkpoint_dir=base / "checkpoints", spark=SPARK, **settings)
    return made.key_by("user").window(tumbling="1h").aggregate(n="count(*)").write(Sink.parquet(base / "out"))


def counted(base: Path) -> Counter[tuple[str, datetime]]:
    return Counter({(row["user"], row["window_start"]): row["n"] for row in output_rows(base / "out")})


@pytest.mark.parametrize("mode", ["batch", "streaming", "mixed"])
@pytest.mark.parametrize("expression", TIMES)
def test_modes_agree_on_windows_by_a_computed_time(
    spark: SparkSession, tmp_path: Path, expression: str, mode: str
) -> None:
    rows, later = records(0, 300), records(300, 200)
    source = Source.json(
        tmp_path / "in",
        schema=DDL,
        computed_columns={"at": expression},
        event_time="at",
        out_of_orderness="2h",
        max_ahead="none",
    )
    write_json(tmp_path / "in", "a.json", rows)
    made = job(tmp_path, source, mode=mode)
    plan = analyse(spark, made.spec, made.where).plan
    lines = explain_plan(made.spec, plan, cores=2).splitlines()
    assert f"  computes    at = {expression}" in lines
    assert bool(plan.listed) == TIMES[expression]
    feed = [] if mode == "batch" else [lambda: write_json(tmp_path / "in", "b.json", later)]
    recording = run(made, spark, until=Until.DRAINED, feed=feed)
    assert counted(tmp_path) == hours([*rows, *(later if feed else [])])
    assert sum(event.records_late for event in recording.committed) == 0


def test_kafka_with_milliseconds_in_the_value(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic, rows = kafka.new_topic(2), records(0, 100)
    kafka.produce(topic, [Record(value=f'{{"user": "{row["user"]}", "ts": {row["ts"]}}}'.encode()) for row in rows])
    source = Source.kafka(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        value="json",
        schema="user string, ts bigint",
        computed_columns={"at": "timestamp_millis(ts)"},
        event_time="at",
        out_of_orderness="2h",
    )
    run(job(tmp_path, source), spark, until=Until.DRAINED)
    assert counted(tmp_path) == hours(rows)


@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_each_side_of_a_history_and_its_live_side_has_its_own(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """The history has times, the live side milliseconds. The seam compares what is computed of them."""
    text = JOB.replace('"at timestamp, shop string, price long"}', f"{LIVE}}}")
    text = text.replace("    event-time: at\n", "    event-time: at\n    missing-columns: nulls\n")
    story = Story(tmp_path, text)
    archived, lived = sales(-60, 90), sales(-20, 40)
    rows = [{"shop": shop, "price": price, "at": at} for shop, price, at in archived]
    write_parquet(tmp_path / "archive", "a.parquet", pa.Table.from_pylist(rows, SCHEMA))
    live = [{"shop": shop, "price": price, "ts": int(at.timestamp()) * 1000} for shop, price, at in lived]
    write_json(tmp_path / "live", "a.json", live)
    made = story.job(f"execution.runtime-mode={mode}")
    plan = analyse(spark, made.spec, made.where).plan
    assert plan.listed == {"sales": 0}
    assert "  computes    live: at = timestamp_millis(ts)" in explain_plan(made.spec, plan, cores=2).splitlines()
    run(made, spark)
    assert table_of(output_rows(story.out)) == answer([*sales(-60, 60), *sales(0, 20)])


def test_a_test_of_a_job_computes_them(tmp_path: Path) -> None:
    source = Source.json(tmp_path / "in", schema=DDL, computed_columns={"at": "timestamp_millis(ts)"}, event_time="at")
    rows = records(1, 9)
    found = run_graph(job(tmp_path, source), {"t": rows}).table()
    assert Counter({(row["user"], row["window_start"]): row["n"] for row in found}) == hours(rows)


@pytest.mark.parametrize(
    ("history", "rows"),
    [
        ("", {"ts": 1_717_200_000_000}),  # a file says its columns, so a test takes those of the live side
        (
            ', schema: "day string, shop string, price long", computed-columns: {at: timestamp(day)}',
            {"day": "2024-06-01"},
        ),
        (', schema: "at timestamp, shop string, price long"', {"at": SEAM}),
    ],
)
def test_a_test_computes_those_of_the_side_whose_columns_its_rows_have(
    tmp_path: Path, history: str, rows: dict[str, Any]
) -> None:
    text = JOB.replace('"at timestamp, shop string, price long"}', f"{LIVE}}}")
    text = text.replace("path: archive", f"path: archive{history}")
    made = Story(tmp_path, text).job()
    sold = [{"shop": "a", "price": 5, **rows}]
    assert run_graph(made, {"sales": sold}).table() == [{"shop": "a", "sold": 1, "income": 5}]
    given = [{"shop": "a", "price": 5, "at": SEAM}]
    own = run_graph(made, {"sales": given}, schemas={"sales": "shop string, price long, at timestamp"})
    assert own.table() == [{"shop": "a", "sold": 1, "income": 5}], "a test may have the column itself"


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"computed_columns\['AT'\]: another one has this name already"):
        Source.json(tmp_path / "in", schema=DDL, computed_columns={"at": "timestamp_millis(ts)", "AT": "day"})


@pytest.mark.parametrize(
    ("fails", "returns_null"),
    [
        ("timestamp_millis(ts)", "CASE WHEN ts < 4102444800000 THEN timestamp_millis(ts) END"),
        ("to_timestamp(day, 'dd.MM.yyyy HH:mm')", "try_to_timestamp(day, 'dd.MM.yyyy HH:mm')"),
    ],
)
def test_records_whose_time_cannot_be_computed_are_dropped_if_it_is_null(
    spark: SparkSession, tmp_path: Path, fails: str, returns_null: str
) -> None:
    rows = records(1, 9)
    write_json(tmp_path / "in", "a.json", [*rows, {"user": "a", "ts": 2**62, "day": "none"}])

    def start(expression: str, condition: str) -> None:
        computed = {"at": expression}
        source = Source.json(tmp_path / "in", schema=DDL, computed_columns=computed, event_time="at", max_ahead="none")
        made = Job("dropped", sources={"t": source}, checkpoint_dir=tmp_path / "checkpoints", spark=SPARK)
        windows = made.sql(f"SELECT * FROM t WHERE {condition}").key_by("user").window(tumbling="1h")
        run(windows.aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out")), spark, until=Until.DRAINED)

    with pytest.raises(InvalidJobError, match="let it return NULL for such a value, as try_cast does"):
        start(fails, "day <> 'none'")  # the watermark needs the times of all records
    start(returns_null, "at IS NOT NULL")
    assert counted(tmp_path) == hours(rows)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"TS": "1"}, "sources.t.computed-columns.TS: the source has a column of this name (case does not count)"),
        ({"at": "timestamp_millis(tz)"}, "sources.t.computed-columns.at: "),
        ({"a": "ts + 1", "b": "a + 1"}, "sources.t.computed-columns.b: "),
        ({"at": "max(ts)"}, "computed-columns.at: a computed column is one value of one record. Put an aggregate into"),
        ({"at": "explode(array(ts))"}, "computed-columns.at: a computed column is one value of one record."),
        ({"at": "current_timestamp()"}, "computed-columns.at: "),
        ({"at": "rand()"}, "computed-columns.at: this has another value each time it is computed"),
        ({"at": "sum(ts) OVER (PARTITION BY user)"}, "computed-columns.at: "),
        ({"at": "(SELECT max(ts) FROM t)"}, "computed-columns.at: "),
        ({"at": "ts + 1"}, "sources.t.event-time: event time must be a timestamp."),
    ],
)
def test_what_is_not_one_value_of_a_record_is_refused(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    (tmp_path / "in").mkdir()
    source = Source.json(tmp_path / "in", schema=DDL, computed_columns=columns, event_time=list(columns)[-1])
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, (made := job(tmp_path, source)).spec, made.where)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_two_sides_they_are_said_of_each(tmp_path: Path) -> None:
    text = JOB.replace(
        "    event-time: at\n", "    event-time: at\n    computed-columns: {late: at + INTERVAL 1 HOUR}\n"
    )
    with pytest.raises(InvalidJobError, match="computed-columns are said of each side, which may have other columns"):
        Story(tmp_path, text).job()
