"""The differences between two tables, key by key. Pure.

Doubles count as equal if they differ by at most one part in 10**9, because the order of additions decides their last
bits. Without a key, tables are compared as multisets of rows.

Invariant (tests/driver/test_comparison.py): the differences equal those of a comparison in plain Python.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import group_codes

__all__ = ["Difference", "Differences", "differences"]

_TOLERANCE = 1e-9
_SHOWN = 20
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Difference:
    """One key: a row that only one of the tables has, or whose other columns differ. An absent row is None."""

    key: dict[str, Any]
    kind: Literal["missing", "unexpected", "different"]
    expected: dict[str, Any] | None
    found: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Differences:
    """The numbers of rows by kind, and the first differences. `compared` counts the keys of both tables."""

    compared: int
    missing: int
    unexpected: int
    different: int
    first: tuple[Difference, ...]

    @property
    def are_none(self) -> bool:
        """Return whether the tables are equal."""
        return self.missing == self.unexpected == self.different == 0


def differences(expected: pa.Table, found: pa.Table, key: Sequence[str], *, shown: int = _SHOWN) -> Differences:
    """Compare two tables of the same columns.  key: columns that identify a row; () for rows without a key.

    shown: how many differences to return in full.
    """
    columns = list(key) if key else expected.column_names
    codes = _codes(expected, found, columns)
    of_expected, of_found = codes[: expected.num_rows], codes[expected.num_rows :]
    size = int(codes.max()) + 1 if len(codes) else 0
    if not key:
        counts = np.bincount(of_expected, minlength=size), np.bincount(of_found, minlength=size)
        # a row that one table has once more than the other is as good as absent there
        missing, unexpected = counts[0] > counts[1], counts[1] > counts[0]
    else:
        missing = ~np.isin(np.arange(size), of_found)
        unexpected = ~np.isin(np.arange(size), of_expected)
    rows = _Rows(expected, found, _rows_of(of_expected, size), _rows_of(of_found, size), columns)
    different = np.zeros(size, np.bool_)
    if key:
        both = np.flatnonzero(~missing & ~unexpected)
        different[both] = rows.differ(both, [name for name in expected.column_names if name not in key])
    marks = {"missing": missing, "unexpected": unexpected, "different": different}
    first = [one for kind, mark in marks.items() for one in rows.shown(kind, np.flatnonzero(mark)[:shown])]
    counts_by_kind = {kind: int(mark.sum()) for kind, mark in marks.items()}
    return Differences(size, first=tuple(first[:shown]), **counts_by_kind)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Two tables, and the row of each key in them; -1: none."""

    expected: pa.Table
    found: pa.Table
    of_expected: npt.NDArray[np.int64]
    of_found: npt.NDArray[np.int64]
    key: Sequence[str]

    def differ(self, keys: npt.NDArray[np.intp], columns: Sequence[str]) -> Bools:
        """Return (n,) True where one of the columns differs between the rows of a key."""
        result = np.zeros(len(keys), np.bool_)
        for name in columns:
            one = self.expected.column(name).take(pa.array(self.of_expected[keys]))
            other = self.found.column(name).take(pa.array(self.of_found[keys]))
            result |= ~_are_equal(one.combine_chunks(), other.combine_chunks())
        return result

    def shown(self, kind: Any, keys: npt.NDArray[np.intp]) -> Iterator[Difference]:
        """Yield the differences of keys in full."""
        for at in keys.tolist():
            expected, found = self._row(self.expected, self.of_expected[at]), self._row(self.found, self.of_found[at])
            row = expected or found or {}
            yield Difference({name: row[name] for name in self.key}, kind, expected, found)

    @staticmethod
    def _row(table: pa.Table, at: int) -> dict[str, Any] | None:
        return None if at < 0 else table.slice(at, 1).to_pylist()[0]


def _codes(expected: pa.Table, found: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return a number for each row of both tables, equal for equal values of the columns."""
    both = [_groupable(pa.concat_arrays([*expected.column(c).chunks, *found.column(c).chunks])) for c in columns]
    if not expected.num_rows + found.num_rows:
        return np.zeros(0, np.int64)
    return group_codes(both).codes.astype(np.int64)


def _groupable(column: pa.Array) -> pa.Array:
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column


def _rows_of(codes: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    rows = np.full(size, -1, np.int64)
    rows[codes] = np.arange(len(codes))
    return rows


def _are_equal(one: pa.Array, other: pa.Array) -> Bools:
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([repr(a) == repr(b) for a, b in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        return _are_close(one, other)
    equal = pc.fill_null(pc.equal(one, other), False)  # pyarrow's order of arguments
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False))


def _are_close(one: pa.Array, other: pa.Array) -> Bools:
    nulls = [np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False)) for column in (one, other)]
    a, b = (pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).astype(np.float64) for column in (one, other))
    close = np.isclose(a, b, rtol=_TOLERANCE, atol=0.0, equal_nan=True)
    result: Bools = (nulls[0] == nulls[1]) & (nulls[0] | close)
    return result
