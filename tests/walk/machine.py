"""The machine of the walk: its rules are what happens to a job, model.py is what has to be true after each of them.

A rule first brings the job to where it makes sense (running, or not), so that hardly any step is for nothing.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.gc import collect_orphans
from mixedmode.checkpoint.savepoint import create_savepoint, damaged_files, dispose_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.crash_points import CrashPoint
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from tests.harness import ManualClock
from tests.local_engine import LocalEngine, local_session
from tests.walk.bank import BOOKS, Draft, as_table, drafts
from tests.walk.engine import Place, Start, world_of
from tests.walk.faults import FailAtStep, Fault, Faults, KillAtPoint, KillAtStep, Killed, PauseAtStep
from tests.walk.model import DAMAGES, Damaging, Model, Saved
from tests.walk.spark_log import SparkLogError

SAVEPOINTS_MAX = 3
POINTS: tuple[CrashPoint, ...] = (
    "sort",
    "aggregate",
    "merge",
    "runs-stored",
    "before-manifest",
    "after-manifest",
    "publish",
    "after-publish",
    "drop",
    "collect",
    "go-back",
)


def striking(steps_max: int, points: tuple[CrashPoint, ...] = ()) -> st.SearchStrategy[Fault | None]:
    """Mostly none; else one within so many steps of I/O, or at one of these crash points."""
    step = st.integers(0, steps_max)
    at_points = [st.builds(KillAtPoint, st.sampled_from(points))] if points else []
    return st.one_of(
        st.none(), st.none(), st.none(), st.builds(KillAtStep, step), st.builds(FailAtStep, step), *at_points
    )


some_files = st.lists(drafts(), min_size=1, max_size=2)
maybe_files = st.lists(drafts(), max_size=1)
fractions = st.floats(0, 1, exclude_max=True)
lost_attempts = st.sampled_from([frozenset[int]()] * 8 + [frozenset({0}), frozenset({1, 2})])
parallelisms = st.sampled_from([1, 1, 1, 1, 2, 2, 3, 5])


class Walk(RuleBasedStateMachine):
    """The walk that the module describes. `base` is the folder for all walks, `faults` strike in it."""

    base: ClassVar[Path]
    faults: ClassVar[Faults]
    commits: ClassVar[list[Manifest]] = []  #: also those that were dropped before the walk looked
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.commits.clear()
        self.place = Place(Path(tempfile.mkdtemp(dir=self.base)))
        self.world = world_of(self.faults)
        self.running: Start | None = None
        self.saved: list[Saved] = []
        self.folders = 0  #: made for checkpoints and outputs so far

    @initialize(
        book=st.sampled_from(sorted(BOOKS)),
        retained=st.integers(1, 4),
        sort_memory=st.sampled_from([300, 2_000, 2**26]),
        tolerable=st.integers(0, 1),
    )
    def found(self, book: str, retained: int, sort_memory: int, tolerable: int) -> None:
        self.model = Model(BOOKS[book], self.place, retained)
        self.job = partial(BOOKS[book].job, retained=retained, sort_memory=sort_memory, tolerable=tolerable)

    @rule(files=some_files)
    def add(self, files: list[Draft]) -> None:
        """Data comes; the next epoch, whenever it is, reads it."""
        for file in files:
            name, postings = self.model.add(file)
            self.world.files[name] = as_table(postings)

    @rule(files=maybe_files, fault=striking(120, POINTS), lost=lost_attempts)
    def epoch(self, files: list[Draft], fault: Fault | None, lost: frozenset[int]) -> None:
        """One live epoch."""
        self._ensure_running()
        self.add(files)
        assert self.running is not None
        self.world.lost = lost
        with self.faults.armed(fault):
            self.running.epoch()
        self._see(self.running, fault)

    @rule(
        files=maybe_files,
        is_killed=st.booleans(),
        parallelism=parallelisms,
        fault=striking(150, POINTS),
        lost=lost_attempts,
        loses_replicas=st.booleans(),
    )
    def start(
        self,
        files: list[Draft],
        is_killed: bool,
        parallelism: int,
        fault: Fault | None,
        lost: frozenset[int],
        loses_replicas: bool,
    ) -> None:
        """A start, perhaps of the next version of the job, after the one before was killed or has stopped."""
        self._end(is_killed=is_killed)
        self.add(files)
        if loses_replicas:
            for folder in Path(tempfile.gettempdir()).glob("mixedmode-*"):
                shutil.rmtree(folder)
        self._start(parallelism, fault, lost)

    @rule(
        files=some_files,
        more_files=maybe_files,
        pause=st.builds(PauseAtStep, st.integers(0, 200)),
        is_starting=st.booleans(),
        parallelism=parallelisms,
    )
    def overtake(
        self, files: list[Draft], more_files: list[Draft], pause: PauseAtStep, is_starting: bool, parallelism: int
    ) -> None:
        """A start is stopped anywhere, another one takes over, and then the first one goes on.

        It is the past, unless it had not claimed a generation yet.
        """
        self._ensure_running()
        if is_starting:
            self._end(is_killed=True)
        self.add(files)
        with self.faults.armed(pause):
            if self.running is None:
                older = Start(self.job(self.place, parallelism), self.world, self.faults)
            else:
                older = self.running
                older.epoch()
        self.running = None
        self.model.cut_short()
        self._start(parallelism, None, frozenset())
        if more_files:
            self.epoch(more_files, None, frozenset())
        newest = self.model.log.newest_generation()
        note(f"paused: {older.is_paused}")
        if older.is_paused:
            older.go_on()
        if self.model.log.newest_generation() != newest:  # its claim was not complete, so it overtakes in its turn
            self._end(is_killed=True)
            self._see(older, None)
            return
        if not older.is_over:
            older.kill()
        assert isinstance(older.failure, Killed | MixedmodeError | SparkLogError), older.failure
        self.model.cut_short()  # its manifest may lie about, until the next start drops it

    @rule(is_killed=st.booleans())
    def end(self, is_killed: bool) -> None:
        """Nothing runs."""
        self._end(is_killed=is_killed)

    @rule(parallelism=parallelisms, fault=striking(8))
    def rescale(self, parallelism: int, fault: Fault | None) -> None:
        """While it runs: the next epoch has so many subtasks."""
        self._ensure_running()
        spec = self.job(self.place, self.parallelism).spec
        with self._striking(fault):
            ask_to_rescale(spec, parallelism, clock=ManualClock())
            self.model.subtasks = parallelism

    @precondition(lambda self: not self.model.damaged)
    @rule(fault=striking(30))
    def collect(self, fault: Fault | None) -> None:
        """Nothing that no manifest names is left, but for what an epoch that is not committed may still name."""
        with self._striking(fault):
            collect_orphans(self.model.log, sinks=[self.model.out])
            self.model.check_collected()

    @precondition(lambda self: self.model.has_several_checkpoints)
    @rule(
        files=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(DAMAGES), fractions), min_size=1, max_size=2),
        fault=striking(150, POINTS),
        parallelism=parallelisms,
    )
    def damage(self, files: list[tuple[int, Damaging, float]], fault: Fault | None, parallelism: int) -> None:
        """Files that the newest manifest names, or the manifest itself; and then a start."""
        self._end(is_killed=True)
        for file, how, at in files:
            note(f"damaged: {self.model.damage(file, how, at)}")
        self._start(parallelism, fault, frozenset())

    @precondition(lambda self: self.model.epochs and not self.model.damaged and len(self.saved) < SAVEPOINTS_MAX)
    @rule(fault=striking(60))
    def savepoint(self, fault: Fault | None) -> None:
        """Also while the job runs. One that was cut short is made again under the same name, unless it is there."""
        store = ObjectStore(self.place.root / "savepoints" / str(self.folders))
        if store.exists(paths.SAVEPOINT):
            dispose_savepoint(store)
        with self._striking(fault):
            savepoint = create_savepoint(self.model.log, store, now_ms=0)
            self.folders += 1
            self.saved.append(self.model.saved(store, savepoint))

    @precondition(lambda self: len(self.saved) > 1)
    @rule(which=st.integers(0, SAVEPOINTS_MAX - 1))
    def dispose(self, which: int) -> None:
        """Of a savepoint; nothing of it is left."""
        saved = self.saved.pop(which % len(self.saved))
        dispose_savepoint(saved.store)
        assert not saved.store.list()

    @precondition(lambda self: self.saved)
    @rule(
        which=st.integers(0, SAVEPOINTS_MAX - 1),
        keeps_folder=st.booleans(),
        keeps_output=st.sampled_from([True, True, False]),
        fault=striking(80, ("restore",)),
        parallelism=parallelisms,
    )
    def restore(
        self, which: int, keeps_folder: bool, keeps_output: bool, fault: Fault | None, parallelism: int
    ) -> None:
        """To an empty checkpoint folder, with the output so far or a new one; done again if it was cut short."""
        self._end(is_killed=True)
        self._restore(
            self.saved[which % len(self.saved)],
            keeps_folder=keeps_folder,
            keeps_output=keeps_output,
            fault=fault,
            parallelism=parallelism,
        )

    @invariant()
    def check(self) -> None:
        Walk.steps += 1
        for saved in self.saved:
            assert not list(damaged_files(saved.store, saved.savepoint)), "a savepoint stays as it is"
        if hasattr(self, "model") and not self.model.damaged:
            self._learn()
            self.model.check()

    def teardown(self) -> None:
        if self.running is not None:
            self.running.kill()
        shutil.rmtree(self.place.root)

    def _restore(
        self, saved: Saved, *, keeps_folder: bool, keeps_output: bool, fault: Fault | None = None, parallelism: int = 2
    ) -> None:
        keeps_output = keeps_output and self.model.has_output
        fits = keeps_output and self.model.fits(saved)
        keeps_output = fits or (keeps_output and self.model.can_tell(saved))
        place = self._place(keeps_folder=keeps_folder and (fits or not keeps_output), keeps_output=keeps_output)
        job = self.job(place, parallelism)
        session = local_session(self.world)
        restored = partial(restore_savepoint, saved.store.url, job.spec, job.where, session=session, engine=LocalEngine)
        if keeps_output and not fits:
            with pytest.raises(InvalidJobError, match=r"an output (folder|begins anew)"):
                restored()
            assert not place.checkpoints.exists(), "nothing was written"
            return
        shutil.rmtree(place.checkpoints, ignore_errors=True)
        with self._striking(fault):
            restored()
        restored()
        self.place = place
        self.world.handed = dict(saved.epochs)
        self.model.restored(saved, place, keeps_output=keeps_output)

    def _start_over(self) -> None:
        """From the newest savepoint that the output fits to; else from the beginning of the input, in new folders."""
        fitting = [saved for saved in self.saved if self.model.fits(saved)]
        if fitting:
            self._restore(fitting[-1], keeps_folder=True, keeps_output=True)
            return
        self.place = self._place(keeps_folder=False, keeps_output=False)
        self.world.handed = {}
        self.model.start_over(self.place)

    def _ensure_running(self) -> None:
        while self.running is None:
            self._start(2, None, frozenset())

    def _start(self, parallelism: int, fault: Fault | None, lost: frozenset[int]) -> None:
        """Start the job, which goes back first if a checkpoint is damaged, and reads all that is there."""
        before = self.model.snapshot() if self.model.damaged else {}
        self.world.lost, self.parallelism = lost, parallelism
        with self.faults.armed(fault):
            start = Start(self.job(self.place, parallelism), self.world, self.faults)
        if isinstance(start.failure, CorruptStateError) and self.model.damaged:
            assert self.model.newest_whole is None, start.failure
            assert before.items() <= self.model.snapshot().items(), "nothing is whole, and nothing was overwritten"
            self._start_over()
            return
        if self.model.damaged:
            self.model.went_back(start.observer.went_back, is_over=start.is_over)
        self._see(start, fault)

    def _end(self, *, is_killed: bool) -> None:
        if self.running is not None:
            start, self.running, self.model.subtasks = self.running, None, None
            if is_killed:
                start.kill()
                assert isinstance(start.failure, Killed)
            else:
                start.stop()
                assert start.is_over
                assert start.failure is None, start.failure

    def _place(self, *, keeps_folder: bool, keeps_output: bool) -> Place:
        self.folders += 1
        checkpoints = self.place.checkpoints_number if keeps_folder else self.folders
        return Place(self.place.root, checkpoints, self.place.out_number if keeps_output else self.folders)

    @contextmanager
    def _striking(self, fault: Fault | None) -> Iterator[None]:
        """Around what another process does: the job that may be running is not hit."""
        try:
            with self.faults.armed(fault):
                yield
        except (Killed, RetryableError):
            assert fault is not None, "nothing struck"

    def _see(self, start: Start, fault: Fault | None) -> None:
        """Update the model after a start was let go on."""
        self.world.lost = frozenset()
        self.running = None if start.is_over else start
        if fault is not None:  # a request to rescale may not have been seen
            self.model.subtasks = None
        if self.running is not None:
            before = len(self.model.epochs)
            self._learn()
            self.model.undisturbed(is_new=len(self.model.epochs) > before)
            return
        self.model.cut_short()
        expected = RetryableError if isinstance(fault, FailAtStep) else Killed
        if fault is None or not isinstance(start.failure, expected):
            msg = f"the run ended, {fault=}"
            raise AssertionError(msg) from start.failure

    def _learn(self) -> None:
        committed, self.commits[:] = list(self.commits), []
        self.model.learn(committed, self.world.handed)
