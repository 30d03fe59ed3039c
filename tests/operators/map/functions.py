"""Map functions that the tests of this folder call."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mixedmode.process import MapContext, MapFunction, Record


class Told(MapFunction):
    """Writes down what is called, in an object that the test gave."""

    redistribution = "split"

    def __init__(self, told: list[Any]) -> None:
        self.told = told

    def open(self, context: MapContext) -> None:
        self.told.append(("open", context.subtask, context.parallelism, context.epoch))

    def restore(self, items: list[Any]) -> None:
        self.told.append(("restore", list(items)))
        self.items = items

    def map_record(self, record: Record) -> Record:
        self.told.append(("map_record", record["v"]))
        self.items.append(record["v"])
        return {"v": record["v"]}

    def snapshot(self) -> list[Any]:
        self.told.append(("snapshot",))
        return self.items

    def close(self) -> None:
        self.told.append(("close",))


class Repeated(MapFunction):
    """Gives each record as often as it says."""

    def map_record(self, record: Record) -> Iterator[Record]:
        for _ in range(record["v"]):
            yield {"v": record["v"]}


class Lists(MapFunction):
    """Gives a list, one row, or nothing."""

    def map_record(self, record: Record) -> Any:
        return {0: None, 1: {"v": 1}, 2: [{"v": 2}, {"v": 2}]}[record["v"]]


class Whole(MapFunction):
    """Takes tables, and gives what it was made with."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def map_rows(self, rows: pa.Table) -> Any:
        return self.result(rows)


class Filtered(MapFunction):
    """Lets even rows through to map_record."""

    def map_rows(self, rows: pa.Table) -> Any:
        return super().map_rows(rows.filter(pa.array([v % 2 == 0 for v in rows["v"].to_pylist()])))

    def map_record(self, record: Record) -> Record | None:
        return {"v": 10 * record["v"]} if record["v"] else None


class Failing(MapFunction):
    """Raises in the method that it is told."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._check("__init__")

    def _check(self, method: str) -> None:
        if method == self.method:
            msg = "unlucky"
            raise ValueError(msg)

    def open(self, context: MapContext) -> None:
        self._check("open")

    def restore(self, items: list[Any]) -> None:
        self._check("restore")

    def map_record(self, record: Record) -> Record:
        if record["v"] == 3:
            self._check("map_record")
        return record

    def snapshot(self) -> list[Any]:
        self._check("snapshot")
        return []

    def close(self) -> None:
        self._check("close")


class Twisted(MapFunction):
    """Gives the third record with another type."""

    def map_record(self, record: Record) -> Iterator[Record]:
        yield {"v": "three" if record["v"] == 3 else record["v"]}
        yield {"v": record["v"]}
