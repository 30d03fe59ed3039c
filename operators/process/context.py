"""The context of a function call: the time, the current key, timers and side outputs.

All times are microseconds since 1970 (UTC), in both domains.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from mixedmode.operators.process.timers import TimerQueue
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime

Record = Mapping[str, Any]  #: {column: value}, of the input or of an output

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Timers:
    """The timers of the current key: at most one per time and domain. Registering a timer again has no effect.

    A time is an int of microseconds since 1970, or a datetime. A datetime without a time zone is taken as UTC.
    """

    __slots__ = ("_event", "_may_register", "_processing")

    def __init__(
        self, event: TimerQueue, processing: TimerQueue, may_register: Callable[[TimerQueue, int], bool]
    ) -> None:
        self._event = event
        self._processing = processing
        self._may_register = may_register

    def register_event_time_timer(self, time: int | datetime) -> None:
        """Call on_timer when the watermark reaches `time`; if it already has, at the end of the key's turn."""
        self._register(self._event, microseconds(time))

    def delete_event_time_timer(self, time: int | datetime) -> None:
        """Delete the timer at `time`; do nothing if it does not exist."""
        self._event.delete(microseconds(time))

    def register_processing_time_timer(self, time: int | datetime) -> None:
        """Call on_timer in the first live epoch at or after `time`; in batch mode, after the records of the key."""
        self._register(self._processing, microseconds(time))

    def delete_processing_time_timer(self, time: int | datetime) -> None:
        """Delete the timer at `time`; do nothing if it does not exist."""
        self._processing.delete(microseconds(time))

    def _register(self, queue: TimerQueue, time_us: int) -> None:
        if self._may_register(queue, time_us):
            queue.register(time_us)


class BroadcastRows(Protocol):
    """The rows of one broadcast input of the step."""

    def as_of(self, time: int | datetime) -> Mapping[Any, Record]:
        """Return the rows in force at a time, as {key: row}. A function asks for the time of its record or timer.

        time: microseconds since 1970, or a datetime; one without a time zone is taken as UTC. Raise ValueError for a
        time after that of the record, or more than `history` before it: the answer would depend on the epochs.
        """


class Context:
    """The context of a call. One object serves all calls, so do not keep it: its values change with each call."""

    __slots__ = (
        "_outputs",
        "broadcast",
        "current_key",
        "current_watermark",
        "is_backlog",
        "processing_time",
        "time_domain",
        "timers",
        "timestamp",
    )

    timestamp: int | None  #: time of the record or the timer; None in process_rows, and for records without event time
    current_key: Any  #: the value of the key column; a tuple if there are several key columns
    current_watermark: int  #: no earlier record is expected; in on_timer, the watermark that makes timers fire
    processing_time: int  #: the clock of the epoch
    time_domain: Literal["event", "processing"] | None  #: domain of the timer; None outside of on_timer
    is_backlog: bool  #: whether this epoch is backlog
    timers: Timers  #: timers of the current key
    broadcast: Mapping[str, BroadcastRows]  #: {name: rows} of the broadcast inputs of the step

    def __init__(self, time: EpochTime, timers: Timers, outputs: Mapping[str, Callable[[Record], None]]) -> None:
        self.timestamp = None
        self.current_key = None
        self.current_watermark = time.late_us
        self.processing_time = time.clock_ms * 1000
        self.time_domain = None
        self.is_backlog = time.is_backlog
        self.timers = timers
        self.broadcast = {}
        self._outputs = outputs

    def output(self, tag: str, row: Record) -> None:
        """Emit a row to the side output `tag`. Raise ValueError if the step does not declare `tag`."""
        add = self._outputs.get(tag)
        if add is None:
            msg = f"the step declares no output {tag!r}; it declares {sorted(self._outputs)}. Add it to `outputs`"
            raise ValueError(msg)
        add(row)


def microseconds(time: int | datetime) -> int:
    """Return a time as microseconds since 1970 (UTC).

    Raise TypeError if `time` is no int or datetime, and ValueError if it does not fit 64 bits.
    """
    if time.__class__ is not int:
        if isinstance(time, datetime):
            aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
            return (aware - _EPOCH) // _MICROSECOND
        try:
            time = operator.index(time)
        except TypeError:
            msg = f"a time is microseconds since 1970 as an int, or a datetime. time={time!r}"
            raise TypeError(msg) from None
    if not MIN_TIME_US <= time <= MAX_TIME_US:
        msg = f"a time must fit 64 bits, in microseconds since 1970. time={time}"
        raise ValueError(msg)
    return time
