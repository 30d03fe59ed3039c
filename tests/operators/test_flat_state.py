"""Steps that forget by event time: their state does not grow over many epochs, although every epoch has a new key."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mixedmode.testing import AggregateHarness, DeduplicateHarness, Harness

STEP_US = 10_000  # of event time, between two epochs
SCHEMA = "k string, v bigint, at timestamp"
COMMON: dict[str, Any] = {"schema": SCHEMA, "event_time": "at", "out_of_orderness": "20ms", "max_parallelism": 1}

windows = partial(AggregateHarness, key_by="k", aggregate={"n": "count(*)", "most": "max(v)"}, **COMMON)
first = partial(DeduplicateHarness, keep="first", key_by="k", tie_break="v", **COMMON)


@pytest.mark.parametrize("epochs", [60, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "make",
    [
        partial(windows, window={"tumbling": "50ms"}),
        partial(windows, window={"tumbling": "50ms", "allowed_lateness": "30ms", "early_results_every": "5ms"}),
        partial(windows, window={"sliding": "60ms", "slide": "20ms"}),
        partial(windows, window={"cumulating": "60ms", "step": "20ms"}),
        partial(windows, window={"session": "30ms"}),
        partial(windows, window={"session": "30ms", "allowed_lateness": "30ms"}),
        partial(first, within="50ms"),
    ],
    ids=["tumbling", "late-and-early", "sliding", "cumulating", "session", "late-session", "first-within"],
)
def test_the_state_does_not_grow_over_many_epochs(make: Callable[..., Harness], epochs: int) -> None:
    harness, sizes, rows = make(), list[int](), 0
    for epoch in range(epochs):
        at = epoch * STEP_US
        new, old = (f"k{number}" for number in (epoch, epoch // 2))
        harness.feed([{"k": new, "v": epoch, "at": at}, {"k": old, "v": 1, "at": at - 3}], after="10ms")
        rows += len(harness.take())
        sizes.append(harness.state_entries)
    assert max(sizes[epochs // 2 :]) == max(sizes[epochs // 6 : epochs // 2]) < 80
    assert rows >= epochs - 10, "the keys of all epochs but the last ones were emitted"
