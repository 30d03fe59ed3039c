"""The windows of an output that a backfill replaces: those that lie in a range of time as a whole. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.time.epoch import shown_time

__all__ = ["BOUND_TYPE", "END_COLUMN", "START_COLUMN", "WindowRange"]

#: the columns of an output that hold the bounds of windows
START_COLUMN, END_COLUMN = "window_start", "window_end"
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
        return _EPOCH + timedelta(microseconds=self.start_us), _EPOCH + timedelta(microseconds=self.end_us)

    @property
    def sql_bounds(self) -> tuple[str, str]:
        """Return both bounds as literals of Spark SQL, whose years have four digits."""
        start, end = (f"TIMESTAMP '{bound.isoformat(sep=' ')}'" for bound in self.bounds)
        return start, end

    @property
    def arrow_bounds(self) -> tuple[pa.Scalar, pa.Scalar]:
        """Return both bounds with the type of the columns."""
        return pa.scalar(self.start_us, BOUND_TYPE), pa.scalar(self.end_us, BOUND_TYPE)

    def has(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for (n,) rows with the bounds of windows (n,) booleans: whether the window lies in the range."""
        start, end = self.arrow_bounds
        inside = pc.and_(
            pc.greater_equal(rows.column(START_COLUMN), start), pc.less_equal(rows.column(END_COLUMN), end)
        )
        return pc.fill_null(inside, False)

    def __str__(self) -> str:
        return f"{shown_time(self.start_us)} to {shown_time(self.end_us)}"
