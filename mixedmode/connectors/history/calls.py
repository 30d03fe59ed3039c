"""A history and its live continuation as one source, in Python."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Unpack

from mixedmode.config.sources import SourceSpec
from mixedmode.connectors.calls import SourceArguments, checked
from mixedmode.connectors.history.kind import KIND
from mixedmode.connectors.history.spec import HistoryAndLiveSpec


class HistoryArguments(SourceArguments, total=False):
    """Arguments of a history and its live continuation, with those of SourceArguments.

    column: the column that the point in time is compared with; by default `event_time`.
    nulls: the side that emits records with NULL in that column; `fail` allows none.
    missing_columns: for a column that one side lacks, `fail`, or `nulls` in the records of that side.
    """

    column: str
    nulls: Literal["fail", "history", "live"]
    missing_columns: Literal["fail", "nulls"]


class HistorySources:
    """The methods of `Source` for a history and its live continuation."""

    @staticmethod
    def history_and_live(
        history: SourceSpec,
        live: SourceSpec,
        *,
        seam: str | datetime | Mapping[str, Mapping[int, int]],
        **settings: Unpack[HistoryArguments],
    ) -> HistoryAndLiveSpec:
        """Return a source with the records of `history` before the seam, and those of `live` from the seam on.

        seam: a point in time with its offset from UTC.
            Or the first live offsets of Kafka, as {topic: {partition: offset}}.
        docs/history-and-live.md is the guide.
        """
        at = ("seam", "offsets" if isinstance(seam, Mapping) else "timestamp")
        given = {"history": history, "live": live, at: seam}
        call = "Source.history_and_live"
        return checked(HistoryAndLiveSpec, KIND, given, settings, call=call, takes=HistoryArguments)
