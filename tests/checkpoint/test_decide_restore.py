"""Changed programs may start from a savepoint, or are refused with a message that says why."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.decide import Refused
from mixedmode.checkpoint.decide_restore import Program, Restorable, decide_restore
from mixedmode.checkpoint.types import OUTPUT_ENTRY, JobIdentity

STORED = {"a": "key-by (k) keeping count", "b": "key-by (n) keeping rows"}
Edges = Mapping[str, Sequence[str]]


def decided(
    now: Mapping[str, str],
    stored: Mapping[str, str] | None = None,
    *,
    name: str = "orders",
    max_parallelism: int = 128,
    allow_dropped: bool = False,
    edges: Edges | None = None,
    edges_before: Edges | None = None,
    **facts: Any,
) -> Restorable | Refused:
    program: dict[str, Any] = {
        "stateless": {"upsert"},
        "can_emit_full_snapshot": {"a", "b", "c"},
        "new_outputs": {""},
    }
    wanted = Program(JobIdentity(name, max_parallelism, fingerprints(now, edges)), **(program | facts))
    before = JobIdentity("orders", 128, fingerprints(stored or STORED, edges_before))
    return decide_restore(wanted, before, allow_dropped=allow_dropped)


def fingerprints(said: Mapping[str, str], edges: Edges | None) -> dict[str, dict[str, object]]:
    """Each step reads the one before it, unless `edges` says what it reads."""
    names = [step for step in said if step != "sources"]
    reads = {after: [before] for before, after in pairwise(names)} if edges is None else edges
    return {
        step: {"said": text, **({"from": list(reads[step])} if reads.get(step) else {})} for step, text in said.items()
    }


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
    same = Restorable(("a", "b"), (), (), ())
    assert decided(STORED) == same
    assert decided(STORED, new_outputs=()) == same
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
    assert decided(stored, stored) == Restorable(("a", "b"), (), (), ())
    assert reason(decided({"sources": "read y, x", **STORED}, stored)) == (
        'the sources were changed (said was "read x, y" and is "read y, x"), and Spark knows them by their order'
    )
    assert "and is not set" in reason(decided(STORED, stored))


def sources_read(*sources: str, **readers: list[str]) -> dict[str, Any]:
    return {
        "version": 1,
        "sources": list(sources),
        "read-by": readers,
    }


def restored(before: dict[str, Any], sources: list[str], readers: dict[str, list[str]], *steps: str) -> Any:
    """A decision about a job with these readers of sources, and the steps a and b, each of which reads a source."""
    said = {step: {"said": step} for step in "ab"}
    now = {step: said[step] for step in steps}
    if len(readers) > 1:
        now = {"sources": sources_read(*sources, **readers), **now}
    wanted = Program(JobIdentity("orders", 128, now), (), {"a", "b"}, {""}, sources, has_clock=False, readers=readers)
    return decide_restore(wanted, JobIdentity("orders", 128, {"sources": before, **said}), allow_dropped=True)


def test_a_reader_of_a_source_may_be_dropped_and_none_may_be_added_or_read_another_source() -> None:
    both = sources_read("s", "t", a=["s"], b=["t", "s"])
    assert restored(both, ["s", "t"], {"b": ["t", "s"]}, "b").kept == ("b",)
    assert "the sources were changed" in reason(restored(both, ["s"], {"a": ["s"]}, "a"))
    assert reason(restored(both, ["s", "t"], {"a": ["t"], "b": ["t", "s"]}, "a", "b")) == (
        "step 'a' read 's' and now reads 't', so its rows came from other input"
    )
    readers = {"a": ["s"], "b": ["t", "s"], f"{OUTPUT_ENTRY}new": ["t"]}
    assert reason(restored(both, ["s", "t"], readers, "a", "b")) == (
        "output 'new' reads a source and was added, and nothing in the savepoint holds the rows that it has missed "
        "(put it into a job of its own, which reads the sources from their beginning)"
    )


def test_a_step_may_be_added_behind_all_others_into_a_new_output() -> None:
    added = {**STORED, "c": "key-by (m) keeping count"}
    assert decided(added) == Restorable(("a", "b"), ("c",), (), ("",))
    assert reason(decided(added, new_outputs=())) == (
        "steps were added, removed or changed ('c'), so the main output is another table now, and there is the old one "
        "in its folder (set a new sink.path)"
    )


def test_a_step_may_not_be_added_where_it_would_miss_its_first_input() -> None:
    assert reason(decided({"c": "x", **STORED})) == (
        "step 'a' read the sources and now reads 'c', so its state came from other input"
    )
    assert reason(decided({"a": STORED["a"], "c": "x", "b": STORED["b"]})) == (
        "step 'b' read 'a' and now reads 'c', so its state came from other input"
    )
    assert reason(decided({**STORED, "c": "x"}, can_emit_full_snapshot={"a"})) == (
        "step 'c' was added behind step 'b', which cannot emit again what it has emitted (windows that have fired, "
        "joins and functions do not keep their rows)"
    )
    assert reason(decided({"c": "x"}, {"sources": "read x, y"}, stateless={"upsert"})).startswith("the sources were")
    assert reason(decided({"c": "x"}, {"upsert": "upsert"})) == (
        "step 'c' was added, and nothing in the savepoint holds the rows that it has missed "
        "(put it into a job of its own, which reads the sources from their beginning)"
    )


BRANCHES: Edges = {"b": ["a"], "c": ["a"]}
THREE = {**STORED, "c": "key-by (m) keeping count"}


def test_a_branch_may_be_dropped_and_the_other_one_goes_on() -> None:
    dropped = decided({"a": STORED["a"], "c": THREE["c"]}, THREE, edges=BRANCHES, edges_before=BRANCHES)
    assert "--allow-dropped-state" in reason(dropped)
    allowed = decided(
        {"a": STORED["a"], "c": THREE["c"]}, THREE, edges=BRANCHES, edges_before=BRANCHES, allow_dropped=True
    )
    assert allowed == Restorable(("a", "c"), (), ("b",), ("",))


def test_a_branch_cannot_be_added_beside_one_that_has_had_the_rows() -> None:
    shared = (
        "step 'c' was added behind step 'a', whose rows others read already, so that it cannot emit its whole table to "
        "the new one alone"
    )
    assert reason(decided(THREE, edges=BRANCHES, edges_before={"b": ["a"]})) == shared
    both_new = decided(THREE, {"a": STORED["a"]}, edges=BRANCHES, edges_before={})
    assert both_new == Restorable(("a",), ("b", "c"), (), ("",))
    from_source = decided(THREE, edges={"b": ["a"]}, edges_before={"b": ["a"]})
    assert "nothing in the savepoint holds the rows" in reason(from_source)


def test_a_step_behind_a_changed_one_without_state_is_refused() -> None:
    before, now = {"a": "count", "f": "final", "b": "sum"}, {"a": "count", "f": "final of others", "b": "sum"}
    assert reason(decided(now, before, stateless={"f"})) == (
        "step 'f' was changed before step 'b', whose state came from other input"
    )


def test_outputs_go_on_unless_what_they_read_has_changed() -> None:
    stored = {**STORED, "output:x": "", "output:y": ""}
    edges: Edges = {"b": ["a"], "output:x": ["a"], "output:y": ["b"]}

    def with_edges(now: Mapping[str, str], reads: Edges, **facts: Any) -> Restorable | Refused:
        return decided(now, stored, edges=reads, edges_before=edges, **facts)

    assert with_edges(stored, edges) == Restorable(("a", "b"), (), (), ())
    added = {**stored, "c": THREE["c"], "output:z": ""}
    behind_b = {**edges, "c": ["b"], "output:z": ["c"]}
    assert "whose rows others read already" in reason(with_edges(added, behind_b, new_outputs={"z"}))
    moved = {**edges, "output:y": ["a"]}
    assert "output 'y' was added behind step 'a'" in reason(with_edges(stored, moved))
    moved = {**edges, "output:y": ["a"], "output:x": ["b"]}
    told = reason(with_edges(stored, moved))
    assert told.startswith("output 'x' reads other steps than before") or "behind step" in told
    without_b = {"a": STORED["a"], "output:x": ""}
    assert with_edges(without_b, {"output:x": ["a"]}, allow_dropped=True) == Restorable(("a",), (), ("b",), ())


def test_steps_may_be_removed_from_the_end_with_permission() -> None:
    assert reason(decided({"a": STORED["a"]})) == (
        "it has state of steps that the job does not have: 'b' (restore with --allow-dropped-state to leave that out)"
    )
    only_a = Restorable(("a",), (), ("b",), ("",))
    assert decided({"a": STORED["a"]}, allow_dropped=True) == only_a
    replaced = {"a": STORED["a"], "c": "key-by (m) keeping count"}
    assert decided(replaced, allow_dropped=True) == Restorable(("a",), ("c",), ("b",), ("",))
    assert reason(decided({"b": STORED["b"]}, allow_dropped=True)) == (
        "step 'b' read 'a' and now reads the sources, so its state came from other input"
    )


def test_both_permissions_that_are_missing_are_told_at_once() -> None:
    told = reason(decided({"a": STORED["a"], "c": "x"}, new_outputs=()))
    assert "--allow-dropped-state" in told
    assert "('c', 'b')" in told


def test_sql_behind_the_last_step_has_no_state_and_may_change_with_a_new_output() -> None:
    before, now = {**STORED, "upsert": "upsert of SELECT 1"}, {**STORED, "upsert": "upsert of SELECT 2"}
    assert decided(now, before) == Restorable(("a", "b"), ("upsert",), (), ("",))
    assert decided(STORED, before) == Restorable(("a", "b"), (), (), ("",))
    assert decided(now, STORED) == Restorable(("a", "b"), ("upsert",), (), ("",))
    assert "('upsert')" in reason(decided(now, before, new_outputs=()))
    behind_windows = decided(now, before, can_emit_full_snapshot=())
    assert isinstance(behind_windows, Restorable), "it begins with what comes after, like any new output"


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """{step: the steps that it reads, all of them before it}; a step that reads none reads the sources."""
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
    return {
        name: sorted(draw(st.sets(st.sampled_from(names[:index]), max_size=2))) if index else []
        for index, name in enumerate(names)
    }


@given(
    before=graphs(),
    now=graphs(),
    is_same=st.booleans(),
    changed=st.sets(st.sampled_from("abcde"), max_size=1),
    can_give=st.sets(st.sampled_from("abcde")),
    is_output_new=st.booleans(),
    allow_dropped=st.booleans(),
)
def test_whatever_is_decided_no_state_is_misread_lost_or_begun_in_the_middle(
    before: dict[str, list[str]],
    now: dict[str, list[str]],
    changed: set[str],
    can_give: set[str],
    *,
    is_same: bool,
    is_output_new: bool,
    allow_dropped: bool,
) -> None:
    now = before if is_same else now
    decision = decided(
        {step: f"{step}, changed" if step in changed else step for step in now} or {"sources": ""},
        {step: step for step in before} or {"sources": ""},
        can_emit_full_snapshot=can_give,
        stateless=(),
        new_outputs={""} if is_output_new else (),
        allow_dropped=allow_dropped,
        edges=now,
        edges_before=before,
    )
    if isinstance(decision, Refused):
        return
    kept = set(decision.kept)
    assert not kept & changed, "I1"
    assert all(before[step] == now[step] and kept.issuperset(now[step]) for step in kept), "it has had the same input"
    assert set(decision.dropped) == before.keys() - kept
    assert not decision.dropped or allow_dropped, "I2"
    assert set(decision.added) == now.keys() - kept
    for step in decision.added:
        assert now[step], "I3: nothing holds what it has missed of a source"
        for read in now[step]:
            if read in kept:
                assert read in can_give, "I3"
                assert not any(read in now[other] for other in kept), "its table goes to new readers alone"
    assert is_output_new or now.keys() == before.keys() == kept


@pytest.mark.parametrize("allow_dropped", [True, False])
def test_a_job_without_keyed_steps_goes_on(*, allow_dropped: bool) -> None:
    nothing = {"sources": "read x, y"}
    assert decided(nothing, nothing, allow_dropped=allow_dropped) == Restorable((), (), (), ())
