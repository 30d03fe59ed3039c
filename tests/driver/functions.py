"""Process functions that tests/driver/test_process.py names in its jobs; imported by Spark's Python workers."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mixedmode.process import (
    MAX_WATERMARK,
    Context,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    MapState,
    OperatorAttributes,
    Record,
    RecordAttributes,
    ValueState,
)


class Totals(KeyedProcessFunction):
    """Counts and sums; large values also go to the output `large`."""

    count = ValueState(int, default=0)
    total = ValueState(int, default=0)

    def __init__(self, large: int = 1_000_000, fails_at: int | None = None) -> None:
        self.large = large
        self.fails_at = fails_at

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        self.count.value += 1
        self.total.value += record["v"]
        if record["v"] == self.fails_at:
            msg = "unlucky"
            raise ValueError(msg)
        if record["v"] >= self.large:
            context.output("large", {"k": record["k"], "v": record["v"]})
        yield {"k": record["k"], "n": self.count.value, "total": self.total.value}


class TotalsOfText(Totals):
    """The same state with another type."""

    total = ValueState(str, default="")


class Alarms(KeyedProcessFunction):
    """Sets a timer an hour after each record, and says when it fires."""

    seen = MapState(int, int)

    def process_element(self, record: Record, context: Context) -> None:
        assert context.timestamp is not None
        self.seen[context.timestamp] = record["v"]
        context.timers.register_event_time_timer(context.timestamp + 3_600_000_000)

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        yield {"k": context.current_key, "at": timestamp, "v": self.seen.pop(timestamp - 3_600_000_000)}


class Sums(KeyedBatchProcessFunction):
    """The sum of a key's records of an epoch, from Arrow to Arrow."""

    def process_rows(self, rows: pa.Table, context: Context) -> pa.Table:
        return pa.table({"k": [context.current_key], "n": [rows.num_rows], "total": [sum(rows["v"].to_pylist())]})


class AtTheEnd(KeyedProcessFunction):
    """Gives a key's count when the input has ended, and nothing before; or says so and does otherwise."""

    attributes = OperatorAttributes(output_only_after_end_of_stream=True)
    count = ValueState(int, default=0)

    def __init__(self, *, breaks_its_word: bool = False) -> None:
        self.breaks_its_word = breaks_its_word

    def process_element(self, record: Record, context: Context) -> Record | None:
        self.count.value += 1
        context.timers.register_event_time_timer(MAX_WATERMARK)
        return {"k": record["k"], "n": 0, "total": 0} if self.breaks_its_word else None

    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"k": context.current_key, "n": self.count.value, "total": timestamp}


class Reminders(KeyedProcessFunction):
    """Sets a timer a moment ahead of the clock, and says when it fires."""

    attributes = OperatorAttributes(uses_clock=True)

    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_processing_time_timer(context.processing_time + 60_000_000)

    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"k": context.current_key, "n": timestamp, "total": context.processing_time}


class Flips(KeyedProcessFunction):
    """Says with each record whether it is backlog, as the function was told."""

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        self.told = attributes.is_backlog

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        yield {"k": record["k"], "told": str(getattr(self, "told", None)), "is_backlog": context.is_backlog}


class WrongRow(KeyedProcessFunction):
    """Gives a row that is not what the step declares."""

    def process_element(self, record: Record, context: Context) -> Iterator[dict[str, Any]]:
        yield {"k": record["k"], "n": "many", "total": 0}


class BlocksOnce(KeyedProcessFunction):
    """Gives each key's count; the first time that it meets `key`, it waits until its task is killed."""

    count = ValueState(int, default=0)

    def __init__(self, marker: str, key: str) -> None:
        self.marker = Path(marker)
        self.key = key

    def process_element(self, record: Record, context: Context) -> Record | None:
        if record["k"] == self.key and not self.marker.exists():
            self.marker.touch()
            threading.Event().wait()
        self.count.value += 1
        return {"k": context.current_key, "n": self.count.value}


class Ledger(KeyedProcessFunction):
    """Says after each record what its key has had so far, and an hour and a half after it what it was."""

    count = ValueState(int, default=0)
    total = ValueState(int, default=0)
    entries = MapState(int, int)

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        assert context.timestamp is not None
        self.count.value += 1
        self.total.value += record["v"]
        self.entries[context.timestamp] = record["v"]
        context.timers.register_event_time_timer(context.timestamp + 5_400_000_000)
        yield {"k": record["k"], "at": 0, "n": self.count.value, "total": self.total.value}

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        entry = self.entries.pop(timestamp - 5_400_000_000)
        yield {"k": context.current_key, "at": timestamp, "n": self.count.value, "total": entry}


class Meets(KeyedProcessFunction):
    """Waits at each record until as many functions as a server wants have come to its port."""

    def __init__(self, port: int) -> None:
        self.port = port

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as server:
            yield {"customer": record["customer"], "met": server.recv(8).decode()}
