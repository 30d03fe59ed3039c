"""Which runs of a subtask to merge: size-tiered, decided from entry counts alone. Pure.

The one idea: from the newest run backwards, take runs as long as the next older one is no larger than all taken so far
together. What was taken is merged once it is FAN_IN runs. So an old, large run is rewritten only when as much has come
after it, which also bounds what overwritten and deleted entries cost.

Invariants (tests/state/test_merging.py, by simulating 10,000 epochs):
  I1  the number of runs grows with the logarithm of the entries written
  I2  entries rewritten per entry written (write amplification) stay under 6
  I3  only neighbours, the newest among them, are merged, so later runs keep lying over earlier ones

Source: the universal compaction of RocksDB (size ratio rule).
"""

from collections.abc import Sequence

FAN_IN = 8


def decide_merge(entries: Sequence[int]) -> int | None:
    """Position from which on all runs are to be merged into one, or None.

    entries: the entry counts of the runs that belong to one range of key groups, oldest to newest.
    """
    if not entries:
        return None
    start, taken = len(entries) - 1, entries[-1]
    while start > 0 and entries[start - 1] <= taken:
        start -= 1
        taken += entries[start]
    return start if len(entries) - start >= FAN_IN else None
