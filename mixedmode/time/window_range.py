"""The range of event time of a backfill, and the rows of its windows in an output. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.time.epoch import shown_time

__all__ = ["BOUND_TYPE", "Bound", "ReplacedRows", "WindowRange"]

#: the type of the columns with the bounds of windows
BOUND_TYPE = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WindowRange:
    """The windows [s, e) with start_us <= s and e <= end_us; microseconds since 1970, UTC."""

    start_us: int
    end_us: int

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Return both bounds as instants in UTC."""
        return _instant(self.start_us), _instant(self.end_us)

    @property
    def sql_bounds(self) -> tuple[str, str]:
        """Return both bounds as literals of Spark SQL, whose years have four digits."""
        start, end = map(_literal, self.bounds)
        return start, end

    def __str__(self) -> str:
        return f"{shown_time(self.start_us)} to {shown_time(self.end_us)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of an output with the start or the end of windows, and a time: microseconds since 1970, UTC.

    field: of the column, if it is a struct, such as the `start` of a window.
    """

    column: str
    at_us: int
    field: str | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names that lead to the bound."""
        return (self.column,) if self.field is None else (self.column, self.field)

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the bounds of rows (n,)."""
        values = rows.column(self.column)
        return values if self.field is None else pc.struct_field(values, self.field)

    @property
    def instant(self) -> datetime:
        """Return the time as an instant in UTC."""
        return _instant(self.at_us)

    @property
    def scalar(self) -> pa.Scalar:
        """Return the time with the type of the column."""
        return pa.scalar(self.at_us, BOUND_TYPE)

    @property
    def literal(self) -> str:
        """Return the time as a literal of Spark SQL, whose years have four digits."""
        return _literal(self.instant)


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """The rows of an output whose windows lie in a range: those from the bound `least` to the bound `greatest`.

    Example: hours from 10:00 to 12:00 are the rows with window_start >= 10:00 and window_end <= 12:00; of an output
    that has only their start, as `hour`, those with hour >= 10:00 and hour <= 11:59:59.999999.
    """

    least: Bound
    greatest: Bound

    @property
    def are_in_structs(self) -> bool:
        """Return whether a bound is a field of a struct."""
        return self.least.field is not None or self.greatest.field is not None

    def has(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for (n,) rows (n,) booleans: whether the row is one of these; False if a bound is NULL."""
        inside = pc.and_(
            pc.greater_equal(self.least.of(rows), self.least.scalar),
            pc.less_equal(self.greatest.of(rows), self.greatest.scalar),
        )
        return pc.fill_null(inside, False)


def _instant(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)


def _literal(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat(sep=' ')}'"
