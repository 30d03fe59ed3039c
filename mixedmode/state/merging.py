"""Decide which runs of a subtask to merge: size-tiered, from entry counts alone. Pure.

Starting at the newest run, select older runs as long as the next older run is no larger than all selected
runs together. If at least FAN_IN runs are selected, merge them. So a large old run is rewritten only after as many new
entries have arrived. This also limits the space of overwritten and deleted entries.

    Example: with fan_in=3 and entry counts 100, 2, 1, 1 (oldest first), the runs 1, 1 and 2 are selected and merged.
    The run with 100 entries is larger than these 4 entries together, so it stays.

Invariants (tests/state/test_merging.py, by simulating 10,000 epochs):
  I1  the number of runs grows with the logarithm of the entries written
  I2  entries rewritten per entry written (write amplification) stay under 6
  I3  only neighbouring runs that include the newest one are merged, so the order of runs by age is kept

A run of any subtask can be merged. A run of a former range of key groups is cut to the key groups of the subtask that
merges (checkpoint/runs.py).

Source: the universal compaction of RocksDB (size ratio rule).
"""

from collections.abc import Sequence

FAN_IN = 8


def decide_merge(entries: Sequence[int], *, fan_in: int = FAN_IN) -> int | None:
    """Return the position of the first run to merge, together with all runs after it; None for no merge.

    entries: the number of entries of each run in one range of key groups, oldest to newest; estimates will do.
    """
    if not entries:
        return None
    start, taken = len(entries) - 1, entries[-1]
    while start > 0 and entries[start - 1] <= taken:
        start -= 1
        taken += entries[start]
    return start if len(entries) - start >= fan_in else None
