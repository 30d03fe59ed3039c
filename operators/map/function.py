"""Base class of the functions of `map` steps: they see rows without a key, and may keep one list per subtask.

A function object serves one subtask in one epoch:

    __init__(**args) -> open -> restore -> map_rows, once per table of rows -> snapshot -> close

So data that must outlive the epoch belongs into the list. A function without `snapshot` and `restore` keeps nothing.

Source: Flink's RichMapFunction and CheckpointedFunction; FLIP-8.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from mixedmode.checkpoint.types import Redistribution
from mixedmode.errors import InvalidJobError
from mixedmode.operators.classes import ClassKind
from mixedmode.operators.process.context import Record
from mixedmode.operators.process.function import Rows
from mixedmode.operators.process.records import python_records
from mixedmode.operators.tables import column_of

__all__ = ["MAP_FUNCTION", "MapContext", "MapFunction", "keeps_list", "problem_of"]


@dataclass(frozen=True, slots=True)
class MapContext:
    """The environment of a function object.

    Subtasks are numbered from 0 to `parallelism` - 1. `processing_time` is the clock of the epoch, `current_watermark`
    the job's watermark at its start (process.MIN_WATERMARK before the first one), both in microseconds since 1970.
    """

    operator_id: str
    subtask: int
    parallelism: int
    epoch: int
    is_backlog: bool
    processing_time: int
    current_watermark: int


class MapFunction:
    """Map rows to rows. A list per subtask holds data that must outlive an epoch. See docs/map-functions.md.

    redistribution: how the lists of all subtasks are redistributed when the number of subtasks changes. `split`: the
    items are divided among the subtasks. `union`: each subtask gets all items, in every epoch, so it must snapshot only
    its own part. None: the number of subtasks must not change.

    item_type: the type of an item, as for a ValueState. If it is not set, items may be None, bool, int, float, str,
    bytes, datetime with a time zone, and lists and dicts of these.
    """

    redistribution: ClassVar[Redistribution] = None
    item_type: ClassVar[Any] = Any

    def open(self, context: MapContext) -> None:
        """Prepare the function. Called once, first."""

    def restore(self, items: list[Any]) -> None:
        """Restore the items that the previous epoch left for this subtask; [] if none. Called once, after `open`."""

    def map_rows(self, rows: pa.Table) -> Any:
        """Map some of the subtask's rows in this epoch. Return a table or frame with the columns of `output`, or rows.

        Unless it is overridden, it calls `map_record` for each row.
        """
        return [row for record in records_of(rows) for row in rows_in(self.map_record(record))]

    def map_record(self, record: Record) -> Rows:
        """Map one row, {column: value}. Emit rows of the step's `output` by `yield` or `return`, or return None."""
        del record
        msg = f"{type(self).__name__} has neither map_rows nor map_record. Write one"
        raise NotImplementedError(msg)

    def snapshot(self) -> list[Any]:
        """Return the items to keep. Called once, after the rows of the epoch; the list is committed with the epoch."""
        return []

    def close(self) -> None:
        """Release resources. Called once at the end, also after a failure."""


MAP_FUNCTION = ClassKind(
    noun="map function", key="map", bases=(MapFunction,), derives_from="mixedmode.process.MapFunction"
)


def records_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries; see operators/process/records.py."""
    return python_records([column_of(rows, name) for name in rows.column_names], rows.column_names)


def rows_in(result: Rows) -> Iterable[Any]:
    """Return the result of a method as an iterable of rows."""
    if result is None:
        return ()
    return (result,) if isinstance(result, dict) else result


def keeps_list(function: MapFunction) -> bool:
    """Return whether the class keeps a list, that is, overrides `snapshot`."""
    return type(function).snapshot is not MapFunction.snapshot


def maps_tables(function: MapFunction) -> bool:
    """Return whether the class handles tables rather than records."""
    return type(function).map_rows is not MapFunction.map_rows


def problem_of(function: MapFunction, label: str) -> InvalidJobError | None:
    """Return the error in the definition of a class, found before any row; None if it is correct."""
    found, values = type(function), f"map={label}"
    has_restore = found.restore is not MapFunction.restore
    if not maps_tables(function) and found.map_record is MapFunction.map_record:
        return InvalidJobError(f"the map function has neither map_rows nor map_record. Write one of them. {values}")
    if keeps_list(function) is not has_restore:
        has, lacks = ("restore", "snapshot") if has_restore else ("snapshot", "restore")
        msg = (
            f"the map function has a method {has} and no method {lacks}, so what one subtask keeps would never come "
            f"back. Write both, or neither. {values}"
        )
        return InvalidJobError(msg)
    if function.redistribution not in ("split", "union", None):  # a tuple: it may be unhashable
        msg = (
            "the map function declares an unknown redistribution. Set it to 'split', 'union' or None. "
            f"{values}, redistribution={function.redistribution!r}"
        )
        return InvalidJobError(msg)
    if function.redistribution is not None and not keeps_list(function):
        msg = (
            "the map function says how its list is redistributed, and keeps none. Write snapshot and restore, or "
            f"remove `redistribution`. {values}, redistribution={function.redistribution!r}"
        )
        return InvalidJobError(msg)
    return None
