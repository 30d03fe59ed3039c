"""Streams of sorted tables: cut to a size, joined to a size, cut only between keys, combined to one row per key.

A sorted stream is a sequence of tables whose concatenation is sorted. Each function here turns one stream
into another, holds about one table, and works for any cut of its input into tables. `slices` and `joined` also work for
unsorted rows.

Invariants (tests/sort/test_tables.py):
  I1  slices, joined and whole_keys emit the rows of their input, in the same order
  I2  whole_keys emits no key in two tables, and whole_times no (key, time)
  I3  combined emits each key once, in all its tables together
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from mixedmode.errors import InternalError
from mixedmode.sort.columns import sort_columns
from mixedmode.sort.order import find_unsorted, sort_table, take_rows

#: A sorted table -> a sorted table of the same schema with one row per (key group, key); associative.
Combine = Callable[[pa.Table], pa.Table]


def slices(table: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """Yield the table in slices of at most about `bytes_max`, or of one row, without a copy. Empty table: no slice."""
    if table.num_rows == 0:
        return
    rows = rows_within(table, bytes_max)
    if rows >= table.num_rows:
        yield table
        return
    for start in range(0, table.num_rows, rows):
        part = table.slice(start, rows)
        if part.nbytes > 2 * bytes_max:  # its rows are larger than the table's on average
            yield from slices(part, bytes_max)
        else:
            yield part


def rows_within(table: pa.Table, bytes_max: int) -> int:
    """Return the number of rows of average size that make up `bytes_max`; at least 1."""
    rows: int = bytes_max * table.num_rows // max(table.nbytes, 1)
    return max(1, rows)


def joined(tables: Iterable[pa.Table], bytes_min: int, *, row_bytes_min: int = 0) -> Iterator[pa.Table]:
    """Yield the same rows in tables of at least `bytes_min` (the last may be smaller), each column in one chunk.

    A row counts as at least `row_bytes_min`. The generator keeps no reference to emitted tables or their pieces.
    """
    held, held_bytes = list[pa.Table](), 0
    for table in tables:
        if table.num_rows == 0:
            continue
        held.append(table)
        held_bytes += max(table.nbytes, table.num_rows * row_bytes_min)
        if held_bytes >= bytes_min:
            yield drained(held)
            held_bytes = 0
    if held:
        yield drained(held)


def whole_keys(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, cut only between keys. All rows of one key are held in memory, even if they are many."""
    return _undivided(tables, _KEY)


def whole_times(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, cut only between the times of a key. All rows of one key and time are held in memory."""
    return _undivided(tables, _KEY_AND_TIME)


_KEY, _KEY_AND_TIME = slice(0, 2), slice(0, 3)  # parts of a RowKey


def _undivided(tables: Iterable[pa.Table], parts: slice) -> Iterator[pa.Table]:
    """Yield the same rows, cut only where these parts of the sort key change."""
    held = list[pa.Table]()  # the last rows so far, which are equal in these parts
    for table in tables:
        if table.num_rows == 0:
            continue
        columns = sort_columns(table)
        last = columns.row_key(len(columns) - 1)[parts]
        start = bisect_left(range(len(columns) - 1), last, key=lambda i: columns.row_key(i)[parts])
        if held and start == 0 and sort_columns(held[0]).row_key(0)[parts] == last:
            held.append(table)
            continue
        done = _concat([*held, table.slice(0, start)])
        held = [table.slice(start)]
        if done.num_rows:
            yield done
    if held:
        yield _concat(held)


def combined(tables: Iterable[pa.Table], combine: Combine) -> Iterator[pa.Table]:
    """Yield the rows combined to one per key. The last key of a table is carried over, as more of its rows may follow.

    Raises InternalError (report it) if `combine` does not return sorted rows of the same schema, one per key.
    """
    carried: pa.Table | None = None
    for table in tables:
        if table.num_rows == 0:
            continue
        # `combine` sets the time of the carried row, which need not be the least time of its key: sort again
        whole = table if carried is None else sort_table(pa.concat_tables([carried, table]))
        found = _checked(combine(whole), whole)
        last = found.num_rows - 1
        carried = take_rows(found, np.array([last]))  # copied, so that it does not keep the whole table
        if last:
            yield found.slice(0, last)
    if carried is not None:
        yield carried


def _checked(found: pa.Table, source: pa.Table) -> pa.Table:
    once = found.num_rows > 0 and find_unsorted(sort_columns(found), once_per_key=True) is None
    if not once or not found.schema.equals(source.schema):
        msg = (
            "a combiner must turn sorted rows into sorted rows of the same schema, one per key, and it did not, so "
            "keys would be lost or counted twice. This is a defect in mixedmode: report it with this message. "
            f"rows_in={source.num_rows}, rows_out={found.num_rows}, schema_in={_show(source.schema)}, "
            f"schema_out={_show(found.schema)}"
        )
        raise InternalError(msg)
    return found


def _show(schema: pa.Schema) -> str:
    return "[" + ", ".join(f"{field.name}: {field.type}" for field in schema) + "]"


def _concat(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


def drained(held: list[pa.Table], *, releases: bool = False) -> pa.Table:
    """Join all tables into one, each column in one chunk; the list is empty afterwards.

    One column after the other: where each has memory of its own, there is no second copy of all of them. `releases`:
    give the memory of a column back before the next one, which cannot use the gaps that the small arrays leave.
    """
    whole, columns = pa.concat_tables(held), []
    schema = whole.schema
    held.clear()
    for _ in schema:
        columns.append(whole.select([0]).combine_chunks().column(0))  # where 2 GiB of text are too many, several chunks
        whole = whole.remove_column(0)
        if releases:
            release_memory()
    return pa.table(columns, schema=schema)


def release_memory() -> None:
    """Release the memory that Arrow's pool keeps for reuse."""
    pa.default_memory_pool().release_unused()
