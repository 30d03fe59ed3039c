"""Random calls of all methods, compared with TwsTester, by which PySpark tests such classes in memory."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mixedmode.testing import FunctionHarness

tester = pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="it is there since PySpark 4.2")

KEYS = ("a", "b")


def tuples(given: Any) -> Any:
    """A list of a row as a tuple, and one of lists as a list of tuples."""
    if not isinstance(given, list):
        return given
    return [tuples(one) for one in given] if given and isinstance(given[0], list) else tuple(given)


class Machine(StatefulProcessor):
    """Does what a row says, and emits all that it knows after each step."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n long, s string")
        self.items = handle.getListState("items", "n long")
        self.entries = handle.getMapState("entries", "n long", "s string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            for state, method, arguments in json.loads(row.steps):
                getattr(getattr(self, state), method)(*map(tuples, arguments))
                yield self._told(key, method, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        at = expiredTimerInfo.getExpiryTimeInMs()
        self.items.appendValue((at,))
        if at % 2:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 5)
            self.value.clear()
        yield self._told(key, f"timer {at}", timerValues)

    def _told(self, key: Any, cause: str, times: Any) -> Row:
        known = [
            cause,
            times.getCurrentWatermarkInMs(),
            self.value.exists(),
            self.value.get(),
            self.items.exists(),
            list(self.items.get()),
            self.entries.exists() and any(self.entries.keys()),  # the tester tells an empty map from none
            sorted(self.entries.iterator()),
            sorted(self.entries.keys()),
            sorted(self.entries.values()),
            [(self.entries.containsKey((n,)), tuple(self.entries.getValue((n,)) or ())) for n in range(3)],
            list(self.handle.listTimers()),
        ]
        return Row(k=key[0], text=repr(known))


def steps_of(chosen: random.Random, watermark_ms: int) -> list[Any]:
    n = chosen.randrange(3)
    kinds: list[Any] = [
        ("value", "update", [[n, chosen.choice(["x", None])]]),
        ("value", "clear", []),
        ("items", "put", [[[n], [n + 1]]]),
        ("items", "appendValue", [[n]]),
        ("items", "appendList", [[[n], [n]]]),
        ("items", "clear", []),
        ("entries", "updateValue", [[n], [f"v{n}"]]),
        ("entries", "removeKey", [[n]]),
        ("entries", "clear", []),
        *[("handle", "registerTimer", [watermark_ms + chosen.randrange(1, 30)])] * 3,
        ("handle", "deleteTimer", [watermark_ms + chosen.randrange(1, 30)]),
    ]
    return chosen.choices(kinds, k=chosen.randrange(1, 4))


@pytest.mark.parametrize("seed", range(20))
def test_a_class_does_what_it_does_in_the_tester_of_pyspark(seed: int) -> None:
    chosen, watermark_ms = random.Random(seed), 0
    theirs = tester.TwsTester(Machine(), timeMode="EventTime", eventTimeExtractor=lambda _: 2**60)
    ours = FunctionHarness(
        Machine,
        key_by="k",
        schema="k string, t timestamp, steps string",
        output="k string, text string",
        event_time="t",
        time_mode="EventTime",
        parallelism=2,
    )
    for _ in range(12):
        records = [
            {"k": chosen.choice(KEYS), "steps": json.dumps(steps_of(chosen, watermark_ms)), "t": number}
            for number in range(chosen.randrange(4))
        ]
        ours.feed(records)
        expected = [row for one in records for row in theirs.test(one["k"], [Row(**one)])]
        if chosen.random() < 0.5:
            watermark_ms += chosen.randrange(1, 40)
            ours.advance_watermark(watermark_ms * 1000)
            expected += theirs.setWatermark(watermark_ms)
        found = [Row(**row) for row in ours.take()]
        for key in KEYS:
            assert [row for row in found if row.k == key] == [row for row in expected if row.k == key]
