"""A history and what goes on from it live as one source, in Python."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from mixedmode.config.history import HistoryAndLiveSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.job.arguments import Duration, nested
from mixedmode.job.connectors.checked import checked


class HistorySources:
    """Calls of `Source` for a history and what goes on from it."""

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
        """Records of `history` before the seam, those of `live` from it on.

        seam: a point in time, with which `column` (not given: `event_time`) is compared; or offsets of Kafka by topic
        and partition.
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
