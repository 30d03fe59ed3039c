"""Scans for stored rows by time range over a subtask's key groups, in batches that are large enough to sort."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixedmode.operators.interface import SubtaskContext
from mixedmode.operators.window.keys import time_range
from mixedmode.state.keys import PREFIX_BYTES

_ROWS = 2**16  # least rows per batch: one call of the sorter costs as much as some thousand rows


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Stored keys and values (n,), in key order."""

    keys: Sequence[bytes]
    values: Sequence[bytes]

    def groups(self) -> npt.NDArray[np.uint16]:
        """Return the key group of each row, (n,)."""
        heads = b"".join([key[: PREFIX_BYTES - 1] for key in self.keys])
        return np.frombuffer(heads, ">u2").astype(np.uint16)


def stored_in(context: SubtaskContext, state_id: int, ranges: Iterable[tuple[int, int]]) -> Iterator[StoredRows]:
    """Yield the stored rows whose leading time is in one of the ranges (after, up to], in microseconds.

    The ranges ascend and do not overlap; one without times is skipped.
    """
    wanted = [bounds for bounds in ranges if bounds[0] < bounds[1]]
    groups = range(context.groups.start, context.groups.end)
    left = [time_range(group, state_id, *bounds) for group in groups for bounds in wanted]
    while left:
        found, count = context.backend.scan_ranges(state_id, left, _ROWS)
        left = left[count:]
        if found.keys:
            yield StoredRows(found.keys, found.values)
