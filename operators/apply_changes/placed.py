"""Versions of rows at places, so that those before an epoch and those after it can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.apply_changes.versions import Versions

__all__ = ["Placed"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Versions at places (p,): -1 where there is none. Two sets of versions have each version at one place."""

    begins: Int64s
    rows: Int64s
    ends: Int64s

    @classmethod
    def of(cls, found: Versions, places: Int64s, count: int) -> "Placed":
        """Return versions at the places (n,) of the records that they begin with."""
        columns = np.full((3, count), -1)
        columns[:, places[found.begins]] = found.begins, found.rows, found.ends
        return cls(*columns)

    @property
    def exists(self) -> Bools:
        """True where there is a version."""
        return self.begins >= 0

    def at(self, places: Int64s) -> "Placed":
        """Return those at some places."""
        return Placed(self.begins[places], self.rows[places], self.ends[places])

    def where(self, mask: Bools, other: "Placed") -> "Placed":
        """Return these where `mask` is true, and those of another set elsewhere."""
        pairs = ((self.begins, other.begins), (self.rows, other.rows), (self.ends, other.ends))
        return Placed(*(np.where(mask, own, others) for own, others in pairs))

    def equals(self, other: "Placed", rows: pa.Array, places: Int64s) -> Bools:
        """Return where both have the same version, (p,).  rows: the columns of each record, as bytes."""
        found = self.exists & other.exists
        both = np.flatnonzero(found)
        ends = np.append(places, -1)
        own, others = (rows.take(pa.array(one.rows[both])) for one in (self, other))
        same_rows = pc.equal(own, others).to_numpy(zero_copy_only=False)
        found[both] = same_rows & (ends[self.ends[both]] == ends[other.ends[both]])
        return found

    def columns(self, columns: Sequence[pa.Array], sequences: pa.Array | None) -> list[pa.Array]:
        """Return the columns of the rows, and the sequences of their ends, if there are any."""
        found = [column.take(pa.array(self.rows)) for column in columns]
        if sequences is None:
            return found
        return [*found, sequences.take(pa.array(np.maximum(self.ends, 0), mask=self.ends < 0))]
