"""Keys that an epoch must process even without a new record: keys with due timers or expired state.

They become rows of the sorter's tables, distinguished from records by `_kind`, and are sorted with the records. So
a key has one turn per epoch, whatever caused it.

A record has kind 0, or 4 if it is of the right of two inputs; a row of a broadcast input has kind 5. A timer has its
time in `_time`. Expired state is searched by key group: each group once per SWEEP_EVERY_MS of the clock. Reading all
state in every epoch would cost more than the space is worth.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, TIME_COLUMN, SubtaskContext
from mixedmode.operators.process.codec import KeyCodec
from mixedmode.operators.process.states import UNSET, State
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS, key_of, range_of_times, time_of
from mixedmode.sort import sort_table
from mixedmode.state import KeyedStateBackend
from mixedmode.state.keys import PREFIX_BYTES, range_of_group
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime

KIND_COLUMN = "_kind"
KIND_TYPE = pa.int8()
RECORD, EVENT_TIMER, PROCESSING_TIMER, EXPIRY, RECORD_OF_RIGHT, BROADCAST = 0, 1, 2, 3, 4, 5

KEYS = 0  #: state id of the rows of the keys
SWEEP_EVERY_MS = 600_000

_TABLE_ROWS = 2**16


@dataclass(frozen=True, slots=True)
class Found:
    """Due rows of one key group and one kind, in no particular order."""

    group: int
    kind: int
    keys: list[bytes]
    times: list[int]


def due_tables(
    context: SubtaskContext, states: Callable[[], Mapping[str, State]], schema: pa.Schema, key_type: pa.DataType
) -> Iterator[pa.Table]:
    """Yield sorted tables of `schema` with the timers that fire in this epoch, and the keys with expired state.

    `states` returns the function's states; it is called only if the epoch sweeps a key group.
    """
    held: list[Found] = []
    for found in _all_found(context, states):
        held.append(found)
        if sum(len(each.keys) for each in held) >= _TABLE_ROWS:
            yield _table(held, schema, key_type)
            held = []
    if held:
        yield _table(held, schema, key_type)


def processing_range(time: EpochTime) -> tuple[int, int] | None:
    """Return (after, until): stored processing-time timers fire if after < time <= until. Return None if none fires.

    After an epoch, no stored timer is due by its clock. So if the clock was set back, `until` is less than `after`, and
    no stored timer is due. A timer that a function registers waits until the clock that the function sees reaches its
    time. In the last epoch, all timers fire.
    """
    if time.is_backlog and not time.is_final:
        return None
    after_us = MIN_TIME_US if time.clock_before_ms is None else time.clock_before_ms * 1000
    return after_us, MAX_TIME_US if time.is_final else time.clock_ms * 1000


def groups_to_sweep(time: EpochTime, start: int, end: int) -> list[int]:
    """Return the key groups in [start, end) to sweep in this epoch. Each group is swept once per SWEEP_EVERY_MS."""
    count = end - start
    if time.clock_before_ms is None or time.is_backlog or time.is_final or count == 0:
        return []
    before, now = time.clock_before_ms * count // SWEEP_EVERY_MS, time.clock_ms * count // SWEEP_EVERY_MS
    return sorted(start + turn % count for turn in range(before + 1, min(now, before + count) + 1))


def _all_found(context: SubtaskContext, states: Callable[[], Mapping[str, State]]) -> Iterator[Found]:
    time, groups = context.time, context.groups
    ranges = [(EVENT_TIMERS, EVENT_TIMER, (time.late_us, time.firing_us))]
    processing = processing_range(time)
    if processing is not None:
        ranges.append((PROCESSING_TIMERS, PROCESSING_TIMER, processing))
    sweep = _Sweep(states, groups_to_sweep(time, groups.start, groups.end), time.clock_ms)
    for group in range(groups.start, groups.end):
        for state_id, kind, (after_us, until_us) in ranges:
            if after_us < until_us:
                stored = context.backend.scan(state_id, *range_of_times(group, state_id, after_us, until_us)).keys
                if stored:
                    yield Found(group, kind, [key_of(key) for key in stored], [time_of(key) for key in stored])
        expired = sweep.expired_keys(context.backend, group)
        if expired:
            yield Found(group, EXPIRY, expired, [0] * len(expired))


class _Sweep:
    """Search the rows of some key groups for expired state."""

    def __init__(self, states: Callable[[], Mapping[str, State]], groups: list[int], now_ms: int) -> None:
        expiring = {name: state for name, state in states().items() if state.ttl_ms is not None} if groups else {}
        self._groups = set(groups) if expiring else set()
        self._codec = KeyCodec(expiring)
        self._attributes = [f"e_{name}" for name in expiring]
        self._now_ms = now_ms

    def expired_keys(self, backend: KeyedStateBackend, group: int) -> list[bytes]:
        """Return the keys of a group that have expired state; an empty list if this epoch does not sweep the group."""
        if group not in self._groups:
            return []
        stored = backend.scan(KEYS, *range_of_group(group, KEYS))
        rows = map(self._codec.unpack, stored.values)
        return [key[PREFIX_BYTES:] for key, row in zip(stored.keys, rows, strict=True) if self._has_expired(row)]

    def _has_expired(self, row: Any) -> bool:
        expiries = (getattr(row, attribute) for attribute in self._attributes)
        return any(expiry is not UNSET and expiry <= self._now_ms for expiry in expiries)


def _table(found: list[Found], schema: pa.Schema, key_type: pa.DataType) -> pa.Table:
    counts = [len(each.keys) for each in found]
    made = {
        KEY_GROUP_COLUMN: pa.array(np.repeat(np.array([each.group for each in found], np.uint16), counts)),
        KEY_COLUMN: pa.array([key for each in found for key in each.keys], key_type),
        TIME_COLUMN: pa.array([time for each in found for time in each.times], pa.int64()),
        KIND_COLUMN: pa.array(np.repeat(np.array([each.kind for each in found], np.int8), counts)),
    }
    rows = sum(counts)
    columns = [made.get(field.name) for field in schema]
    filled = [pa.nulls(rows, f.type) if c is None else c for f, c in zip(schema, columns, strict=True)]
    return sort_table(pa.table(filled, schema=schema))
