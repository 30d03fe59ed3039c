"""Decisions: each case by name, each message in full, each invariant over all inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.decide import (
    CommitPermit,
    Damaged,
    EpochPolicy,
    Fenced,
    ForeignOutput,
    Fresh,
    Gap,
    GoBack,
    Mode,
    NothingWhole,
    Over,
    Refused,
    Republish,
    Resume,
    RunEpoch,
    SkipPublished,
    SourceFacts,
    UseNewest,
    decide_commit,
    decide_epoch,
    decide_epoch_policy,
    decide_lost_epochs,
    decide_recovery,
    decide_start,
)
from mixedmode.checkpoint.types import CheckedCheckpoint, Damage, Epoch, Generation, JobIdentity
from tests.checkpoint.examples import IDENTITY

EPOCHS = st.integers(0, 20).map(Epoch)
GENERATIONS = st.integers(1, 20).map(Generation)
BACKLOG = EpochPolicy(is_backlog=True, strategy="sorted")
LIVE = EpochPolicy(is_backlog=False, strategy="streaming")
TEXT = st.sampled_from(["a", "b"])


def test_a_new_folder_is_a_fresh_start() -> None:
    assert decide_start(IDENTITY, None, latest=None) == Fresh()


def test_a_start_that_died_in_its_first_epoch_begins_afresh() -> None:
    assert decide_start(IDENTITY, IDENTITY, latest=None) == Fresh()


def test_the_same_job_resumes_after_its_latest_epoch() -> None:
    assert decide_start(IDENTITY, IDENTITY, latest=Epoch(4)) == Resume(Epoch(4))


def test_a_job_whose_input_has_ended_is_over() -> None:
    assert decide_start(IDENTITY, IDENTITY, latest=Epoch(4), is_final=True) == Over(Epoch(4))


def test_another_job_is_refused_also_when_the_stored_one_is_over() -> None:
    decision = decide_start(JobIdentity("other", 128, {}), IDENTITY, latest=Epoch(4), is_final=True)
    assert isinstance(decision, Refused)


def test_another_order_of_steps_in_the_identity_is_the_same_job() -> None:
    turned = JobIdentity(IDENTITY.name, IDENTITY.max_parallelism, dict(reversed(list(IDENTITY.operators.items()))))
    assert decide_start(turned, IDENTITY, latest=Epoch(0)) == Resume(Epoch(0))


def test_another_max_parallelism_is_refused_in_full() -> None:
    decision = decide_start(JobIdentity(IDENTITY.name, 64, IDENTITY.operators), IDENTITY, latest=Epoch(4))
    assert decision == Refused(
        "the job is not the one whose state is in the checkpoint folder, and can neither read that state nor go on "
        "from it: pipeline.max-parallelism was 128 and is 64 (it fixes the key group of every key for the life of a "
        "job). Put the setting back, or take a savepoint with it and restore the changed job from that "
        "(docs/savepoints.md says what may change), or give the job a new execution.checkpointing.dir (it then starts "
        "from the beginning of its sources). latest_epoch=4"
    )


@pytest.mark.parametrize(
    ("operators", "says"),
    [
        ({"step-1": {"step": "aggregate"}}, "step 'step-2' was removed"),
        ({**IDENTITY.operators, "step-3": {"step": "x"}}, "step 'step-3' was added"),
        (
            {**IDENTITY.operators, "step-2": {"step": "x", "keys": ["k"]}},
            'step \'step-2\' was changed (keys was not set and is ["k"], step was "upsert" and is "x")',
        ),
        (
            {"step-1": {"step": "y"}, "step-3": {}},
            "and is \"y\"); step 'step-2' was removed; step 'step-3' was added.",
        ),
    ],
)
def test_a_step_that_differs_is_refused_and_named(operators: dict[str, dict[str, object]], says: str) -> None:
    decision = decide_start(JobIdentity(IDENTITY.name, 128, operators), IDENTITY, latest=Epoch(0))
    assert isinstance(decision, Refused)
    assert says in decision.reason


def test_another_name_is_refused_and_an_uncommitted_folder_may_be_deleted() -> None:
    decision = decide_start(JobIdentity("other", 128, IDENTITY.operators), IDENTITY, latest=None)
    assert isinstance(decision, Refused)
    assert "the name was 'airport-delays' and is 'other'" in decision.reason
    assert "Nothing is committed there yet, so the folder may also be deleted." in decision.reason


def test_manifests_without_an_identity_are_damage() -> None:
    decision = decide_start(IDENTITY, None, latest=Epoch(2))
    assert isinstance(decision, Damaged)
    assert decision.reason.endswith("latest_epoch=2")


def test_the_epoch_after_the_latest_committed_one_runs() -> None:
    assert decide_epoch(Epoch(0), latest=None, offsets="a") == RunEpoch(Epoch(0), None)
    assert decide_epoch(Epoch(5), latest=Epoch(4), offsets="a") == RunEpoch(Epoch(5), Epoch(4))


def test_the_latest_committed_epoch_is_only_published_again() -> None:
    assert decide_epoch(Epoch(4), latest=Epoch(4), offsets="a", committed_offsets="a") == Republish(Epoch(4))


def test_an_older_committed_epoch_is_skipped() -> None:
    assert decide_epoch(Epoch(3), latest=Epoch(4), offsets="a", committed_offsets="a") == SkipPublished(Epoch(3))


@pytest.mark.parametrize(
    ("epoch", "latest", "committed", "says"),
    [
        (1, None, None, "Spark's log is ahead of the manifests"),
        (6, 4, None, "Spark's log is ahead of the manifests"),
        (3, 4, None, "whose manifest is gone"),
        (4, 4, "b", "with another range of input than the one that was committed"),
        (0, 4, "b", "with another range of input than the one that was committed"),
    ],
)
def test_a_disagreement_of_log_and_manifests_is_a_gap(
    epoch: int, latest: int | None, committed: str | None, says: str
) -> None:
    last = None if latest is None else Epoch(latest)
    decision = decide_epoch(Epoch(epoch), latest=last, offsets="a", committed_offsets=committed)
    assert isinstance(decision, Gap)
    assert says in decision.reason
    assert decision.reason.endswith(f"epoch={epoch}, latest_committed={latest}")


@given(epoch=EPOCHS, latest=st.none() | EPOCHS, offsets=TEXT, committed=st.none() | TEXT)
def test_no_committed_epoch_ever_runs_again(
    epoch: Epoch, latest: Epoch | None, offsets: str, committed: str | None
) -> None:
    decision = decide_epoch(epoch, latest=latest, offsets=offsets, committed_offsets=committed)
    runs = isinstance(decision, RunEpoch)
    assert runs == (epoch == (0 if latest is None else latest + 1)), decision
    if isinstance(decision, Republish | SkipPublished):
        assert offsets == committed, "an epoch with another range must not pass as the committed one"


@given(own=GENERATIONS, newer=st.integers(0, 5), epoch=EPOCHS)
def test_only_the_newest_generation_may_commit(own: Generation, newer: int, epoch: Epoch) -> None:
    decision = decide_commit(epoch, own=own, newest=Generation(own + newer))
    assert (decision == CommitPermit(epoch, own)) == (newer == 0), decision


def test_a_fenced_start_is_told_so_in_full() -> None:
    decision = decide_commit(Epoch(3), own=Generation(1), newest=Generation(2))
    assert isinstance(decision, Fenced)
    assert decision.reason == (
        "a newer start of this job has taken over its checkpoint folder, so this one stops without committing its "
        "epoch. Nothing is lost: the other one goes on. If both were started by mistake, stop the one that is not "
        "wanted. epoch=3, own_generation=1, newest_generation=2"
    )


@pytest.mark.parametrize(
    ("mode", "initial", "lag_ms", "threshold_ms", "expected"),
    [
        ("batch", True, None, None, BACKLOG),
        ("batch", False, 0, 10, BACKLOG),
        ("mixed", True, None, None, BACKLOG),
        ("mixed", True, 0, 10, BACKLOG),
        ("mixed", False, 0, None, LIVE),
        ("mixed", False, 10**9, None, LIVE),
        ("mixed", False, 10, 10, LIVE),
        ("mixed", False, 11, 10, BACKLOG),
        ("mixed", False, None, 10, LIVE),
        ("mixed", False, -5, 0, LIVE),
        ("streaming", True, None, None, LIVE),
        ("streaming", True, 10**9, None, LIVE),
        ("streaming", False, 11, 10, BACKLOG),
        ("streaming", False, 10, 10, LIVE),
    ],
)
def test_the_policy_of_an_epoch(
    mode: Mode, initial: bool, lag_ms: int | None, threshold_ms: int | None, expected: EpochPolicy
) -> None:
    now_ms = 1_700_000_000_000
    watermark_us = None if lag_ms is None else (now_ms - lag_ms) * 1000
    sources = {"a": SourceFacts(watermark_us), "b": SourceFacts(None), "c": SourceFacts(now_ms * 1000)}
    decided = decide_epoch_policy(
        mode, is_initial_backlog=initial, sources=sources, now_ms=now_ms, lag_threshold_ms=threshold_ms
    )
    assert (decided.is_backlog, decided.strategy) == (expected.is_backlog, expected.strategy)
    everything = mode == "batch" or (mode == "mixed" and initial)
    assert decided.sources == (set("abc") if everything else set("a") if expected.is_backlog else set())


@pytest.mark.parametrize("mode", ["mixed", "streaming"])
def test_an_epoch_is_backlog_as_long_as_one_source_says_so(mode: Mode) -> None:
    sources = {"a": SourceFacts(says_backlog=True), "b": SourceFacts(0)}
    decided = decide_epoch_policy(mode, is_initial_backlog=False, sources=sources, now_ms=0, lag_threshold_ms=None)
    assert decided == EpochPolicy(is_backlog=True, strategy="sorted", sources=frozenset("a"))


def checked(epoch: int, *whys: str) -> CheckedCheckpoint:
    return CheckedCheckpoint(Epoch(epoch), tuple(Damage("state", f"/c/{epoch}", why) for why in whys))


def test_a_start_goes_on_from_the_newest_checkpoint_if_it_is_whole() -> None:
    assert decide_recovery([]) == UseNewest(), "of a new job"
    assert decide_recovery([checked(7), checked(6, "is missing")]) == UseNewest()


def test_a_start_goes_back_behind_all_that_is_damaged_and_no_further() -> None:
    damaged = (checked(7, "is missing"), checked(6, "is missing", "has changed"))
    assert decide_recovery([*damaged, checked(5), checked(4)]) == GoBack(Epoch(5), damaged)


def test_nothing_whole_names_each_checkpoint_and_counts_what_is_too_much_to_read() -> None:
    decision = decide_recovery([checked(7, "a run is missing"), checked(6, "an output has changed", "x", "y")])
    assert decision == NothingWhole(
        "no checkpoint is whole, so there is none to go on from, and nothing was changed. Restore what is damaged from "
        "a copy (it is found in its place at the next start), or the whole checkpoint folder; or start over with a new "
        "execution.checkpointing.dir and output. checkpoint 7: a run is missing, file=/c/7; "
        "checkpoint 6: an output has changed, file=/c/6 (and 2 more)"
    )
    many = decide_recovery([checked(epoch, "is missing") for epoch in range(30, 0, -1)])
    assert isinstance(many, NothingWhole)
    assert many.reason.endswith("; checkpoint 21: is missing, file=/c/21 (and 20 more)")


@given(damages=st.lists(st.integers(0, 2), max_size=12))
def test_where_a_start_goes_on_is_whole_and_the_newest_that_is(damages: list[int]) -> None:
    checkpoints = [checked(100 - number, *["x"] * count) for number, count in enumerate(damages)]
    whole = [one.epoch for one in checkpoints if not one.damages]
    match decide_recovery(checkpoints):
        case UseNewest():
            assert not checkpoints or whole[0] == checkpoints[0].epoch
        case GoBack(to=to, damaged=damaged):
            assert to == whole[0]
            assert [one.epoch for one in damaged] == [one.epoch for one in checkpoints if one.epoch > to]
            assert all(one.damages for one in damaged)
        case NothingWhole():
            assert checkpoints
            assert not whole


NONE_OR_EPOCH = st.none() | st.integers(0, 8).map(Epoch)


@pytest.mark.parametrize(
    ("latest", "done", "begun", "published", "lost"),
    [
        (None, None, None, None, ()),
        (None, None, 0, None, ()),  # it died in its first epoch
        (None, 1, 1, 1, (1, 0)),
        (None, None, None, 4, ()),  # the output of another run: the sink refuses it with better words
        (6, 6, 6, 6, ()),
        (6, 6, 7, 6, ()),  # it died in an epoch
        (6, 5, 6, 6, ()),  # it died before Spark noted the epoch
        (6, 7, 7, 7, (7,)),
        (6, None, 7, 7, (7,)),  # the same, with a manifest that is gone
        (6, 8, 8, None, (8, 7)),  # to the console
    ],
)
def test_epochs_that_were_committed_and_have_no_manifest_are_lost(
    latest: int | None, done: int | None, begun: int | None, published: int | None, lost: tuple[int, ...]
) -> None:
    facts = [None if number is None else Epoch(number) for number in (latest, done, begun, published)]
    assert decide_lost_epochs(facts[0], done=facts[1], begun=facts[2], published=facts[3]) == lost


@given(latest=NONE_OR_EPOCH, done=NONE_OR_EPOCH, begun=NONE_OR_EPOCH, published=NONE_OR_EPOCH)
def test_lost_epochs_are_all_those_between_the_manifests_and_what_is_known_to_be_done(
    latest: Epoch | None, done: Epoch | None, begun: Epoch | None, published: Epoch | None
) -> None:
    lost = decide_lost_epochs(latest, done=done, begun=begun, published=published)
    known = -1 if latest is None else latest
    if isinstance(lost, ForeignOutput):
        assert published is not None
        assert published > known
        assert begun is None or published > begun
        return
    assert list(lost) == sorted(set(range(known + 1, max(lost, default=known) + 1)), reverse=True)
    assert done is None or done <= known or done in lost


def test_an_output_that_was_added_is_named_as_one() -> None:
    stored = JobIdentity("orders", 128, {"a": {"step": "aggregate"}})
    wanted = JobIdentity("orders", 128, {**stored.operators, "output:late_orders": {"step": "output"}})
    decision = decide_start(wanted, stored, latest=Epoch(3))
    assert isinstance(decision, Refused)
    assert "output 'late_orders' was added" in decision.reason
