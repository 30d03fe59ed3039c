"""The columns of a join: of its two sides, in the sorter and in the state, and of its output.

The rows of both sides are in one sorted table. A row has its side (0 left, 1 right), the columns of its side, and NULL
in those of the other one:

    _key_group | _key | _time | _side | left0, left1, ... | right0, right1, ...
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, SIDE_COLUMN, TIME_COLUMN, Batch, Folded
from mixedmode.operators.tables import column_of
from mixedmode.state.fixed_bytes import FixedBytes

LEFT, RIGHT = 0, 1
JoinType = Literal["inner", "left", "right", "full", "semi", "anti"]
_PREFIXES = ("left", "right")
UInt8s = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the output: the column `index` of a side."""

    name: str
    side: int
    index: int


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """The columns of a join. `sides`: the columns of the left and of the right that the join reads."""

    key_schema: KeySchema
    sides: tuple[tuple[pa.Field, ...], tuple[pa.Field, ...]]
    output: tuple[OutputColumn, ...]

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the sorted tables other than `_key_group`, `_key` and `_time`."""
        side = pa.field(SIDE_COLUMN, pa.uint8())
        return (
            side,
            *(pa.field(self.name_of(s, i), f.type) for s in (LEFT, RIGHT) for i, f in enumerate(self.sides[s])),
        )

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the output."""
        return tuple(pa.field(column.name, self.sides[column.side][column.index].type) for column in self.output)

    def name_of(self, side: int, index: int) -> str:
        """Return the name of a side's column in the sorted tables."""
        return f"{_PREFIXES[side]}{index}"

    def columns_of(self, table: pa.Table, side: int, rows: Rows) -> list[pa.Array]:
        """Return the columns of a side of these rows of a sorted table."""
        taken = pa.array(rows)
        return [column_of(table, self.name_of(side, index)).take(taken) for index in range(len(self.sides[side]))]

    def folded(self, batch: Batch, *, late_us: int, keeps_null_keys: tuple[bool, bool], max_parallelism: int) -> Folded:
        """Return the rows of a batch that may be in the result. Rows before `late_us` are late.

        NULL is not equal to NULL: `keeps_null_keys` says for which sides a row with a NULL in its key is kept, as it
        is in the result without a match.
        """
        sides, times = batch.sides, batch.times_us
        assert sides is not None, "a join has two sides"
        assert times is not None, "the rows of a join by time have event times"
        is_late = times < late_us
        is_kept = ~is_late
        is_null = null_keys(batch.keys)
        if is_null is not None:
            is_kept &= ~is_null | np.array(keeps_null_keys)[sides]
        keys, columns = batch.keys, batch.arguments[: len(self.sides[LEFT]) + len(self.sides[RIGHT])]
        if not is_kept.all():
            rows = np.flatnonzero(is_kept)
            taken = pa.array(rows)
            keys, columns = [key.take(taken) for key in keys], [column.take(taken) for column in columns]
            sides, times = sides[rows], times[rows]
        encoded = encode_keys(keys, self.key_schema)
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        return Folded(self.table(groups, encoded, times, sides, columns), np.flatnonzero(is_late))

    def table(
        self,
        groups: npt.NDArray[np.uint16],
        keys: pa.Array,
        times_us: Int64s,
        sides: UInt8s,
        columns: Sequence[pa.Array],
    ) -> pa.Table:
        """Return rows (n,) as a table for the sorter.  columns: of the left, then of the right."""
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, TIME_COLUMN, *(field.name for field in self.input_fields)]
        return pa.table([pa.array(groups), keys, pa.array(times_us), pa.array(sides), *columns], names=names)

    def table_of_side(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, times_us: Int64s, side: int, columns: Sequence[pa.Array]
    ) -> pa.Table:
        """Return rows (n,) of one side as a table for the sorter."""
        others = [pa.nulls(len(keys), field.type) for field in self.sides[1 - side]]
        every = [*columns, *others] if side == LEFT else [*others, *columns]
        return self.table(groups, self.as_keys(keys), times_us, np.full(len(keys), side, np.uint8), every)

    def as_keys(self, keys: pa.LargeBinaryArray) -> pa.Array:
        """Return encoded keys (n,) in the type that `encode_keys` gives them."""
        width = self.key_schema.width
        if width is None:
            return keys
        return FixedBytes(np.frombuffer(b"".join(keys.to_pylist()), np.uint8).reshape(-1, width)).fixed_size_binary()


def null_keys(keys: Sequence[pa.Array]) -> Bools | None:
    """Return (n,) True where a key column is NULL; None if no value is."""
    found: Bools | None = None
    for column in keys:
        if column.null_count:
            is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
            found = is_null if found is None else found | is_null
    return found
