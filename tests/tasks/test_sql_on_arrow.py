"""A job whose sql steps run on Arrow in the map tasks has the answer of the same job whose sql steps run in Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Query
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sinks.table import current_table
from mixedmode.tasks import single_stage
from tests.harness import manifests, output_rows, run, write_parquet

pytestmark = pytest.mark.spark
Mode = Literal["batch", "mixed"]

BEGIN = datetime(2001, 9, 8, 22, tzinfo=UTC)  # the clock of `run` shows 2001-09-09
DDL = "k int, price long, text string, at timestamp, host string"


def rows(epoch: int) -> pa.Table:
    """An hour of records; every seventh is of five hours before, and too late for its window in later epochs."""
    numbers = range(40)
    times = [BEGIN + timedelta(hours=epoch - 5 * (n % 7 == 6), minutes=n) for n in numbers]
    return pa.table(
        {
            "k": pa.array([None if n % 11 == 0 else n for n in numbers], pa.int16()),
            "price": pa.array([n * n - 100 if n % 5 else None for n in numbers], pa.int32()),
            "text": [("ä%", "b", None, "")[n % 4] for n in numbers],
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "host": [f"h{n % 2}" for n in numbers],
            "unread": [[n] for n in numbers],
        }
    )


def windowed(folder: Path, mode: Mode) -> Job:
    """Filters, computed columns, a computed key, filtered aggregates, late records, a watermark per partition."""
    source = Source.parquet(folder / "in", schema=DDL, event_time="at", partition_column="host")
    job = Job("j", sources={"t": source}, mode=mode, parallelism=2, checkpoint_dir=folder / "c")
    job = job.sql(
        "SELECT k % 4 AS k, price * 2 AS price, text, at, date_format(at, 'yyyy-MM-dd') AS day FROM t "
        "WHERE price IS NULL OR k <> 0 AND 100 % k <> 1"
    )
    job = job.sql("SELECT *, coalesce(text, 'none') AS label FROM previous WHERE NOT text LIKE '%b'")
    keyed = job.key_by("k", "label", "price div 2 > 500 AS half")
    aggregated = keyed.window(tumbling="1h", late=Sink.parquet(folder / "late")).aggregate(
        n="count(*)",
        some="sum(price) filter (where day < '2001-09-09' and text <> '')",
        most="max_by(price + 1, text)",
        last="last(at)",
    )
    return aggregated.write(Sink.parquet(folder / "out"))


def plain(folder: Path, mode: Mode) -> Job:
    """No event time: the rows of a filter alone, by a decimal key."""
    source = Source.parquet(folder / "in", schema=DDL)
    job = Job("j", sources={"t": source}, mode=mode, parallelism=2, checkpoint_dir=folder / "c")
    job = job.sql("WITH x AS (SELECT 0.5 * price AS cost, k FROM t WHERE k BETWEEN 3 AND 30) SELECT * FROM x")
    return job.key_by("cost").aggregate(n="count(*)", k="min(k)").write(Sink.parquet(folder / "out"))


def unkeyed(folder: Path, mode: Mode) -> Job:
    """No keyed step: the rows go to the output."""
    source = Source.parquet(folder / "in", schema=DDL, event_time="at")
    job = Job("j", sources={"t": source}, mode=mode, checkpoint_dir=folder / "c")
    job = job.sql("SELECT *, price div 7 AS seventh FROM t WHERE price % 3 = 0 OR text = ''")
    return job.sql("SELECT seventh, k, at FROM previous").write(Sink.parquet(folder / "out"))


def calling(folder: Path, mode: Mode) -> Job:
    """Functions of the job in a filter, columns, a computed key and arguments, with late records."""
    source = Source.parquet(folder / "in", schema=DDL, event_time="at", partition_column="host")
    functions = {name: f"tests.expressions.called:{name}" for name in ("label", "twice")}
    functions["count_char"] = "mixedmode_bench.nexmark.functions:count_char"
    job = Job("j", sources={"t": source}, functions=functions, mode=mode, parallelism=2, checkpoint_dir=folder / "c")
    job = job.sql(
        "SELECT k, twice(price) AS price, CASE WHEN k % 2 = 0 THEN label(text, k) ELSE 'odd' END AS label, at FROM t "
        "WHERE twice(price) > -150 AND (k > 3 OR k IS NULL)"
    )
    keyed = job.key_by("twice(k % 4) AS double", "label")
    aggregated = keyed.window(tumbling="1h", late=Sink.parquet(folder / "late")).aggregate(
        n="count(*)", some="sum(twice(price)) filter (where count_char(label, 'n') > 0)", most="max(label(label, 1))"
    )
    return aggregated.write(Sink.parquet(folder / "out"))


@contextmanager
def by_spark(*, forced: bool) -> Iterator[None]:
    """Let Spark compute all SQL."""

    def refuse(_frame: DataFrame, *, until: DataFrame, may_leave: bool, **_: object) -> Query:
        assert may_leave, "tasks may leave values to Spark"
        msg = f"a test says so, for {until.columns}"
        raise OnlySparkError(msg)

    with pytest.MonkeyPatch.context() as patch:
        if forced:
            patch.setattr("mixedmode.analysis.direct_reads.read_queries_of", refuse)
        yield


def plan_of(job: Job, spark: SparkSession) -> JobPlan:
    return analyse(spark, job.spec, job.where).plan


def played(job: Job, spark: SparkSession, inputs: Path, ways: tuple[bool, bool]) -> list[object]:
    """A backlog and a live epoch, and after a restart two more. Return what the manifests say of the input.

    ways: whether Spark computes the SQL, before and after the restart.
    """
    inputs.mkdir(parents=True)
    write_parquet(inputs, "0.parquet", rows(0))
    if job.spec.execution.runtime_mode == "batch":
        for number in range(1, 4):
            write_parquet(inputs, f"{number}.parquet", rows(number))
        with by_spark(forced=ways[0]):
            return [event.records for event in run(job, spark).committed]
    for start, forced in enumerate(ways):
        if start:
            write_parquet(inputs, "2.parquet", rows(2))
        live = 2 * start + 1
        with by_spark(forced=forced):
            run(job, spark, feed=[partial(write_parquet, inputs, f"{live}.parquet", rows(live))])
    found = manifests(inputs.parent / "c")
    return [(one.watermark_us, {name: (s.records, s.splits) for name, s in one.sources.items()}) for one in found]


ONE_STAGE, MAP_TASKS = "one stage", "map tasks and a shuffle"
#: each mode, each job and each kind of stages; `make soak` has all of their pairs
BY_DEFAULT = {
    ("batch", unkeyed, MAP_TASKS),
    ("mixed", windowed, MAP_TASKS),
    ("mixed", plain, ONE_STAGE),
    ("mixed", calling, MAP_TASKS),
}


@pytest.mark.parametrize(
    ("mode", "make", "stages"),
    [
        pytest.param(*case, marks=() if case in BY_DEFAULT else pytest.mark.soak)
        for case in product(("batch", "mixed"), (windowed, plain, unkeyed, calling), (ONE_STAGE, MAP_TASKS))
    ],
)
def test_the_answer_does_not_depend_on_who_computes_the_sql(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, make: object, stages: str
) -> None:
    assert callable(make)
    if stages == MAP_TASKS:
        monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
    ways = {"arrow": (False, False), "spark": (True, True), "changing": (True, False), "back": (False, True)}
    if mode == "batch" or stages == ONE_STAGE or make is plain:  # `windowed` has its restart
        ways = {"arrow": ways["arrow"], "spark": ways["spark"]}
    found = {}
    for name, way in ways.items():
        folder = tmp_path / name
        job = make(folder, mode)
        seen = played(job, spark, folder / "in", way)
        tables = [sorted(output_rows(folder / out), key=repr) for out in ("out", "late") if (folder / out).exists()]
        found[name] = (seen, tables, [list(rows[0]) for rows in tables if rows])
        assert len(tables[0]) > 10
        assert mode == "batch" or make not in (windowed, calling) or tables[1], "some records are late"
        assert plan_of(job, spark).direct
    expected = found.pop("spark")
    for name, one in found.items():
        assert one == expected, name


def test_only_columns_that_are_used_are_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    plan = plan_of(plain(tmp_path, "mixed"), spark)
    assert [column.source for reads in plan.direct.values() for read in reads for column in read.columns] == [
        "k",
        "price",
    ]


def test_explain_says_for_each_sql_step_who_computes_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    job = plain(tmp_path, "mixed")
    lines = explain_plan(job.spec, plan_of(job, spark), cores=2).splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("  sql"))
    assert lines[place + 1] == "              on Arrow"
    upper = Job(
        "j", sources={"t": Source.parquet(tmp_path / "in", schema=DDL)}, mode="mixed", checkpoint_dir=tmp_path / "c"
    )
    upper = upper.sql("SELECT initcap(text) AS text FROM t").key_by("text").aggregate(n="count(*)")
    upper = upper.write(Sink.console())
    assert (
        "              by Spark (because only Spark computes initcap(t.text))"
        in explain_plan(upper.spec, plan_of(upper, spark), cores=2).splitlines()
    )


def test_explain_says_why_spark_calls_a_function(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = Source.parquet(tmp_path / "in", schema=f"{DDL}, cost decimal(9, 2)")
    for text, line in (
        ("SELECT twice(price) AS n FROM t", "on Arrow"),
        (
            "SELECT twice(cost + 1.00) AS n FROM t",
            "by Spark (because only Spark computes twice((cost + 1.00)): an argument is a computed decimal)",
        ),
    ):
        functions = {"twice": "tests.expressions.called:twice"}
        job = Job("j", sources={"t": source}, functions=functions, checkpoint_dir=tmp_path / "c")
        job = job.sql(text).write(Sink.console())
        lines = explain_plan(job.spec, plan_of(job, spark), cores=2).splitlines()
        assert lines[next(n for n, one in enumerate(lines) if one.startswith("  sql")) + 1].strip() == line


def test_a_value_that_cannot_be_computed_stops_the_job_and_nothing_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = Source.parquet(tmp_path / "in", schema=DDL)
    job = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    job = job.sql("SELECT 10 % (k - 7) AS rest FROM t").key_by("rest").aggregate(n="count(*)")
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", "a.parquet", rows(0))
    with pytest.raises(InvalidJobError) as caught:
        run(job.write(Sink.parquet(tmp_path / "out")), spark)
    assert str(caught.value) == (
        "a value of a computed column, of a sql step or of an argument cannot be computed, and nothing was committed. "
        "Correct the SQL, let it return NULL for such a value, as try_cast does, or filter such records out in a sql "
        "step before it. cause=division by zero, expression=(10 % (t.k - 7)), values=10, 0"
    )
    assert not (tmp_path / "c" / "manifests").exists()


@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_spark_reads_files_with_drift_that_have_text_which_tasks_leave_to_it(
    spark: SparkSession, tmp_path: Path, mode: Mode
) -> None:
    drift = {"wrong-type": "nulls", "missing-column": "nulls"}
    source = Source.parquet(tmp_path / "in", schema="k long, text string, v long", schema_drift=drift)
    job = Job("j", sources={"t": source}, mode=mode, parallelism=2, checkpoint_dir=tmp_path / "c")
    job = job.sql("SELECT k, lower(text) AS text, v FROM t").write(Sink.parquet(tmp_path / "out"))
    (tmp_path / "in").mkdir()
    assert plan_of(job, spark).direct
    write_parquet(tmp_path / "in", "plain.parquet", pa.table({"k": [1], "text": ["A"], "v": [10]}))
    write_parquet(tmp_path / "in", "narrow.parquet", pa.table({"K": pa.array([2], pa.int8()), "text": ["ÄB%"]}))
    write_parquet(tmp_path / "in", "a wrong%type.parquet", pa.table({"v": ["no number"], "text": ["C"], "k": [3]}))
    later = pa.table({"k": [4], "text": ["D"], "new": [1.5]})
    live = partial(write_parquet, tmp_path / "in", "later.parquet", later)
    run(job, spark, feed=[live] if mode == "mixed" else [])
    expected = [(1, "a", 10), (2, "äb%", None), (3, "c", None), *([(4, "d", None)] if mode == "mixed" else [])]
    found = sorted(((row["k"], row["text"], row["v"]) for row in output_rows(tmp_path / "out")), key=repr)
    assert found == expected


@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_spark_calls_functions_in_an_epoch_with_arguments_that_tasks_leave_to_it(
    spark: SparkSession, tmp_path: Path, mode: Mode
) -> None:
    source = Source.parquet(tmp_path / "in", schema="k long, text string")
    functions = {"label": "tests.expressions.called:label"}
    job = Job("j", sources={"t": source}, functions=functions, mode=mode, checkpoint_dir=tmp_path / "c")
    job = job.sql("SELECT k, label(text, k) AS text FROM t").write(Sink.parquet(tmp_path / "out"))
    (tmp_path / "in").mkdir()
    assert plan_of(job, spark).direct
    wrong = pa.array([b"a\xff", b"b"], pa.binary()).view(pa.string())
    write_parquet(tmp_path / "in", "0.parquet", pa.table({"k": [1, 2], "text": wrong}))
    live = partial(write_parquet, tmp_path / "in", "1.parquet", pa.table({"k": [8, 4], "text": ["c", "d"]}))
    run(job, spark, feed=[live] if mode == "mixed" else [])
    expected = [(1, "a\ufffd 1"), (2, "b 2"), *([(4, "d 1"), (8, None)] if mode == "mixed" else [])]
    assert sorted(((row["k"], row["text"]) for row in output_rows(tmp_path / "out")), key=repr) == expected


@pytest.mark.parametrize("is_small", [True, False])
def test_a_function_is_called_once_for_a_record_in_processes_of_one_thread(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_small: bool
) -> None:
    if not is_small:  # then four map tasks would be one with four threads
        monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
        monkeypatch.setattr("mixedmode.executor.epoch_run.cores", lambda _session: 4)
    (tmp_path / "in").mkdir()
    for number in range(4):
        write_parquet(tmp_path / "in", f"{number}.parquet", pa.table({"v": range(100 * number, 100 * number + 100)}))
    source = Source.parquet(tmp_path / "in", schema="v long")
    functions = {"noted": "tests.expressions.called:noted"}
    job = Job(
        "j", sources={"t": source}, functions=functions, mode="mixed", parallelism=3, checkpoint_dir=tmp_path / "c"
    )
    job = (
        job.sql(f"SELECT noted('{tmp_path / 'calls'}', 'call', v) % 7 AS k FROM t").key_by("k").aggregate(n="count(*)")
    )
    job = job.write(Sink.parquet(tmp_path / "out"))
    assert plan_of(job, spark).direct
    run(job, spark)
    calls = [int(line.split()[1]) for line in (tmp_path / "calls").read_text().splitlines()]
    assert sorted(calls) == list(range(400))
    assert sum(row["n"] for row in output_rows(tmp_path / "out")) == 400


def test_a_function_of_numbers_is_called_between_keyed_steps(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", "0.parquet", pa.table({"k": [1, 1, 2, 3]}))
    functions = {"twice": "tests.expressions.called:twice"}
    source = Source.parquet(tmp_path / "in", schema="k long")
    job = Job("j", sources={"t": source}, functions=functions, mode="mixed", checkpoint_dir=tmp_path / "c")
    job = job.key_by("k").aggregate(n="count(*)").sql("SELECT k, twice(n) AS m FROM previous WHERE twice(k) < 6")
    job = job.key_by("m").aggregate(c="count(*)", k="max(twice(k))").write(Sink.parquet(tmp_path / "out"))
    assert plan_of(job, spark).inner
    live = partial(write_parquet, tmp_path / "in", "1.parquet", pa.table({"k": [1, 2, 5]}))
    run(job, spark, feed=[live])
    table = current_table(str(tmp_path / "out"))
    assert table is not None
    assert sorted((row["m"], row["c"], row["k"]) for row in table.rows.to_pylist()) == [(4, 1, 4), (6, 1, 2)]


def test_drift_that_is_refused_stops_a_job_whose_files_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    source = Source.parquet(tmp_path / "in", schema="k long, text string", schema_drift={"new-column": "fail"})
    job = Job("j", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=tmp_path / "c")
    job = job.sql("SELECT k, lower(text) AS text FROM t").write(Sink.parquet(tmp_path / "out"))
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", "0.parquet", pa.table({"k": [1], "text": ["Ä"]}))
    write_parquet(tmp_path / "in", "1.parquet", pa.table({"k": [2], "text": ["b"], "new": [1]}))
    with pytest.raises(InvalidJobError, match=r"schema-drift.new-column is fail.*1.parquet, column=new"):
        run(job, spark)
    assert not (tmp_path / "c" / "manifests").exists()
