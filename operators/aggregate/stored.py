"""The full snapshot of an aggregate's stored table, for a downstream step or output that starts without it.

The tables of an epoch and the stored keys are both in key order, so one pass over both meets every key once. The
operator emits the keys that have a record as usual. All other keys are emitted as they are stored, and nothing is
written for them. One read covers the stored keys of at most one key group.

Invariant (tests/operators/test_stored.py): each key that exists after the epoch is emitted once, as an insert. No other
key is emitted.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend, StateRange
from mixedmode.state.keys import after_prefix, range_of_group


class StoredTable:
    """An iterator over the stored keys of a subtask's key groups. It only moves forward: no key is returned twice."""

    def __init__(self, backend: KeyedStateBackend, state_id: int, groups: KeyGroupRange) -> None:
        self._backend = backend
        self._state_id = state_id
        self._groups_left = range(groups.start, groups.end)
        self._at = b""  #: stored keys before this one have been passed

    def before(self, keys: Sequence[bytes]) -> Iterator[StateRange]:
        """Yield the stored entries up to the last of `keys` whose keys begin with none of `keys`.

        `keys` are stored keys: sorted, distinct, at least one, and greater than the keys of earlier calls. None of them
        is a prefix of another. For stored keys a, b, c, d and `keys` [b, c], the result is a; `rest` then yields d.
        """
        end = after_prefix(keys[-1])
        for found in self._up_to(end):
            others = _others(found, keys)
            if others.keys:
                yield others
        self._at = end

    def rest(self) -> Iterator[StateRange]:
        """Yield the stored entries after all that have been passed."""
        yield from self._up_to(None)

    def _up_to(self, end: bytes | None) -> Iterator[StateRange]:
        while self._groups_left:
            start, group_end = range_of_group(self._groups_left[0], self._state_id)
            start, is_last = max(start, self._at), end is not None and end < group_end
            stop = end if end is not None and is_last else group_end
            if start < stop:
                found = self._backend.scan(self._state_id, start, stop)
                if found.keys:
                    yield found
            if is_last:
                return
            self._groups_left = self._groups_left[1:]


def _others(found: StateRange, keys: Sequence[bytes]) -> StateRange:
    """Return the entries of `found` whose keys begin with none of `keys`.

    Both are sorted. So an entry that begins with a key comes directly after this key in `keys`.
    """
    keys_left, values = list[bytes](), list[bytes]()
    for stored, value in zip(found.keys, found.values, strict=True):
        position = bisect_right(keys, stored)
        if position == 0 or not stored.startswith(keys[position - 1]):
            keys_left.append(stored)
            values.append(value)
    return StateRange(keys_left, values)
