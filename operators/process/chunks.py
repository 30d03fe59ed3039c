"""Chunks of a process function's sorted input: whole keys, converted to Python objects.

A chunk is small enough that its objects fit in the cache and take little memory. It is large enough that the cost per
chunk does not matter. A key with more rows is divided into several chunks, marked by `begins` and `ends`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys
from mixedmode.keys.arrow import I64
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, TIME_COLUMN
from mixedmode.operators.process.due import (
    EVENT_TIMER,
    EXPIRY,
    KEYS,
    KIND_COLUMN,
    PROCESSING_TIMER,
    RECORD,
    RECORD_OF_RIGHT,
)
from mixedmode.operators.process.records import python_values
from mixedmode.operators.tables import column_of
from mixedmode.state.keys import stored_keys

CHUNK_ROWS = 2**14


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some keys, with their records, timers and expiries.

    `begins`: the rows of the first key begin in this chunk. `ends`: the rows of the last key end in this chunk. Either
    is False only in a chunk of a single key.
    """

    keys: list[Any]  #: (k,) the value of the key column; a tuple for several columns
    stored: list[bytes]  #: (k,) stored keys of the state KEYS
    records: pa.Table  #: all records, in order; the columns of the sorted table
    counts: list[int]  #: (k,) number of records of each key
    event_timers: dict[int, list[int]] = field(default_factory=dict)  #: {index of the key: due times}
    processing_timers: dict[int, list[int]] = field(default_factory=dict)  #: {index of the key: due times}
    expired: frozenset[int] = frozenset()  #: indices of keys with expired state
    begins: bool = True
    ends: bool = True


def chunks_of(table: pa.Table, key_schema: KeySchema, *, keys_max: Callable[[], int], splits: bool) -> Iterator[Chunk]:
    """Divide a sorted table of whole keys into chunks of about CHUNK_ROWS rows and at most `keys_max()` keys.

    `keys_max` is called for each chunk. splits: a key with more rows is divided into several chunks.
    """
    table = table.combine_chunks()
    if table.num_rows == 0:
        return
    starts = segments(column_of(table, KEY_COLUMN))[1]
    borders = np.append(starts, table.num_rows)
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(borders, borders[first] + CHUNK_ROWS, "right")) - 1
        last = max(first + 1, min(last, first + keys_max()))
        bounds = borders[first : last + 1]
        piece = table.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        chunk = _chunk(piece, bounds - bounds[0], key_schema)
        if splits and chunk.records.num_rows > CHUNK_ROWS:
            yield from _pieces(chunk)
        else:
            yield chunk
        first = last


def _pieces(whole: Chunk) -> Iterator[Chunk]:
    """Divide one key into several chunks. The first has all timers, because each record may delete any timer."""
    count = whole.records.num_rows
    for start in range(0, count, CHUNK_ROWS):
        records = whole.records.slice(start, CHUNK_ROWS)
        ends = start + CHUNK_ROWS >= count
        if start == 0:
            yield replace(whole, records=records, counts=[records.num_rows], ends=ends)
        else:
            yield Chunk(whole.keys, whole.stored, records, [records.num_rows], begins=False, ends=ends)


def _chunk(table: pa.Table, borders: I64, key_schema: KeySchema) -> Chunk:
    first_rows = pa.array(borders[:-1])
    encoded = column_of(table, KEY_COLUMN).take(first_rows)
    groups = column_of(table, KEY_GROUP_COLUMN).take(first_rows).to_numpy()
    keys, stored = python_keys(encoded, key_schema), list(stored_keys(groups, encoded, KEYS))
    kinds = column_of(table, KIND_COLUMN).to_numpy()
    if not kinds.any():
        return Chunk(keys, stored, table, np.diff(borders).tolist())
    is_record = (kinds == RECORD) | (kinds == RECORD_OF_RIGHT)
    key_of_row = np.repeat(np.arange(len(keys)), np.diff(borders))
    return Chunk(
        keys,
        stored,
        table.filter(pa.array(is_record)),
        np.bincount(key_of_row[is_record], minlength=len(keys)).tolist(),
        _timers(table, key_of_row, kinds == EVENT_TIMER),
        _timers(table, key_of_row, kinds == PROCESSING_TIMER),
        frozenset(key_of_row[kinds == EXPIRY].tolist()),
    )


def _timers(table: pa.Table, key_of_row: npt.NDArray[np.intp], rows: npt.NDArray[np.bool_]) -> dict[int, list[int]]:
    timers: dict[int, list[int]] = {}
    times = column_of(table, TIME_COLUMN).to_numpy()[rows].tolist()
    for key, time_us in zip(key_of_row[rows].tolist(), times, strict=True):
        timers.setdefault(key, []).append(time_us)
    return timers


def python_keys(encoded: pa.Array, key_schema: KeySchema) -> list[Any]:
    """Return the value of the key column of encoded keys (n,); a tuple if there are several key columns."""
    columns: Sequence[list[Any]] = [python_values(column) for column in decode_keys(encoded, key_schema)]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
