"""Nexmark's queries: the job files in batch, over backlog and live epochs, and Spark's own, against DuckDB.

The data are small and out of order. Rows are compared as text, with doubles to ten digits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode_bench.nexmark import WORKLOADS
from mixedmode_bench.nexmark.files import SIDE_INPUT, TABLES, write_events
from mixedmode_bench.nexmark.generator import Settings
from mixedmode_bench.workload import Size, Workload, answers_in
from tests.harness import ManualClock, output_table, run

EVENTS, FILES = 4_000, 3
CLOCK_MS = 1_800_000_000_000  # later than the events, so that none of them is ahead of it
#: at midnight, so that there are two days; slow, so that sessions end, and that the hot auction changes within windows
#: that have few bids; and of many seeds one by which auctions share the first place
DATA = Settings(seed=6, start_us=1_714_607_985_000_000, events_per_second=4, out_of_order_events=10)


def named(workloads: Iterable[Workload]) -> list[Any]:
    return [pytest.param(workload, id=workload.name.removeprefix("nexmark-")) for workload in workloads]


QUERIES = named(WORKLOADS.values())
ALL = tuple(map(str, range(24)))


def by_default(queries: Iterable[Any], names: Iterable[str]) -> list[Any]:
    """Return the queries, of which those without these names run in `make soak` only."""
    found = {f"q{name}" for name in names}
    return [pytest.param(*query.values, id=query.id, marks=() if query.id in found else SOAK) for query in queries]


SOAK = (pytest.mark.soak,)
#: by default each kind of query runs once, in the mode that has more to show
KEYED = ("4", "5", "6", "9", "11", "15", "18", "23")
IN_MIXED_MODE = by_default((query for query in QUERIES if query.id != "q12"), KEYED)
IN_BATCH = by_default(QUERIES, ("2", "3", "7", "14", "20"))
#: benchmarks compare Spark's answers with DuckDB's, too
ON_SPARK = by_default(QUERIES, ["9"])
#: those with windows; the others are the batch query over a stream
STREAMS = by_default(
    named(w for w in WORKLOADS.values() if w.may_lack not in ("false", "true") and w.spark_streaming is not None),
    ["11"],
)

Rows = Counter[str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark") / "data"
    write_events(folder, EVENTS, DATA, files=FILES)
    return folder


@pytest.fixture(scope="module")
def tables(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in (*TABLES, SIDE_INPUT):
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{data}/{name}/*.parquet')")
        yield connection


def answer(tables: duckdb.DuckDBPyConnection, workload: Workload, where: str = "true") -> pa.Table:
    return tables.sql(f"FROM ({workload.answer}) WHERE {where}").to_arrow_table()


def rows(table: pa.Table) -> Rows:
    return Counter(
        str([f"{value:.9e}" if isinstance(value, float) else value for value in row.values()])
        for row in table.to_pylist()
    )


def agree(found: pa.Table, expected: pa.Table, may_lack: pa.Table | None = None) -> None:
    """The same rows and columns; those of `may_lack` may be missing."""
    assert found.column_names == expected.column_names
    missing = rows(expected) - rows(found)
    if may_lack is not None:
        missing -= rows(may_lack)
    assert (rows(found) - rows(expected), missing) == (Rows(), Rows())


def linked(parts: list[Path], folder: Path) -> Callable[[], object]:
    """Lets them in when called."""

    def let_in() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            (folder / part.name).hardlink_to(part)

    return let_in


@pytest.mark.spark
@pytest.mark.parametrize("workload", IN_BATCH)
def test_a_batch_job_gives_the_answer(
    spark: SparkSession, tables: duckdb.DuckDBPyConnection, data: Path, tmp_path: Path, workload: Workload
) -> None:
    run(workload.job(data, tmp_path, "batch"), spark)
    agree(output_table(answers_in(tmp_path)), answer(tables, workload))


@pytest.mark.spark
@pytest.mark.parametrize("workload", IN_MIXED_MODE)
def test_a_job_over_a_backlog_and_then_live_gives_the_answer_but_for_open_windows(
    spark: SparkSession, tables: duckdb.DuckDBPyConnection, data: Path, tmp_path: Path, workload: Workload
) -> None:
    later = list[Callable[[], object]]()
    for name in TABLES:
        parts = sorted((data / name).iterdir())
        linked(parts[:-1], tmp_path / "data" / name)()
        later.append(linked(parts[-1:], tmp_path / "data" / name))
    linked(list((data / SIDE_INPUT).iterdir()), tmp_path / "data" / SIDE_INPUT)()
    job = workload.job(tmp_path / "data", tmp_path, "mixed")
    recording = run(job, spark, feed=[lambda: [let_in() for let_in in later]], clock=ManualClock(CLOCK_MS))
    ran = [(event.strategy, event.is_backlog) for event in recording.committed]
    assert ran == [("sorted", True), ("streaming", False)]
    found = output_table(answers_in(tmp_path))
    agree(found, answer(tables, workload), answer(tables, workload, workload.may_lack))
    assert found.num_rows > 0


@pytest.mark.spark
def test_the_bids_of_a_user_in_windows_of_processing_time_add_up(
    spark: SparkSession, tables: duckdb.DuckDBPyConnection, data: Path, tmp_path: Path
) -> None:
    workload, clock, bids = WORKLOADS["nexmark-q12"], ManualClock(CLOCK_MS), sorted((data / "bid").iterdir())
    linked(bids[:-1], tmp_path / "data" / "bid")()

    def let_in_later() -> None:
        clock.time_ms += 10_000
        linked(bids[-1:], tmp_path / "data" / "bid")()

    job = workload.job(tmp_path / "data", tmp_path, "mixed")
    run(job, spark, feed=[let_in_later], clock=clock, until=Until.DRAINED)
    found = output_table(answers_in(tmp_path))
    summed = found.group_by("bidder").aggregate([("bid_count", "sum")]).rename_columns(["bidder", "bid_count"])
    agree(summed, answer(tables, workload))
    assert found.num_rows > summed.num_rows, "users who made bids in both windows"


@pytest.mark.spark
@pytest.mark.parametrize("workload", ON_SPARK)
def test_sparks_batch_query_gives_the_answer(
    spark: SparkSession, tables: duckdb.DuckDBPyConnection, data: Path, workload: Workload
) -> None:
    assert workload.spark_batch is not None
    found = workload.spark_batch({name: spark.read.parquet(str(data / name)) for name in (*TABLES, SIDE_INPUT)})
    agree(found.toArrow(), answer(tables, workload))


@pytest.mark.spark
@pytest.mark.parametrize("workload", STREAMS)
def test_sparks_streaming_query_gives_the_answer_but_for_open_windows(
    spark: SparkSession, tables: duckdb.DuckDBPyConnection, data: Path, tmp_path: Path, workload: Workload
) -> None:
    streaming = workload.spark_streaming
    assert streaming is not None
    assert streaming.output_mode == "append"
    given: list[pa.Table] = []

    def take(changed: DataFrame, _epoch: int) -> None:
        given.append(changed.toArrow())

    schema = spark.read.parquet(str(data / "bid")).schema
    bid = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES - 1).parquet(str(data / "bid"))
    query = (
        streaming.query({"bid": bid})
        .writeStream.outputMode(streaming.output_mode)
        .foreachBatch(take)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    agree(pa.concat_tables(given), answer(tables, workload), answer(tables, workload, workload.may_lack))


@pytest.mark.parametrize("workload", QUERIES)
def test_the_key_of_an_answer_tells_its_rows_apart(tables: duckdb.DuckDBPyConnection, workload: Workload) -> None:
    found = answer(tables, workload)
    assert found.num_rows > 0
    if workload.key:
        assert found.group_by(list(workload.key)).aggregate([]).num_rows == found.num_rows


def test_the_data_have_what_makes_the_queries_hard(tables: duckdb.DuckDBPyConnection) -> None:
    """Auctions that share the first place, users with several sessions, bids that replace others, two days."""

    def one(sql: str) -> Any:
        ((found,),) = tables.sql(sql).fetchall()
        return found

    answers = {name.removeprefix("nexmark-"): f"({workload.answer})" for name, workload in WORKLOADS.items()}
    assert one(f"SELECT max(n) FROM (SELECT count(*) AS n FROM {answers['q5']} GROUP BY window_end)") > 1
    assert one(f"SELECT max(sessions) FROM (SELECT count(*) AS sessions FROM {answers['q11']} GROUP BY bidder)") > 1
    assert one(f"SELECT count(*) FROM {answers['q18']}") < one("SELECT count(*) FROM bid")
    assert one(f"SELECT count(*) FROM {answers['q15']}") == 2
    assert one("SELECT max(sold) FROM (SELECT count(*) AS sold FROM auction GROUP BY seller)") > 10


def test_all_queries_share_data_of_which_the_size_is_known() -> None:
    assert list(WORKLOADS) == [f"nexmark-q{number}" for number in ALL]
    assert {workload.data for workload in WORKLOADS.values()} == {"nexmark"}
    assert {workload.write for workload in WORKLOADS.values()} == {WORKLOADS["nexmark-q0"].write}
    assert {workload.size for workload in WORKLOADS.values()} == {Size(5_000_000, 300_000)}


def test_a_job_is_told_where_to_read_and_write_and_in_which_mode(tmp_path: Path) -> None:
    job = WORKLOADS["nexmark-q5"].job(tmp_path / "data", tmp_path / "work", "streaming")
    assert job.spec.sources["bid"].place == f"parquet {tmp_path / 'data' / 'bid'}"
    assert job.spec.results[""].folder == str(answers_in(tmp_path / "work"))
    assert job.spec.execution.checkpointing.dir == str(tmp_path / "work" / "checkpoints")
    assert job.spec.execution.runtime_mode == "streaming"


@pytest.mark.parametrize("name", [name.removeprefix("nexmark-") for name in WORKLOADS])
def test_a_job_file_alone_says_what_has_to_be_set(name: str) -> None:
    with as_file(files("mixedmode_bench.nexmark") / "queries" / f"{name}.yaml") as path:
        with pytest.raises(InvalidJobError, match=r"sources\.\w+\.path is missing(.|\n)*sink\.path is missing"):
            Job.from_file(path)
        assert path.read_text(encoding="utf-8").startswith(f"# Nexmark, query {name[1:]}: ")
