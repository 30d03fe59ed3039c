"""A function stores and emits the same whether its records come in one epoch or in several."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from mixedmode.operators.process import Context, KeyedProcessFunction, MapState, Record, Ttl, ValueState
from tests.operators.process.epochs import Epochs, operator_of

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(1999, 12, 31, 23, 30, tzinfo=UTC)  # the next day in Berlin


class Days(KeyedProcessFunction):
    """Remembers times in a time zone."""

    last = ValueState(datetime)
    seen = MapState(datetime, datetime)

    def process_element(self, record: Record, context: Context) -> Record:
        here = (START + timedelta(hours=record["v"])).astimezone(BERLIN)
        before = "none" if self.last.value is None else f"{self.last.value}"
        self.last.value = here
        self.seen[here] = here
        return {"text": f"{before} {[(str(at), str(value)) for at, value in self.seen.items()]}"}


class Lists(KeyedProcessFunction):
    """Emits what it goes on to change: a list, a list in a list, and one in a side output."""

    items = ValueState(list[int], default=[])

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        items = self.items.value
        items.append(record["v"])
        context.output("side", {"items": items})
        yield {"items": items, "nested": [items, [record["v"]]], "parts": {"a": items}}


NUMBERS = pa.list_(pa.int64())
NESTED = {"items": NUMBERS, "nested": pa.list_(NUMBERS), "parts": pa.struct([pa.field("a", NUMBERS)])}


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize(
    ("function", "output", "sides"),
    [(Days, {"text": pa.string()}, {}), (Lists, NESTED, {"side": (pa.field("items", NUMBERS),)})],
)
def test_one_epoch_and_several_give_the_same_rows(function: Any, output: Any, sides: Any, on_error: Any) -> None:
    records = [("k", number, number) for number in range(4)]
    found = []
    for cut in ([records], [[record] for record in records], [records[:3], records[3:]]):
        epochs = Epochs(operator_of(function, output, outputs=sides, on_error=on_error))
        given = [epochs.run(part) for part in cut]
        found.append(
            (
                [row for one in given for row in one.rows],
                [row for one in given for row in one.sides.get("side", ())],
            )
        )
    assert found[0] == found[1] == found[2]
    assert found[0][0][0] != found[0][0][1], "the rows differ from each other"


class Reads(KeyedProcessFunction):
    """Reads mutable defaults; sets one to what it is, and clears one."""

    items = ValueState(list[int], default=[1])
    short = ValueState(dict[str, int], default={}, ttl=Ttl("1h"))
    changed = ValueState(list[int], default=[])

    def process_element(self, record: Record, context: Context) -> Record:
        shown = [*self.items.value, len(self.short.value), *self.changed.value]
        if record["v"] == 1:
            self.changed.value.append(7)
        if record["v"] == 2:
            self.changed.value.clear()
        return {"items": shown}


def test_a_default_that_is_only_read_takes_no_space() -> None:
    epochs = Epochs(operator_of(Reads, {"items": NUMBERS}))
    assert [row["items"] for row in epochs.run([(key, 0, 0) for key in "abc"]).rows] == [[1, 0]] * 3
    assert not epochs.entries
    epochs.run([("a", 1, 1)])
    assert len(epochs.entries) == 1
    (row,) = epochs.run([("a", 2, 2)]).rows
    assert row["items"] == [1, 0, 7]
    assert not epochs.entries, "it is the default again"
