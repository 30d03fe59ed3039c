"""Nexmark's events: any slice is a part of the same stream, and the stream has the published shape."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode_bench.nexmark.generator import ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT, LEAD, Events, Settings, make_events
from mixedmode_bench.nexmark.texts import HOT_CHANNELS
from tests.random_cases import random_cases

Numbers = np.ndarray[Any, np.dtype[np.int64]]

KINDS = ("person", "auction", "bid")
IN_ORDER = Settings()
EVENTS = 200_000


@pytest.fixture(scope="module")
def stream() -> Events:
    return make_events(0, EVENTS, IN_ORDER)


def column(table: pa.Table, name: str) -> Numbers:
    found: Numbers = table[name].cast(pa.int64()).to_numpy()
    return found


def numbers_of(table: pa.Table, made_with: Settings = IN_ORDER) -> Numbers:
    """The numbers of the events, which their times tell."""
    return (column(table, "dateTime") - made_with.start_us) // made_with.event_us


def lengths(table: pa.Table, *names: str) -> Numbers:
    found: Numbers = sum(pc.binary_length(table[name]).to_numpy().astype(np.int64) for name in names)
    return found


@settings(max_examples=random_cases(20))
@given(
    first=st.integers(0, 10_000) | st.integers(10**9, 10**9 + 100),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    group=st.sampled_from([1, 2, 50, 333, 1_000]),
    seed=st.integers(0, 63),
)
def test_slices_put_together_are_the_stream(first: int, cuts: list[int], group: int, seed: int) -> None:
    made_with = Settings(seed=seed, out_of_order_events=group)
    ends = [first, *(first + cut for cut in sorted(cuts)), first + 400]
    spans = list(pairwise(ends))
    last_first = [make_events(start, end - start, made_with) for start, end in reversed(spans)]
    whole = make_events(first, 400, made_with)
    for kind in KINDS:
        together = pa.concat_tables(getattr(piece, kind) for piece in reversed(last_first))
        assert together.equals(getattr(whole, kind)), kind


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids() -> None:
    for first in (0, 50, 1_000_000):
        made = make_events(first, 50, IN_ORDER)
        assert [getattr(made, kind).num_rows for kind in KINDS] == [1, 3, 46]
        assert (np.diff(np.concatenate([numbers_of(getattr(made, kind)) for kind in KINDS])) == 1).all()


def test_people_and_auctions_are_numbered_without_a_gap(stream: Events) -> None:
    assert column(stream.person, "id").tolist() == list(range(1000, 1000 + EVENTS // 50))
    assert column(stream.auction, "id").tolist() == list(range(1000, 1000 + EVENTS // 50 * 3))


def test_bids_and_auctions_name_the_recent_past_or_what_comes_next(stream: Events) -> None:
    for table, who in ((stream.bid, "bidder"), (stream.auction, "seller")):
        newest = 1000 + numbers_of(table) // 50
        assert (column(table, who) >= np.maximum(newest - ACTIVE_PEOPLE + 1, 1000)).all()
        assert (column(table, who) <= newest + LEAD).all()
    newest = 1000 + numbers_of(stream.bid) // 50 * 3 + 2
    assert (column(stream.bid, "auction") >= np.maximum(newest - AUCTIONS_IN_FLIGHT, 1000)).all()
    assert (column(stream.bid, "auction") <= newest + LEAD).all()
    named = set(column(stream.bid, "bidder").tolist()) & set(column(stream.person, "id").tolist())
    assert len(named) > 0.95 * stream.person.num_rows, "bidders are people"


def test_half_of_the_bids_are_for_the_hot_auction(stream: Events) -> None:
    hot = 1000 + (numbers_of(stream.bid) // 50 * 3 + 2) // 100 * 100
    assert share(column(stream.bid, "auction") == hot) == pytest.approx(1 / 2 + 1 / 2 / 111, abs=0.005)


def test_three_quarters_of_the_bids_are_of_the_hot_bidder_who_is_not_the_hot_seller(stream: Events) -> None:
    hot = 1000 + numbers_of(stream.bid) // 50 // 100 * 100
    assert share(column(stream.bid, "bidder") == hot + 1) == pytest.approx(3 / 4, abs=0.005)
    hot = 1000 + numbers_of(stream.auction) // 50 // 100 * 100
    assert share(column(stream.auction, "seller") == hot) == pytest.approx(3 / 4, abs=0.01)


def test_half_of_the_bids_come_by_one_of_four_channels(stream: Events) -> None:
    counted = {row["values"]: row["counts"] for row in pc.value_counts(stream.bid["channel"]).to_pylist()}
    for channel in HOT_CHANNELS:
        assert counted[channel] / stream.bid.num_rows == pytest.approx(1 / 8, abs=0.005)
    assert len(counted) > 9_900
    pairs = stream.bid.select(["channel", "url"]).group_by(["channel", "url"]).aggregate([])
    assert pairs.num_rows == len(counted), "a channel has one address"


def test_prices_are_spread_evenly_over_six_powers_of_ten(stream: Events) -> None:
    price = column(stream.bid, "price")
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    powers = np.log10(price / 100)
    assert np.quantile(powers, [0.1, 0.25, 0.5, 0.75, 0.9]) == pytest.approx([0.6, 1.5, 3, 4.5, 5.4], abs=0.05)
    assert (column(stream.auction, "reserve") > column(stream.auction, "initialBid")).all()


def test_events_have_the_published_sizes(stream: Events) -> None:
    """Per number eight bytes, where Nexmark counts a time as one, but for that of a person."""
    bid = 4 * 8 + lengths(stream.bid, "extra")
    auction = 6 * 8 + lengths(stream.auction, "itemName", "description", "extra")
    person = 8 + lengths(stream.person, "name", "emailAddress", "creditCard", "city", "state", "extra")
    assert [bid.mean(), auction.mean(), person.mean()] == pytest.approx([100, 500, 200], rel=0.01)
    assert [lengths(stream.bid, "extra").min(), lengths(stream.bid, "extra").max()] == [54, 81]


def test_the_columns_of_people_and_auctions_look_as_published(stream: Events) -> None:
    person, auction = stream.person, stream.auction
    assert [pc.count_distinct(person[name]).as_py() for name in ("name", "city", "state")] == [99, 10, 6]
    for name, pattern in (("creditCard", r"^(\d{4} ){3}\d{4}$"), ("emailAddress", r"^[a-z]{3,6}@[a-z]{3,4}\.com$")):
        assert pc.all(pc.match_substring_regex(person[name], pattern)).as_py(), name
    assert sorted(set(column(auction, "category").tolist())) == [10, 11, 12, 13, 14]
    assert lengths(auction, "itemName").max() <= 19
    assert lengths(auction, "description").max() <= 99
    open_us = column(auction, "expires") - column(auction, "dateTime")
    assert open_us.min() > 0
    assert open_us.mean() == pytest.approx(1_666 * IN_ORDER.event_us, rel=0.02)


def test_no_two_events_have_the_same_time(stream: Events) -> None:
    times = np.concatenate([column(getattr(stream, kind), "dateTime") for kind in KINDS])
    assert np.sort(times).tolist() == [IN_ORDER.start_us + n * IN_ORDER.event_us for n in range(EVENTS)]


@pytest.mark.parametrize("group", [10, 50, 1_000])
def test_events_out_of_order_are_the_same_events_within_their_group(group: int) -> None:
    made_with = replace(IN_ORDER, out_of_order_events=group)
    mixed, ordered = make_events(3_000, 2_000, made_with), make_events(3_000, 2_000, IN_ORDER)
    for kind in KINDS:
        assert getattr(mixed, kind).sort_by("dateTime").equals(getattr(ordered, kind)), kind
    numbers = numbers_of(mixed.bid)
    assert (np.diff(numbers) < 0).any()
    behind = np.maximum.accumulate(column(mixed.bid, "dateTime")) - column(mixed.bid, "dateTime")
    assert 0 < behind.max() < group * made_with.event_us
    assert (np.diff(numbers // group) >= 0).all()


def test_another_seed_is_another_stream(stream: Events) -> None:
    other = make_events(0, 1_000, Settings(seed=2)).bid
    assert other["price"].combine_chunks() != stream.bid["price"].slice(0, other.num_rows).combine_chunks()


def test_the_stream_is_the_one_that_results_were_measured_on() -> None:
    """Whoever changes it has to count up DATA_VERSION in bench/src/mixedmode_bench/nexmark/workloads.py."""
    made = make_events(1_000_000, 5, IN_ORDER)
    assert made.bid.to_pylist() == [
        {
            "auction": 60950,
            "bidder": 20871,
            "price": 1113244,
            "channel": "channel-4255",
            "url": "https://www.nexmark.com/rhk/otow/mor/item.htm?query=1&channel_id=116916224",
            "dateTime": datetime(2024, 5, 1, 23, 46, 40, 4000, tzinfo=UTC),
            "extra": "csgosningiznqgrpolatldolylcbhmlrjkerjjvzqnvuxndhfcxnxnytfc",
        }
    ]
    assert made.person.select(["id", "name", "city", "state"]).to_pylist() == [
        {"id": 21000, "name": "Sarah Jones", "city": "Los Angeles", "state": "ID"}
    ]
    assert made.auction.select(["id", "itemName", "initialBid", "seller", "category"]).slice(0, 1).to_pylist() == [
        {"id": 61000, "itemName": "rr f wzqygjb", "initialBid": 129, "seller": 21000, "category": 12}
    ]


def share(found: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    return float(found.mean())
