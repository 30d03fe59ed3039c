"""Changed programs may start from a savepoint, or are refused with a message that says why."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.decide import Refused
from mixedmode.checkpoint.decide_restore import Program, Restorable, decide_restore
from mixedmode.checkpoint.types import JobIdentity

STORED = {"a": "key-by (k) keeping count", "b": "key-by (n) keeping rows"}


def decided(
    now: Mapping[str, str],
    stored: Mapping[str, str] | None = None,
    *,
    name: str = "orders",
    max_parallelism: int = 128,
    allow_dropped: bool = False,
    **facts: Any,
) -> Restorable | Refused:
    program: dict[str, Any] = {
        "stateless": {"upsert"},
        "can_emit_full_snapshot": {"a", "b", "c"},
        "is_output_new": True,
    }
    wanted = Program(JobIdentity(name, max_parallelism, fingerprints(now)), **(program | facts))
    before = JobIdentity("orders", 128, fingerprints(stored or STORED))
    return decide_restore(wanted, before, allow_dropped=allow_dropped)


def fingerprints(said: Mapping[str, str]) -> dict[str, dict[str, object]]:
    return {step: {"said": text} for step, text in said.items()}


def reason(decision: Restorable | Refused) -> str:
    assert isinstance(decision, Refused), decision
    start, end = (
        "the job cannot go on from the savepoint: ",
        (". Nothing was written. Correct the job file, or start the job without the savepoint."),
    )
    assert decision.reason.startswith(start), decision.reason
    assert decision.reason.endswith(end), decision.reason
    return decision.reason.removeprefix(start).removesuffix(end)


def test_the_same_job_goes_on_also_under_another_name() -> None:
    same = Restorable(("a", "b"), (), (), changes_output=False)
    assert decided(STORED) == same
    assert decided(STORED, is_output_new=False) == same
    assert decided(STORED, name="orders, tried out") == same


def test_another_number_of_key_groups_is_refused_and_it_is_said_why() -> None:
    assert reason(decided(STORED, max_parallelism=64)) == (
        "pipeline.max-parallelism was 128 and is 64 (state is stored by key group, and this is their number; "
        "parallelism may change)"
    )


def test_a_changed_step_is_refused() -> None:
    assert reason(decided({**STORED, "a": "key-by (k) keeping sum"})) == (
        'step \'a\' was changed (said was "key-by (k) keeping count" and is "key-by (k) keeping sum")'
    )


def test_other_sources_are_refused() -> None:
    stored = {"sources": "read x, y", **STORED}
    assert decided(stored, stored) == Restorable(("a", "b"), (), (), changes_output=False)
    assert reason(decided({"sources": "read y, x", **STORED}, stored)) == (
        'the sources were changed (said was "read x, y" and is "read y, x"), and Spark knows them by their order'
    )
    assert "and is not set" in reason(decided(STORED, stored))


def test_a_step_may_be_added_behind_all_others_into_a_new_output() -> None:
    added = {**STORED, "c": "key-by (m) keeping count"}
    assert decided(added) == Restorable(("a", "b"), ("c",), (), changes_output=True)
    assert reason(decided(added, is_output_new=False)) == (
        "steps were added, removed or changed ('c'), so the main output is another table now, and there is the old one "
        "in its folder (set a new sink.path)"
    )


def test_a_step_may_not_be_added_where_it_would_miss_its_first_input() -> None:
    missed = "step 'c' was added before step {}, whose state came from other input"
    assert reason(decided({"c": "x", **STORED})) == missed.format("'a'")
    assert reason(decided({"a": STORED["a"], "c": "x", "b": STORED["b"]})) == missed.format("'b'")
    assert reason(decided({**STORED, "c": "x"}, can_emit_full_snapshot={"a"})) == (
        "step 'c' was added behind step 'b', which cannot give again what it has given (windows that have fired, and "
        "functions, do not keep their rows)"
    )
    assert reason(decided({"c": "x"}, {"sources": "read x, y"}, stateless={"upsert"})).startswith("the sources were")
    assert reason(decided({"c": "x"}, {"upsert": "upsert"})) == (
        "step 'c' was added, and nothing in the savepoint holds the rows that it has missed"
    )


def test_steps_may_be_removed_from_the_end_with_permission() -> None:
    assert reason(decided({"a": STORED["a"]})) == (
        "it has state of steps that the job does not have: 'b' (restore with --allow-dropped-state to leave that out)"
    )
    only_a = Restorable(("a",), (), ("b",), changes_output=True)
    assert decided({"a": STORED["a"]}, allow_dropped=True) == only_a
    replaced = {"a": STORED["a"], "c": "key-by (m) keeping count"}
    assert decided(replaced, allow_dropped=True) == Restorable(("a",), ("c",), ("b",), changes_output=True)
    assert reason(decided({"b": STORED["b"]}, allow_dropped=True)) == (
        "step 'a' was removed before step 'b', whose state came from other input"
    )


def test_both_permissions_that_are_missing_are_told_at_once() -> None:
    told = reason(decided({"a": STORED["a"], "c": "x"}, is_output_new=False))
    assert "--allow-dropped-state" in told
    assert "('c', 'b')" in told


def test_sql_behind_the_last_step_has_no_state_and_may_change_with_a_new_output() -> None:
    before, now = {**STORED, "upsert": "upsert of SELECT 1"}, {**STORED, "upsert": "upsert of SELECT 2"}
    assert decided(now, before) == Restorable(("a", "b"), ("upsert",), (), changes_output=True)
    assert decided(STORED, before) == Restorable(("a", "b"), (), (), changes_output=True)
    assert decided(now, STORED) == Restorable(("a", "b"), ("upsert",), (), changes_output=True)
    assert "('upsert')" in reason(decided(now, before, is_output_new=False))
    behind_windows = decided(now, before, can_emit_full_snapshot=())
    assert isinstance(behind_windows, Restorable), "it begins with what comes after, like any new output"


STEPS = st.lists(st.sampled_from("abcde"), unique=True, max_size=4)


@given(
    before=STEPS,
    now=STEPS,
    changed=st.sets(st.sampled_from("abcde")),
    can_give=st.sets(st.sampled_from("abcde")),
    is_output_new=st.booleans(),
    allow_dropped=st.booleans(),
)
def test_whatever_is_decided_no_state_is_misread_lost_or_begun_in_the_middle(
    before: list[str],
    now: list[str],
    changed: set[str],
    can_give: set[str],
    *,
    is_output_new: bool,
    allow_dropped: bool,
) -> None:
    decision = decided(
        {step: f"{step}, changed" if step in changed else step for step in now},
        {step: step for step in before} or {"sources": ""},
        can_emit_full_snapshot=can_give,
        stateless=(),
        is_output_new=is_output_new,
        allow_dropped=allow_dropped,
    )
    if isinstance(decision, Refused):
        return
    kept = list(decision.kept)
    assert not set(kept) & changed, "I1"
    assert before[: len(kept)] == kept == now[: len(kept)], "what a step was fed by is what feeds it now"
    assert list(decision.dropped) == before[len(kept) :]
    assert not decision.dropped or allow_dropped, "I2"
    assert list(decision.added) == now[len(kept) :]
    assert not decision.added or (kept and kept[-1] in can_give), "I3"
    assert is_output_new or before == now


@pytest.mark.parametrize("allow_dropped", [True, False])
def test_a_job_without_keyed_steps_goes_on(*, allow_dropped: bool) -> None:
    nothing = {"sources": "read x, y"}
    assert decided(nothing, nothing, allow_dropped=allow_dropped) == Restorable((), (), (), changes_output=False)
