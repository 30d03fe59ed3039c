"""The turns of keys: each key's state is loaded before its turn and stored after it.

State is read and written for many keys at once, for one chunk of the input. In between, a turn works on Python objects.
Unchanged state is not written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mixedmode.operators.process.chunks import Chunk
from mixedmode.operators.process.codec import UNSTORABLE, KeyCodec, StateMismatchError
from mixedmode.operators.process.due import KEYS, processing_range
from mixedmode.operators.process.key_state import NO_KEY, KeyState
from mixedmode.operators.process.maps import MAP_STATE_ID, MapState
from mixedmode.operators.process.states import UNSET, SingleState, State
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS, TimerQueue, TimerWriter
from mixedmode.state import KeyedStateBackend
from mixedmode.state.keys import PREFIX_BYTES
from mixedmode.time import MIN_TIME_US, EpochTime

PREFETCHED_ENTRIES_MAX = 256  # for a key with more map entries, entries are read on access
CHUNK_BYTES = 2**24  # packed state of a chunk's keys; as Python objects it takes several times as much
_FIRST_KEYS = 2**10  # number of keys in a chunk while the size of their state is unknown


class Turns:
    """The state of the current key: `key.row`, the map states, and the timers of both domains."""

    def __init__(self, states: Mapping[str, State], backend: KeyedStateBackend, time: EpochTime) -> None:
        self.key = KeyState(time.clock_ms)
        processing = processing_range(time)
        self.event = TimerQueue(time.firing_us, self.key)
        self.processing = TimerQueue(MIN_TIME_US - 1 if processing is None else processing[1], self.key)
        self.handles: dict[str, State] = {
            name: state.bound_to(name, self.key, backend)
            if isinstance(state, MapState)
            else state.bound(name, self.key)
            for name, state in states.items()
        }
        self._backend = backend
        self._codec = KeyCodec(states)
        self._maps = [handle for handle in self.handles.values() if isinstance(handle, MapState)]
        self._expiring = [
            (f"v_{name}", f"e_{name}", state.ttl_ms)
            for name, state in states.items()
            if state.ttl_ms is not None and isinstance(state, SingleState)
        ]
        self._writers = (
            (self.event, TimerWriter(backend, EVENT_TIMERS)),
            (self.processing, TimerWriter(backend, PROCESSING_TIMERS)),
        )
        self.is_simple = not self._maps and not self._expiring  #: True if a turn only changes its row
        self._keys_max = _FIRST_KEYS
        self._chunk: Chunk | None = None
        self._packed: Sequence[bytes | None] = []  #: stored rows of the chunk's keys
        self.rows: list[Any] = []  #: the same rows, unpacked; their final values are stored
        self._map_entries: dict[int, list[tuple[bytes, bytes]]] = {}  #: {index of the key: stored entries}
        self._saved: Any = None  #: copy of the current key's row, for `undo`
        self._changed_entries: list[tuple[bytes, bytes | None]] = []

    def read(self, chunk: Chunk) -> None:
        """Read the stored state of a chunk's keys. Called before the first turn of the chunk."""
        self._chunk = chunk
        if not chunk.begins:
            return
        self._packed = self._backend.read(KEYS, chunk.stored)
        new_row, unpack = self._codec.new_row, self._codec.unpack
        self.rows = [new_row() if packed is None else unpack(packed) for packed in self._packed]
        if self._maps:
            self._read_maps(chunk)
        self._learn_size(self._packed)

    def keys_max(self) -> int:
        """Return how many keys a chunk may have, estimated from the state size of the latest keys."""
        return self._keys_max

    def begin(self, index: int) -> None:
        """Begin the turn of the chunk's key `index`. Not needed if `is_simple`: the row is `rows[index]`."""
        self._saved = None
        row = self.key.row = self.rows[index]
        for value, expiry, ttl_ms in self._expiring:
            self._expire(row, value, expiry, ttl_ms)
        if self._maps:
            self._begin_maps(index)

    def end(self, index: int) -> None:
        """End the turn. Not needed if `is_simple`. Raise StateMismatchError if state cannot be stored."""
        try:
            for state in self._maps:
                self._changed_entries += state.end()
        except UNSTORABLE as error:
            raise StateMismatchError(str(error), index) from error
        self.rows[index] = self.key.row  # `undo` replaces the row object

    def end_timers(self, stored_key: bytes) -> None:
        """Collect the changed timers at the end of a turn."""
        for queue, writer in self._writers:
            if queue.has_changed:
                writer.add(stored_key, queue)
                queue.end()

    def write(self) -> None:
        """Write changed state after the last turn of a chunk. Raise StateMismatchError if it cannot be stored."""
        assert self._chunk is not None
        if not self._chunk.ends:
            return
        self.key.row = NO_KEY
        keys, rows = self._changed_rows(self._chunk.stored)
        if keys:
            self._backend.write(KEYS, keys, rows)
            self._learn_size(rows)
        if self._changed_entries:
            entries, self._changed_entries = sorted(self._changed_entries), []
            self._backend.write(MAP_STATE_ID, [key for key, _ in entries], [value for _, value in entries])

    def finish(self) -> None:
        """Write the timers that are still buffered, after the last chunk."""
        for _, writer in self._writers:
            writer.flush()

    # --- rolling back the changes of a failed call --------------------------------------------------------------------

    def save(self) -> None:
        """Save the state before a call, for `undo`."""
        if self._saved is None:
            self._saved = self._codec.saved(self.key.row)
        self.key.journal = []

    def drop_saved(self) -> None:
        """Forget the saved state, after a change outside of a call, which `undo` must not roll back."""
        self._saved = None

    def keep(self) -> None:
        """Drop the saved state after a call. Before that, raise StateMismatchError if state cannot be stored."""
        try:
            for state in self._maps:
                state.check()
            self._saved = self._codec.saved(self.key.row)
        except UNSTORABLE as error:
            raise StateMismatchError(str(error)) from error
        self.key.journal = None

    def undo(self) -> None:
        """Restore state and timers to the last `save`, after a failed call."""
        self.key.row = self._codec.restored(self._saved)
        self._saved = None
        self.key.undo()
        self.key.journal = None

    # --- inside -------------------------------------------------------------------------------------------------------

    def _changed_rows(self, stored_keys: list[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        keys: list[bytes] = []
        rows: list[bytes | None] = []
        pack = self._codec.pack
        for index, (stored_key, row, before) in enumerate(zip(stored_keys, self.rows, self._packed, strict=True)):
            try:
                packed = pack(row)
                if packed != before:
                    self._codec.check(packed)
                    keys.append(stored_key)
                    rows.append(packed)
            except UNSTORABLE as error:
                raise StateMismatchError(str(error), index) from error
        return keys, rows

    def _learn_size(self, packed: Sequence[bytes | None]) -> None:
        """Adapt `keys_max` to the size of the state: reduce it at once, and at most double it per call."""
        row_bytes = sum(map(len, filter(None, packed)))
        entry_bytes = sum(len(value) for entries in self._map_entries.values() for _, value in entries)
        mean = (row_bytes + entry_bytes) // max(len(packed), 1) + 1
        self._keys_max = max(1, min(CHUNK_BYTES // mean, 2 * self._keys_max))

    def _expire(self, row: Any, value: str, expiry: str, ttl_ms: int) -> None:
        expires_ms = getattr(row, expiry)
        if expires_ms is UNSET:
            if getattr(row, value) is not UNSET:  # the value was stored before the state had a ttl
                setattr(row, expiry, self.key.now_ms + ttl_ms)
        elif expires_ms <= self.key.now_ms:
            setattr(row, value, UNSET)
            setattr(row, expiry, UNSET)

    def _read_maps(self, chunk: Chunk) -> None:
        """Read the map entries of all keys that have few entries, in one read."""
        sizes = [f"s_{state.name}" for state in self._maps]
        wanted = []
        for index, row in enumerate(self.rows):
            entries = sum(getattr(row, size) for size in sizes)
            if 0 < entries <= PREFETCHED_ENTRIES_MAX or (entries and index in chunk.expired):
                wanted.append(index)
        self._map_entries = {index: [] for index in wanted}
        if wanted:
            prefixes = [_map_prefix(chunk.stored[index]) for index in wanted]
            found = self._backend.scan_prefixes(MAP_STATE_ID, prefixes)
            for number, key, value in zip(found.prefix_of_row.tolist(), found.keys, found.values, strict=True):
                self._map_entries[wanted[number]].append((key, value))

    def _begin_maps(self, index: int) -> None:
        assert self._chunk is not None
        prefix, stored = _map_prefix(self._chunk.stored[index]), self._map_entries.get(index)
        for state in self._maps:
            state.begin(prefix, stored)
            if index in self._chunk.expired:
                state.drop_expired()


def _map_prefix(stored_key: bytes) -> bytes:
    """Return the common prefix of the stored keys of a key's map entries."""
    return b"%b%c%b" % (stored_key[: PREFIX_BYTES - 1], MAP_STATE_ID, stored_key[PREFIX_BYTES:])
