"""Jobs whose tasks read several sources, or one source for several steps: the answers and manifests are Spark's.

The same of rows between steps, which stay in Arrow or are rows of Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_queries_of
from mixedmode.analysis.job import analyse
from mixedmode.executor.inner_folds import folding_reader
from mixedmode.expressions import Column, Query
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.job_plan import DirectRead, entry_of
from mixedmode.tasks import single_stage
from mixedmode.tasks.direct import deal_out
from tests.harness import manifests, output_rows, run, write_parquet

Mode = Literal["batch", "mixed"]
Way = Literal["none", "b", "all"]
WAYS: tuple[Way, ...] = get_args(Way)
PLAYED: dict[str, tuple[Way, Way]] = {"spark": ("all", "all"), "changing": ("none", "b")}
BEGIN = datetime(2001, 9, 8, 22, tzinfo=UTC)  # the clock of `run` shows 2001-09-09
SOURCES = {"a": "k int, x long, at timestamp", "b": "id long, y long, at timestamp"}
OUTPUTS = ("priced", "late", "dear", "met", "sums", "large", "both", "merged")


def records(name: str, epoch: int) -> pa.Table:
    """Return an hour of records; every ninth is of seven hours before, and too late in later epochs."""
    numbers = range(30 if name == "a" else 20)
    times = [BEGIN + timedelta(hours=epoch - 7 * (n % 9 == 8), minutes=n, seconds=epoch) for n in numbers]
    values = [n * n % 50 + epoch for n in numbers]
    keys = pa.array([None if n % 13 == 12 else n % 5 for n in numbers], pa.int32() if name == "a" else pa.int64())
    at = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"k": keys, "x": values, "at": at} if name == "a" else {"id": keys, "y": values, "at": at})


def graph(folder: Path, mode: Mode) -> Job:
    """Joins of two sources, of a source with itself and with a step; rows of a source; a step over both kinds.

    The rows of `both` change, and sql changes them once more; those of `priced` are written after sql, too. `merged`
    has the rows of both sources and of a step.
    """
    sources = {name: Source.parquet(folder / name, schema=ddl, event_time="at") for name, ddl in SOURCES.items()}
    job = Job("j", sources=sources, mode=mode, parallelism=2, checkpoint_dir=folder / "c")
    a = job.source("a")
    b = job.source("b").sql("SELECT id AS k, y * 2 AS y, at FROM b WHERE y > 3", name="doubled")
    late = Sink.parquet(folder / "late")
    columns = ["left.k", "left.x", "left.at", "right.y"]
    priced = a.as_of_join(b, on="k", type="left", tie_break="y", select=columns, late_left=late, name="priced")
    met = a.join(a.sql("SELECT k, x + 1 AS more FROM a", name="again"), on="k", select=["left.x", "right.more"])
    sums = a.key_by("k", name="sums").aggregate(total="sum(x)")
    both = sums.join(b, on="k", type="full", select=["left.k", "left.total", "right.y"], name="both")
    shifted = both.sql("SELECT k, total + 1 AS total, y FROM both WHERE coalesce(y, 0) % 5 <> 2", name="shifted")
    counted = shifted.key_by("k", name="counted").aggregate(n="count(*)", total="max(total)", y="sum(y)")
    dear = priced.sql("SELECT x, y - x AS more FROM priced WHERE x > 10", name="dear")
    large = job.source("b").sql("SELECT y, at FROM b WHERE y % 7 = 1", name="large")
    parts = "SELECT k, x AS v FROM a WHERE x > 7 UNION ALL (SELECT id, y FROM b UNION ALL SELECT k, total FROM sums)"
    parts += " UNION ALL SELECT id, 1 FROM b WHERE y > 20"
    rows = a.sql(parts, others=[job.source("b"), sums], name="parts")
    merged = rows.key_by("k", name="merged").aggregate(n="count(*)", v="sum(v)")
    given = {
        "priced": priced,
        "dear": dear,
        "met": met,
        "sums": sums,
        "large": large,
        "both": counted,
        "merged": merged,
    }
    for name, stream in given.items():
        job = job.output(name, stream, Sink.parquet(folder / name))
    return job


@contextmanager
def by_spark(way: Way) -> Iterator[None]:
    """Let Spark read no source, only `b`, or all of them, and then also run the SQL between steps."""

    def refuse(frame: DataFrame, *, until: DataFrame, **others: Any) -> tuple[Query, ...]:
        if way == "b" and "id" not in until.columns:
            return read_queries_of(frame, until=until, **others)
        msg = f"a test says so, for {until.columns}"
        raise OnlySparkError(msg)

    with pytest.MonkeyPatch.context() as patch:
        if way != "none":
            patch.setattr("mixedmode.analysis.direct_reads.read_queries_of", refuse)
        if way == "all":
            patch.setattr("mixedmode.analysis.inner_reads.read_queries_of", refuse)
        yield


def add(folder: Path, epoch: int, *names: str) -> None:
    for name in names:
        write_parquet(folder / name, f"{epoch}.parquet", records(name, epoch))


def played(job: Job, spark: SparkSession, folder: Path, ways: Sequence[Way]) -> list[object]:
    """Run a backlog and a live epoch of one source, then restart for each further way.

    ways: what Spark reads. Return what the manifests say of the input.
    """
    for start, way in enumerate(ways):
        add(folder, 2 * start, "a", "b")
        live = partial(add, folder, 2 * start + 1, "ab"[start % 2])
        with by_spark(way):
            run(job, spark, feed=[live])
    return [
        (one.watermark_us, one.offsets.count("\n"), {name: (s.records, s.splits) for name, s in one.sources.items()})
        for one in manifests(folder / "c")
    ]


def answers(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: sorted(output_rows(folder / name), key=repr) for name in OUTPUTS if (folder / name).exists()}


@pytest.mark.spark
@pytest.mark.parametrize("stages", ["one stage", pytest.param("map tasks and a shuffle", marks=pytest.mark.soak)])
def test_a_graph_has_the_same_answers_whoever_reads_and_may_change_at_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: str
) -> None:
    if stages == "map tasks and a shuffle":
        monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
    found = []
    for name, ways in PLAYED.items():
        folder = tmp_path / name
        for source in SOURCES:
            (folder / source).mkdir(parents=True)
        job = graph(folder, "mixed")
        seen = played(job, spark, folder, ways)
        found.append((seen, answers(folder)))
    assert found[0] == found[1]
    assert set(found[0][1]) == set(OUTPUTS), "each output has rows, and some records are late"


@pytest.mark.spark
@pytest.mark.soak
def test_batch_has_the_same_answers_whoever_reads(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for way in WAYS:
        folder = tmp_path / way
        for source in SOURCES:
            (folder / source).mkdir(parents=True)
        for epoch in range(3):
            add(folder, epoch, "a", "b")
        with by_spark(way):
            records_in = [event.records for event in run(graph(folder, "batch"), spark).committed]
        found.append((records_in, answers(folder)))
    assert found[0] == found[1] == found[2]


@pytest.mark.spark
def test_rows_are_folded_where_they_are_made_if_they_have_one_reader(spark: SparkSession, tmp_path: Path) -> None:
    """`sums` and `priced` have several readers; `counted`, that of `both`, is the only one that a story here tests."""
    for source in SOURCES:
        (tmp_path / source).mkdir()
    job = graph(tmp_path, "mixed")
    with by_spark("all"):
        plan = analyse(spark, job.spec, job.where).plan
    assert [folding_reader(plan, stage.operator_id) for stage in plan.stages] == [None] * len(plan.stages)
    plan = analyse(spark, job.spec, job.where).plan
    found = {stage.operator_id: folding_reader(plan, stage.operator_id) for stage in plan.stages}
    assert {stage: reader.operator_id for stage, reader in found.items() if reader} == {"both": "counted"}


@pytest.mark.spark
def test_a_join_that_may_leave_rows_out_before_the_exchange_does_not_fold(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    source = Source.parquet(tmp_path / "a", schema=SOURCES["a"], event_time="at")
    job = Job("j", sources={"a": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    rows = job.source("a")
    hourly = rows.key_by("k", name="hourly").window(tumbling="1h").aggregate(x="max(x)")
    joined = rows.interval_join(hourly, on="k", within=("0s", "1h"), select=["left.x", "right.x AS most"], name="met")
    written = job.output("met", joined, Sink.parquet(tmp_path / "out"))
    assert folding_reader(analyse(spark, written.spec, written.where).plan, "hourly") is None


@pytest.mark.spark
def test_explain_says_how_each_source_is_read_and_which_one_is_in_the_way(spark: SparkSession, tmp_path: Path) -> None:
    for source in SOURCES:
        (tmp_path / source).mkdir()
    job = graph(tmp_path, "mixed")
    lines = explain_plan(job.spec, analyse(spark, job.spec, job.where).plan, cores=2).splitlines()
    read = [line for line in lines if line.startswith("  read by")]
    assert read == [
        "  read by     the map tasks themselves, column by column (k, x, at); Spark finds the files",
        "  read by     the map tasks themselves, column by column (y, id, at); Spark finds the files",
    ]
    (tmp_path / "b" / "day=1").mkdir()
    lines = explain_plan(job.spec, analyse(spark, job.spec, job.where).plan, cores=2).splitlines()
    read = [line for line in lines if line.startswith("  read by")]
    assert read == [
        "  read by     the map tasks themselves, column by column (k, x, at); Spark finds the files",
        "  read by     Spark (because the source has partition folders)",
    ]
    place = next(
        number for number, line in enumerate(lines) if line.startswith("  sql         SELECT k, x AS v FROM a")
    )
    assert lines[place + 1] == "              on Arrow, rows of b by Spark (because the source has partition folders)"


@pytest.mark.spark
def test_the_rows_of_a_step_stay_in_arrow_if_tasks_compute_what_all_its_readers_make_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    for source in SOURCES:
        (tmp_path / source).mkdir()
    job = graph(tmp_path, "mixed")
    plan = analyse(spark, job.spec, job.where).plan
    assert plan.inner_by_spark == {}
    assert {reader: list(stages) for reader, stages in plan.inner.items()} == {
        "both": ["sums"],
        "counted": ["both"],
        "merged": ["sums"],
        entry_of("dear"): ["priced"],
    }
    (query,) = plan.inner["counted"]["both"]
    weight = dict(query.columns)["_weight"]
    assert query.nodes[weight] == Column("_weight", pa.int64()), "a row that retracts makes one that retracts"

    named = job.source("b").sql("SELECT id AS k, initcap(cast(y AS string)) AS y, at FROM b", name="named")
    counts = named.key_by("k", name="counts").aggregate(n="count(*)", least="min(y)")
    names = counts.sql("SELECT k, initcap(least) AS least FROM counts", name="names")
    sizes = counts.key_by("n", name="sizes").aggregate(keys="count(*)")
    job = job.output("names", names, Sink.parquet(tmp_path / "names"))
    job = job.output("sizes", sizes, Sink.parquet(tmp_path / "sizes"))
    plan = analyse(spark, job.spec, job.where).plan
    assert list(plan.inner_by_spark) == ["counts"], "one of its two readers needs Spark"
    assert "initcap" in plan.inner_by_spark["counts"]
    assert "sizes" not in plan.inner
    lines = explain_plan(job.spec, plan, cores=2).splitlines()
    place = lines.index("  sql         SELECT k, total + 1 AS total, y FROM both WHERE coalesce(y, 0) % 5 <> 2")
    assert lines[place + 1] == "              on Arrow"
    place = lines.index("  sql         SELECT k, initcap(least) AS least FROM counts")
    assert lines[place + 1].startswith("              by Spark (because only Spark computes initcap(")


def test_sources_with_one_file_each_are_read_by_a_task_each() -> None:
    reads = [DirectRead(name, (), ()) for name in "ab"]
    tasks = deal_out([(read, [(f"/{read.source}.parquet", 9)]) for read in reads], 2)
    assert [[(one.read.source, one.slices[0].path) for one in task] for task in tasks] == [
        [("a", "/a.parquet")],
        [("b", "/b.parquet")],
    ]
    assert deal_out([(reads[0], [])], 2) == ()
