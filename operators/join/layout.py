"""The columns of a join: of its two sides, in the sorter and in the state, and of its output.

The rows of both sides are in one sorted table, in shared columns. A row has its side (0 left, 1 right). A column of the
left and one of the right share a column of the table if they have one type: each row has only one of them. So a row
takes hardly more memory than it would in a table of its side. A column that holds the event time is not there besides
`_time`.

    _key_group | _key | _time | _side | column0, column1, ...

    Example: the left has a long, a string and a long; the right has a double and a long. The table has column0 (both
    longs), column1 (the string), column2 (a long of the left) and column3 (the double).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, SIDE_COLUMN, TIME_COLUMN, Batch, Folded
from mixedmode.operators.pieces import pieces_of
from mixedmode.operators.tables import column_of
from mixedmode.state.fixed_bytes import FixedBytes

LEFT, RIGHT = 0, 1
NULL_KEY = 2  #: in a join without a bound, added to the side of a row with a NULL in its key
JoinType = Literal["inner", "left", "right", "full", "semi", "anti"]
UInt8s = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.intp]


TIME_TYPE = pa.timestamp("us", "UTC")  # of a column that is not stored besides `_time`
Sides = tuple[tuple[pa.Field, ...], tuple[pa.Field, ...]]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the output: the column `index` of a side."""

    name: str
    side: int
    index: int


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """The columns of a join.

    `sides`: the columns of the left and of the right that the join reads. `times`: of each side, the column that is its
    event time, by index; None: it is not read, or has another type than TIME_TYPE.
    `right_keys`: the names that the key columns have on the right; (): their names on the left, as in `key_schema`.
    """

    key_schema: KeySchema
    sides: Sides
    output: tuple[OutputColumn, ...]
    times: tuple[int | None, int | None] = (None, None)
    right_keys: tuple[str, ...] = ()

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the sorted tables other than `_key_group`, `_key` and `_time`."""
        return (pa.field(SIDE_COLUMN, pa.uint8()), *_shared(self.sides, self.times).fields)

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the output."""
        return tuple(pa.field(column.name, self.sides[column.side][column.index].type) for column in self.output)

    def keys_on(self, side: int) -> tuple[pa.Field, ...]:
        """Return the key columns, with their names on a side."""
        fields = self.key_schema.fields
        if side == LEFT or not self.right_keys:
            return fields
        return tuple(field.with_name(name) for field, name in zip(fields, self.right_keys, strict=True))

    def column_in(self, table: pa.Table, side: int, index: int) -> pa.Array:
        """Return a column of a side in a sorted table, (n,). Only in rows of this side, it has values of this side."""
        name = _shared(self.sides, self.times).names[side][index]
        return column_of(table, TIME_COLUMN).view(TIME_TYPE) if name is None else column_of(table, name)

    def columns_of(self, table: pa.Table, side: int, rows: Rows) -> list[pa.Array]:
        """Return the columns of a side of these rows of a sorted table, which are rows of this side."""
        taken = pa.array(rows)
        return [self.column_in(table, side, index).take(taken) for index in range(len(self.sides[side]))]

    def pieces(self, *given: tuple[Sequence[pa.Array], Int64s] | None) -> Iterator[slice]:
        """Yield pieces of joined rows (n,), to be emitted one by one.

        given: of the left and of the right, all columns, and which of their rows each row has; None: none of them.
        """
        taken = []
        for column in self.output:
            own = given[column.side]
            if own is not None:
                taken.append((own[0][column.index], own[1]))
        return pieces_of(next(len(own[1]) for own in given if own is not None), taken)

    def shared_columns(self, columns: Sequence[pa.Array], sides: UInt8s) -> list[pa.Array]:
        """Return the shared columns of rows (n,).  columns: of the left, then of the right; NULL in other rows."""
        starts = (0, len(self.sides[LEFT]))
        if len(sides) and (sides == sides[0]).all():
            first = starts[sides[0]]
            own = columns[first : first + len(self.sides[sides[0]])]
            return self._shared_of_side(int(sides[0]), own, len(sides))
        given: dict[str, list[pa.Array]] = {}
        for side, names in enumerate(_shared(self.sides, self.times).names):
            for index, name in enumerate(names):
                if name is not None:
                    given.setdefault(name, []).append(columns[starts[side] + index])
        return [_either(given[field.name]) for field in self.input_fields[1:]]

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
        shared = self.shared_columns(columns, sides)
        return Folded(self.table(groups, encoded, times, sides, shared), np.flatnonzero(is_late))

    def table(
        self,
        groups: npt.NDArray[np.uint16],
        keys: pa.Array,
        times_us: Int64s,
        sides: UInt8s,
        columns: Sequence[pa.Array],
    ) -> pa.Table:
        """Return rows (n,) as a table for the sorter.  columns: the shared ones."""
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, TIME_COLUMN, *(field.name for field in self.input_fields)]
        return pa.table([pa.array(groups), keys, pa.array(times_us), pa.array(sides), *columns], names=names)

    def table_of_side(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, times_us: Int64s, side: int, columns: Sequence[pa.Array]
    ) -> pa.Table:
        """Return rows (n,) of one side as a table for the sorter."""
        sides = np.full(len(keys), side, np.uint8)
        return self.table(groups, self.as_keys(keys), times_us, sides, self._shared_of_side(side, columns, len(keys)))

    def marker_table(self, groups: npt.NDArray[np.uint16], keys: pa.Array, side: int) -> pa.Table:
        """Return rows (n,) without columns, at time 0, as a table for the sorter.  side: not one of the two."""
        size = len(keys)
        unread = [_unread(size, field.type) for field in self.input_fields[1:]]
        times_us, sides = np.zeros(size, np.int64), np.full(size, side, np.uint8)
        return self.table(groups, self.as_keys(keys), times_us, sides, unread)

    def _shared_of_side(self, side: int, columns: Sequence[pa.Array], size: int) -> list[pa.Array]:
        own = dict(zip(_shared(self.sides, self.times).names[side], columns, strict=True))
        return [own[f.name] if f.name in own else _unread(size, f.type) for f in self.input_fields[1:]]

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


@dataclass(frozen=True, slots=True)
class _Shared:
    """The shared columns. `names`: of each side, the shared column of each of its columns; None: it is `_time`."""

    fields: tuple[pa.Field, ...]
    names: tuple[tuple[str | None, ...], tuple[str | None, ...]]


@cache
def _shared(sides: Sides, times: tuple[int | None, int | None]) -> _Shared:
    """Return the shared columns: the nth column of a type of the left is also the nth one of this type of the right."""
    fields = dict[tuple[pa.DataType, int], str]()
    names: list[tuple[str | None, ...]] = []
    for side, columns in enumerate(sides):
        seen, own = Counter[pa.DataType](), list[str | None]()
        for index, field in enumerate(columns):
            if index == times[side]:
                own.append(None)
                continue
            own.append(fields.setdefault((field.type, seen[field.type]), f"column{len(fields)}"))
            seen[field.type] += 1
        names.append(tuple(own))
    return _Shared(
        tuple(pa.field(name, data_type) for (data_type, _), name in fields.items()), (names[LEFT], names[RIGHT])
    )


def _unread(size: int, data_type: pa.DataType) -> pa.Array:
    """Return a column (n,) for rows of the other side, of which no value is read.

    Where the type allows it, it has no NULL, since Arrow copies the rows of a column without NULLs faster.
    """
    if not (pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)):
        return pa.nulls(size, data_type)
    return pa.Array.from_buffers(data_type, size, [None, pa.py_buffer(bytes(-(-size * data_type.bit_width // 8)))])


def _either(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one column (n,) of one or two, of which at most one has a value in each row."""
    used = [column for column in columns if column.null_count < len(column)]
    return used[0] if len(used) == 1 else pc.coalesce(*columns)
