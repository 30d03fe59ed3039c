"""The entry of the registry for sources with a history and a live continuation."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.history.spec import HistoryAndLiveSpec

KIND = ConnectorKind(
    "history-and-live",
    source=HistoryAndLiveSpec,
    keys=frozenset({"history", "live"}),
    source_arguments={
        ("seam", "timestamp"): "seam",
        ("seam", "offsets"): "seam",
        ("seam", "column"): "column",
        ("seam", "nulls"): "nulls",
    },
    open_source="mixedmode.connectors.history.source:open_history_and_live",
)
