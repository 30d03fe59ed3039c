"""A history and its live continuation as one source, in Python."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from mixedmode.config.history import HistoryAndLiveSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.job.arguments import Duration, nested
from mixedmode.job.connectors.checked import checked


class HistorySources:
    """The methods of `Source` for a history and its live continuation."""

    @staticmethod
    def history_and_live(  # noqa: PLR0913  # one argument per setting, by keyword
        history: SourceSpec,
        live: SourceSpec,
        *,
        seam: str | datetime | Mapping[str, Mapping[int, int]],
        column: str | None = None,
        nulls: Literal["fail", "history", "live"] | None = None,
        missing_columns: Literal["fail", "null"] | None = None,
        event_time: str | None = None,
        out_of_orderness: Duration | None = None,
        idle_timeout: Duration | None = None,
        max_ahead: Duration | Literal["none"] | None = None,
        partition_column: str | None = None,
        bounded: bool | None = None,
    ) -> HistoryAndLiveSpec:
        """Return a source with the records of `history` before the seam, and those of `live` from the seam on.

        seam: a point in time with its offset from UTC.
            Or the first live offsets of Kafka, as {topic: {partition: offset}}.
        column: the column that the point in time is compared with; by default `event_time`.
        nulls: the side that emits records with NULL in that column; `fail` allows none.
        missing_columns: for a column that one side lacks, `fail`, or `null` in the records of that side.

        See Source for the other arguments, and docs/history-and-live.md.
        """
        values = {
            ("history",): history,
            ("live",): live,
            ("seam", "offsets" if isinstance(seam, Mapping) else "timestamp"): seam,
            ("seam", "column"): column,
            ("seam", "nulls"): nulls,
            ("missing-columns",): missing_columns,
            ("event-time",): event_time,
            ("watermark", "out-of-orderness"): out_of_orderness,
            ("watermark", "idle-timeout"): idle_timeout,
            ("watermark", "max-ahead"): max_ahead,
            ("watermark", "partition-column"): partition_column,
            ("bounded",): bounded,
        }
        return checked(HistoryAndLiveSpec, nested(values), place="Source.history_and_live")
