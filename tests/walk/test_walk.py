"""A random walk through the life of a job: a machine that adds data, runs, kills, damages, restores, and a plain model.

The model knows only which files were there. Whatever happened before, what is published is the
answer over the files of the epochs that are committed, these are the first files that came, each once; and a start or
an epoch that nothing disturbed leaves none out. The sum over the accounts of the bank is 0 for every reader at any
time.

Each run of the tests walks elsewhere and prints its seed; WALK_SEED=<seed> walks the same way again, and
WALK_STEPS=<number> walks further. Where CI is set in the environment, it walks from the same seed each time (see
tests/conftest.py).
"""

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mixedmode.checkpoint import verify
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.log import CheckpointLog, CommitOutcome, Committed
from mixedmode.checkpoint.types import Manifest
from tests.walk.faults import Faults
from tests.walk.machine import Walk

STEPS_MIN = 300
STEPS_PER_WALK = 50
CI_SEED = 410


@pytest.fixture
def walks(tmp_path: Path) -> Iterator[type[Walk]]:
    """Walks on small numbers, in a folder in memory where there is one: kills are of processes, not of machines.

    Replaced are functions that the program calls at many places and that no object brings along: the steps of I/O
    (driver, tasks and sinks each open their store by its URL), the commit, crash points, and the temporary folder.
    """
    shared = Path("/dev/shm")
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as base,
    ):
        Walk.base, Walk.faults, Walk.steps = Path(base), Faults(), 0
        (Walk.base / "tmp").mkdir()
        patch.setattr(tempfile, "tempdir", str(Walk.base / "tmp"))
        patch.setattr(verify, "_THREADS", 1)  # so that steps of I/O have an order
        patch.setattr(os, "fsync", lambda _file: None)
        patch.setattr(CheckpointLog, "commit", _remembered(CheckpointLog.commit, Walk.commits))
        Walk.faults.install(patch)
        yield Walk


def test_a_walk_never_loses_or_doubles_anything(
    walks: type[Walk], record_property: Callable[[str, object], None]
) -> None:
    chosen = CI_SEED if "CI" in os.environ else random.SystemRandom().randrange(2**32)
    number = int(os.environ.get("WALK_SEED") or chosen)
    steps = int(os.environ.get("WALK_STEPS") or STEPS_MIN)
    record_property("WALK_SEED", number)  # printed at the end of the run, also when it passes
    walking = settings(
        derandomize=False,
        database=None,
        deadline=None,
        stateful_step_count=STEPS_PER_WALK,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    while walks.steps < steps:  # a walk may end early, where it has drawn too much
        examples = -(-(steps - walks.steps) // STEPS_PER_WALK)
        run_state_machine_as_test(seed(number)(walks), settings=settings(walking, max_examples=examples))
        number += 1
    record_property("steps", walks.steps)


def _remembered(
    commit: Callable[[CheckpointLog, Manifest, CommitPermit], CommitOutcome], commits: list[Manifest]
) -> Callable[[CheckpointLog, Manifest, CommitPermit], CommitOutcome]:
    def commit_and_remember(log: CheckpointLog, manifest: Manifest, permit: CommitPermit) -> CommitOutcome:
        outcome = commit(log, manifest, permit)
        if isinstance(outcome, Committed):
            commits.append(manifest)
        return outcome

    return commit_and_remember
