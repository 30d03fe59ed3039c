"""Registers with sketches: the number of distinct values of a group, and its quantiles, in bounded state.

A group keeps its values until they would take as much space as a sketch; then they are replaced by a sketch. So groups
of few values are exact, and are folded and merged for all groups at once. Only large groups cost a Python call each.

The state of a group has two columns, of which at most one is not empty:

    values  a packed list of int64 (operators/aggregate/packed.py), ascending
    sketch  a serialised sketch of the datasketches library: HLL; or 8 bytes with the number of NaN, then a KLL sketch

Invariants (tests/operators/test_sketches.py):
  I1  a group of at most `limit` values (distinct ones, for DistinctSketch) is exact
  I2  an estimate of distinct values depends on the set of values alone, so all modes give the same estimate
  I3  the rank error of quantiles is at most the requested one in 99 of 100 groups, however the rows are split

Sources: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog" (2007); Karnin, Lang, Liberty, "Optimal Quantile Approximation
in Streams" (2016); https://datasketches.apache.org.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.keys import xxhash64
from mixedmode.operators.aggregate.packed import Lists, distinct_by, list_counts, pack, sorted_by, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, ordered_values
from mixedmode.operators.floats import ordered_to_floats

_NAN_COUNT_BYTES = 8
_HLL_TYPE = datasketches.tgt_hll_type.HLL_8
_LG_K_MIN = 7  # the library's smallest sketch


def quantile_k(accuracy: int) -> int:
    """Return the size k of a KLL sketch whose rank error is at most 1 / accuracy of the rows in 99 of 100 sketches.

    The formula comes from the library, fitted to measurements: error = 2.296 / k ** 0.9723.
    """
    return int(np.ceil((2.296 * accuracy) ** (1 / 0.9723)))


def hll_lg_k(relative_error: float) -> int:
    """Return lg_k of an HLL sketch for which a standard deviation is at most `relative_error` of the count."""
    return max(_LG_K_MIN, int(np.ceil(2 * np.log2(1.04 / relative_error))))


@dataclass(frozen=True, slots=True)
class DistinctSketch(Register):
    """The distinct non-NULL values: their 64-bit hashes, or a HyperLogLog sketch with 2**lg_k registers."""

    argument: int
    lg_k: int
    is_invertible = False
    goes_by_time = False

    @property
    def limit(self) -> int:
        """The number of values up to which a group is exact: they take as many bytes as the sketch."""
        return (1 << self.lg_k) // 8

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Values and sketch."""
        return (pa.large_binary(), pa.large_binary())

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        lists = distinct_by(grouping, _hashed(rows.arguments[self.argument]))
        return _settled(lists, _NO_SKETCHES, self.limit, self._sketch)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists = _lists(parts)
        found = distinct_by(grouping.repeated(lists.counts), lists.values)
        return _settled(found, _held(grouping, parts), self.limit, self._sketch)

    def estimates(self, parts: Parts) -> Int64s:
        """Return the estimated number of distinct values, (g,)."""
        counts = list_counts(parts[:1])
        for group, sketch in _sketches(parts):
            counts[group] = round(self._estimate(sketch))
        return counts

    def _sketch(self, numbers: Int64s, sketches: Sequence[bytes]) -> bytes:
        union = datasketches.hll_union(self.lg_k)
        for sketch in sketches:
            union.update(datasketches.hll_sketch.deserialize(sketch))
        deque(map(union.update, numbers.tolist()), maxlen=0)  # the library takes one value at a time
        return bytes(union.get_result(_HLL_TYPE).serialize_compact())

    def _estimate(self, sketch: bytes) -> float:
        """Estimate from the registers alone. A union of sketches drops the history of updates (I2)."""
        union = datasketches.hll_union(self.lg_k)
        for _ in range(2):
            union.update(datasketches.hll_sketch.deserialize(sketch))
        return float(union.get_estimate())


@dataclass(frozen=True, slots=True)
class QuantileSketch(Register):
    """The sorted non-NULL values, or a KLL sketch of them; NaN is the greatest value.

    `is_float` is set for floats, doubles, and decimals of more than 18 digits, which are converted to doubles. Other
    types are int64 in their ordered form. Over a changelog, all rows of a group are available at once, and no sketch is
    made. There, an emitted result must be recomputed exactly to be retracted, and a KLL sketch is randomized.
    """

    argument: int
    k: int
    is_float: bool
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Values and sketch."""
        return (pa.large_binary(), pa.large_binary())

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Count a row with weight w as w equal rows."""
        values = _quantile_numbers(rows.arguments[self.argument], is_float=self.is_float)
        present = grouping.where(values.valid)
        numbers = (values if values.valid is None else values.take(np.flatnonzero(values.valid))).integers
        if present.weights is None:
            return _settled(sorted_by(present, numbers), _NO_SKETCHES, self.k, self._sketch)
        lists = sorted_by(present.repeated(present.weights), np.repeat(numbers, present.weights))
        return (*pack(lists), _no_sketches(grouping.size))

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists = _lists(parts)
        found = sorted_by(grouping.repeated(lists.counts), lists.values.integers)
        return _settled(found, _held(grouping, parts), self.k, self._sketch)

    def quantiles(self, parts: Parts, fraction: float) -> Values:
        """Return the smallest value (g,) of each group such that at least `fraction` of the values do not exceed it.

        Values are int64 in the ordered form; NULL for a group without values.
        """
        lists = _lists(parts)
        numbers = lists.values.integers
        ends = np.cumsum(lists.counts)
        chosen = np.zeros(len(ends), np.int64)
        seen = lists.counts > 0
        chosen[seen] = numbers[(ends - lists.counts + _ranks(lists.counts, fraction) - 1)[seen]]
        for group, sketch in _sketches(parts):
            chosen[group] = self._number(_sketch_quantile(sketch, fraction))
            seen[group] = True
        return Values(chosen, None if seen.all() else seen)

    def _sketch(self, numbers: Int64s, sketches: Sequence[bytes]) -> bytes:
        sketch, nans = datasketches.kll_doubles_sketch(self.k), 0
        for other in sketches:
            count, whole = _opened(other)
            nans += count
            sketch.merge(whole)
        doubles = ordered_to_floats(numbers) if self.is_float else numbers.astype(np.float64)
        is_nan = np.isnan(doubles)
        sketch.update(doubles[~is_nan])
        nans += int(is_nan.sum())
        return nans.to_bytes(_NAN_COUNT_BYTES, "little") + bytes(sketch.serialize())

    def _number(self, value: float) -> int:
        """Return a double as int64 in the ordered form, or the nearest int64."""
        if self.is_float:
            return int(ordered_values(pa.array([value])).integers[0])
        return max(-(2**63), min(2**63 - 1, round(value)))


@dataclass(frozen=True, slots=True)
class _Held:
    """Sketches to merge, ordered by their groups `codes` (m,)."""

    codes: Int64s
    sketches: list[bytes]

    def of(self, group: int) -> list[bytes]:
        """Return the sketches of one group."""
        start, end = np.searchsorted(self.codes, [group, group + 1])
        return self.sketches[start:end]


_NO_SKETCHES = _Held(np.empty(0, np.int64), [])


def _held(grouping: Grouping, parts: Parts) -> _Held:
    found = sorted((int(grouping.codes[row]), sketch) for row, sketch in _sketches(parts))
    return _Held(np.array([group for group, _ in found], np.int64), [sketch for _, sketch in found])


def _settled(
    lists: Lists, held: _Held, limit: int, sketch: Callable[[Int64s, Sequence[bytes]], bytes]
) -> tuple[Values, ...]:
    """Return both columns. A group with more than `limit` values, or with any sketch, becomes one sketch."""
    is_large = lists.counts > limit
    is_large[held.codes] = True
    large = np.flatnonzero(is_large)
    if not len(large):
        return (*pack(lists), _no_sketches(len(lists.counts)))
    numbers, ends = lists.values.integers, np.cumsum(lists.counts)
    sketches = [
        sketch(numbers[end - count : end], held.of(group))
        for group, end, count in zip(large.tolist(), ends[large].tolist(), lists.counts[large].tolist(), strict=True)
    ]
    return (*pack(lists.where(~is_large[lists.owners])), _placed(sketches, large, len(is_large)))


def _placed(sketches: Sequence[bytes], groups: "np.typing.NDArray[np.intp]", size: int) -> Values:
    """Return a binary column (size,) with the sketches at the ascending `groups`, and empty bytes elsewhere."""
    offsets = np.zeros(size + 1, np.int64)
    offsets[groups + 1] = list(map(len, sketches))
    offsets = np.cumsum(offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(sketches))]
    return Values(pa.LargeBinaryArray.from_buffers(pa.large_binary(), size, buffers))


def _no_sketches(size: int) -> Values:
    return _placed([], np.empty(0, np.intp), size)


def _lists(parts: Parts) -> Lists:
    return unpack(parts[:1])


def _sketches(parts: Parts) -> list[tuple[int, bytes]]:
    """Return row and bytes of each sketch in the sketch column."""
    column = parts[1].data
    assert isinstance(column, pa.Array), "sketches are bytes"
    rows = np.flatnonzero(pc.binary_length(column).to_numpy())
    return list(zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True))


def _hashed(argument: Argument) -> Values:
    """Return integers unchanged, and bytes as 64-bit hashes."""
    values = argument.normal
    if isinstance(values.data, pa.Array):
        return Values(xxhash64(values.data).view(np.int64), values.valid)
    return values


def _quantile_numbers(argument: Argument, *, is_float: bool) -> Values:
    """Return int64 that sort like the values."""
    if is_float and argument.ordered.is_binary:
        return Values(ordered_values(pa.array(argument.floats)).data, argument.valid)
    return argument.normal


def _ranks(counts: Int64s, fraction: float) -> Int64s:
    """Return the 1-based ranks of the requested values: the least integers that are at least fraction * count.

    A double differs slightly from its decimal, so that 0.07 * 100 is above 7. Such rounding errors are ignored.
    """
    whole: Int64s = np.ceil(counts * (fraction * (1 - 2**-50))).astype(np.int64)
    return np.maximum(whole, 1)


def _sketch_quantile(packed: bytes, fraction: float) -> float:
    nans, sketch = _opened(packed)
    (rank,) = _ranks(np.array([sketch.n + nans]), fraction).tolist()
    if rank > sketch.n:
        return float("nan")
    if rank in (1, sketch.n):  # a sketch always keeps its first and last value
        return float(sketch.get_min_value() if rank == 1 else sketch.get_max_value())
    return float(sketch.get_quantile(rank / sketch.n, True))


def _opened(packed: bytes) -> tuple[int, Any]:
    """Return the number of NaN, and the sketch of all other values."""
    nans = int.from_bytes(packed[:_NAN_COUNT_BYTES], "little")
    return nans, datasketches.kll_doubles_sketch.deserialize(packed[_NAN_COUNT_BYTES:])
