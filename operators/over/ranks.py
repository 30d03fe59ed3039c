"""The ranks of values, by which the least and the greatest of any type are found in arrays of integers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Int64s

__all__ = ["Ranks"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of values (n,), from 1, as Spark orders them; equal values have one, and NULL has 0.

    values: (n,). places: where a value of each rank is, () for rank 0.
    """

    values: pa.Array
    numbers: Int64s
    places: Int64s

    @classmethod
    def of(cls, parts: Sequence[pa.Array], *, largest: bool) -> "Ranks":
        """Return the ranks of values in several arrays of one type.  largest: the greatest value has the highest."""
        values = pa.concat_arrays(parts)
        if pa.types.is_floating(values.type):
            values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 and 0.0 are equal, so they become one value
        ordered = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
        found = pc.rank(ordered, sort_keys="ascending", tiebreaker="dense")  # NULL last, NaN before it
        numbers = found.to_numpy().astype(np.int64)
        is_null = pc.is_null(values).to_numpy(zero_copy_only=False)
        greatest = int(numbers[~is_null].max(initial=0))
        numbers = numbers if largest else greatest + 1 - numbers
        numbers[is_null] = 0
        places = np.zeros(greatest + 1, np.int64)
        places[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal values the first
        return cls(values, numbers, places)

    def values_of(self, ranks: Int64s) -> pa.Array:
        """Return a value for each rank (m,); NULL for 0."""
        missing = ranks == 0
        return self.values.take(pa.array(self.places[ranks], mask=missing if missing.any() else None))
