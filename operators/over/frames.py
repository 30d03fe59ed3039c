"""Functions of an `over` step over a frame of some rows or of a span of time, which ends at or before its row.

The joined rows of each key (see places.py) are put into one sequence, key by key, in which a frame is a slice. Counts
and sums of whole numbers are differences of prefix sums. The least and the greatest value are those of two slices of
2**l rows that cover the frame. Floats are added one after the other, so where a table ends does not change their sum.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.exact import carried, exact_means, exact_sums, mean_type, rounded_sums
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.floats import Floats
from mixedmode.operators.over.numbers import floats_of, limbs_of, sum_type
from mixedmode.operators.over.places import Places, at
from mixedmode.operators.over.ranks import Ranks
from mixedmode.time import MIN_TIME_US

__all__ = ["Frames", "Timeline"]


@dataclass(frozen=True)
class Timeline:
    """The sequence of the joined rows (m,), and their times.

    times_us: (m,) of the joined rows; None if no frame has a span. A row whose time is before that of a row before it,
    as one that comes after all has fired, counts with the time of that row.
    """

    places: Places
    times_us: Int64s | None

    @cached_property
    def order(self) -> Int64s:
        """The joined row at each place of the sequence, (m,)."""
        places, kept = self.places, int(self.places.kept.sum())
        keys = np.repeat(np.arange(len(places.starts)), places.kept)
        order = np.empty(kept + len(places), np.int64)
        order[np.arange(kept) + places.starts[keys]] = np.arange(kept)
        order[self.rows] = np.arange(kept, len(order))
        return order

    @cached_property
    def rows(self) -> Int64s:
        """The place of each row of the table in the sequence, (n,)."""
        return np.arange(len(self.places)) + np.cumsum(self.places.kept)[self.places.codes]

    @cached_property
    def _ranked(self) -> tuple[Int64s, Int64s, Int64s]:
        """The distinct times, and of each place (m,) its key, and its key and the rank of its time as one number."""
        assert self.times_us is not None
        times, ranks = np.unique(self.times_us, return_inverse=True)
        keys = np.concatenate([np.repeat(np.arange(len(self.places.starts)), self.places.kept), self.places.codes])
        codes = keys[self.order]
        return times, codes, np.maximum.accumulate(codes * (len(times) + 1) + ranks[self.order])

    def between(self, first: int, last: int) -> tuple[Int64s, Int64s]:
        """Return the frames from `first` to `last` rows before each row of the table: (n,) their starts and ends."""
        places = self.places
        begins = np.cumsum(places.kept) - places.kept + places.starts  # of each key
        starts = np.maximum(self.rows - first, begins[places.codes])
        return starts, np.maximum(self.rows - last + 1, starts)

    def within(self, span_us: int, last_peers: Int64s) -> tuple[Int64s, Int64s]:
        """Return the frames from so long before each row of the table to its last peer (n,), as `between`."""
        return self._starts(span_us, self.rows), self.rows[last_peers] + 1

    def _starts(self, span_us: int, rows: Int64s) -> Int64s:
        """Return the place (m,) at which the frame of a span begins, for each of these places (m,)."""
        times, codes, numbers = self._ranked
        floors = codes[rows] * (len(times) + 1)
        own = times[numbers[rows] - floors]
        earliest = np.maximum(own, MIN_TIME_US + span_us) - span_us
        found: Int64s = np.searchsorted(numbers, floors + np.searchsorted(times, earliest))
        return found

    def recent(self, span_us: int) -> Int64s:
        """Return how many rows of each key the frame of a later row may have, (k,)."""
        last = self.rows[self.places.ends - 1]
        return last + 1 - self._starts(span_us, last)


@dataclass(frozen=True)
class Frames:
    """The frames of rows (n,): slices [starts[i], ends[i]) of a sequence of values (m,), which may be empty.

    values: None for rows without a column.
    """

    values: pa.Array | None
    starts: Int64s
    ends: Int64s

    def count(self) -> pa.Array:
        """Return the number of rows, or of values that are not NULL, (n,)."""
        return pa.array(self._counts if self.values is not None else self.ends - self.starts)

    def sum(self, result_type: pa.DataType, where: str) -> pa.Array:
        """Return the sum of integers, floats or decimals, (n,); NULL without a value."""
        is_missing = self._counts == 0
        if pa.types.is_floating(result_type):
            return pa.array(self._float_sums(), mask=is_missing)
        return exact_sums(self._limbs(result_type), is_missing, result_type, where)

    def mean(self, where: str) -> pa.Array:
        """Return the mean of numbers as a double, or of decimals, (n,); NULL without a value."""
        assert self.values is not None
        own = self.values.type
        if pa.types.is_decimal(own):
            return exact_means(self._limbs(sum_type(own)), self._counts, own.scale, mean_type(own), where)
        sums = self._float_sums() if pa.types.is_floating(self.values.type) else rounded_sums(self._limbs(pa.int64()))
        return pa.array(sums / np.maximum(self._counts, 1), mask=self._counts == 0)

    def extreme(self, *, largest: bool) -> pa.Array:
        """Return the least or the greatest value, (n,); NULL without a value."""
        assert self.values is not None
        ranks = Ranks.of([self.values], largest=largest)
        level, greatest, found = 0, ranks.numbers, np.zeros(len(self.starts), np.int64)
        levels = np.frexp(self.ends - self.starts)[1] - 1  # of the longest slices of 2**l rows within each frame
        while True:
            own = np.flatnonzero(levels == level)
            found[own] = np.maximum(greatest[self.starts[own]], greatest[self.ends[own] - 2**level])
            level += 1
            if level > levels.max(initial=0):
                return ranks.values_of(found)
            greatest = np.maximum(greatest[: -(2 ** (level - 1))], greatest[2 ** (level - 1) :])

    def edge(self, *, last: bool, ignores_nulls: bool) -> pa.Array:
        """Return the value of the first or the last row, (n,), or the first or the last one that is not NULL."""
        assert self.values is not None
        places = np.arange(len(self.values))
        counts = self._are_valid if ignores_nulls else np.ones(len(places), np.bool_)
        if last:
            found = np.maximum.accumulate(np.where(counts, places, -1))[self.ends - 1]
            return at(self.values, found, (found >= self.starts) & (self.ends > self.starts))
        found = np.minimum.accumulate(np.where(counts, places, len(places))[::-1])[::-1][self.starts]
        exists = found < self.ends
        return at(self.values, np.where(exists, found, 0), exists)

    @cached_property
    def _are_valid(self) -> Bools:
        assert self.values is not None
        return pc.is_valid(self.values).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @cached_property
    def _counts(self) -> Int64s:
        return self._differences(self._are_valid.astype(np.int64))

    def _differences(self, numbers: Int64s) -> Int64s:
        """Return the sums of integers (m,) of each frame, (n,)."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
        found: Int64s = sums[self.ends] - sums[self.starts]
        return found

    def _limbs(self, result_type: pa.DataType) -> list[Int64s]:
        """Return the sums of whole numbers in limbs."""
        return carried([self._differences(limb) for limb in limbs_of(self.values, result_type)])

    def _float_sums(self) -> Floats:
        """Return the sums of numbers as floats, added from the oldest row to the newest.

        A pass adds one row of each frame that still has one.
        """
        numbers = floats_of(self.values)
        sums, sizes = np.zeros(len(self.starts)), self.ends - self.starts
        rows = np.argsort(-sizes, kind="stable")
        active = np.searchsorted(-sizes[rows], -np.arange(1, int(sizes.max(initial=0)) + 1), side="right")
        for number, count in enumerate(active.tolist()):
            own = rows[:count]
            sums[own] += numbers[self.starts[own] + number]
        return sums
