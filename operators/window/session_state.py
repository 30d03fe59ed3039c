"""Stored sessions: the sessions of a key are one range, and an index by end finds the sessions that are due."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.window.keys import Int64s, encoded_times, joined, trailing_times
from mixedmode.operators.window.partials import Bools, Layout, Partials
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor
from mixedmode.state.arrow_bytes import ArrowBytes, large_binary
from mixedmode.state.keys import stored_keys

SESSIONS_ID, ENDS_ID = 0, 1
END = pa.field("_end", pa.int64())
_PRESENT = b"\x01"  # version of the index; the keys hold all of its information

Groups = npt.NDArray[np.uint16]


def session_states(layout: Layout, sessions_id: int) -> tuple[StateDescriptor, StateDescriptor]:
    """Return the state of the sessions, with this id, and that of the index of their ends, with the next one."""
    sessions = StateDescriptor(sessions_id, "sessions", (END, *layout.state_fields))
    return sessions, StateDescriptor(sessions_id + 1, "ends", (), is_read_by_key=False)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions of some keys, (n,) each: the index of the key, the bounds in microseconds, and the windows."""

    key: Int64s
    starts: Int64s
    ends: Int64s
    windows: Partials

    def take(self, rows: npt.NDArray[np.intp]) -> "Sessions":
        """Return the sessions at `rows` (m,), in that order."""
        return Sessions(self.key[rows], self.starts[rows], self.ends[rows], self.windows.take(rows))


class SessionState:
    """Access to the sessions of sorted keys.

    The index of ends is buffered. It is written when its key group is complete, or by `finish`.
    """

    def __init__(self, backend: KeyedStateBackend, layout: Layout, sessions_id: int) -> None:
        """Make the access.  sessions_id: the state id of the sessions; see `session_states`."""
        self._sessions_id, self._ends_id = sessions_id, sessions_id + 1
        self._backend = backend
        self._layout = layout
        self._codec = RowCodec((END, *layout.state_fields))
        self._held: list[_Held] = []  #: index entries of `_newest` that are not yet written
        self._newest = 0  #: the last key group so far; all earlier key groups are written

    def read(self, groups: Groups, keys: pa.Array) -> Sessions:
        """Read the stored sessions of sorted, distinct keys (k,), ordered by key and start."""
        found = self._backend.scan_prefixes(self._sessions_id, stored_keys(groups, keys, self._sessions_id))
        ends, *columns = self._codec.unpack(found.values)
        starts = trailing_times(pa.array(found.keys, pa.large_binary()))
        return Sessions(found.prefix_of_row, starts, ends.to_numpy(), self._layout.from_state(columns))

    def write(self, groups: Groups, keys: pa.Array, gone: Sessions, kept: Sessions) -> None:
        """Delete `gone` and put `kept`, whose (key, start) are distinct. Their `key` is an index into `keys` (k,)."""
        key = np.concatenate([gone.key, kept.key])
        starts = np.concatenate([gone.starts, kept.starts])
        order = np.lexsort((starts, key))
        stored_as = joined(keys.take(pa.array(key[order])), encoded_times(starts[order]))
        values = large_binary(self._codec.pack([pa.array(kept.ends), *self._layout.state_columns(kept.windows)]))
        rows = pa.array(order - len(gone.key), mask=order < len(gone.key))
        self._backend.write(
            self._sessions_id,
            stored_keys(groups[key[order]], stored_as, self._sessions_id),
            ArrowBytes(values.take(rows)),
        )

    def write_ends(self, groups: Groups, keys: pa.Array, gone: Sessions, kept: Sessions) -> None:
        """Delete `gone` from the index and put `kept` into it; their (key, start, end) are distinct."""
        for sessions, is_deleted in ((gone, True), (kept, False)):
            of_session = groups[sessions.key]
            ends, starts = encoded_times(sessions.ends), encoded_times(sessions.starts)
            stored_as = joined(ends, keys.take(pa.array(sessions.key)), starts)
            stored = large_binary(stored_keys(of_session, stored_as, self._ends_id))
            self._held.append(_Held(of_session, stored, np.full(len(of_session), is_deleted)))
        newest = int(groups[-1])
        if newest != self._newest:  # tables come in order of key groups, so all earlier groups are complete
            self._write_held(before=newest)
            self._newest = newest

    def finish(self) -> None:
        """Write all buffered index entries."""
        self._write_held(before=None)

    def _write_held(self, *, before: int | None) -> None:
        """Write the buffered index entries of key groups before `before`; of all key groups for None."""
        if not self._held:
            return
        held = _Held(
            np.concatenate([part.groups for part in self._held]),
            pa.concat_arrays([part.stored for part in self._held]),
            np.concatenate([part.is_deleted for part in self._held]),
        )
        order = pc.sort_indices(held.stored).to_numpy()  # sorts by key group first, because stored keys begin with it
        count = len(order) if before is None else int((held.groups < before).sum())
        ready, rest = held.take(order[:count]), held.take(order[count:])
        self._held = [rest]
        values = pa.array([_PRESENT, None], pa.large_binary()).take(pa.array(ready.is_deleted.astype(np.intp)))
        self._backend.write(self._ends_id, ArrowBytes(ready.stored), ArrowBytes(values))


@dataclass(frozen=True, slots=True)
class _Held:
    """Entries of the index of ends, (n,) each."""

    groups: Groups
    stored: pa.LargeBinaryArray
    is_deleted: Bools

    def take(self, rows: npt.NDArray[np.int64]) -> "_Held":
        return _Held(self.groups[rows], self.stored.take(pa.array(rows)), self.is_deleted[rows])
