"""Open snapshots that requests share: which epoch answers, what stays open, and which leases there are."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.manifest import encode_manifest
from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.queryable.kept import IDLE_SECONDS, OPEN_MAX, KeptState
from mixedmode.queryable.snapshot import LEASE_SECONDS, StateAnswer, StateSnapshot, read_state
from tests.harness import ManualClock
from tests.queryable.jobs import RunningJob, rows_of
from tests.queryable.test_reads import EPOCHS, counts, row, totals


class Still(ManualClock):
    """A clock that only the test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def seconds(self) -> float:
        return self.now


class Kept:
    """The kept state of a job with the epochs of EPOCHS."""

    def __init__(self, folder: Path, epochs: int = len(EPOCHS)) -> None:
        self.job = RunningJob(folder, counts)
        for rows in EPOCHS[:epochs]:
            self.job.epoch(rows)
        self.clock = Still()
        self.state = KeptState(self.job.checkpoints, clock=self.clock)

    def ask(self, epoch: int | None = None, limit: int | None = None) -> StateAnswer:
        return self.state.ask(lambda snapshot: snapshot.read("aggregate-1", limit=limit), epoch)

    def drop_old(self) -> None:
        """Drop all checkpoints but the newest, as far as the leases allow it."""
        retained = list(self.job.manifests)
        drop_old_checkpoints(self.job.log, retained, num_retained=1, now_ms=time.time_ns() // 1_000_000)
        self.job.manifests[:] = retained

    @property
    def leases(self) -> list[int]:
        return sorted(lease.epoch for lease in Leases(ObjectStore(self.job.checkpoints)).all())


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    found = Kept(tmp_path / "job")
    yield found
    found.state.close()


def test_requests_are_answered_at_their_epoch_and_as_read_state_answers(kept: Kept) -> None:
    for epoch in (2, 0, 1, 0, None):
        answer = kept.ask(epoch)
        assert answer.epoch == (2 if epoch is None else epoch)
        assert rows_of(answer.table) == totals(EPOCHS[: answer.epoch + 1])
        assert answer.as_table().equals(read_state(kept.job.checkpoints, "aggregate-1", epoch=epoch))
    with pytest.raises(InvalidJobError, match=r"no checkpoint of this epoch.*epoch=7"):
        kept.ask(7)


def test_a_tick_goes_to_the_newest_epoch_with_the_files_that_the_last_requests_needed(kept: Kept) -> None:
    kept.ask()
    kept.job.epoch([row("new", 1, 4)])
    assert kept.ask().epoch == 2, "a request opens nothing"
    kept.state.tick()
    with kept.state.snapshot() as snapshot:
        assert snapshot.epoch == 3
        assert len(snapshot._entries._open) == 2, "both ranges of key groups are open before the first read"
    assert rows_of(kept.ask().table) == totals([*EPOCHS, [row("new", 1, 4)]])
    assert kept.leases == [3], "the snapshot before is closed"


def test_without_requests_all_is_closed_and_a_later_request_opens_the_newest_epoch(kept: Kept) -> None:
    kept.ask()
    kept.ask(0)
    assert kept.leases == [0, 2]
    kept.clock.now = IDLE_SECONDS + 1
    kept.state.tick()
    assert (kept.leases, kept.state._kept) == ([], {})
    kept.job.epoch([row("new", 1, 4)])
    assert kept.ask().epoch == 3


def test_a_snapshot_stays_open_while_a_request_reads_it(kept: Kept) -> None:
    def slow(snapshot: StateSnapshot) -> StateAnswer:
        kept.job.epoch([row("new", 1, 4)])
        kept.clock.now = 2 * IDLE_SECONDS
        kept.state.tick()
        assert kept.leases == [2, 3], "the checkpoint of the request under way is still kept"
        return snapshot.read("aggregate-1")

    assert rows_of(kept.state.ask(slow).table) == totals(EPOCHS)
    assert kept.leases == [2, 3], "a request waits for no store"
    kept.state.tick()
    assert kept.leases == [], "nobody has read the newest epoch for a while, either"
    kept.clock.now += 1
    assert kept.ask().epoch == 3


def test_the_checkpoint_of_a_page_is_kept_for_the_next_page(kept: Kept) -> None:
    first = kept.ask(limit=10)
    kept.job.epoch([row("new", 1, 4)])
    kept.state.tick()
    assert kept.ask().epoch == 3
    kept.clock.now = IDLE_SECONDS + 1
    kept.state.tick()
    assert kept.leases == [2], "nobody reads, and the lease of the page lasts"
    kept.drop_old()
    assert kept.job.log.epochs() == (2, 3)
    rest = kept.state.ask(lambda snapshot: snapshot.read("aggregate-1", after=first.next), first.epoch)
    assert sorted([*rows_of(first.table), *rows_of(rest.table)], key=repr) == totals(EPOCHS)


def test_a_lease_is_renewed_as_long_as_there_are_requests(kept: Kept) -> None:
    names = set[str]()
    for step in range(1, 40):
        kept.clock.now = step * IDLE_SECONDS / 2
        kept.ask()
        kept.state.tick()
        names.update(lease.token for lease in Leases(ObjectStore(kept.job.checkpoints)).all())
        assert kept.leases == [2]
    assert len(names) == 1 + int(39 * IDLE_SECONDS / 2 // (LEASE_SECONDS / 2 + IDLE_SECONDS / 2))


def test_no_more_than_a_number_of_snapshots_is_open(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "job", epochs=1)
    for minute in range(OPEN_MAX + 3):
        kept.job.epoch([row("a", 1, minute)])
    for epoch in range(OPEN_MAX + 4):
        kept.clock.now = epoch / 100
        assert kept.ask(epoch).epoch == epoch
        assert len(kept.state._kept) <= OPEN_MAX
    assert kept.leases == list(range(4, OPEN_MAX + 4)), "the ones that were read last"
    kept.state.close()
    assert kept.leases == []


def test_an_epoch_that_the_job_went_back_from_has_no_answers(kept: Kept) -> None:
    kept.ask()
    kept.ask(1)
    kept.job.log.record_going_back(GoingBack(Generation(2), Epoch(1), ()))
    kept.state.tick()
    assert kept.ask().epoch == 1
    with pytest.raises(InvalidJobError, match=r"Name one that is kept: 0, 1\. epoch=2"):
        kept.ask(2)


@pytest.mark.parametrize("is_newest_open", [False, True])
def test_an_epoch_that_the_job_left_has_no_answers_whatever_else_is_open(is_newest_open: bool, kept: Kept) -> None:
    kept.ask(2)
    kept.state.tick()
    if is_newest_open:
        kept.ask()
    kept.job.log.record_going_back(GoingBack(Generation(2), Epoch(1), ()))
    kept.state.tick()
    with pytest.raises(InvalidJobError, match=r"Name one that is kept: 0, 1\. epoch=2"):
        kept.ask(2)
    assert kept.ask(1).epoch == 1


def test_the_epochs_of_a_job_whose_folder_was_emptied_have_no_answers(kept: Kept) -> None:
    kept.ask(1)
    kept.job.log.store.delete([paths.manifest_path(epoch) for epoch in kept.job.log.epochs()])
    kept.state.tick()
    with pytest.raises(RetryableError, match="the job has no state yet"):
        kept.ask(1)


@pytest.mark.parametrize("has_next", [False, True])
@pytest.mark.parametrize("seconds", [1.0, IDLE_SECONDS + 1, LEASE_SECONDS])
def test_a_checkpoint_folder_that_was_moved_away_is_not_created_again(
    has_next: bool, seconds: float, kept: Kept, tmp_path: Path
) -> None:
    kept.ask(1, limit=1 if has_next else None)
    kept.ask(limit=1 if has_next else None)
    folder = Path(kept.job.checkpoints)
    folder.rename(tmp_path / "moved")
    kept.clock.now = seconds
    kept.state.tick()
    with pytest.raises(RetryableError, match="the job has no state yet"):
        kept.ask(1)
    kept.state.close()
    assert not folder.exists()
    (tmp_path / "moved").rename(folder)


def test_a_page_of_an_epoch_that_was_committed_again_is_refused(kept: Kept) -> None:
    first = kept.ask(limit=1)
    kept.job.log.record_going_back(GoingBack(Generation(2), Epoch(1), ()))
    again = replace(kept.job.manifests[-1], generation=Generation(2))
    kept.job.log.store.delete([paths.manifest_path(Epoch(2))])
    kept.job.log.store.put_new(paths.manifest_path(Epoch(2)), encode_manifest(again))
    kept.state.tick()
    with pytest.raises(InvalidJobError, match=r"since the page before, .* Begin at the first page\. epoch=2"):
        kept.state.ask(lambda snapshot: snapshot.read("aggregate-1", after=first.next), 2)
    with pytest.raises(InvalidJobError, match="since the page before"):
        read_state(kept.job.checkpoints, "aggregate-1", after=first.next)
    assert kept.ask(limit=1).epoch == 2


def test_an_error_of_the_folder_reaches_the_next_request_and_later_ones_work_again(kept: Kept, tmp_path: Path) -> None:
    kept.ask()
    kept.job.checkpoints.rename(tmp_path / "away")
    kept.state.tick()
    with pytest.raises(RetryableError, match=r"checkpoint folder has no job\.json"):
        kept.ask()
    (tmp_path / "away").rename(kept.job.checkpoints)
    assert kept.ask().epoch == 2


def test_a_job_without_a_checkpoint_has_no_state_yet(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "job", epochs=0)
    with pytest.raises(RetryableError, match="the job has no state yet"):
        kept.ask()
    kept.job.epoch(EPOCHS[0])
    assert kept.ask().epoch == 0
    kept.state.close()
    with pytest.raises(RetryableError, match="the server is ending"):
        kept.ask()


def test_local_files_of_runs_are_fetched_once_and_deleted_when_no_snapshot_has_them(kept: Kept) -> None:
    fetches: list[str] = []
    kept.ask()
    assert kept.state._shared is not None
    fetched = kept.state._shared.fetched
    real = fetched._fetch
    fetched._fetch = lambda run, target: (fetches.append(run.path), real(run, target))  # type: ignore[assignment,method-assign,func-returns-value]
    own = {run.path for operator in kept.job.epoch([row("a", 1, 4)]).operators for run in operator.runs}
    kept.state.tick()
    kept.ask()
    assert fetches
    assert len(fetches) == len(set(fetches)) < len(own), "only the runs of the new epoch"
    kept.state.tick()
    local = {path.relative_to(fetched._folder).as_posix() for path in fetched._folder.rglob("*.sst")}
    assert local == own


def test_many_threads_read_while_epochs_are_committed_and_each_answer_is_that_of_its_epoch(kept: Kept) -> None:
    expected = {2: totals(EPOCHS)}
    failures: list[object] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            answer = kept.ask()
            if rows_of(answer.table) != expected[answer.epoch]:
                failures.append(answer)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    rows = list(EPOCHS)
    for minute in range(4, 10):
        rows.append([row("a", minute, minute), row(f"new {minute}", 1, minute)])
        expected[minute - 1] = totals(rows)
        kept.job.epoch(rows[-1])
        kept.drop_old()
        kept.state.tick()
    ended.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert kept.ask().epoch == 8
    kept.state.tick()
    kept.drop_old()
    assert kept.job.log.epochs() == (8,), "no lease is left of the epochs before"
