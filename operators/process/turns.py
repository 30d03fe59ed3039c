"""The turns of keys: each key's state is brought when its turn begins, and taken away when it ends.

The one idea: reading and writing are done for many keys at a time, a chunk of the input; in between, a turn is work on
objects. Where nothing changed, nothing is written.
"""

from collections.abc import Mapping
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

PREFETCHED_ENTRIES_MAX = 256  # a key with more map entries has those read that are asked for
CHUNK_BYTES = 2**24  # of the state of a chunk's keys, packed: as objects it is several times as much
_FIRST_KEYS = 2**10  # so many keys are taken when nothing is known of their size


class Turns:
    """Holds what the current key has: `key.row`, the map states, the timers of both domains."""

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
        self.is_simple = not self._maps and not self._expiring  #: then a turn is work on its row, and nothing else
        self._keys_max = _FIRST_KEYS
        self._chunk: Chunk | None = None
        self._packed: list[bytes | None] = []  #: rows of the chunk's keys as they are stored
        self.rows: list[Any] = []  #: the same, unpacked; what they hold at the end is stored
        self._map_entries: dict[int, list[tuple[bytes, bytes]]] = {}  #: {number of the key: stored entries}
        self._saved: Any = None  #: the current key's row, to go back to
        self._changed_entries: list[tuple[bytes, bytes | None]] = []

    def read(self, chunk: Chunk) -> None:
        """Before the first turn in a chunk: what is stored of its keys."""
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
        """How many keys a chunk may have, going by how large the state of the latest ones is."""
        return self._keys_max

    def begin(self, index: int) -> None:
        """The turn of the chunk's key number `index` begins. Not needed where `is_simple`: its row is `rows[index]`."""
        self._saved = None
        row = self.key.row = self.rows[index]
        for value, expiry, ttl_ms in self._expiring:
            self._expire(row, value, expiry, ttl_ms)
        if self._maps:
            self._begin_maps(index)

    def end(self, index: int) -> None:
        """The turn ends. Not needed where `is_simple`. Raises StateMismatchError."""
        try:
            for state in self._maps:
                self._changed_entries += state.end()
        except UNSTORABLE as error:
            raise StateMismatchError(str(error), index) from error
        self.rows[index] = self.key.row  # undoing makes another one

    def end_timers(self, stored_key: bytes) -> None:
        """The turn ends: note which timers have changed."""
        for queue, writer in self._writers:
            if queue.has_changed:
                writer.add(stored_key, queue)
                queue.end()

    def write(self) -> None:
        """After the last turn in a chunk: what has changed. Raises StateMismatchError."""
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
        """After the last chunk: the timers that are still held."""
        for _, writer in self._writers:
            writer.flush()

    # --- to undo what a call that failed has changed ------------------------------------------------------------------

    def save(self) -> None:
        """Before a call: note how to come back."""
        if self._saved is None:
            self._saved = self._codec.saved(self.key.row)
        self.key.journal = []

    def keep(self) -> None:
        """After a call: forget the way back. Raises StateMismatchError, before that, where state cannot be stored."""
        try:
            for state in self._maps:
                state.check()
            self._saved = self._codec.saved(self.key.row)
        except UNSTORABLE as error:
            raise StateMismatchError(str(error)) from error
        self.key.journal = None

    def undo(self) -> None:
        """After a call that failed: state and timers are as they were when `save` was called."""
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

    def _learn_size(self, packed: list[bytes | None]) -> None:
        """Take fewer keys at once at the first sight of large rows, more again only step by step."""
        row_bytes = sum(map(len, filter(None, packed)))
        entry_bytes = sum(len(value) for entries in self._map_entries.values() for _, value in entries)
        mean = (row_bytes + entry_bytes) // max(len(packed), 1) + 1
        self._keys_max = max(1, min(CHUNK_BYTES // mean, 2 * self._keys_max))

    def _expire(self, row: Any, value: str, expiry: str, ttl_ms: int) -> None:
        expires_ms = getattr(row, expiry)
        if expires_ms is UNSET:
            if getattr(row, value) is not UNSET:  # stored before the state had a ttl
                setattr(row, expiry, self.key.now_ms + ttl_ms)
        elif expires_ms <= self.key.now_ms:
            setattr(row, value, UNSET)
            setattr(row, expiry, UNSET)

    def _read_maps(self, chunk: Chunk) -> None:
        """All map entries of the keys that have few of them, in one read."""
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
    """What the stored keys of a key's map entries begin with."""
    return b"%b%c%b" % (stored_key[: PREFIX_BYTES - 1], MAP_STATE_ID, stored_key[PREFIX_BYTES:])
