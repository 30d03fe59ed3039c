"""The workloads: their data are functions of their size, and each states its answer so that DuckDB can run it."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench import events
from mixedmode_bench.feed import first_table
from mixedmode_bench.tables import files_in
from mixedmode_bench.workload import Size, Workload
from mixedmode_bench.workloads import WORKLOADS
from mixedmode_bench.workloads.counts import COUNT_SUM, COUNT_SUM_40M, LIVE, SKEWED, WORD_COUNT
from mixedmode_bench.workloads.flights import PLACE, flights_workload, found_flights
from mixedmode_bench.workloads.joins import (
    AS_OF,
    AS_OF_LIVE,
    INTERVAL,
    LIVE_TRADES,
    QUOTES,
    REGULAR,
    REGULAR_LEFT,
    TRADES,
)
from mixedmode_bench.workloads.rows import WIDE
from mixedmode_bench.workloads.windows import WINDOWS

OWN = (COUNT_SUM, LIVE, COUNT_SUM_40M, WORD_COUNT, WINDOWS, WIDE, SKEWED)
SIZE = Size(2000, 100)


def table_in(folder: Path, name: str = events.EVENTS) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted((folder / name).iterdir()))


def test_every_workload_goes_by_its_own_name() -> None:
    assert all(name == workload.name for name, workload in WORKLOADS.items())
    assert {workload.name for workload in OWN} <= set(WORKLOADS)
    assert all("\n" not in workload.title for workload in WORKLOADS.values())


@pytest.mark.parametrize("workload", OWN, ids=lambda workload: workload.name)
def test_its_data_are_a_function_of_the_size(workload: Workload, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        workload.write(folder, SIZE)
    (table,) = first.iterdir()
    assert len(list(table.iterdir())) == events.FILES
    assert table_in(first).num_rows == (SIZE.keys if workload is LIVE else SIZE.events)
    assert table_in(first).equals(table_in(second))


@pytest.mark.parametrize("workload", [AS_OF, INTERVAL, REGULAR, REGULAR_LEFT], ids=lambda workload: workload.name)
def test_the_tables_of_a_join_are_a_function_of_the_size_and_its_answer_has_one_row_per_key(
    workload: Workload, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        workload.write(tmp_path / name, SIZE)
    with duckdb.connect() as database:
        for table in (TRADES, QUOTES):
            assert table_in(tmp_path / "first", table).equals(table_in(tmp_path / "second", table))
            database.read_parquet([str(path) for path in (tmp_path / "first" / table).iterdir()]).create_view(table)
        database.execute(f"CREATE TABLE answer AS {workload.answer}")
        keys = ", ".join(workload.key)
        ((rows, distinct, lacking),) = database.execute(
            f"SELECT count(*), count(DISTINCT ({keys})), count(*) FILTER (WHERE {workload.may_lack}) FROM answer"
        ).fetchall()
    assert rows == distinct >= (SIZE.keys if workload is REGULAR_LEFT else SIZE.events)
    assert lacking < rows / 100


def test_live_trades_are_in_order_after_all_quotes_but_the_last(tmp_path: Path) -> None:
    AS_OF_LIVE.write(tmp_path, SIZE)
    assert AS_OF_LIVE.feed is not None
    assert first_table(tmp_path).name == LIVE_TRADES
    files = AS_OF_LIVE.feed(tmp_path / "feed", SIZE)
    trades = pa.concat_tables([table_in(tmp_path, LIVE_TRADES), *map(pq.read_table, files)])
    assert trades.column("seq").to_pylist() == list(range(SIZE.events))
    times = [*table_in(tmp_path, QUOTES).column("ts").to_pylist()[:-1], *trades.column("ts").to_pylist()]
    assert times == sorted(times)
    assert table_in(tmp_path, QUOTES).column("ts")[-1].as_py() > times[-1]


@pytest.mark.parametrize("workload", OWN, ids=lambda workload: workload.name)
def test_its_answer_has_one_row_per_key(workload: Workload, tmp_path: Path) -> None:
    workload.write(tmp_path, SIZE)
    files = [str(file) for file in tmp_path.rglob("*.parquet")]
    with duckdb.connect() as database:
        database.read_parquet(files).create_view("events")
        database.execute(f"CREATE TABLE answer AS {workload.answer}")
        total, lacking = (
            database.execute(f"SELECT count(*) FROM answer WHERE {which}").fetchone()
            for which in ("true", workload.may_lack)
        )
        keys = database.execute(f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(workload.key)} FROM answer)")
        assert keys.fetchone() == total
        counted = database.execute("SELECT sum(n) FROM answer").fetchone()
    assert total is not None
    assert lacking is not None
    assert counted == (len(table_in(tmp_path)),), "every event counts once"
    assert (0 < lacking[0] < total[0] / 10) if workload is WINDOWS else lacking == (0,)


@given(st.integers(1, 300_000_000), st.integers(1, 10_000_000), st.integers(1, 300_000_000))
def test_a_part_of_a_workload_has_as_many_events_per_key(n: int, keys: int, most: int) -> None:
    part = Size(n, keys).at_most(most)
    assert part.events == min(n, most)
    assert 1 <= part.keys <= keys
    assert part.keys * n <= max(keys * part.events, n)


@given(st.lists(st.integers(0, 2**31 - 1), unique=True))
def test_every_number_has_a_word_of_its_own(numbers: list[int]) -> None:
    found = events.words(np.array(numbers, np.int64)).to_pylist()
    assert len(set(found)) == len(numbers)
    assert all(len(word) == events.WORD_LETTERS and word.isascii() and word.islower() for word in found)


def test_neighbouring_words_look_nothing_like_each_other() -> None:
    first, second = events.words(np.array([7, 8])).to_pylist()
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 3


def test_times_are_out_of_order_by_less_than_the_bound(tmp_path: Path) -> None:
    events.write_timed(tmp_path, SIZE)
    times = table_in(tmp_path).column("ts").cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() < events.DISORDER_S * 1_000_000
    assert times.min() > events.START_US - events.DISORDER_S * 1_000_000
    assert times.max() < events.START_US + events.SPAN_US


def test_a_skewed_key_has_the_frequency_of_its_rank(tmp_path: Path) -> None:
    size = Size(200_000, 1000)
    events.write_skewed(tmp_path, size)
    counts = np.bincount(table_in(tmp_path).column("k").to_numpy(), minlength=size.keys)
    weights = np.arange(1, size.keys + 1) ** -events.ZIPF_EXPONENT
    expected = size.events * weights / weights.sum()
    assert len(counts) == size.keys
    assert np.abs(counts[:10] / expected[:10] - 1).max() < 0.05


def test_a_wide_row_has_twenty_columns(tmp_path: Path) -> None:
    events.write_wide(tmp_path, SIZE)
    table = table_in(tmp_path)
    assert table.num_columns == 20
    assert sum(pa.types.is_string(field.type) for field in table.schema) == 8


def test_the_full_feed_has_half_a_million_events_in_a_large_epoch_and_20000_in_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def note(folder: Path, name: str, rows: pa.Table) -> Path:
        written.append(rows.num_rows)
        return folder / name

    monkeypatch.setattr(events, "_write", note)
    files = events.write_feed(tmp_path, LIVE.size)
    assert written == [500_000] * 6 + [20_000] * 10
    assert sum(written) == LIVE.size.events
    assert files == sorted(files)


def test_the_state_of_a_live_job_has_each_key_once(tmp_path: Path) -> None:
    events.write_each_key_once(tmp_path, SIZE)
    keys = table_in(tmp_path).column("k").to_pylist()
    assert sorted(keys) == list(range(SIZE.keys)) != keys


def test_flights_go_on_where_they_ended(tmp_path: Path) -> None:
    source = tmp_path / "flights"
    source.mkdir()
    flight = {"origin": "SFO", "destination": "LAX", "delay": 5, "distance": 337}
    for number, dates in enumerate([["2001-01-01 00:00:00", "2001-01-02 08:30:00"], ["2001-01-03 00:00:00"]]):
        lines = "".join(f"{json.dumps({'date': date, **flight})}\n" for date in dates)
        (source / f"{number}.jsonl").write_text(lines)
    workload = flights_workload(source)
    workload.write(tmp_path / "data", Size(20, 1))
    files = files_in(tmp_path / "data" / events.FLIGHTS)
    found = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert found[0] == {"date": "2001-01-01T00:00:00.000000Z", **flight}
    dates = pa.array(flight["date"] for flight in found)
    assert len(dates) == 20
    assert pc.all(pc.greater(dates.slice(1), dates.slice(0, 19))).as_py()


def test_flights_are_where_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    assert found_flights() is None
    (tmp_path / "january.jsonl").touch()
    assert found_flights() == tmp_path
