"""Decisions about leases of readers: which checkpoints they keep, and when they end. Pure.

A lease keeps its checkpoint and all newer ones, so the kept checkpoints are the newest ones without a gap, as always.
A lease ends at the time in its name. A reader that crashes so keeps nothing for longer than that, and a reader whose
clock is wrong keeps nothing for longer than LEASE_MS_MAX.

    Example: the checkpoints 3, 4, 5, 6 exist, 2 are retained, and a lease is of epoch 4. Then only 3 may be dropped.

Invariants (tests/checkpoint/test_decide_leases.py):
  I1  the newest `num_retained` checkpoints are never dropped, and neither is one with a lease, or a newer one
  I2  without leases, all other checkpoints are dropped, oldest first
"""

from collections.abc import Collection, Sequence

from mixedmode.checkpoint.types import Epoch, Lease

__all__ = ["LEASE_MS_MAX", "droppable", "is_valid"]

#: the longest time that a lease may last; a reader that needs longer renews it
LEASE_MS_MAX = 3_600_000


def is_valid(lease: Lease, now_ms: int) -> bool:
    """Return whether a lease still counts at a time."""
    return now_ms < lease.expires_ms <= now_ms + LEASE_MS_MAX


def droppable(retained: Sequence[Epoch], *, num_retained: int, leased: Collection[Epoch]) -> tuple[Epoch, ...]:
    """Return the checkpoints to drop, oldest first.  retained: all that exist, oldest first; leased: by readers."""
    assert num_retained >= 1, num_retained
    beyond = retained[: max(0, len(retained) - num_retained)]
    first_leased = min(leased, default=None)
    return tuple(epoch for epoch in beyond if first_leased is None or epoch < first_leased)
