"""Map state: a dict per key whose entries are stored one by one, and read as few as are asked for."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.process import Context, KeyedProcessFunction, MapState, Record, Ttl, ValueState, turns
from mixedmode.operators.process.due import SWEEP_EVERY_MS
from mixedmode.operators.process.maps import MAP_STATE_ID
from mixedmode.state.memory import MemoryBackend
from tests.operators.process.epochs import Epochs, operator_of
from tests.random_cases import random_cases


@dataclass
class Visit:
    page: str
    tags: list[str] = field(default_factory=list)


class Maps(KeyedProcessFunction):
    """Runs what a test gives it, and shows what that returns."""

    counts = MapState(str, int)
    visits = MapState(int, Visit)
    pairs = MapState(tuple[str, int], str)
    prices = MapState(Decimal, int)
    marks = MapState(float, int)
    short = MapState(str, int, ttl=Ttl("10ms"))
    used = MapState(str, int, ttl=Ttl("10ms", refresh="read-and-write"))
    other = ValueState(int, default=0)

    def __init__(self, steps: Sequence[Callable[["Maps"], Any]]) -> None:
        self.steps = steps

    def process_element(self, record: Record, context: Context) -> Record:
        return {"shown": json.dumps(self.steps[record["v"]](self), default=repr)}


def epochs_of(*steps: Callable[[Maps], Any], on_error: Any = "fail") -> Epochs:
    return Epochs(operator_of(Maps, {"shown": pa.string()}, args={"steps": steps}, on_error=on_error))


def run(*steps: Callable[[Maps], Any]) -> list[Any]:
    """Return the result of each step. Each step is an epoch over the state that the previous step left."""
    epochs = epochs_of(*steps)
    return [json.loads(epochs.run([("k", 0, i)]).rows[0]["shown"]) for i in range(len(steps))]


def fill(count: int) -> Callable[[Maps], None]:
    return lambda maps: maps.counts.update({f"e{i:05}": i for i in range(count)})


KEYS = st.sampled_from(["a", "b", "c", "d", ""])
ACTIONS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers(0, 9)),
    st.tuples(st.sampled_from(["del", "get", "in", "pop"]), KEYS, st.just(0)),
    st.tuples(st.sampled_from(["len", "list", "clear", "popitem"]), st.just(""), st.just(0)),
)


def act(entries: Any, action: tuple[str, str, int]) -> Any:
    """The same on a dict and on a MapState."""
    word, key, value = action
    try:
        match word:
            case "set":
                entries[key] = value
            case "del":
                del entries[key]
            case "get":
                return [entries.get(key), entries[key]]
            case "in":
                return key in entries
            case "pop":
                return entries.pop(key)
            case "len":
                return len(entries)
            case "list":
                return sorted(entries.items()) if isinstance(entries, dict) else list(entries.items())
            case "clear":
                entries.clear()
            case "popitem" if entries:
                key = min(entries) if isinstance(entries, dict) else next(iter(entries))
                return [key, entries.pop(key)]
    except KeyError as error:
        return repr(error)
    return None


@settings(max_examples=random_cases(40))
@given(plan=st.lists(st.lists(ACTIONS, max_size=5), max_size=5), prefetched=st.sampled_from([0, 2, 256]))
def test_a_map_state_answers_as_a_dict_does(plan: list[list[tuple[str, str, int]]], prefetched: int) -> None:
    twin: dict[str, int] = {}
    expected = [[act(twin, action) for action in actions] for actions in plan]
    with patch.object(turns, "PREFETCHED_ENTRIES_MAX", prefetched):
        steps = [lambda maps, actions=actions: [act(maps.counts, each) for each in actions] for actions in plan]
        assert run(*steps) == json.loads(json.dumps(expected))


SPELLINGS: dict[str, list[Any]] = {
    "prices": [Decimal(text) for text in ("1.5", "1.50", "1.500", "100", "1E+2", "0", "-0.0", "NaN", "-NaN")],
    "marks": [0.0, -0.0, 1.0, math.nan, float("nan"), -math.nan],
}


@settings(max_examples=random_cases(30))
@given(
    name=st.sampled_from(list(SPELLINGS)),
    plan=st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=4),
    prefetched=st.sampled_from([0, 2, 256]),
)
def test_a_key_is_one_entry_whatever_its_spelling_and_the_cut_into_epochs(
    name: str, plan: list[list[int]], prefetched: int
) -> None:
    twin: dict[Any, int] = {}

    def count(numbers: list[int]) -> Callable[[Maps], Any]:
        def step(maps: Maps) -> Any:
            entries = getattr(maps, name)
            for number in numbers:
                key = SPELLINGS[name][number]
                entries[key] = entries.get(key, 0) + 1
            return [len(entries), sorted(entries.values())]

        return step

    expected = []
    for numbers in plan:
        for number in numbers:
            key: Any = SPELLINGS[name][number]
            key = "NaN" if key != key else key  # noqa: PLR0124
            twin[key] = twin.get(key, 0) + 1
        expected.append([len(twin), sorted(twin.values())])
    with patch.object(turns, "PREFETCHED_ENTRIES_MAX", prefetched):
        assert run(*map(count, plan)) == expected


def test_entries_are_iterated_in_the_order_of_their_keys() -> None:
    def put(*keys: int) -> Callable[[Maps], Any]:
        return lambda maps: [maps.visits.update({key: Visit(str(key)) for key in keys}), list(maps.visits)][1]

    assert run(put(300, -5, 20), put(7, 2**40), lambda maps: list(maps.visits)) == [
        [-5, 20, 300],
        [-5, 7, 20, 300, 2**40],
        [-5, 7, 20, 300, 2**40],
    ]


def test_a_value_that_changes_in_place_is_stored_and_one_that_is_read_is_not_written() -> None:
    epochs = epochs_of(
        lambda maps: maps.visits.update({1: Visit("a"), 2: Visit("b")}),
        lambda maps: maps.visits[1].tags.append("new"),
        lambda maps: [maps.visits[1], maps.visits[2]],
    )
    epochs.run([("k", 0, 0)])
    epochs.run([("k", 0, 1)])
    assert epochs.pairs_written == 1, "one entry changed"
    (row,) = epochs.run([("k", 0, 2)]).rows
    assert json.loads(row["shown"]) == [repr(Visit("a", ["new"])), repr(Visit("b"))]
    assert epochs.pairs_written == 0


def test_maps_of_a_function_and_keys_do_not_mix() -> None:
    def put(maps: Maps) -> Any:
        maps.counts["x"] = maps.counts.get("x", 0) + 1
        maps.pairs["x", 1] = "p"
        maps.visits[1] = Visit("v")
        return [dict(maps.counts.items()), list(maps.pairs), list(maps.visits)]

    epochs = epochs_of(put)
    for expected in (1, 2):
        given = epochs.run([("a", 0, 0), ("a\x00", 0, 0), ("", 0, 0)])
        assert [json.loads(row["shown"]) for row in given.rows] == [[{"x": expected}, [["x", 1]], [1]]] * 3


class Counting(MemoryBackend):
    """Counts what is read of map entries."""

    reads = scans = 0

    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        type(self).reads += len(keys) if state_id == MAP_STATE_ID else 0
        return super().read(state_id, keys)

    def scan_prefixes(self, *given: Any, **limits: Any) -> Any:
        type(self).scans += 1
        return super().scan_prefixes(*given, **limits)


def test_of_a_large_map_only_the_entries_asked_for_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.operators.process.epochs.MemoryBackend", Counting)

    def look(maps: Maps) -> Any:
        maps.counts["new"] = 1
        return [maps.counts["e00007"], maps.counts["e00007"], "gone" in maps.counts]

    epochs = epochs_of(fill(1_000), look, lambda maps: len(maps.counts), lambda maps: maps.other.value)
    epochs.run([("k", 0, 0)])
    assert (Counting.reads, Counting.scans) == (0, 0), "a new key has no entries, so none are read"
    (row,) = epochs.run([("k", 0, 1)]).rows
    assert row["shown"] == "[7, 7, false]"
    assert (Counting.reads, Counting.scans) == (3, 0), "those asked for, and the one that is set, to count them"
    (row,) = epochs.run([("k", 0, 2)]).rows
    assert row["shown"] == "1001"
    assert Counting.scans == 1
    epochs.run([("k", 0, 3)])
    assert (Counting.reads, Counting.scans) == (3, 1), "who does not ask reads nothing"


def test_small_maps_of_many_keys_come_in_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.operators.process.epochs.MemoryBackend", Counting)
    monkeypatch.setattr(Counting, "scans", 0)
    epochs = epochs_of(fill(3), lambda maps: list(maps.counts.values()))
    epochs.emit_bytes = 2**20  # one table
    epochs.run([(f"k{i}", 0, 0) for i in range(50)])
    given = epochs.run([(f"k{i}", 0, 1) for i in range(50)])
    assert [row["shown"] for row in given.rows] == ["[0, 1, 2]"] * 50
    assert Counting.scans <= 2, "one, and one for the last key, which the sorter gives by itself"


def test_an_entry_expires_by_itself_and_is_removed_for_good() -> None:
    def put(key: str) -> Callable[[Maps], Any]:
        return lambda maps: maps.short.__setitem__(key, 1)

    def show(maps: Maps) -> Any:
        return [list(maps.short), len(maps.short), "a" in maps.short, maps.short.get("a")]

    epochs = epochs_of(put("a"), put("b"), show)
    shown = []
    for clock, step in [(100, 0), (105, 1), (109, 2), (110, 2), (114, 2), (115, 2)]:
        shown.append(json.loads(epochs.run([("k", 0, step)], clock_ms=clock).rows[0]["shown"]))
    both, one, none = [["a", "b"], 2, True, 1], [["b"], 1, False, None], [[], 0, False, None]
    assert shown[2:] == [both, one, one, none]
    assert not epochs.entries, "what expired was deleted when it was met"


def test_reading_keeps_an_entry_alive_where_the_ttl_says_so() -> None:
    epochs = epochs_of(
        lambda maps: maps.used.update(a=1, b=1), lambda maps: maps.used["a"], lambda maps: list(maps.used)
    )
    for clock, step in [(100, 0), (108, 1)]:
        epochs.run([("k", 0, step)], clock_ms=clock)
    (row,) = epochs.run([("k", 0, 2)], clock_ms=115).rows
    assert row["shown"] == '["a"]'


def test_entries_of_quiet_keys_are_swept_away_key_group_by_key_group() -> None:
    epochs = epochs_of(lambda maps: maps.short.update(a=1, b=2), lambda maps: maps.counts.update(c=3))
    epochs.run([(f"k{i}", 0, 0) for i in range(20)], clock_ms=0)
    epochs.run([("k0", 0, 1)], clock_ms=1)
    assert len(epochs.stored(MAP_STATE_ID)) == 41
    sizes = []
    for clock in range(0, SWEEP_EVERY_MS + 1, SWEEP_EVERY_MS // 8):
        epochs.run(clock_ms=clock + 2)
        sizes.append(len(epochs.entries))
    assert sizes[0] > sizes[3] > sizes[-1], "not all at a time"
    assert len(epochs.entries) == 2, "the key that still has an entry keeps it, and its row"


def test_a_failed_record_leaves_a_map_as_it_was() -> None:
    def fail(maps: Maps) -> None:
        maps.counts["a"] = 9
        maps.counts["new"] = 9
        del maps.counts["b"]
        maps.visits[1].tags.append("lost")
        maps.short["s"] = 1
        raise ValueError

    def start(maps: Maps) -> None:
        maps.counts.update(a=1, b=2)
        maps.visits[1] = Visit("v")

    def show(maps: Maps) -> Any:
        return [dict(maps.counts.items()), maps.visits[1], list(maps.short)]

    expected = [{"a": 1, "b": 2}, repr(Visit("v")), []]
    together = epochs_of(start, fail, show, on_error="skip")
    given = together.run([("k", 0, 0), ("k", 1, 1), ("k", 2, 2)])
    assert json.loads(given.rows[-1]["shown"]) == expected
    apart = epochs_of(start, fail, show, on_error="skip")
    for step in (0, 1):
        apart.run([("k", 0, step)])
    assert apart.pairs_written == 0, "nothing is left of the failed record"
    assert json.loads(apart.run([("k", 0, 2)]).rows[0]["shown"]) == expected


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            lambda maps: maps.counts.__setitem__(5, 1),
            "TypeError: this state is declared to hold str, and was given a int",
        ),
        (lambda maps: maps.counts.__setitem__("a", "x"), "TypeError: this state is declared to hold int"),
        (lambda maps: maps.counts["a"], "KeyError: 'a'"),
        (lambda maps: maps.pairs.__setitem__((1, 1), "x"), "Expected `str`, got `int` - at `$[0]`"),
        (lambda maps: maps.visits.__setitem__(1, Visit(5)), "Expected `str`, got `int` - at `$.page`"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_an_entry_of_another_type_is_refused(step: Callable[[Maps], Any], reason: str, on_error: Any) -> None:
    epochs = epochs_of(step, on_error=on_error)
    if on_error == "fail":
        with pytest.raises(InvalidJobError) as caught:
            epochs.run([("k", 0, 0)])
        assert reason in str(caught.value)
    else:
        assert reason in epochs.run([("k", 0, 0)]).sides["skipped"][0]["error"]
    assert not epochs.entries


def test_a_map_outside_of_a_key_is_refused() -> None:
    with pytest.raises(RuntimeError, match="state belongs to a key"):
        Maps.counts["a"] = 1
    with pytest.raises(RuntimeError, match="state belongs to a key"):
        len(Maps.counts)


@pytest.mark.parametrize("damage", [b"\x07\x01", b"\x01\xc1", b"\x01\xa1x"])
def test_a_damaged_entry_is_told_from_a_missing_one(damage: bytes) -> None:
    epochs = epochs_of(lambda maps: maps.counts.update(a=1), lambda maps: maps.counts["a"], on_error="skip")
    epochs.run([("k", 0, 0)])
    (key,) = epochs.stored(MAP_STATE_ID)
    epochs.entries[key] = damage
    with pytest.raises(CorruptStateError, match="an entry of a map state does not fit") as caught:
        epochs.run([("k", 0, 1)])
    assert "state=counts" in str(caught.value), "on-error: skip does not skip damage"


def test_the_layout_of_an_entry_is_pinned() -> None:
    epochs = epochs_of(lambda maps: [maps.counts.update(a=1), maps.short.update(b=2)])
    epochs.run([("k", 0, 0)], clock_ms=1)
    prefix = b"\x00\x02\x03" + b"\x01k\x00\x00"  # key group, state id, key
    assert epochs.stored(MAP_STATE_ID) == {
        prefix + b"\x06counts" + b"\xa1a": b"\x01\x01",
        prefix + b"\x05short" + b"\xa1b": b"\x02" + (11).to_bytes(8, "big") + b"\x02",
    }
