"""Classes for Spark's transformWithState, as its guide has them: counts, timers, lists, maps, a time to live."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

WAIT_MS = 60_000


class RunningCount(StatefulProcessor):
    """Emits the number of rows of the key so far, for each row."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("running count", StructType([StructField("n", LongType(), True)]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            before = self.count.get()[0] if self.count.exists() else 0
            self.count.update((before + 1,))
            yield Row(k=key[0], n=before + 1)


class PandasCount(StatefulProcessor):
    """As RunningCount, for transformWithStateInPandas, with the sum of `v`."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("count", "n long, total double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        count, total = self.state.get() or (0, 0.0)
        found = []
        for frame in rows:
            for row in frame.itertuples():
                count, total = count + 1, total + (0.0 if pd.isna(row.v) else row.v)
                found.append({"k": key[0], "n": count, "total": total, "at": row.t, "v": row.v})
        self.state.update((count, total))
        yield pd.DataFrame(found)


class Quiet(StatefulProcessor):
    """Emits a row for each row after which the key is quiet for a minute of event time."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.last = handle.getMapState("last", "at long", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            at = int(row.t.timestamp() * 1000)
            self.last.updateValue((at,), (row.v,))
            self.handle.registerTimer(at + WAIT_MS)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        at = expiredTimerInfo.getExpiryTimeInMs() - WAIT_MS
        if not any(at < later <= at + WAIT_MS for (later,), _ in self.last.iterator()):
            yield Row(k=key[0], at=at, v=self.last.getValue((at,)).v)


class Words(StatefulProcessor):
    """Keeps the words of a key in a list and their numbers in a map, and emits both."""

    def init(self, handle: Any) -> None:
        self.words = handle.getListState("words", StructType([StructField("word", StringType())]))
        self.counts = handle.getMapState("counts", "word string", "n int, words array<string>")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            new = [(word,) for word in (row.words or "").split()]
            if new:
                self.words.appendList(new)
            for word in new:
                entry = self.counts.getValue(word)
                self.counts.updateValue(
                    word, (1, [row.words]) if entry is None else (entry.n + 1, [*entry[1], row.words])
                )
            if self.counts.containsKey(("drop",)):
                self.counts.removeKey(("drop",))
                self.words.put([one for one in self.words.get() if one != ("drop",)] or [("none",)])
        counts = sorted((word, n, len(seen)) for (word,), (n, seen) in self.counts.iterator())
        yield Row(k=key[0], words=[word for (word,) in self.words.get()], counts=repr(counts))


class Fading(StatefulProcessor):
    """Emits what is left of the last ten milliseconds of processing time, and sets a timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.last = handle.getValueState("last", "v long", ttlDurationMs=10)
        self.every = handle.getListState("every", "v long", 10)
        self.by_value = handle.getMapState("by_value", "v long", "v long", ttlDurationMs=10)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        before = self.last.get()
        for row in rows:
            self.last.update((row.v,))
            self.every.appendValue((row.v,))
            self.by_value.updateValue((row.v,), (row.v,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 5)
        yield Row(
            k=key[0], text=repr((before, [v for (v,) in self.every.get()], [v for (v,) in self.by_value.values()]))
        )

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        now, watermark = timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()
        yield Row(k=key[0], text=repr((expiredTimerInfo.getExpiryTimeInMs(), now, watermark)))


class Everything(StatefulProcessor):
    """Emits what it gets and what comes back from states of all types, as text."""

    TYPES = (
        "b boolean, i int, l long, d double, f float, s string, x binary, da date, ts timestamp, n timestamp_ntz, "
        "de decimal(10,2), a array<int>, m map<string,int>, st struct<x: int, y: string>"
    )

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("a value", self.TYPES)
        self.items = handle.getListState("items", self.TYPES)
        self.entries = handle.getMapState("entries", "s string, n int", self.TYPES)
        self.emptied = handle.getMapState("emptied", "n int", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            at = int(row.t.timestamp() * 1000)
            for wait in (60_000, 1_000, 60_000):
                self.handle.registerTimer(at + wait)
            self.handle.deleteTimer(at + 1_000)
            self.handle.deleteTimer(at)
            none = (None,) * 14
            some = (
                *(True, row.v, 2**40, 1.5, 0.1, "ä", b"x", row.t.date(), row.t, row.t.replace(tzinfo=None)),
                *(Decimal("1.5"), [1, None], {"a": 1}, (1, None)),
            )
            found = [key, self.value.exists(), self.value.get(), self.items.exists(), list(self.items.get())]
            self.value.update(some)
            self.items.appendList([some, none])
            self.entries.updateValue(("e", 1), some)
            self.entries.updateValue(("f", 1), none)
            self.entries.removeKey(("g", 1))
            found += [self.value.get(), self.entries.getValue(("e", 1)), self.entries.containsKey(("g", 1))]
            self.emptied.updateValue((1,), (2,))
            self.emptied.removeKey((1,))
            found += [
                self.emptied.exists(),
                sorted(self.entries.keys()),
                len(list(self.entries.values())),
                self.entries.exists(),
            ]
            self.items.put([none, some])
            yield Row(k=key[0], text=repr((found, list(self.items.get()), sorted(self.handle.listTimers()), row.v)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        at = expiredTimerInfo.getExpiryTimeInMs()
        self.entries.clear()
        yield Row(k=key[0], text=repr(("timer", key, at, self.value.exists(), self.entries.exists())))


class Hours(StatefulProcessor):
    """Emits the hour of the row, the same time, and how many rows of the key came before."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            (before,) = self.count.get() or (0,)
            self.count.update((before + 1,))
            yield Row(k=key[0], n=before, hour=row.at.hour, at=row.at)


class PandasHours(StatefulProcessor):
    """As Hours, for frames."""

    def init(self, handle: Any) -> None:
        self.hours = Hours()
        self.hours.init(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            found = self.hours.handleInputRows(key, list(frame.itertuples()), timerValues)
            yield pd.DataFrame([row.asDict() for row in found])


class WithArguments(RunningCount):
    """Takes an argument."""

    def __init__(self, most: int) -> None:
        self.most = most


class Kept(StatefulProcessor):
    """Keeps a state of each kind, and a timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("last row", "v long, at timestamp")
        self.items = handle.getListState("items", "v long")
        self.entries = handle.getMapState("entries", "s string, v long", "de decimal(5,2)")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.value.update((row.v, row.at))
            self.items.appendValue((row.v,))
            self.entries.updateValue(("e", row.v), (Decimal("1.5"),))
            self.handle.registerTimer(int(row.at.timestamp() * 1000) + 3_600_000)
            yield Row(k=key[0], v=row.v)
