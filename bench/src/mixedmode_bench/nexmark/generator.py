"""Nexmark's auction site as a stream of events: people who join, auctions that they open, bids.

An event is a function of its number. Of every fifty events the first is a person, the next three are
auctions, the others bids; so ids, and which ids are the newest, follow from the number, and all else is drawn from it
(draws.py). Any slice of the stream can be made alone, with numpy and Arrow, without a loop over records.

Invariants (tests/bench/nexmark/test_generator.py):
  I1  the slices of a stream, put together, are the stream
  I2  ids of people and auctions count up from FIRST_PERSON_ID and FIRST_AUCTION_ID without a gap
  I3  a bid or an auction names people and auctions of the recent past, or at most LEAD that come next

Source: github.com/nexmark/nexmark, its GeneratorConfig and the generators of people, auctions and bids. Distributions
and sizes are theirs. On purpose it differs in this:
  * times are microseconds, which theirs are cut to milliseconds: no two events have one time, so no query has a tie
  * FIRST_PERSON_ID is added to a bidder once; some of its revisions add it twice, so that no bidder is a person
  * e-mail addresses have no blanks
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode_bench.nexmark import texts
from mixedmode_bench.nexmark.draws import Int64s, UInt64s, draw, high_below, low_below, unit

EPOCH_EVENTS, EPOCH_PEOPLE, EPOCH_AUCTIONS = 50, 1, 3  # the other 46 are bids
FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID, CATEGORIES = 10, 5

HOT_EVERY = 100  # of a hundred people or auctions, one is hot while they are the newest
HOT_AUCTION_ONE_IN, HOT_SELLER_ONE_IN, HOT_BIDDER_ONE_IN = 2, 4, 4  # one of so many is for another than the hot one
HOT_CHANNEL_ONE_IN = 2
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT = 1000, 100
LEAD = 10  # ids that are not there yet, but may be named

PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100  # on average
_BID_BYTES_WITHOUT_EXTRA = 32
_EXTRA_SPREAD = 0.2

_OUT_OF_ORDER_FACTOR = 953  # a prime, so that it permutes every group whose size it does not divide

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"),
    *("Kent", "Cheyenne"),
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_NAMES = pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])

# What a draw is for. An event is of one kind only, so the kinds share the numbers.
_NAME, _MAILBOX, _DOMAIN, _CARD, _CARD_END, _PLACE, _PERSON_EXTRA = range(7)
_SELLER, _CATEGORY, _PRICES, _RESERVE, _EXPIRES, _ITEM, _DESCRIPTION, _AUCTION_EXTRA = range(8)
_PRICE, _WHOM, _IS_HOT, _CHANNEL, _BID_EXTRA = range(5)

TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that determine the stream.

    events_per_second: in event time. A thousand makes an auction last for some seconds and a bidder stay for a minute,
    so that windows and sessions of ten seconds are many. out_of_order_events: so many events in a row come in another
    order than their times; 1 is in order. So no event is as much older than one before it as so many events take.
    """

    seed: int = 1
    start_us: int = int(datetime(2024, 5, 1, 23, 30, tzinfo=UTC).timestamp()) * 1_000_000
    events_per_second: int = 1_000
    out_of_order_events: int = 1

    def __post_init__(self) -> None:
        assert 1_000_000 % self.events_per_second == 0, self.events_per_second
        assert self.out_of_order_events >= 1, self.out_of_order_events
        assert self.out_of_order_events % _OUT_OF_ORDER_FACTOR, self.out_of_order_events

    @property
    def event_us(self) -> int:
        """Event time between two events."""
        return 1_000_000 // self.events_per_second


@dataclass(frozen=True, slots=True)
class Events:
    """A slice of the stream, by kind, each in the order in which they come."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table


def make_events(first: int, count: int, settings: Settings) -> Events:
    """The events that come as number `first` to `first + count - 1`."""
    numbers = _in_order_of_arrival(np.arange(first, first + count), settings.out_of_order_events)
    offsets = numbers % EPOCH_EVENTS
    is_bid = offsets >= EPOCH_PEOPLE + EPOCH_AUCTIONS
    is_person = offsets < EPOCH_PEOPLE
    return Events(
        person=people(numbers[is_person], settings),
        auction=auctions(numbers[~is_bid & ~is_person], settings),
        bid=bids(numbers[is_bid], settings),
    )


def people(numbers: Int64s, settings: Settings) -> pa.Table:
    """People who join, in the events of these numbers."""
    seed = settings.seed
    place = draw(numbers, _PLACE, seed)
    card = [draw(numbers, purpose, seed) for purpose in (_CARD, _CARD_END)]
    digits = [texts.four_digits().take(part(bits, 10_000)) for bits in card for part in (low_below, high_below)]
    mailbox = texts.cut(texts.letters(), draw(numbers, _MAILBOX, seed), 3, 4)
    domain = texts.cut(texts.letters(), draw(numbers, _DOMAIN, seed), 3, 2)
    columns = {
        "id": pa.array(_newest_person(numbers) + FIRST_PERSON_ID),
        "name": _NAMES.take(low_below(draw(numbers, _NAME, seed), len(_NAMES))),
        "emailAddress": pc.binary_join_element_wise(mailbox, "@", domain, ".com", ""),
        "creditCard": pc.binary_join_element_wise(*digits, " "),
        "city": pa.array(CITIES).take(low_below(place, len(CITIES))),
        "state": pa.array(STATES).take(high_below(place, len(STATES))),
        "dateTime": _times(numbers, settings),
    }
    sizes = 8 + _lengths(*(columns[name] for name in ("name", "emailAddress", "creditCard", "city", "state")))
    return pa.table(columns | {"extra": _extra(draw(numbers, _PERSON_EXTRA, seed), PERSON_BYTES - sizes)})


def auctions(numbers: Int64s, settings: Settings) -> pa.Table:
    """Auctions that are opened, in the events of these numbers."""
    seed = settings.seed
    seller = draw(numbers, _SELLER, seed)
    hot_seller = _newest_person(numbers) // HOT_EVERY * HOT_EVERY
    is_hot = low_below(seller, HOT_SELLER_ONE_IN) > 0
    initial_bid = prices(draw(numbers, _PRICES, seed))
    columns = {
        "id": pa.array(_newest_auction(numbers) + FIRST_AUCTION_ID),
        "itemName": _words(draw(numbers, _ITEM, seed), 20),
        "description": _words(draw(numbers, _DESCRIPTION, seed), 100),
        "initialBid": pa.array(initial_bid),
        "reserve": pa.array(initial_bid + prices(draw(numbers, _RESERVE, seed))),
        "dateTime": _times(numbers, settings),
        "expires": _expiries(numbers, settings),
        "seller": pa.array(np.where(is_hot, hot_seller, _active_person(numbers, seller)) + FIRST_PERSON_ID),
        "category": pa.array(low_below(draw(numbers, _CATEGORY, seed), CATEGORIES) + FIRST_CATEGORY_ID),
    }
    sizes = 6 * 8 + _lengths(columns["itemName"], columns["description"])
    return pa.table(columns | {"extra": _extra(draw(numbers, _AUCTION_EXTRA, seed), AUCTION_BYTES - sizes)})


def bids(numbers: Int64s, settings: Settings) -> pa.Table:
    """Bids, in the events of these numbers. `channel` and `url`, of which there are few, are dictionaries."""
    seed = settings.seed
    whom, is_hot, channel = (draw(numbers, purpose, seed) for purpose in (_WHOM, _IS_HOT, _CHANNEL))
    newest = _newest_auction(numbers)
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    auction = np.where(
        low_below(is_hot, HOT_AUCTION_ONE_IN) > 0,
        newest // HOT_EVERY * HOT_EVERY,
        oldest + low_below(whom, newest - oldest + 1 + LEAD),
    )
    bidder = np.where(
        high_below(is_hot, HOT_BIDDER_ONE_IN) > 0,
        _newest_person(numbers) // HOT_EVERY * HOT_EVERY + 1,  # the second one: the first is the hot seller
        _active_person(numbers, whom),
    )
    hot = len(texts.HOT_CHANNELS)
    numbered = high_below(channel, texts.CHANNELS) + hot
    code = np.where(low_below(channel, HOT_CHANNEL_ONE_IN) > 0, numbered % hot, numbered).astype(np.int32)
    left = np.full(len(numbers), BID_BYTES - _BID_BYTES_WITHOUT_EXTRA)
    return pa.table(
        {
            "auction": pa.array(auction + FIRST_AUCTION_ID),
            "bidder": pa.array(bidder + FIRST_PERSON_ID),
            "price": pa.array(prices(draw(numbers, _PRICE, seed))),
            "channel": pa.DictionaryArray.from_arrays(pa.array(code), texts.channels()),
            "url": pa.DictionaryArray.from_arrays(pa.array(code), texts.urls()),
            "dateTime": _times(numbers, settings),
            "extra": _extra(draw(numbers, _BID_EXTRA, seed), left),
        }
    )


def prices(bits: UInt64s) -> Int64s:
    """Cents, from a dollar to a million: as many from 1 to 10 as from 10 to 100, and so on."""
    cents: Int64s = np.rint(np.exp(unit(bits) * (6 * math.log(10))) * 100).astype(np.int64)
    return cents


def _in_order_of_arrival(positions: Int64s, group: int) -> Int64s:
    """The number of the event that comes at each position: a permutation of each `group` of them."""
    if group == 1:
        return positions
    return positions // group * group + positions * _OUT_OF_ORDER_FACTOR % group


def _newest_person(numbers: Int64s) -> Int64s:
    """The person who joined last when the event happens, or joins in it; counted from 0."""
    return numbers // EPOCH_EVENTS


def _newest_auction(numbers: Int64s) -> Int64s:
    """The auction that was opened last when the event happens, or is opened in it; counted from 0. Not for people."""
    epochs = numbers // EPOCH_EVENTS
    offsets = np.minimum(numbers - epochs * EPOCH_EVENTS - EPOCH_PEOPLE, EPOCH_AUCTIONS - 1)
    newest: Int64s = epochs * EPOCH_AUCTIONS + offsets
    return newest


def _active_person(numbers: Int64s, bits: UInt64s) -> Int64s:
    """One of the newest people, or of those who join next, by the upper half of the bits; counted from 0."""
    there = _newest_person(numbers) + 1
    active = np.minimum(there, ACTIVE_PEOPLE)
    return there - active + high_below(bits, active + LEAD)


def _times(numbers: Int64s, settings: Settings) -> pa.Array:
    return pa.array(settings.start_us + numbers * settings.event_us, TIME)


def _expiries(numbers: Int64s, settings: Settings) -> pa.Array:
    """Evenly up to twice the time in which as many auctions are opened as are in flight."""
    horizon_us = AUCTIONS_IN_FLIGHT * EPOCH_EVENTS // EPOCH_AUCTIONS * settings.event_us
    lengths = 1 + (unit(draw(numbers, _EXPIRES, settings.seed)) * (2 * horizon_us)).astype(np.int64)
    return pa.array(settings.start_us + numbers * settings.event_us + lengths, TIME)


def _words(bits: UInt64s, limit: int) -> pa.Array:
    """Text of 3 to `limit - 1` characters, less the blanks at its ends."""
    return pc.ascii_trim(texts.cut(texts.words(), bits, 3, limit - 3), characters=" ")


def _extra(bits: UInt64s, lengths: Int64s) -> pa.Array:
    """Letters that fill an event up to its size: a fifth more or less than `lengths`, on average as many."""
    delta = np.rint(lengths * _EXTRA_SPREAD).astype(np.int64)
    return texts.cut(texts.letters(), bits, lengths - delta, 2 * delta)


def _lengths(*strings: pa.Array) -> Int64s:
    total: Int64s = sum(pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64) for column in strings)
    return total
