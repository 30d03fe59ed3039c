"""Leaves out, before the exchange, rows of a join that find no partner and leave no trace.

Where one side of a join has few keys in an epoch (executor/partners.py), they are collected first. Map tasks of the
other side then leave out its rows of all other keys, as far as the operator is done with such a row in this epoch
(JoinBase.is_done_alone). The result and the state are the same; less is moved and sorted.

Only hashes of the keys travel, so long keys take no more memory than others. Two keys with one hash do no harm: a row
stays that could have been left out.

Source: the semi-join reduction of distributed databases (Bernstein and Chiu, 1981).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.hash import xxhash64
from mixedmode.operators.interface import KEY_COLUMN, SIDE_COLUMN, TIME_COLUMN
from mixedmode.operators.join import JoinBase
from mixedmode.operators.tables import column_of
from mixedmode.time import EpochTime

__all__ = ["Partners"]


@dataclass(frozen=True, slots=True)
class Partners:
    """The keys of one side of a join in an epoch.

    `side`: the other side, whose rows may be left out. `hashes`: (n,) of all keys in folded rows, each once. `time`:
    the times that the subtasks of the join see in this epoch.
    """

    side: int
    hashes: npt.NDArray[np.uint64]
    time: EpochTime

    def with_partners(self, operator: JoinBase, rows: pa.Table) -> pa.Table:
        """Return folded rows without those that find no partner and leave no trace."""
        is_side = column_of(rows, SIDE_COLUMN).to_numpy() == self.side
        is_done = operator.is_done_alone(self.side, column_of(rows, TIME_COLUMN).to_numpy(), self.time)
        hashes = pa.array(xxhash64(column_of(rows, KEY_COLUMN)))
        is_known = pc.is_in(hashes, value_set=pa.array(self.hashes)).to_numpy(zero_copy_only=False)
        is_kept = ~is_side | ~is_done | is_known
        return rows if np.all(is_kept) else rows.filter(pa.array(is_kept))
