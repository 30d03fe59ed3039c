"""Snapshots: what goes on from them, at which parallelism, with which version of the program; and what does not."""

from dataclasses import dataclass
from typing import Any

import pytest

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.process import KeyedProcessFunction, ValueState
from mixedmode.testing import AggregateHarness, FunctionHarness
from tests.testing.functions import alarms, totals

KEYS = [f"key {number}" for number in range(20)]


def fed(**more: Any) -> FunctionHarness:
    harness = totals(**more)
    harness.feed([{"k": k, "v": 1} for k in KEYS])
    return harness


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
def test_a_restored_harness_goes_on_at_any_parallelism(parallelism: int) -> None:
    harness = fed(parallelism=4, max_parallelism=8)
    restored = harness.restore(harness.snapshot(), parallelism=parallelism)
    assert restored.take() == [], "nothing is new"
    restored.feed([{"k": k, "v": 2} for k in KEYS])
    assert sorted(row["k"] for row in restored.take() if row["total"] == 3) == sorted(KEYS)
    assert len(restored.table()) == 2 * len(KEYS), "the sink still has the rows before"


def test_a_snapshot_is_not_touched_by_what_comes_after() -> None:
    harness = fed()
    snapshot = harness.snapshot()
    harness.feed([{"k": KEYS[0], "v": 5}])
    for _ in range(2):
        restored = harness.restore(snapshot)
        restored.feed([{"k": KEYS[0], "v": 1}])
        assert restored.take() == [{"k": KEYS[0], "total": 2}]
    harness.feed([{"k": KEYS[0], "v": 1}])
    assert harness.take()[-1] == {"k": KEYS[0], "total": 7}


def test_watermark_clock_timers_and_counts_are_in_it() -> None:
    harness = alarms(out_of_orderness="1ms", backlog=True, clock=5_000_000)
    harness.feed(
        [{"k": "a", "at": 8_000, "by_clock": False, "t": 5_000}, {"k": "b", "at": 0, "by_clock": True, "t": 0}]
    )
    harness.flip()
    restored = alarms(out_of_orderness="1ms").restore(harness.snapshot())
    assert (restored.watermark, restored.clock, restored.is_backlog) == (4_000, 5_000_000, False)
    restored.feed([{"k": "c", "at": 10**9, "by_clock": False, "t": 4_500}])
    assert [(row["k"], row["domain"]) for row in restored.take()] == [("b", "processing")]
    assert restored.watermark == 4_000, "the newest time is still that of the backlog"
    restored.advance_watermark(8_000)
    assert [row["k"] for row in restored.take()] == ["a"]


def test_another_number_of_key_groups_is_refused() -> None:
    with pytest.raises(InvalidJobError) as caught:
        totals(max_parallelism=16).restore(fed(max_parallelism=8).snapshot())
    assert str(caught.value) == (
        "FunctionHarness: the state in the snapshot cannot be read by this step: max_parallelism was 8 and is 16 (it "
        "fixes the key group of every key for the life of a job). Put it back as it was, or start without the snapshot."
    )
    with pytest.raises(InvalidJobError, match="some subtasks would never receive data"):
        totals(max_parallelism=8).restore(fed(max_parallelism=8).snapshot(), parallelism=9)


def test_state_of_another_step_is_refused() -> None:
    def counting(call: str) -> AggregateHarness:
        return AggregateHarness(key_by="k", schema="k string, v bigint", aggregate={"n": call})

    snapshot = counting("max(v)").snapshot()
    with pytest.raises(InvalidJobError, match="the step was changed"):
        counting("min(v)").restore(snapshot)
    with pytest.raises(InvalidJobError, match="the step was changed"):
        totals().restore(snapshot)


@dataclass
class Seen:
    count: int = 0


@dataclass
class SeenMore:
    count: int = 0
    text: str = "none"


@dataclass
class SeenOtherwise:
    count: str = ""


def version(value_type: type) -> FunctionHarness:
    class Counts(KeyedProcessFunction):
        seen = ValueState(value_type, default=value_type())

        def process_element(self, record: Any, context: Any) -> dict[str, Any]:
            self.seen.value.count += 1
            return {"seen": repr(self.seen.value)}

    return FunctionHarness(Counts, key_by="k", schema="k string", output="seen string")


def test_another_version_of_a_function_takes_the_state_over_if_it_can_read_it() -> None:
    old = version(Seen)
    old.feed([{"k": "a"}])
    new = version(SeenMore).restore(old.snapshot())
    new.feed([{"k": "a"}])
    assert new.take() == [{"seen": "SeenMore(count=2, text='none')"}]
    with pytest.raises(
        InvalidJobError, match="the state in the snapshot cannot be read by this step: field `count` of"
    ):
        version(SeenOtherwise).restore(old.snapshot())


def test_bytes_that_are_no_snapshot_are_refused() -> None:
    snapshot = fed().snapshot()
    for data in (b"", b"something", snapshot[:-1], snapshot[5:], snapshot + b"x"):
        with pytest.raises(CorruptStateError, match=r"these bytes are no snapshot of a test harness of this version"):
            totals().restore(data)
