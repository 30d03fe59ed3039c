"""Map functions that tests/driver/test_maps.py names in its jobs; imported by Spark's Python workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.process import MapContext, MapFunction, Record


class Packets(MapFunction):
    """Puts records together, `size` to a packet, given as text; what does not fill one waits, and may go elsewhere."""

    redistribution = "split"
    item_type = str

    def __init__(self, size: int = 3, fails_at: str | None = None) -> None:
        self.size = size
        self.fails_at = fails_at

    def restore(self, items: list[str]) -> None:
        self.waiting = items

    def map_record(self, record: Record) -> Iterator[Record]:
        if record["k"] == self.fails_at:
            msg = "unlucky"
            raise ValueError(msg)
        self.waiting.append(record["k"])
        if len(self.waiting) >= self.size:
            packet, self.waiting = self.waiting[: self.size], self.waiting[self.size :]
            yield {"packet": " ".join(packet), "n": len(packet)}

    def snapshot(self) -> list[str]:
        return self.waiting


@dataclass
class Reached:
    """The greatest number that a subtask has given."""

    number: int


class Numbering(MapFunction):
    """A number for each record, unique for ever: each subtask goes on from the greatest of all, in steps of its own."""

    redistribution = "union"
    item_type = Reached

    def __init__(self, opened: str | None = None) -> None:
        self.opened = opened

    def open(self, context: MapContext) -> None:
        self.context = context
        if self.opened is not None:
            Path(self.opened, f"{context.epoch}-{context.subtask}-{uuid4().hex}").touch()

    def restore(self, items: list[Reached]) -> None:
        greatest = max((item.number for item in items), default=0)
        self.reached = greatest
        self.next = greatest + 1 + self.context.subtask

    def map_rows(self, rows: pa.Table) -> pa.Table:
        end = self.next + rows.num_rows * self.context.parallelism
        numbers = range(self.next, end, self.context.parallelism)
        self.next, self.reached = end, numbers[-1]
        return rows.append_column("number", pa.array(numbers, pa.int64()))

    def snapshot(self) -> list[Reached]:
        return [Reached(self.reached)]


class Fixed(MapFunction):
    """Counts the records of its subtask, and does not say what becomes of the count elsewhere."""

    def open(self, context: MapContext) -> None:
        self.subtask = context.subtask

    def restore(self, items: list[Any]) -> None:
        (self.count,) = items or [0]

    def map_record(self, record: Record) -> Record:
        self.count += 1
        return {"k": record["k"], "n": self.count}

    def snapshot(self) -> list[Any]:
        return [self.count]


class Upper(MapFunction):
    """Keeps nothing; leaves the other columns as they are."""

    def map_rows(self, rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index("k"), "k", pc.utf8_upper(rows["k"]))


class WrongRow(MapFunction):
    """Gives a row that is not what the step declares."""

    def map_record(self, record: Record) -> Record:
        return {"k": record["k"], "v": "many" if record["k"] == "b" else 1}


class Hoarder(Packets):
    """Keeps far more than a manifest takes."""

    item_type: ClassVar[Any] = str

    def snapshot(self) -> list[str]:
        return [key * 300_000 for key in self.waiting]


class Lonely(MapFunction):
    """Has a method snapshot, and no method restore."""

    def map_record(self, record: Record) -> Record:
        return record

    def snapshot(self) -> list[Any]:
        return [1]


class Passing(MapFunction):
    """Passes all rows on."""

    def map_rows(self, rows: pa.Table) -> pa.Table:
        return rows
