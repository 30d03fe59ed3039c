"""Functions of an `over` step whose frame begins at the first row of the key: each has a value that goes on.

A function reads the values (n,) of the rows at the ends of the frames, NULL where there is no such row. It returns its
result for each row, (n,), and what it keeps of each key after the last row, (k,). All sums are those that one gets by
adding the values one after the other, so they do not depend on how the rows are divided into tables and epochs.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.operators.aggregate.exact import carried, exact_means, exact_sums, mean_type
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.floats import Floats
from mixedmode.operators.over.numbers import floats_of, limbs_of, sum_type
from mixedmode.operators.over.places import Places, at
from mixedmode.operators.over.ranks import Ranks

__all__ = ["Running", "RunningCount", "RunningEdge", "RunningExtreme", "RunningMean", "RunningSum"]

_LONG = 64  # rows of a key from which on its sum is computed by itself


@dataclass(frozen=True, slots=True)
class Ends:
    """The rows at the ends of the frames: `values` (n,), and whether there is such a row. None: no column is read."""

    values: pa.Array | None
    exist: Bools

    @property
    def are_valid(self) -> Bools:
        """True where there is a value that is not NULL, (n,)."""
        if self.values is None or not self.values.null_count:
            return self.exist
        is_valid: Bools = pc.is_valid(self.values).to_numpy(zero_copy_only=False)
        return self.exist & is_valid


class Running(Protocol):
    """A function whose frame begins at the first row of the key."""

    @property
    @abstractmethod
    def kept_types(self) -> tuple[pa.DataType, ...]:
        """The types of what is kept of a key."""

    @abstractmethod
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        """Return the results (n,), and what is kept (k,).  kept: (k,) before the table; NULL for a new key."""


@dataclass(frozen=True, slots=True)
class RunningCount(Running):
    """The number of rows, or of values that are not NULL."""

    @property
    @override
    def kept_types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    @override
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        counts = pa.array(_sums(ends.are_valid.astype(np.int64), places, _integers(kept[0])))
        return counts, [_last(counts, places)]


@dataclass(frozen=True, slots=True)
class RunningSum(Running):
    """The sum of integers, floats or decimals; NULL while there is no value."""

    result_type: pa.DataType
    where: str

    @property
    @override
    def kept_types(self) -> tuple[pa.DataType, ...]:
        return (self.result_type,)

    @override
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        assert ends.values is not None
        was_valid = pc.is_valid(kept[0]).to_numpy(zero_copy_only=False)
        is_missing = _sums(ends.are_valid.astype(np.int64), places, was_valid.astype(np.int64)) == 0
        if pa.types.is_floating(self.result_type):
            found = pa.array(_float_sums(floats_of(ends.values), places, floats_of(kept[0])), mask=is_missing)
        else:
            pairs = zip(limbs_of(ends.values, self.result_type), limbs_of(kept[0], self.result_type), strict=True)
            sums = [_sums(limb, places, before) for limb, before in pairs]
            found = exact_sums(carried(sums), is_missing, self.result_type, self.where)
        return found, [_last(found, places)]


@dataclass(frozen=True, slots=True)
class RunningMean(Running):
    """The mean of numbers, a double, or of decimals, as in Spark; NULL while there is no value."""

    value_type: pa.DataType
    where: str

    @property
    @override
    def kept_types(self) -> tuple[pa.DataType, ...]:
        is_decimal = pa.types.is_decimal(self.value_type)
        return (sum_type(self.value_type) if is_decimal else pa.float64(), pa.int64())

    @override
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        assert ends.values is not None
        counts = _sums(ends.are_valid.astype(np.int64), places, _integers(kept[1]))
        if pa.types.is_decimal(self.value_type):
            own = sum_type(self.value_type)
            total, after = RunningSum(own, self.where).run(ends, places, kept[:1])
            found = exact_means(limbs_of(total, own), counts, own.scale, mean_type(self.value_type), self.where)
            return found, [*after, _last(pa.array(counts), places)]
        sums = _float_sums(floats_of(ends.values), places, floats_of(kept[0]))
        means = pa.array(sums / np.maximum(counts, 1), mask=counts == 0)
        return means, [_last(pa.array(sums), places), _last(pa.array(counts), places)]


@dataclass(frozen=True, slots=True)
class RunningExtreme(Running):
    """The least or the greatest value; NULL while there is none."""

    value_type: pa.DataType
    largest: bool

    @property
    @override
    def kept_types(self) -> tuple[pa.DataType, ...]:
        return (self.value_type,)

    @override
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        assert ends.values is not None
        ranks = Ranks.of([kept[0], ends.values], largest=self.largest)
        before, own = ranks.numbers[: len(places.starts)], ranks.numbers[len(places.starts) :].copy()
        own[places.starts] = np.maximum(own[places.starts], before)
        floors = places.codes * len(ranks.places)  # each key has ranks above those of the keys before it
        found = ranks.values_of(np.maximum.accumulate(own + floors) - floors)
        return found, [_last(found, places)]


@dataclass(frozen=True, slots=True)
class RunningEdge(Running):
    """The value of the first row, or the first or the last one that is not NULL.

    shift: how many rows before a row its frame ends.
    """

    value_type: pa.DataType
    last: bool
    ignores_nulls: bool
    shift: int

    @property
    @override
    def kept_types(self) -> tuple[pa.DataType, ...]:
        return (self.value_type,)

    @override
    def run(self, ends: Ends, places: Places, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        assert ends.values is not None
        counts = ends.are_valid if self.ignores_nulls else ends.exist
        keys, rows = len(places.starts), np.arange(len(places))
        if self.ignores_nulls:
            was_found = pc.is_valid(kept[0]).to_numpy(zero_copy_only=False)
        else:
            was_found = places.before > self.shift
        if self.last:
            newest = np.maximum.accumulate(np.where(counts, rows, -1))
            is_new = newest >= places.starts[places.codes]
        else:
            newest = _first_rows(counts, places)[places.codes]
            is_new = (newest <= rows) & ~was_found[places.codes]
        indices = np.where(is_new, keys + newest, places.codes)
        found = at(pa.concat_arrays([kept[0], ends.values]), indices, is_new | was_found[places.codes])
        return found, [_last(found, places)]


def _first_rows(counts: Bools, places: Places) -> Int64s:
    """Return the first row of each key where `counts` is true, (k,); n if there is none."""
    found = np.full(len(places.starts), len(places))
    rows = np.flatnonzero(counts)[::-1]
    found[places.codes[rows]] = rows  # of equal codes, the last assignment counts
    return found


def _sums(numbers: Int64s, places: Places, before: Int64s) -> Int64s:
    """Return the running sums of integers (n,) of each key.  before: (k,) the sums before the table."""
    total = np.cumsum(numbers)
    lacking = before - (total - numbers)[places.starts]
    return total + lacking[places.codes]


def _float_sums(numbers: Floats, places: Places, before: Floats) -> Floats:
    """Return the running sums of floats (n,) of each key, added one after the other.

    Long keys are added one by one, and the others all at once, a row of each in turn.
    """
    sums = numbers.copy()
    sums[places.starts] = before + numbers[places.starts]
    sizes = places.ends - places.starts
    for key in np.flatnonzero(sizes > _LONG).tolist():
        own = slice(places.starts[key], places.ends[key])
        sums[own] = np.add.accumulate(sums[own])
    is_short = sizes <= _LONG
    starts, sizes = places.starts[is_short], sizes[is_short]
    for number in range(1, int(sizes.max(initial=0))):
        goes_on = sizes > number
        starts, sizes = starts[goes_on], sizes[goes_on]
        sums[starts + number] += sums[starts + number - 1]
    return sums


def _integers(kept: pa.Array) -> Int64s:
    return pc.fill_null(kept, 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _last(found: pa.Array, places: Places) -> pa.Array:
    return found.take(pa.array(places.ends - 1))
