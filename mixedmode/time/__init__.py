"""Event time and processing time: watermarks, windows, timers' order. Pure."""

from mixedmode.time.epoch import MAX_TIME_US, MIN_TIME_US, EpochTime, shifted_us, shown_time
from mixedmode.time.watermarks import (
    Seen,
    Split,
    SplitProgress,
    Strategy,
    WatermarkState,
    advance,
    merge_seen,
    source_watermarks,
    within_reach,
)
from mixedmode.time.windows import Cumulating, Sliding, TimeWindows, Tumbling, checked_times

__all__ = [
    "MAX_TIME_US",
    "MIN_TIME_US",
    "Cumulating",
    "EpochTime",
    "Seen",
    "Sliding",
    "Split",
    "SplitProgress",
    "Strategy",
    "TimeWindows",
    "Tumbling",
    "WatermarkState",
    "advance",
    "checked_times",
    "merge_seen",
    "shifted_us",
    "shown_time",
    "source_watermarks",
    "within_reach",
]
