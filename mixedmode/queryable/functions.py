"""The parts of a process function's state: its values, each declared state by name, and its timers.

Expired values are left out, as the function would not see them: the clock of the epoch decides.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeySchema, decode_keys, key_widths
from mixedmode.operators.process.codec import VERSION
from mixedmode.operators.process.due import KEYS
from mixedmode.operators.process.maps import EXPIRING, EXPIRY_BYTES, MAP_STATE_ID
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS, key_of, time_of
from mixedmode.operators.process.timers import TIME_BYTES as TIMER_BYTES
from mixedmode.operators.window.output import instants
from mixedmode.queryable.parts import Moment, Part, free_name
from mixedmode.queryable.values import column_of, decoded
from mixedmode.state import StateRange
from mixedmode.state.keys import PREFIX_BYTES, cut_keys

__all__ = ["function_parts"]

VALUES, EVENT_TIMERS_NAME, PROCESSING_TIMERS_NAME = "values", "event-time-timers", "processing-time-timers"
_MAP = "map"


def function_parts(schema: KeySchema, function: Mapping[str, Any], moment: Moment) -> list[Part]:
    """Return the parts: all values in one row per key, then each state, then the timers.

    function: the schema of its state, from the manifest.
    """
    states: Mapping[str, Any] = function["states"]
    singles = {name: state for name, state in states.items() if state["kind"] != _MAP}
    parts = {VALUES: Part(VALUES, KEYS, partial(_values, schema, singles, moment), is_exact=True)}
    for name, state in states.items():
        if state["kind"] == _MAP:
            parts[name] = Part(name, MAP_STATE_ID, partial(_entries, schema, name, state, moment))
        else:
            parts[name] = Part(name, KEYS, partial(_single, schema, name, state, moment), is_exact=True)
    for name, state_id in ((EVENT_TIMERS_NAME, EVENT_TIMERS), (PROCESSING_TIMERS_NAME, PROCESSING_TIMERS)):
        parts[name] = Part(name, state_id, partial(_timers, schema), bytes_before=TIMER_BYTES)
    return list(parts.values())


def _values(schema: KeySchema, states: Mapping[str, Any], moment: Moment, found: StateRange) -> pa.Table:
    rows = [_row(value) for value in found.values]
    columns = [
        column_of([_current(row, name, moment) for row in rows], state["type"]) for name, state in states.items()
    ]
    return _table(schema, _keys(schema, found.keys), dict(zip(states, columns, strict=True)))


def _single(schema: KeySchema, name: str, state: Mapping[str, Any], moment: Moment, found: StateRange) -> pa.Table:
    rows = [_row(value) for value in found.values]
    has_value = [at for at, row in enumerate(rows) if name in row and not _is_expired(row, name, moment)]
    keys = [key.take(pa.array(has_value, pa.int64())) for key in _keys(schema, found.keys)]
    return _table(schema, keys, {"value": column_of([rows[at][name] for at in has_value], state["type"])})


def _entries(schema: KeySchema, name: str, state: Mapping[str, Any], moment: Moment, found: StateRange) -> pa.Table:
    stored = pa.array(found.keys, pa.large_binary())
    widths = key_widths(stored, schema, after=PREFIX_BYTES).tolist()
    mark = bytes([len(name.encode())]) + name.encode()
    own, map_keys, values = list[bytes](), list[Any](), list[Any]()
    for key, value, width in zip(found.keys, found.values, widths, strict=True):
        end = PREFIX_BYTES + width
        if not key.startswith(mark, end):
            continue
        start = 1
        if value[:1] == EXPIRING:
            start += EXPIRY_BYTES
            if moment.clock_ms is not None and int.from_bytes(value[1:start], "big", signed=True) <= moment.clock_ms:
                continue
        own.append(key[PREFIX_BYTES:end])
        map_keys.append(decoded(key[end + len(mark) :], name))
        values.append(decoded(value[start:], name))
    keys = decode_keys(pa.array(own, pa.large_binary()), schema)
    return _table(
        schema, keys, {"map_key": column_of(map_keys, state["key"]), "value": column_of(values, state["type"])}
    )


def _timers(schema: KeySchema, found: StateRange) -> pa.Table:
    keys = decode_keys(pa.array([key_of(key) for key in found.keys], pa.large_binary()), schema)
    return _table(schema, keys, {"timer": instants(np.array([time_of(key) for key in found.keys], np.int64))})


def _row(value: bytes) -> dict[str, Any]:
    if value[0] != VERSION:
        msg = f"the state of a key has an unknown version. Read it with the program that wrote it. version={value[0]}"
        raise CorruptStateError(msg)
    row: dict[str, Any] = decoded(value[1:], VALUES)
    return row


def _current(row: Mapping[str, Any], name: str, moment: Moment) -> Any:
    return None if _is_expired(row, name, moment) else row.get(name)


def _is_expired(row: Mapping[str, Any], name: str, moment: Moment) -> bool:
    expires_ms = row.get(f"{name}:expires")
    return expires_ms is not None and moment.clock_ms is not None and expires_ms <= moment.clock_ms


def _keys(schema: KeySchema, stored: Sequence[bytes]) -> list[pa.Array]:
    return decode_keys(cut_keys(stored, schema, before=PREFIX_BYTES), schema)


def _table(schema: KeySchema, keys: Sequence[pa.Array], columns: Mapping[str, pa.Array]) -> pa.Table:
    names = [field.name for field in schema.fields]
    for name in columns:
        names.append(free_name(name, names))
    return pa.table([*keys, *columns.values()], names=names)
