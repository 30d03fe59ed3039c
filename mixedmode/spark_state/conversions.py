"""Conversions of the state of an operator of Spark to that of a step: one for each kind of operator. Pure.

A conversion is a small value that is sent to tasks. It takes the columns of Spark's keys and values, and returns the
entries of the step's states.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.aggregate import AggregateOperator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.window import SessionAggregateOperator, TimeWindowAggregateOperator
from mixedmode.operators.window.keys import Int64s, encoded_times, joined, stored_schema
from mixedmode.operators.window.partials import CHANGED, Partials
from mixedmode.operators.window.session_state import ENDS_ID, SESSIONS_ID
from mixedmode.spark_state.buffers import Buffer, registers_of
from mixedmode.spark_state.entries import Entries, packed_entries, present_entries
from mixedmode.spark_state.keys import KeyColumns

__all__ = ["Aggregates", "Conversion", "Keys", "Sessions", "Windows"]

Columns = Sequence[pa.Array]
_EMITTED, _EXPIRIES = 0, 2  # states of `deduplicate`


class Conversion(Protocol):
    """Converts the state of one operator."""

    @abstractmethod
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        """Return the entries for rows of Spark's state (n,).

        keys, values: the columns of Spark's key and value. Raise InvalidJobError for a row that cannot be taken over.
        """


@dataclass(frozen=True, slots=True)
class Aggregates(Conversion):
    """An aggregate without windows."""

    operator: AggregateOperator
    key: KeyColumns
    buffers: tuple[Buffer, ...]

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        operator = self.operator
        columns = self.key.columns(keys) if self.key.fields else [pa.repeat(True, len(values[0]))]
        encoded = encode_keys(columns, operator.key_schema)
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        registers = registers_of(operator.aggregator, self.buffers, values)
        return [packed_entries(0, groups, encoded, operator.states[0].fields, registers)]


@dataclass(frozen=True, slots=True)
class Windows(Conversion):
    """An aggregate of windows with fixed bounds.  passed_us: the watermark that has emitted the windows before."""

    operator: TimeWindowAggregateOperator
    key: KeyColumns
    buffers: tuple[Buffer, ...]
    passed_us: int

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        operator = self.operator
        assert self.key.window is not None, operator
        starts, ends = _bounds(keys[self.key.window])
        _check_windows(operator, starts, ends)
        _check_open(ends, self.passed_us)
        encoded = _encoded(self.key, keys, len(ends))
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        columns = _not_emitted(operator, registers_of(operator.aggregator, self.buffers, values))
        stored = joined(encoded_times(ends), encoded)
        return [packed_entries(0, groups, stored, operator.layout.state_fields, columns)]


@dataclass(frozen=True, slots=True)
class Sessions(Conversion):
    """An aggregate of sessions. The values have the bounds of the session and the key before the buffers."""

    operator: SessionAggregateOperator
    key: KeyColumns
    buffers: tuple[Buffer, ...]
    passed_us: int

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        operator = self.operator
        assert self.key.window is not None, operator
        starts, ends = _bounds(values[self.key.window])
        _check_sessions(operator, starts, ends)
        _check_open(ends, self.passed_us)
        encoded = _encoded(self.key, values, len(ends))
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        own = values[len(self.key.fields) + 1 :]
        columns = _not_emitted(operator, registers_of(operator.aggregator, self.buffers, own))
        from_us, to_us = encoded_times(starts), encoded_times(ends)
        fields = operator.states[0].fields
        sessions = packed_entries(SESSIONS_ID, groups, joined(encoded, from_us), fields, [pa.array(ends), *columns])
        return [sessions, present_entries(ENDS_ID, groups, joined(to_us, encoded, from_us))]


@dataclass(frozen=True, slots=True)
class Keys(Conversion):
    """The keys of a `deduplicate` step.  expires: the column of the values says when a key is forgotten."""

    operator: DeduplicateOperator
    key: KeyColumns
    expires: bool

    @override
    def entries(self, keys: Columns, values: Columns, *, max_parallelism: int) -> list[Entries]:
        operator = self.operator
        encoded = encode_keys(self.key.columns(keys), operator.layout.key_schema)
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        within_us = operator.within_us or 0
        times = values[0].to_numpy() - within_us if self.expires else np.zeros(len(encoded), np.int64)
        fields = operator.states[0].fields
        emitted = packed_entries(_EMITTED, groups, encoded.cast(pa.large_binary()), fields, [pa.array(times)])
        if operator.within_us is None:
            return [emitted]
        stored = joined(encoded_times(times), encoded.cast(pa.large_binary()))
        return [emitted, present_entries(_EXPIRIES, groups, stored)]


def _encoded(key: KeyColumns, columns: Columns, rows: int) -> pa.Array:
    """Return the encoded keys of windows; without a key, all of them are equal."""
    if not key.fields:
        return encode_keys([pa.array(np.zeros(rows, np.int8))], stored_schema(None))
    return encode_keys(key.columns(columns), KeySchema(key.fields))


def _not_emitted(
    operator: TimeWindowAggregateOperator | SessionAggregateOperator, registers: list[pa.Array]
) -> Sequence[pa.Array]:
    """Return the columns of the state for windows of which no output here has a row yet."""
    rows, layout = len(registers[0]), operator.layout
    given = [pa.nulls(rows, field.type) for field in layout.given_fields]
    return layout.state_columns(Partials(registers, np.full(rows, CHANGED), given))


def _bounds(window: pa.Array) -> tuple[Int64s, Int64s]:
    """Return the starts and the ends (n,) of windows, in microseconds."""
    start, end = (pc.struct_field(window, name).cast(pa.timestamp("us", "UTC")) for name in ("start", "end"))
    return start.view(pa.int64()).to_numpy(), end.view(pa.int64()).to_numpy()


def _check_windows(operator: TimeWindowAggregateOperator, starts: Int64s, ends: Int64s) -> None:
    """Raise InvalidJobError for a window that the step does not have."""
    rows, of_starts = operator.windows.windows_of_panes(operator.windows.panes(starts))
    is_known = np.zeros(len(ends), np.bool_)
    is_known[rows[of_starts == ends[rows]]] = True
    wrong = np.flatnonzero(~is_known | (operator.windows.starts(ends) != starts))
    if len(wrong):
        start, end = (np.datetime64(int(times[wrong[0]]), "us") for times in (starts, ends))
        msg = (
            "Spark's state has a window that the step does not have, so they are not the same query. Give the step the "
            "window of Spark's query: its size, slide and offset, and the time zone of its session. "
            f"window_in_spark=[{start}, {end}), windows_here={operator.windows}"
        )
        raise InvalidJobError(msg)


def _check_sessions(operator: SessionAggregateOperator, starts: Int64s, ends: Int64s) -> None:
    """Raise InvalidJobError for a session that is shorter than one of the step."""
    shortest_us = int((ends - starts).min(initial=operator.gap_us))
    if shortest_us < operator.gap_us:
        msg = (
            "Spark's state has a session that is shorter than the gap of the step, so they are not the same query. "
            f"Give the step the gap of Spark's query. gap_us={operator.gap_us}, shortest_session_us={shortest_us}"
        )
        raise InvalidJobError(msg)


def _check_open(ends: Int64s, passed_us: int) -> None:
    """Raise InvalidJobError for a window that Spark would have emitted and dropped."""
    if len(ends) and int(ends.min()) <= passed_us:
        msg = (
            "Spark's state has windows that its watermark has passed. Spark keeps them in output mode complete, and a "
            "job here emits a window once, when the watermark passes it, so it would never emit these. Run the job "
            f"from the beginning. windows={int((ends <= passed_us).sum())}, "
            f"earliest_end={np.datetime64(int(ends.min()), 'us')}, watermark={np.datetime64(passed_us, 'us')}"
        )
        raise InvalidJobError(msg)
