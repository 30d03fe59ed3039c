"""Manifests of a past that the job has gone back from do not count, whenever they come."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, Committed
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack
from mixedmode.errors import CorruptStateError
from tests.checkpoint.examples import a_manifest

# one entry per start: the epoch it goes back to (None: it goes on), how many epochs it commits, and whether it stops
# right before a commit that it makes at the very end
STARTS = st.lists(st.tuples(st.none() | st.integers(0, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=8)


@given(starts=STARTS)
def test_what_counts_is_what_no_later_start_went_back_from(starts: list[tuple[int | None, int, bool]]) -> None:
    past: dict[int, int] = {}  # {epoch: the start that committed it}, as the job itself would tell it
    backs: list[GoingBack] = []
    zombies: list[tuple[int, int]] = []
    for generation, (to, commits, stops) in enumerate(starts, 1):
        if to is not None and to in past:
            backs.append(GoingBack(Generation(generation), Epoch(to), ()))
            past = {epoch: by for epoch, by in past.items() if epoch <= to}
            zombies = [(epoch, by) for epoch, by in zombies if epoch <= to]
        for _ in range(commits):
            past[len(past)] = generation
        if stops:
            zombies.append((len(past), generation))
    for epoch, by in past.items():
        assert not is_abandoned(Epoch(epoch), Generation(by), backs), "it is the job's past"
    for generation, (to, _, _) in enumerate(starts, 1):
        if to is not None and any(back.generation == generation for back in backs):
            abandoned = [is_abandoned(Epoch(to + 1), Generation(older), backs) for older in range(1, generation)]
            assert all(abandoned), "this start went back from what they commit there"


def test_a_manifest_of_an_older_start_is_taken_for_the_epoch_only_if_no_start_went_back(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    stalled = a_manifest(7, generation=1)
    log.commit(stalled, CommitPermit(stalled.epoch, stalled.generation))
    own = a_manifest(7, generation=3)
    permit = CommitPermit(own.epoch, own.generation)
    assert log.commit(own, permit) == AlreadyCommitted(stalled), "nobody went back, so it is the same epoch"
    log.record_going_back(GoingBack(Generation(2), Epoch(7), ("a run is missing",)))
    assert log.commit(own, permit) == AlreadyCommitted(stalled), "to this very epoch"
    log.record_going_back(GoingBack(Generation(3), Epoch(4), ("a run is missing",)))
    with pytest.raises(CorruptStateError) as refused:
        log.commit(own, permit)
    assert str(refused.value) == (
        "an older start of this job, stopped long ago, went on and put a manifest where this start wanted to commit; "
        "the job has gone back since, so that manifest belongs to a past that no longer counts. This epoch was not "
        "committed. End the older start, and start the job again: it goes back behind it. "
        f"file={tmp_path}/manifests/0000000007.json, own_generation=3, found=1"
    )
    later = a_manifest(8, generation=3)
    assert log.commit(later, CommitPermit(later.epoch, later.generation)) == Committed(later)


def test_a_record_says_all_that_counts_in_its_name_so_that_damage_to_it_changes_nothing(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    assert log.goings_back() == ()
    log.record_going_back(GoingBack(Generation(12), Epoch(3), ("checkpoint 4: its manifest is missing, file=x",)))
    log.record_going_back(GoingBack(Generation(12), Epoch(3), ("checkpoint 4: its manifest is missing, file=x",)))
    name = "went-back/0000000012-0000000003.json"
    assert paths.going_back_path(Generation(12), Epoch(3)) == name
    assert b'"reasons":["checkpoint 4: its manifest is missing, file=x"]' in (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(b"")
    assert log.goings_back() == (GoingBack(Generation(12), Epoch(3), ()),)
