"""Spark's queries as contestants: their answers are DuckDB's."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode_bench.spark import STATE_STORE, SparkBatch, SparkStreaming, newest_rows
from mixedmode_bench.workload import Size
from mixedmode_bench.workloads.counts import LIVE
from mixedmode_bench.workloads.rows import WIDE
from mixedmode_bench.workloads.windows import WINDOWS
from tests.bench.tiny import check_epochs, run_and_check, tiny_task
from tests.random_cases import random_cases


@pytest.mark.spark
def test_the_batch_query_gives_the_answer(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tiny_task(WIDE, Size(400, 40), tmp_path, monkeypatch)
    outcome = run_and_check(SparkBatch(), task, tmp_path)
    check_epochs(outcome, backlog=400, live=[])
    assert outcome.seconds == outcome.epochs[0].end_s


@pytest.mark.soak
@pytest.mark.spark
def test_the_streaming_query_gives_windows_in_update_mode(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tiny_task(WINDOWS, Size(300, 3), tmp_path, monkeypatch)
    outcome = run_and_check(SparkStreaming(), task, tmp_path)
    check_epochs(outcome, backlog=300, live=[])
    assert [span.events for span in outcome.epochs if span.events] == [150, 150], "a file per micro-batch"


@pytest.mark.soak
@pytest.mark.spark
def test_the_streaming_query_goes_on_live_with_the_feed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tiny_task(LIVE, Size(3200, 500), tmp_path, monkeypatch)
    outcome = run_and_check(SparkStreaming(), task, tmp_path)
    check_epochs(outcome, backlog=500, live=[500, 500, 20])
    live = sum(span.end_s - span.start_s for span in outcome.epochs if not span.is_backlog)
    assert outcome.seconds == pytest.approx(live)


@pytest.mark.spark
def test_the_settings_of_a_contestant_are_gone_when_it_closes(spark: SparkSession, tmp_path: Path) -> None:
    (name, *_) = STATE_STORE
    usual = spark.conf.get(name)
    contestant = SparkStreaming()
    contestant.start(tmp_path, 2)
    assert contestant.session is spark
    assert spark.conf.get(name) == STATE_STORE[name] != usual
    contestant.close()
    assert spark.conf.get(name) == usual


def test_a_batch_query_has_no_live_epochs() -> None:
    assert not SparkBatch().takes(LIVE)


@settings(max_examples=random_cases(15))  # each writes a dozen files
@given(epochs=st.lists(st.dictionaries(st.integers(0, 5), st.integers()), min_size=1, max_size=12))
def test_the_newest_row_of_a_key_is_that_of_its_last_epoch(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[dict[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("epochs")
    for number, rows in enumerate(epochs):  # more than ten, so that names do not sort as numbers do
        (folder / f"epoch={number}").mkdir()
        types = pa.schema({"k": pa.int64(), "n": pa.int64()})
        table = pa.table({"k": list(rows), "n": [value % 1000 for value in rows.values()]}, types)
        pq.write_table(table, folder / f"epoch={number}" / "part-0.parquet")
    expected: dict[int, int] = {}
    for rows in epochs:
        expected |= {key: value % 1000 for key, value in rows.items()}
    found = newest_rows(folder, ("k",)).to_pylist()
    assert {row["k"]: row["n"] for row in found} == expected
    assert len(found) == len(expected)
    assert newest_rows(folder, ()).num_rows == sum(map(len, epochs))
