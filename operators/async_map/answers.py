"""Answers to the requests of a block of keys, and the answers that the state remembers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.deduplicate.times import TimesWriter
from mixedmode.operators.interface import SubtaskContext
from mixedmode.operators.pieces import pieces_of
from mixedmode.operators.process.rows import RowMismatchError, to_table
from mixedmode.operators.row_columns import decoded_rows, encoded_rows
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.keys import encoded_times, joined
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.state.arrow_bytes import values_at
from mixedmode.time import MIN_TIME_US, shifted_us

__all__ = ["ANSWERS", "ANSWER_FIELDS", "EXPIRIES", "BlockAnswers", "Remembered", "as_columns", "expiring_us"]

ANSWERS, EXPIRIES = 0, 1  #: state ids
#: `until`: from this time of the clock on, in microseconds, the answer is not remembered any more
ANSWER_FIELDS = (pa.field("until", pa.int64()), pa.field("answer", pa.large_binary()))
Positions = npt.NDArray[np.intp]


@dataclass(slots=True)
class BlockAnswers:
    """The answers to the requests of some keys.

    rows: (keys,) the row of each key's answer in `table`; -1: it has none.
    failures: {index of a key: why its request failed}.
    """

    table: pa.Table
    rows: Int64s
    failures: dict[int, Exception] = field(default_factory=dict)

    @classmethod
    def none(cls, schema: pa.Schema, keys: int) -> "BlockAnswers":
        """Return no answers for so many keys."""
        return cls(schema.empty_table(), np.full(keys, -1, np.int64))

    def add(self, keys: Positions | Sequence[int], columns: Sequence[pa.Array]) -> None:
        """Add the answers (m,) of the keys (m,) at these positions."""
        self.rows[keys] = np.arange(len(keys)) + self.table.num_rows
        self.table = pa.concat_tables([self.table, pa.table(list(columns), schema=self.table.schema)])

    def pieces(self, keys: Int64s) -> Iterator[slice]:
        """Yield pieces of rows (n,) whose keys, at these positions, have an answer each, to be emitted one by one."""
        rows = self.rows[keys]
        return pieces_of(len(rows), [(column, rows) for column in self.table.columns])

    def of(self, keys: Int64s) -> list[pa.Array]:
        """Return the columns of the answers (n,) of the keys (n,) at these positions, which all have one."""
        taken = pa.array(self.rows[keys])
        return [column_of(self.table, name).take(taken) for name in self.table.column_names]


def as_columns(
    answers: Mapping[int, Mapping[str, Any]], schema: pa.Schema
) -> tuple[list[int], list[pa.Array], dict[int, Exception]]:
    """Return (the keys whose answer fits the schema, the columns of these answers, why the others do not fit).

    answers: {key: its answer}.
    """
    keys, failures = list(answers), dict[int, Exception]()
    try:
        table = to_table([answers[key] for key in keys], schema)
    except RowMismatchError:
        for key in keys:
            try:
                to_table([answers[key]], schema)
            except RowMismatchError as error:
                failures[key] = error
        keys = [key for key in keys if key not in failures]
        table = to_table([answers[key] for key in keys], schema)
    return keys, [column_of(table, name) for name in schema.names], failures


def expiring_us(context: SubtaskContext) -> tuple[int, int]:
    """Return (after, up to]: the ends of the answers that are forgotten in this epoch."""
    before_ms = context.time.clock_before_ms
    return MIN_TIME_US if before_ms is None else before_ms * 1000, context.time.clock_ms * 1000


class Remembered:
    """The answers in the state, and their ends by time. Called with keys in ascending order."""

    def __init__(
        self, states: Sequence[StateDescriptor], schema: pa.Schema, remember_ms: int, context: SubtaskContext
    ) -> None:
        self._answers = StateTable(states[ANSWERS], context.backend)
        self._expiries = TimesWriter(context.backend, EXPIRIES, expiring_us(context))
        self._fields = tuple(schema)
        self._now_us = context.time.clock_ms * 1000
        self._until_us = shifted_us(self._now_us, remember_ms * 1000)
        self._stored: Sequence[bytes] = ()
        self._is_stored: Bools = np.empty(0, np.bool_)
        self._is_valid: Bools = np.empty(0, np.bool_)

    def read(self, groups: npt.NDArray[np.uint16], keys: pa.Array) -> tuple[Positions, list[pa.Array]]:
        """Return the positions of the keys (n,) that have a valid answer, and the columns of these answers."""
        self._stored = self._answers.stored_keys(groups, keys)
        found, (until, packed) = self._answers.read(self._stored)
        is_valid = until.to_numpy() > self._now_us
        self._is_stored, self._is_valid = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
        self._is_stored[found], self._is_valid[found] = True, is_valid
        valid = np.flatnonzero(is_valid)
        return found[valid], decoded_rows(packed.take(pa.array(valid)), self._fields)

    def write(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, new: Positions, columns: Sequence[pa.Array]
    ) -> None:
        """Store new answers of the keys of the last `read`, at these ascending positions. Delete those that ended."""
        is_new = np.zeros(len(keys), np.bool_)
        is_new[new] = True
        until = np.full(len(new), self._until_us, np.int64)
        self._expiries.write(groups, groups[new], joined(encoded_times(until), keys.take(pa.array(new))))
        touched = np.flatnonzero(is_new | (self._is_stored & ~self._is_valid))
        if not len(touched):
            return
        packed = encoded_rows(columns, self._fields).cast(pa.large_binary())
        order = np.full(len(keys), -1, np.int64)
        order[new] = np.arange(len(new))
        rows = pa.array(order[touched], mask=~is_new[touched])
        ends = pa.array(np.full(len(touched), self._until_us, np.int64))
        deleted = np.flatnonzero(~is_new[touched]).tolist()
        self._answers.write(values_at(self._stored, touched), [ends, packed.take(rows)], deleted)

    def finish(self) -> None:
        """Write what is left, after the last key."""
        self._expiries.finish()
