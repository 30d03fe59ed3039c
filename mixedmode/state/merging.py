"""Which runs of a subtask to merge: size-tiered, decided from entry counts alone. Pure.

The one idea: from the newest run backwards, take runs as long as the next older one is no larger than all taken so far
together. What was taken is merged once it is FAN_IN runs. So an old, large run is rewritten only when as much has come
after it, which also bounds what overwritten and deleted entries cost.

Invariants (tests/state/test_merging.py, by simulating 10,000 epochs):
  I1  the number of runs grows with the logarithm of the entries written
  I2  entries rewritten per entry written (write amplification) stay under 6
  I3  only neighbours, the newest among them, are merged, so later runs keep lying over earlier ones

It does not matter which subtask wrote a run: those of former ranges of key groups are merged like all others, each cut
to the key groups of the subtask that merges (checkpoint/runs.py).

Source: the universal compaction of RocksDB (size ratio rule).
"""

from collections.abc import Sequence

FAN_IN = 8


def decide_merge(entries: Sequence[int], *, fan_in: int = FAN_IN) -> int | None:
    """Position from which on all runs are to be merged into one, or None.

    entries: how many entries the runs have in one range of key groups, oldest to newest; estimates will do.
    """
    if not entries:
        return None
    start, taken = len(entries) - 1, entries[-1]
    while start > 0 and entries[start - 1] <= taken:
        start -= 1
        taken += entries[start]
    return start if len(entries) - start >= fan_in else None
