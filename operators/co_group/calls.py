"""The calls of a co-group function for the groups that end: the rows of both inputs of a key and window as two tables.

The two operators of this package find the groups (operator.py, sessions.py); how the function is called, what happens
if it fails, and how its rows become those of the step is the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.classes import file_of
from mixedmode.operators.co_group.base import CoGroupBase
from mixedmode.operators.co_group.function import CoGroupContext
from mixedmode.operators.interface import AppendedRows, SideRows
from mixedmode.operators.join.layout import LEFT, RIGHT
from mixedmode.operators.process.chunks import python_keys
from mixedmode.operators.process.failures import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_TAG,
    PASSED_THROUGH,
    SKIPPED_TAG,
    Call,
    dead_letter,
    line_of,
    short_json,
    shown_error,
)
from mixedmode.operators.process.records import python_records
from mixedmode.operators.process.rows import RowCollector, RowMismatchError
from mixedmode.operators.row_columns import encoded_rows
from mixedmode.operators.window.output import instants
from mixedmode.time import shown_time

__all__ = ["GroupCalls", "Groups", "SideGroups"]

EMIT_ROWS = 2**16  # number of rows at which a table is emitted


@dataclass(frozen=True, slots=True)
class SideGroups:
    """The rows of a side whose window ends, sorted by group: the first row of each group, and the end of the last."""

    table: pa.Table
    bounds: Int64s

    @classmethod
    def of(
        cls, fields: Sequence[pa.Field], time_column: int, columns: Sequence[pa.Array], groups: Int64s, numbers: Int64s
    ) -> "SideGroups":
        """Return the rows (n,), those of a group in the order of event time, then of the whole row.

        groups: (n,) the group of each row. numbers: (m,) all groups of the two sides, ascending.
        """
        order = pc.sort_indices(
            pa.table(
                [pa.array(groups), columns[time_column], encoded_rows(columns, fields)], names=["group", "time", "row"]
            ),
            sort_keys=[(name, "ascending") for name in ("group", "time", "row")],
        )
        bounds = np.append(np.searchsorted(groups[order.to_numpy()], numbers), len(groups))
        return cls(pa.table([column.take(order) for column in columns], schema=pa.schema(fields)), bounds)

    def rows_of(self, number: int) -> pa.Table:
        """Return the rows of a group, by its position."""
        start, end = int(self.bounds[number]), int(self.bounds[number + 1])
        return self.table.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups that end (n,): the encoded key and the window of each, and the rows of both sides."""

    keys: pa.Array
    starts_us: Int64s
    ends_us: Int64s
    left: SideGroups
    right: SideGroups


class GroupCalls:
    """Calls the function of one subtask in one epoch. A context manager, which opens and closes the function."""

    def __init__(self, operator: CoGroupBase) -> None:
        self._operator = operator
        self._function = operator.function.create()
        self._file = file_of(self._function)
        self._emitted = RowCollector(operator.function_fields)
        self._rejected = RowCollector(DEAD_LETTER_FIELDS)
        self._groups: list[tuple[list[pa.Array], Int64s]] = []  #: columns of the groups, number of rows of each

    def __enter__(self) -> Self:
        """Open the function. Raise InvalidJobError if that fails."""
        try:
            self._guarded("open")
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the function. Raise InvalidJobError if that fails, unless there is a failure already."""
        if kind is None:
            self._guarded("close")
            return
        with suppress(Exception):  # the first failure is the one to report
            self._function.close()

    def call(self, groups: Groups) -> Iterator[AppendedRows | SideRows]:
        """Call the function for each group. Yield rows from time to time; `rows` has the rest.

        Raise InvalidJobError if the function fails and `on_error` is `fail`.
        """
        schema = self._operator.layout.key_schema
        keys = python_keys(groups.keys, schema)
        bounds = [instants(groups.starts_us), instants(groups.ends_us), *decode_keys(groups.keys, schema)]
        counts = np.zeros(len(keys), np.int64)
        done = 0
        for number, key in enumerate(keys):
            before = self._emitted.sealed_rows
            context = CoGroupContext(key, int(groups.starts_us[number]), int(groups.ends_us[number]))
            self._call(context, groups.left.rows_of(number), groups.right.rows_of(number))
            counts[number] = self._emitted.sealed_rows - before
            if max(self._emitted.sealed_rows, self._rejected.sealed_rows) >= EMIT_ROWS:
                self._add_groups(bounds, counts, done, number + 1)
                done = number + 1
                yield from self.rows()
        self._add_groups(bounds, counts, done, len(keys))

    def rows(self) -> Iterator[AppendedRows | SideRows]:
        """Yield the rows that the function has emitted, and those that failed, if there are any."""
        if self._rejected.sealed_rows:
            tag = DEAD_LETTER_TAG if self._operator.on_error == "dead-letter" else SKIPPED_TAG
            yield SideRows(tag, self._rejected.take())
        if not self._emitted.sealed_rows:
            return
        own = self._emitted.take()
        columns = [
            pa.concat_arrays(parts)
            for parts in zip(
                *([column.take(pa.array(_repeated(counts))) for column in found] for found, counts in self._groups),
                strict=True,
            )
        ]
        self._groups.clear()
        schema = pa.schema(self._operator.output_fields)
        yield AppendedRows(pa.table([*columns, *own.columns], schema=schema))

    def _guarded(self, method: str) -> None:
        """Call `open` or `close`. Raise InvalidJobError if it fails."""
        try:
            getattr(self._function, method)()
        except PASSED_THROUGH:
            raise
        except Exception as error:
            msg = (
                f"the co-group function raised {shown_error(error)} in `{method}`, which is called for no group, so "
                "`on-error` does not apply. Correct the function and start again. "
                f"operator={self._operator.operator_id}, method={method}, at={line_of(error, self._file)}"
            )
            raise InvalidJobError(msg) from error

    def _add_groups(self, bounds: list[pa.Array], counts: Int64s, start: int, end: int) -> None:
        self._groups.append(([column.slice(start, end - start) for column in bounds], counts[start:end]))

    def _call(self, context: CoGroupContext, left: pa.Table, right: pa.Table) -> None:
        mark = self._emitted.mark()
        try:
            result = self._function.co_group(left, right, context)
            if result is not None:
                self._emitted.add_frames(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            if self._operator.on_error == "fail":
                raise self._failure(error, context) from error
            self._emitted.rows.clear()
            self._emitted.back_to(mark)
            self._reject(error, context, left, right)

    def _reject(self, error: Exception, context: CoGroupContext, left: pa.Table, right: pa.Table) -> None:
        """Add the rows of a group for which the function failed, those of the left first."""
        for side, table in ((LEFT, left), (RIGHT, right)):
            times_us = table.column(self._operator.time_columns[side]).cast(pa.int64()).to_pylist()
            records = python_records([column.combine_chunks() for column in table.columns], table.column_names)
            for record, time_us in zip(records, times_us, strict=True):
                call = Call("co_group", context.current_key, record, time_us)
                letter = dead_letter(error, operator_id=self._operator.operator_id, file=self._file, call=call)
                self._rejected.add(letter)
        self._rejected.seal()

    def _failure(self, error: Exception, context: CoGroupContext) -> InvalidJobError:
        if isinstance(error, RowMismatchError):
            what, at = f"what the co-group function emitted does not match the step's output: {error}", ""
        else:
            what = f"the co-group function raised {shown_error(error)}"
            at = f", at={line_of(error, self._file)}"
        start, end = shown_time(context.window_start), shown_time(context.window_end)
        values = f"method=co_group, key={short_json(context.current_key)}, window={start} to {end}"
        msg = (
            f"{what}. Nothing of this epoch is committed. Correct the function, or set the step's `on-error` to skip "
            f"or dead-letter, and start again. operator={self._operator.operator_id}, {values}{at}"
        )
        return InvalidJobError(msg)


def _repeated(counts: Int64s) -> Int64s:
    return np.repeat(np.arange(len(counts)), counts)
