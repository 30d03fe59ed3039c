"""Checkpoints that may be dropped while readers have leases."""

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.decide_leases import LEASE_MS_MAX, droppable, is_valid
from mixedmode.checkpoint.types import Epoch, Lease

EPOCHS = st.lists(st.integers(0, 30).map(Epoch), unique=True).map(sorted)


@given(retained=EPOCHS, num_retained=st.integers(1, 5), leased=st.sets(st.integers(0, 30).map(Epoch)))
def test_what_is_dropped_is_old_and_without_a_lease_of_it_or_of_an_older_one(
    retained: list[Epoch], num_retained: int, leased: set[Epoch]
) -> None:
    dropped = droppable(retained, num_retained=num_retained, leased=leased)
    kept = [epoch for epoch in retained if epoch not in dropped]
    assert [*dropped, *kept] == retained, "the oldest are dropped, so the rest has no gap"
    assert kept[-num_retained:] == retained[-num_retained:]
    assert not leased & set(dropped)
    if len(kept) > num_retained:
        assert any(epoch <= kept[0] for epoch in leased), "only a lease keeps more than is retained"


def test_a_lease_ends_at_its_time_and_one_of_a_wrong_clock_does_not_count() -> None:
    lease = Lease(Epoch(1), 1_000, "a")
    assert [is_valid(lease, now_ms) for now_ms in (999, 1_000)] == [True, False]
    assert is_valid(Lease(Epoch(1), LEASE_MS_MAX, "a"), 0)
    assert not is_valid(Lease(Epoch(1), LEASE_MS_MAX + 1, "a"), 0)
