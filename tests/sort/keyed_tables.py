"""Keyed tables for the tests of the sorter: strategies that make them, and the order they must have in plain Python."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mixedmode.sort import RowKey

#: key types with rows that tie in their first words, end inside a word, and are prefixes of one another
_KEYS: dict[pa.DataType, st.SearchStrategy[bytes]] = {
    pa.binary(1): st.binary(min_size=1, max_size=1),
    pa.binary(9): st.integers(0, 4).map(lambda n: b"\x01" + (2**63 + n * 255).to_bytes(8, "big")),
    pa.binary(17): st.tuples(st.binary(min_size=1, max_size=1), st.sampled_from([b"\x00", b"\xff"])).map(
        lambda ends: ends[0] + b"m" * 15 + ends[1]
    ),
    pa.large_binary(): st.lists(st.sampled_from([b"\x00", b"\xff", b"prefix--"]), max_size=4).map(b"".join),
}
_LONG = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda n: b"x" * (150 + n[0]) + bytes([n[1]]))

_TIMES = st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1)


def keyed_table(rows: list[tuple[int, bytes, int]], key_type: pa.DataType, *, with_time: bool = True) -> pa.Table:
    """Rows of (key group, key, time) with their number as payload, and a string that depends on it."""
    columns: dict[str, Any] = {
        "_key_group": pa.array([row[0] for row in rows], pa.uint16()),
        "_key": pa.array([row[1] for row in rows], key_type),
    }
    if with_time:
        columns["_time"] = pa.array([row[2] for row in rows], pa.int64())
    columns["number"] = pa.array(range(len(rows)), pa.int64())
    columns["text"] = pa.array([None if n % 5 == 0 else "v" * (n % 7) for n in range(len(rows))], pa.string())
    return pa.table(columns)


@st.composite
def keyed_tables(draw: st.DrawFn, max_rows: int = 40) -> pa.Table:
    """A table in any order, its columns in several chunks."""
    key_type, keys = draw(st.sampled_from([*_KEYS.items(), (pa.large_binary(), _LONG)]))
    groups = draw(st.sampled_from([st.just(7), st.integers(0, 2), st.integers(0, 2**16 - 1)]))
    rows = draw(st.lists(st.tuples(groups, keys, _TIMES), max_size=max_rows))
    table = keyed_table(rows, key_type, with_time=draw(st.booleans()))
    cut = draw(st.integers(0, len(rows)))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def row_keys(table: pa.Table) -> list[RowKey]:
    """Return the sort key of each row."""
    return [RowKey(row["_key_group"], row["_key"], row.get("_time", 0)) for row in table.to_pylist()]


def python_sorted(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in the order of Python's stable sort."""
    keys, rows = row_keys(table), table.to_pylist()
    order = sorted(range(len(rows)), key=lambda i: keys[i])
    return [rows[i] for i in order]


def random_cuts(table: pa.Table, cuts: list[int]) -> list[pa.Table]:
    """The table in consecutive slices, cut at the given rows (taken modulo the table's size); some may be empty."""
    borders = sorted({0, table.num_rows, *(cut % (table.num_rows + 1) for cut in cuts)})
    pieces = [table.slice(lo, hi - lo) for lo, hi in pairwise(borders)]
    return [*pieces, table.slice(0, 0)]


def rows_of(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """All rows of several tables, in order."""
    return [row for table in tables for row in table.to_pylist()]
