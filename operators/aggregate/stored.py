"""The stored table of an aggregate, given as a whole: for a step or an output that begins without it.

The one idea: the tables of an epoch and the stored keys are both in key order, so one walk along both meets every key
once. Keys with a record are given by the operator as always, all others as they are stored; nothing is written for
those. What is read at a time are the stored keys of one key group, at most.

Invariant (tests/operators/test_stored.py): each key that is there after the epoch is given once, as inserted; no other.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend, StateRange
from mixedmode.state.keys import PREFIX_BYTES, after_prefix, range_of_group


class StoredTable:
    """Walks along the stored keys of a subtask's key groups; what was passed is not given again."""

    def __init__(self, backend: KeyedStateBackend, state_id: int, groups: KeyGroupRange) -> None:
        self._backend = backend
        self._state_id = state_id
        self._groups_left = range(groups.start, groups.end)
        self._at = b""  #: everything before it was passed

    def before(self, keys: Sequence[bytes]) -> Iterator[StateRange]:
        """What is stored up to the last of `keys`, and is not theirs: entries whose keys begin with none of them.

        `keys` are stored keys, sorted, distinct, not empty, after those of earlier calls; none begins with another one.
        """
        end = after_prefix(keys[-1])
        for found in self._up_to(end):
            others = _others(found, keys)
            if others.keys:
                yield others
        self._at = end

    def rest(self) -> Iterator[StateRange]:
        """What is stored after all that was passed."""
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
    """The entries that begin with none of `keys`. Both are sorted, so one that does stands behind its key."""
    others = StateRange([], [])
    for stored, value in zip(found.keys, found.values, strict=True):
        position = bisect_right(keys, stored)
        if position == 0 or not stored.startswith(keys[position - 1]):
            others.keys.append(stored)
            others.values.append(value)
    return others


def key_of(stored_key: bytes) -> bytes:
    """The key in a stored key without a namespace."""
    return stored_key[PREFIX_BYTES:]
