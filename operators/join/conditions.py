"""The condition of a join: what besides the key must hold of two rows, so that they are a pair.

Spark's analysis makes a query of the SQL; the operator computes it on blocks of pairs, so no product is in memory.
Where values are long, a block is computed in pieces. As in SQL, a condition that is NULL does not hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.expressions import Query, evaluate_here
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.layout import OutputColumn
from mixedmode.operators.pieces import pieces_of

__all__ = ["Condition"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of pairs.

    `text`: the SQL. `query`: its only column is the condition, over `columns`: columns of the sides, by their names in
    the query.
    """

    text: str
    query: Query
    columns: tuple[OutputColumn, ...]

    def holds(self, sides: Sequence[Sequence[pa.Array]], left: Int64s, right: Int64s) -> Bools:
        """Return (n,) True for the pairs for which the condition is true.

        sides: the columns of the left and of the right. left, right: rows of them, (n,) each. Raise InvalidJobError if
        Spark raises an error on a value.
        """
        numbers = (left, right)
        taken = [(sides[column.side][column.index], numbers[column.side]) for column in self.columns]
        holds = np.zeros(len(left), np.bool_)
        for piece in pieces_of(len(left), taken):
            holds[piece] = self._holds([(values, rows[piece]) for values, rows in taken])
        return holds

    def _holds(self, taken: Sequence[tuple[pa.Array, Int64s]]) -> Bools:
        given = [values.take(pa.array(rows)) for values, rows in taken]
        batch = pa.record_batch(given, [column.name for column in self.columns])
        (found,) = evaluate_here([self.query], [batch])
        holds = pc.fill_null(found.column(0), False).to_numpy(zero_copy_only=False)
        return np.asarray(holds, np.bool_)
