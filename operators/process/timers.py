"""Timers: at most one per key, time and domain (event time, processing time).

Only timers that do not fire in this epoch are stored. Due timers were read before the epoch's records
(operators/process/due.py), and come with their key. If a function registers a timer whose time is already due, the
timer fires at the end of the key's turn, and is never stored.

State layout: stored key = key group | 1 (event time) or 2 (processing time) | time i64, big-endian, sign flipped | key;
value = version u8. So the due timers of a key group are one range.

Stored timers are ordered by time, then by key. So the timers of a key group are buffered until its last key is
processed, and then written in order.

Source: Flink, streaming/api/operators/InternalTimerServiceImpl.java.
Invariants (tests/operators/process/test_timers.py):
  I1  a timer fires once, in the epoch in which its time is reached, unless it was deleted earlier
  I2  within a key, timers of a domain fire in the order of their times
"""

from heapq import heappop, heappush

from mixedmode.operators.process.key_state import KeyState
from mixedmode.state import KeyedStateBackend
from mixedmode.state.keys import PREFIX_BYTES
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

EVENT_TIMERS, PROCESSING_TIMERS = 1, 2  #: state ids
STORED = b"\x01"
TIME_BYTES = 8
_GROUP_BYTES = PREFIX_BYTES - 1
_SIGN = 2**63


class TimerQueue:
    """The current key's timers of one domain. Timers at or before `until_us` fire in this epoch."""

    def __init__(self, until_us: int, key: KeyState) -> None:
        self.until_us = until_us
        self.has_changed = False  #: True if timers changed since the key's turn began
        self.later: dict[int, bool] = {}  #: {time after until_us: True registered, False deleted}
        self.stored: list[int] = []  #: due times that are stored, and so must be deleted
        self._key = key
        self._due: dict[int, bool] = {}  #: {time up to until_us: True}
        self._heap: list[int] = []  #: the times of `_due`, and some that were deleted from `_due`

    def add_stored(self, time_us: int) -> None:
        """Add a stored timer that is due."""
        self.stored.append(time_us)
        self._due[time_us] = True
        heappush(self._heap, time_us)
        self.has_changed = True

    def register(self, time_us: int) -> None:
        """Register a timer; do nothing if a timer with this time exists."""
        self.has_changed = True
        if time_us > self.until_us:
            self._key.before(self.later, time_us)
            self.later[time_us] = True
        elif time_us not in self._due:
            self._key.before(self._due, time_us)
            self._due[time_us] = True
            heappush(self._heap, time_us)

    def delete(self, time_us: int) -> None:
        """Delete a timer; do nothing if it does not exist."""
        self.has_changed = True
        if time_us > self.until_us:
            self._key.before(self.later, time_us)
            self.later[time_us] = False
        elif time_us in self._due:
            self._key.before(self._due, time_us)
            del self._due[time_us]

    def take_due(self) -> int | None:
        """Remove and return the next timer that is due; None if no timer is due."""
        while self._heap:
            time_us = heappop(self._heap)
            if self._due.pop(time_us, False):
                return time_us
        return None

    def end(self) -> None:
        """Reset the queue at the end of the key's turn, when all due timers have fired."""
        self.later.clear()
        self.stored.clear()
        self._due.clear()
        self._heap.clear()
        self.has_changed = False


class TimerWriter:
    """Buffer for the timer changes of a key group; they are written when the next key group begins."""

    def __init__(self, backend: KeyedStateBackend, state_id: int) -> None:
        self._backend = backend
        self._state_id = state_id
        self._group = b""
        self._changes: dict[bytes, bool] = {}  #: {stored key: True registered, False deleted (maybe never stored)}
        self._fired: list[bytes] = []

    def add(self, stored_key: bytes, queue: TimerQueue) -> None:
        """Add the changed timers of a key at the end of its turn. `stored_key` is its stored key in any state."""
        group, key = stored_key[:_GROUP_BYTES], stored_key[PREFIX_BYTES:]
        if group != self._group:
            self.flush()
            self._group = group
        for time_us in queue.stored:
            self._fired.append(timer_key(group, self._state_id, time_us, key))
        for time_us, is_registered in queue.later.items():
            self._changes[timer_key(group, self._state_id, time_us, key)] = is_registered

    def flush(self) -> None:
        """Write the buffered changes. Only timers that are stored are deleted, so that tombstones do not accumulate."""
        deleted = sorted(key for key, is_registered in self._changes.items() if not is_registered)
        found = self._backend.read(self._state_id, deleted) if deleted else []
        writes: dict[bytes, bytes | None] = dict.fromkeys(self._fired)
        writes.update((key, STORED) for key, is_registered in self._changes.items() if is_registered)
        writes.update((key, None) for key, value in zip(deleted, found, strict=True) if value is not None)
        keys = sorted(writes)
        if keys:
            self._backend.write(self._state_id, keys, [writes[key] for key in keys])
        self._changes.clear()
        self._fired.clear()


def timer_key(group: bytes, state_id: int, time_us: int, key: bytes) -> bytes:
    """Return the stored key of a timer; `group` is the two bytes of the key group."""
    return b"%b%c%b%b" % (group, state_id, (time_us + _SIGN).to_bytes(TIME_BYTES, "big"), key)


def time_of(stored_key: bytes) -> int:
    """Return the time in the stored key of a timer, in microseconds."""
    return int.from_bytes(stored_key[PREFIX_BYTES : PREFIX_BYTES + TIME_BYTES], "big") - _SIGN


def key_of(stored_key: bytes) -> bytes:
    """Return the key in the stored key of a timer."""
    return stored_key[PREFIX_BYTES + TIME_BYTES :]


def range_of_times(key_group: int, state_id: int, after_us: int, until_us: int) -> tuple[bytes, bytes]:
    """Return (start, end) of the stored keys of timers with after_us < time <= until_us: start <= key < end.

    If after_us is MIN_TIME_US, the range starts at the beginning, so that it includes a timer at MIN_TIME_US.
    """
    group = key_group.to_bytes(_GROUP_BYTES, "big")
    start = timer_key(group, state_id, after_us + (after_us > MIN_TIME_US), b"")
    if until_us < MAX_TIME_US:
        return start, timer_key(group, state_id, until_us + 1, b"")
    return start, (key_group << 8 | state_id + 1).to_bytes(PREFIX_BYTES, "big")
