"""The operator of a `map` step: it calls a user's function with the rows of one subtask, and with the subtask's list.

The operator takes the list of the previous epoch, and returns the list of this epoch, as text. Its callers store the
list, and redistribute the lists when the number of subtasks changes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mixedmode.checkpoint.types import Redistribution
from mixedmode.operators.classes import ClassSource, file_of
from mixedmode.operators.map.failures import map_error
from mixedmode.operators.map.function import MapContext, MapFunction, keeps_list, maps_tables, problem_of, records_of
from mixedmode.operators.map.items import ItemCodec
from mixedmode.operators.process.failures import PASSED_THROUGH
from mixedmode.operators.process.rows import RowCollector, RowMismatchError

__all__ = ["KeptList", "MapDeclaration", "MapOperator"]

SLICE_ROWS = 2**14  # most rows that are held as Python objects


@dataclass(frozen=True, slots=True)
class KeptList:
    """The list that a subtask keeps after an epoch: its items as text."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MapDeclaration:
    """The properties that a function's class declares."""

    keeps_list: bool
    redistribution: Redistribution


@dataclass(frozen=True, slots=True)
class MapOperator:
    """Call `function` for the rows of a subtask. A frozen, picklable value that holds no data.

    record_fields: the columns of the input. output_fields: the columns of the output.
    """

    operator_id: str
    function: ClassSource[MapFunction]
    record_fields: tuple[pa.Field, ...]
    output_fields: tuple[pa.Field, ...]

    def declaration(self) -> MapDeclaration:
        """Instantiate the function, and return its declaration. Raise InvalidJobError if the class is not usable."""
        function = self._checked()
        ItemCodec(function.item_type)
        return MapDeclaration(keeps_list(function), function.redistribution)

    def check_items(self, lists: Sequence[Sequence[str]]) -> None:
        """Raise InvalidJobError if the function cannot read the items of the lists."""
        codec = ItemCodec(self._checked().item_type)
        for items in lists:
            codec.unpack(items)

    def run(
        self, tables: Iterator[pa.Table], context: MapContext, items: Sequence[str]
    ) -> Iterator[pa.Table | KeptList]:
        """Run one epoch of one subtask. Yield the output of the function for `tables`, then its list if it keeps one.

        items: the items that the previous epoch left for this subtask. Raise InvalidJobError if the function fails.
        """
        function = self._checked()
        try:
            codec = ItemCodec(function.item_type)
            self._called(function, "open", context)
            if keeps_list(function):
                self._called(function, "restore", codec.unpack(items))
            collector = RowCollector(self.output_fields)
            for table in tables:
                rows_at_once = table.num_rows if maps_tables(function) else SLICE_ROWS
                for start in range(0, table.num_rows, max(1, rows_at_once)):
                    self._map(function, table.slice(start, rows_at_once), collector)
                    yield collector.take()
            if keeps_list(function):
                yield KeptList(self._kept(function, codec))
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                function.close()
            raise
        self._called(function, "close")

    def _checked(self) -> MapFunction:
        function = self.function.create()
        problem = problem_of(function, self.function.label)
        if problem is not None:
            raise problem
        return function

    def _map(self, function: MapFunction, rows: pa.Table, collector: RowCollector) -> None:
        if not maps_tables(function):
            self._map_records(function, rows, collector)
            return
        try:
            result = function.map_rows(rows)
            if result is not None:
                collector.add_frames(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            raise self._error(function, error, "map_rows") from error

    def _map_records(self, function: MapFunction, rows: pa.Table, collector: RowCollector) -> None:
        records, ends = records_of(rows), list[int]()
        for record in records:
            try:
                result = function.map_record(record)
                if result is not None:
                    collector.add(result)
            except PASSED_THROUGH:
                raise
            except Exception as error:
                raise self._error(function, error, "map_record", record) from error
            ends.append(len(collector.rows))
        try:
            collector.seal()
        except RowMismatchError as error:
            culprit = None if error.index is None else records[bisect_right(ends, error.index)]
            raise self._error(function, error, "map_record", culprit) from error

    def _kept(self, function: MapFunction, codec: ItemCodec) -> tuple[str, ...]:
        try:
            return codec.pack(function.snapshot())
        except PASSED_THROUGH:
            raise
        except Exception as error:
            raise self._error(function, error, "snapshot") from error

    def _called(self, function: MapFunction, method: str, *arguments: Any) -> None:
        try:
            getattr(function, method)(*arguments)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            raise self._error(function, error, method) from error

    def _error(
        self, function: MapFunction, error: Exception, method: str, record: dict[str, Any] | None = None
    ) -> Exception:
        return map_error(error, operator_id=self.operator_id, file=file_of(function), method=method, record=record)
