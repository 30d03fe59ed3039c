"""The harness of a map function: epochs, rescaling, snapshots, and the refusals of a job."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Redistribution
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.process import MIN_WATERMARK, MapContext, MapFunction, Record
from mixedmode.testing import MapHarness

CHAIN = (1, 2, 4, 3, 1)


class Pairs(MapFunction):
    """Two records to a row; what has no partner yet waits."""

    redistribution: ClassVar[Redistribution] = "split"

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at

    def restore(self, items: list[Any]) -> None:
        self.waiting = items

    def map_record(self, record: Record) -> Iterator[Record]:
        if record["v"] == self.fails_at:
            raise ValueError(record["v"])
        self.waiting.append(record["v"])
        if len(self.waiting) == 2:
            yield {"a": self.waiting[0], "b": self.waiting[1]}
            self.waiting.clear()

    def snapshot(self) -> list[Any]:
        return self.waiting


class PairsInUnion(Pairs):
    """Snapshots all that it was given, which it must not."""

    redistribution = "union"

    def map_record(self, record: Record) -> Iterator[Record]:
        self.waiting.append("x" * 1000)
        yield {"a": 1, "b": 1}


class FixedPairs(Pairs):
    redistribution = None


class Where(MapFunction):
    """Says where it is."""

    def open(self, context: MapContext) -> None:
        self.context = context

    def map_record(self, record: Record) -> Record:
        context = self.context
        return {"a": context.subtask, "b": context.epoch, "c": f"{context.is_backlog} {context.current_watermark}"}


def pairs(function: Any = Pairs, **settings: Any) -> MapHarness:
    return MapHarness(function, schema="v long", output="a long, b long", **settings)


def rows(*values: int) -> list[dict[str, int]]:
    return [{"v": value} for value in values]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9), st.booleans()), max_size=8))
def test_nothing_is_lost_and_nothing_doubled_by_rescaling_and_restoring(steps: list[tuple[int, int, bool]]) -> None:
    harness, fed, given_out = pairs(), 0, list[int]()
    for parallelism, records, restores in [*steps, *((p, 3, True) for p in CHAIN)]:
        if restores:
            harness = harness.restore(harness.snapshot(), parallelism=parallelism)
        else:
            harness.rescale(parallelism)
        harness.feed(rows(*range(fed, fed + records)))
        fed += records
        given_out += [value for row in harness.take() for value in row.values()]
        waiting = [value for items in harness.lists for value in items]
        assert Counter(given_out + waiting) == Counter(range(fed))
        assert len(harness.lists) == harness.parallelism == parallelism


def test_an_epoch_that_fails_changes_nothing() -> None:
    harness = pairs(parallelism=2, args={"fails_at": 7})
    harness.feed(rows(1, 2, 3))
    before, given_out = harness.lists, harness.take()
    with pytest.raises(InvalidJobError, match=r"the map function raised ValueError: 7"):
        harness.feed(rows(4, 5, 6, 7))
    assert (harness.lists, harness.take()) == (before, [])
    assert given_out == [{"a": 2, "b": 3}]


def test_a_function_that_says_nothing_of_its_list_is_not_rescaled() -> None:
    harness = pairs(FixedPairs, parallelism=2)
    harness.rescale(3)
    harness.rescale(2)  # nothing was kept yet
    harness.feed(rows(1))
    with pytest.raises(InvalidJobError, match="does not say what becomes of the lists when their number changes"):
        harness.rescale(3)
    with pytest.raises(InvalidJobError, match="parallelism=1, parallelism_stored=2"):
        harness.restore(harness.snapshot(), parallelism=1)
    assert harness.restore(harness.snapshot()).lists == harness.lists


def test_a_union_that_multiplies_is_stopped_by_the_limit() -> None:
    harness = pairs(PairsInUnion, parallelism=4)
    for _ in range(4):
        harness.feed(rows(1, 2, 3, 4))
    with pytest.raises(InvalidJobError, match="Under 'union' a subtask snapshots its own part only"):
        harness.feed(rows(1, 2, 3, 4))


def test_a_function_is_told_where_it_is() -> None:
    harness = MapHarness(
        Where(), schema="v long", output="a long, b long, c string", parallelism=2, backlog=True, clock=5
    )
    harness.feed(rows(1, 2))
    assert sorted(harness.take(), key=lambda row: row["a"]) == [
        {"a": subtask, "b": 0, "c": f"True {MIN_WATERMARK}"} for subtask in range(2)
    ]
    restored = harness.restore(harness.snapshot())
    restored.feed(rows(1), watermark=10)
    (row,) = restored.take()
    assert (row["b"], row["c"]) == (1, "False 10")
    assert restored.lists == ()
    with pytest.raises(CorruptStateError, match="these bytes are no snapshot of a map harness"):
        harness.restore(b"mixedmode test snapshot 1\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"parallelism": 0},
            "MapHarness: parallelism must be at least 1. found=0",
        ),
        ({"function": Pairs(), "args": {"fails_at": 1}}, "MapHarness: an object has its arguments already."),
        ({"function": "no_module:Pairs"}, "the module of a map function cannot be imported"),
        ({"function": MapFunction}, "the map function has neither map_rows nor map_record."),
    ],
)
def test_a_harness_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        pairs(**settings)
    assert str(caught.value).startswith(message)
