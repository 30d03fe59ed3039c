"""A start of a job without Spark (tests/local_engine.py) in a thread of its own, in lock step with the walk.

While one of them acts, the other waits.
"""

import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from mixedmode.config import JobSpec
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.job import Job
from mixedmode.plan.keyed_operators import Where
from tests.harness import ManualClock, Recording
from tests.local_engine import LocalEngine, World, local_session
from tests.walk.faults import Faults, Killed

SECONDS_MAX = 60  # for one command: what takes longer hangs


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a job; after a restore it may have others. The files of its input are only known to the walk."""

    root: Path
    checkpoints_number: int = 0
    out_number: int = 0

    @property
    def input(self) -> Path:
        """Return the folder of its source."""
        return self.root / "in"

    @property
    def checkpoints(self) -> Path:
        """Its checkpoint folder."""
        return self.root / f"checkpoints-{self.checkpoints_number}"

    @property
    def out(self) -> Path:
        """Its output."""
        return self.root / f"out-{self.out_number}"


class Start:
    """One start of a job, from the moment it is called to its end."""

    def __init__(self, job: Job, world: World, faults: Faults) -> None:
        self.observer = Recording()
        self.failure: BaseException | None = None
        self.is_over = self.is_paused = False
        self._faults = faults
        self._stop = threading.Event()
        self._own_turn, self._given_back = threading.Event(), threading.Event()
        self._command: Literal["epoch", "stop", "kill"] = "epoch"
        session = local_session(world, self._next_command)
        options = RunOptions(
            until=Until.STOPPED,
            observers=[self.observer],
            clock=ManualClock(),
            stop=self._stop,
            session=session,
            engine=LocalEngine,
        )
        self._thread = threading.Thread(target=self._run, args=(job.spec, job.where, options), daemon=True)
        self._faults.pauses[self._thread] = self._pause
        self._thread.start()
        self._wait()

    def epoch(self) -> None:
        """One trigger of the live query."""
        self._act("epoch")

    def stop(self) -> None:
        """As a signal would: the run ends after what it does."""
        self._stop.set()
        self._act("stop")

    def kill(self) -> None:
        """Between two epochs."""
        self._act("kill")

    def go_on(self) -> None:
        """After a pause."""
        assert self.is_paused
        self.is_paused = False
        self._own_turn.set()
        self._wait()

    def _act(self, command: Literal["epoch", "stop", "kill"]) -> None:
        assert not self.is_over, "the run has ended"
        self._command = command
        self._own_turn.set()
        self._wait()

    def _wait(self) -> None:
        """Until the run has nothing to do, or has ended."""
        assert self._given_back.wait(SECONDS_MAX), "the run hangs"
        self._given_back.clear()
        if self.is_over:
            self._thread.join()
            del self._faults.pauses[self._thread]

    def _run(self, spec: JobSpec, where: Where, options: RunOptions) -> None:
        try:
            run_job(spec, where, options)
        except BaseException as error:  # noqa: BLE001 - a kill is none
            self.failure = error
        self.is_over = True
        self._given_back.set()

    def _pause(self) -> None:
        """Called in the run's thread in the middle of what it does."""
        self.is_paused = True
        self._rest()

    def _rest(self) -> None:
        self._given_back.set()
        self._own_turn.wait()
        self._own_turn.clear()

    def _next_command(self) -> str:
        """Called in the run's thread when it has nothing to do."""
        self._rest()
        if self._command == "kill":
            raise Killed
        return self._command


def world_of(faults: Faults) -> World:
    """A world in which faults strike, also while Spark writes its log; there, they cannot be failures of a store."""
    return World(step=partial(faults.step, can_fail=False), fan_in=5)
