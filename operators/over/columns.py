"""The columns that an `over` step computes: the function of each, its type, and what is kept of a key for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.exact import mean_type
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.over.frames import Frames, Timeline
from mixedmode.operators.over.numbers import sum_type
from mixedmode.operators.over.places import Places, at
from mixedmode.operators.over.running import (
    Ends,
    Running,
    RunningCount,
    RunningEdge,
    RunningExtreme,
    RunningMean,
    RunningSum,
)

__all__ = ["TIME", "OverColumn", "SortedRows"]

TIME = -1  #: the index of the event time among the columns of the row

_RANK_TYPE = pa.int32()  # as Spark's
_RANK_MAX = 2**31 - 1
_RANKS = frozenset({"row_number", "rank", "dense_rank"})


@dataclass(frozen=True)
class SortedRows:
    """The rows of a table: their places, those that the columns read, and where the rows of one order begin.

    joined: {index: column} of the joined rows (see Places), with TIME if a frame has a span. blocks: (n,) the number of
    each row's block, of the rows with its key and order. last_of_blocks: (b,) the last row of each.
    """

    places: Places
    joined: Mapping[int, pa.Array]
    blocks: Int64s
    last_of_blocks: Int64s

    @cached_property
    def timeline(self) -> Timeline:
        """The sequence of the joined rows and their times."""
        return Timeline(self.places, self.joined[TIME].to_numpy() if TIME in self.joined else None)


@dataclass(frozen=True, slots=True)
class OverColumn:
    """A column: a function of OVER_FUNCTIONS over a frame, as in OverCall.

    `argument`: the column of the row that it reads, by index, and its type; None for a rank and `count(*)`. `default`:
    of `lag`, the value where there is no such row, of the argument's type; None: NULL.
    """

    name: str
    function: str
    argument: int | None = None
    argument_type: pa.DataType | None = None
    first: int | None = None
    last: int = 0
    has_peers: bool = False
    ignores_nulls: bool = False
    span_us: int | None = None
    default: pa.Scalar | None = None

    def check(self, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the function does not take values of this type."""
        data_type = self.argument_type
        if data_type is None:
            return
        checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal128)
        if self.function in ("sum", "avg") and not any(is_of(data_type) for is_of in checks):
            msg = f"{where}: {self.function} takes numbers. Cast the column in a sql step before. type={data_type}"
            raise InvalidJobError(msg)
        if self.function in ("min", "max") and pa.types.is_nested(data_type):
            msg = f"{where}: {self.function} takes no value with fields or elements. type={data_type}"
            raise InvalidJobError(msg)

    @property
    def field(self) -> pa.Field:
        """The column of the output."""
        if self.function in _RANKS:
            return pa.field(self.name, _RANK_TYPE)
        if self.function == "count":
            return pa.field(self.name, pa.int64())
        assert self.argument_type is not None, self
        if self.function == "avg":
            is_decimal = pa.types.is_decimal(self.argument_type)
            return pa.field(self.name, mean_type(self.argument_type) if is_decimal else pa.float64())
        return pa.field(self.name, sum_type(self.argument_type) if self.function == "sum" else self.argument_type)

    @property
    def kept_types(self) -> tuple[pa.DataType, ...]:
        """The types of what is kept of a key for the column, besides its last rows."""
        if self.function == "dense_rank":
            return (pa.int64(),)
        running = self._running
        return () if running is None else running.kept_types

    @property
    def rows_before(self) -> int:
        """The number of rows before a row that the column reads one by one."""
        return 0 if self.argument is None else max(self.first or 0, self.last)

    @property
    def keeps_rows(self) -> bool:
        """True if the step keeps the values of rows before for the column."""
        return self.argument is not None and (self.rows_before > 0 or self.span_us is not None)

    def of(self, rows: SortedRows, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        """Return the column (n,), and what is kept of each key (k,).  kept: before these rows; NULL for a new key."""
        if self.function in _RANKS:
            return self._rank(rows, kept)
        running = self._running
        if running is None:
            return self._framed(rows), []
        found, after = running.run(self._ends(rows), rows.places, kept)
        if self.has_peers:
            found = found.take(pa.array(rows.last_of_blocks[rows.blocks]))
        return found, after

    @property
    def _running(self) -> Running | None:
        """The function, if its frame begins at the first row; else None."""
        if self.first is not None or self.span_us is not None or self.function == "lag" or self.function in _RANKS:
            return None
        if self.function == "count":
            return RunningCount()
        assert self.argument_type is not None, self
        match self.function:
            case "sum":
                return RunningSum(sum_type(self.argument_type), f"{self.name}: sum")
            case "avg":
                return RunningMean(self.argument_type, f"{self.name}: avg")
            case "min" | "max":
                return RunningExtreme(self.argument_type, largest=self.function == "max")
            case "last_value" if not self.ignores_nulls:
                return None  # the frame's last row is not far
            case "first_value" | "last_value":
                return RunningEdge(self.argument_type, self.function == "last_value", self.ignores_nulls, self.last)
            case _:
                return None

    def _ends(self, rows: SortedRows) -> Ends:
        indices, exist = rows.places.rows_before(self.last)
        if self.argument is None:
            return Ends(None, rows.places.numbers >= self.last)
        return Ends(at(rows.joined[self.argument], indices, exist), exist)

    def _framed(self, rows: SortedRows) -> pa.Array:
        places = rows.places
        if self.argument is None and self.first is not None:  # count(*), for which no rows are kept
            return pa.array(np.minimum(places.numbers - self.last, self.first - self.last).clip(-1) + 1)
        if self.function == "last_value" and not self.ignores_nulls and self.span_us is None:
            assert self.argument is not None, self
            found = at(rows.joined[self.argument], *places.rows_before(self.last))
            return found.take(pa.array(rows.last_of_blocks[rows.blocks])) if self.has_peers else found
        if self.function == "lag":
            assert self.argument is not None, self
            indices, exists = places.rows_before(self.last)
            found = at(rows.joined[self.argument], indices, exists)
            return found if self.default is None else pc.if_else(pa.array(exists), found, self.default)
        joined = None if self.argument is None else rows.joined[self.argument].take(pa.array(rows.timeline.order))
        frames = Frames(joined, *self._bounds(rows))
        match self.function:
            case "count":
                return frames.count()
            case "sum":
                return frames.sum(self.field.type, f"{self.name}: sum")
            case "avg":
                return frames.mean(f"{self.name}: avg")
            case "min" | "max":
                return frames.extreme(largest=self.function == "max")
            case _:
                return frames.edge(last=self.function == "last_value", ignores_nulls=self.ignores_nulls)

    def _bounds(self, rows: SortedRows) -> tuple[Int64s, Int64s]:
        """Return the starts and the ends of the frames in the sequence of the joined rows, (n,) each."""
        if self.span_us is not None:
            return rows.timeline.within(self.span_us, rows.last_of_blocks[rows.blocks])
        assert self.first is not None, self
        return rows.timeline.between(self.first, self.last)

    def _rank(self, rows: SortedRows, kept: Sequence[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        places = rows.places
        if self.function == "row_number":
            return self._int(places.numbers + 1), []
        firsts = np.append(0, rows.last_of_blocks[:-1] + 1)
        if self.function == "rank":
            return self._int(places.numbers[firsts][rows.blocks] + 1), []
        before = kept[0].fill_null(0).to_numpy()
        ranks = rows.blocks - (rows.blocks[places.starts] - before)[places.codes] + 1
        return self._int(ranks), [pa.array(ranks[places.ends - 1])]

    def _int(self, numbers: Int64s) -> pa.Array:
        """Return ranks (n,) as an int. Raise InvalidJobError for one that does not fit."""
        if numbers.max(initial=0) > _RANK_MAX:
            msg = (
                f"{self.name}: {self.function} is too large for its type, and a wrong number would be worse than none. "
                "Use count(*) rows unbounded preceding, which is a bigint and has the number of each row. "
                f"type=int, greatest={int(numbers.max())}"
            )
            raise InvalidJobError(msg)
        return pa.array(numbers).cast(_RANK_TYPE)
