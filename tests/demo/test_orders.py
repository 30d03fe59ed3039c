"""The demo's data: what the generator promises, and what a reader of the folder sees."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.demo.feed import Fed, feed, main
from mixedmode.demo.orders import (
    FIRST_CUSTOMER_ID,
    HISTORY_END_US,
    HISTORY_START_US,
    HOT_CUSTOMERS,
    LATENESS_US,
    SCHEMA,
    STATUSES,
    Shop,
    history,
    make_orders,
)


def read_all(directory: Path) -> pa.Table:
    """Every visible Parquet file, in the order of the names."""
    return pa.concat_tables(
        [pq.read_table(path) for path in sorted(directory.iterdir()) if not path.name.startswith(".")]
    )


def times_us(orders: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = orders["ordered_at"].cast(pa.int64()).to_numpy()
    return times


class FakeTime:
    """A clock that only sleeping moves; every sleep takes `slowness` times as long as was asked for."""

    def __init__(self, slowness: float = 1.0) -> None:
        self.now = 100.0
        self.slowness = slowness

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds * self.slowness


@settings(deadline=None)  # the first call pays for what pyarrow loads lazily
@given(
    seed=st.integers(0, 2**32),
    customers=st.integers(1, 10_000),
    first_order=st.integers(0, 2**40),
    count=st.integers(0, 300),
)
def test_orders_are_a_pure_function_of_their_arguments(seed: int, customers: int, first_order: int, count: int) -> None:
    shop = Shop(customers=customers, seed=seed)
    made = [make_orders(shop, first_order=first_order, count=count, start_us=0, step_us=7.5) for _ in range(2)]
    assert made[0].equals(made[1]), "the same arguments gave other orders"
    made[0].validate(full=True)
    assert made[0].schema == SCHEMA
    assert made[0]["order_id"].to_pylist() == list(range(first_order, first_order + count))
    ids = made[0]["customer_id"].to_numpy()
    assert ((ids >= FIRST_CUSTOMER_ID) & (ids < FIRST_CUSTOMER_ID + customers)).all(), ids


def test_no_order_is_later_than_the_watermark_of_the_demo_allows() -> None:
    orders = make_orders(Shop(), first_order=0, count=20_000, start_us=HISTORY_START_US, step_us=1000.0)
    times = times_us(orders)
    behind = np.maximum.accumulate(times) - times
    assert behind.max() > 0, "the orders are fully sorted, so they do not show what lateness does"
    assert behind.max() <= LATENESS_US


def test_amounts_are_plausible_and_statuses_follow_their_shares() -> None:
    orders = make_orders(Shop(), first_order=0, count=100_000, start_us=0, step_us=1.0)
    amounts = orders["amount"].cast(pa.float64()).to_numpy()
    assert amounts.min() >= 0.01
    assert 20 < np.median(amounts) < 60, "the median price is far from 36.00"
    counted = Counter(orders["status"].to_pylist())
    assert counted.keys() == STATUSES.keys()
    for status, share in STATUSES.items():
        assert counted[status] == pytest.approx(share * 100_000, rel=0.1), status


def test_some_customers_are_hot_and_the_others_alike() -> None:
    customers = 10_000
    orders = make_orders(Shop(customers=customers), first_order=0, count=200_000, start_us=0, step_us=1.0)
    per_customer = np.bincount(orders["customer_id"].to_numpy() - FIRST_CUSTOMER_ID, minlength=customers)
    hottest = np.sort(per_customer)[::-1]
    assert hottest[HOT_CUSTOMERS - 1] > 100, "fewer hot customers than promised"
    assert hottest[HOT_CUSTOMERS] < 60, "a customer who should be like all others is hot"


def test_a_history_is_spread_over_its_whole_time_and_its_files(tmp_path: Path) -> None:
    size = history(tmp_path, orders=1_003, files=4, shop=Shop(customers=50))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"history-{index:04d}.parquet" for index in range(4)]
    assert size == sum(path.stat().st_size for path in tmp_path.iterdir())
    orders = read_all(tmp_path)
    assert orders.schema.equals(SCHEMA)
    assert orders["order_id"].to_pylist() == list(range(1_003))
    times, step_us = times_us(orders), (HISTORY_END_US - HISTORY_START_US) / 1_003
    assert HISTORY_START_US - LATENESS_US <= times.min() <= HISTORY_START_US + step_us
    assert HISTORY_END_US - 2 * step_us - LATENESS_US <= times.max() < HISTORY_END_US


def test_a_history_written_twice_holds_the_same_rows(tmp_path: Path) -> None:
    for name in ("one", "two"):
        history(tmp_path / name, orders=500, files=3)
    assert read_all(tmp_path / "one").equals(read_all(tmp_path / "two"))


@pytest.mark.parametrize(("orders", "files", "written"), [(0, 8, 0), (3, 8, 3), (10, 1, 1)])
def test_a_history_has_no_empty_files(tmp_path: Path, orders: int, files: int, written: int) -> None:
    history(tmp_path, orders=orders, files=files)
    assert len(list(tmp_path.iterdir())) == written


def test_a_feed_goes_on_where_the_history_ends(tmp_path: Path) -> None:
    fake = FakeTime()
    fed = feed(
        tmp_path, seconds=3, orders_per_second=100, first_order=2_000, shop=Shop(), clock=fake.clock, sleep=fake.sleep
    )
    assert fed == Fed(orders=300, files=6)
    orders = read_all(tmp_path)
    assert orders["order_id"].to_pylist() == list(range(2_000, 2_300))
    assert times_us(orders).min() >= HISTORY_END_US - LATENESS_US
    assert times_us(orders).max() < HISTORY_END_US + 3_000_000
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == [
        "live-000000002000.parquet",
        "live-000000002050.parquet",
    ]


@pytest.mark.parametrize("slowness", [1.0, 1.7, 20.0])
def test_a_slow_tick_of_the_feed_is_made_up_for(tmp_path: Path, slowness: float) -> None:
    fake = FakeTime(slowness)
    fed = feed(tmp_path, seconds=4, orders_per_second=250, first_order=0, clock=fake.clock, sleep=fake.sleep)
    assert fed.orders == 1_000
    assert read_all(tmp_path)["order_id"].to_pylist() == list(range(1_000))


def test_a_feed_slower_than_its_ticks_writes_no_empty_file(tmp_path: Path) -> None:
    fake = FakeTime()
    fed = feed(
        tmp_path,
        seconds=10,
        orders_per_second=1,
        first_order=0,
        interval_seconds=0.3,
        clock=fake.clock,
        sleep=fake.sleep,
    )
    assert fed.orders == 10
    assert all(pq.read_metadata(path).num_rows > 0 for path in tmp_path.iterdir())


def test_a_file_that_is_being_written_has_a_hidden_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    write_table = pq.write_table

    def spy(table: pa.Table, where: Path, **options: object) -> None:
        seen.append(Path(where).name)
        write_table(table, where, **options)

    monkeypatch.setattr(pq, "write_table", spy)
    history(tmp_path, orders=10, files=2)
    assert seen == [".history-0000.parquet.partial", ".history-0001.parquet.partial"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "a partial file was left behind"


def test_the_feed_as_a_program_stops_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path), "--seconds=0.2", "--orders-per-second=500", "--first-order=7", "--interval-seconds=0.05"])
    assert capsys.readouterr().out.startswith("wrote 100 live orders in ")
    assert read_all(tmp_path)["order_id"].to_pylist() == list(range(7, 107))
