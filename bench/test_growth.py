"""Growth: what 10,000 live epochs do to files, manifests and the time of an epoch. Without Spark; see bench/growth.py.

Two lives: a steady set of keys, of which each epoch updates a few, and keys that come and are deleted ten epochs later.
Counts are compared between the second stretch and the last one, since the first begins with nothing but a backlog.
"""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.conftest import Say
from bench.growth import Keys, PassingKeys, SimulatedJob, Stretch, Work, as_table, run_stretches, updates_of, writes_of
from bench.report import Figure, Report
from bench.scale import PARALLELISM, Scale
from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend

MAX_PARALLELISM = 128
CHANGED = 0.025  # of the keys, in an epoch
STRETCHES = 20
HOUR_S = 3_600.0


def test_a_steady_set_of_keys(work: Callable[[], Path], scale: Scale, report: Report, say: Say) -> None:
    keys = Keys(scale.simulated_keys, max_parallelism=MAX_PARALLELISM)
    changed = round(len(keys) * CHANGED)
    section = f"Growth, {scale.simulated_epochs:,} live epochs: {len(keys):,} keys, {changed:,} of them in an epoch"
    job = SimulatedJob(work(), max_parallelism=MAX_PARALLELISM)
    stretches = _life(job, writes_of(keys), updates_of(keys, CHANGED), scale.simulated_epochs, say)

    def check(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        assert None not in backend.read(0, keys.keys[keys.of(groups)]), "a key was lost on the way"

    for subtask in range(PARALLELISM):
        job.open_subtask(subtask, PARALLELISM, check)
    report.add(*_figures(section, stretches))


def test_keys_that_come_and_go(work: Callable[[], Path], scale: Scale, report: Report, say: Say) -> None:
    passing = PassingKeys(round(scale.simulated_keys * CHANGED / 2), max_parallelism=MAX_PARALLELISM, epochs=10)
    epochs = scale.simulated_epochs // 5
    section = f"Growth, {epochs:,} live epochs: {passing.count:,} new keys in each, which go ten epochs later"
    job = SimulatedJob(work(), max_parallelism=MAX_PARALLELISM)
    stretches = _life(job, passing, passing, epochs, say)
    entries = sum(run.entries for run in job.runs)
    assert entries < 240 * passing.count, f"keys that went are still there: {entries:,} entries"
    report.add(*_figures(section, stretches))


def _life(job: SimulatedJob, backlog: Work, live: Work, epochs: int, say: Say) -> list[Stretch]:
    job.run_epoch(backlog, parallelism=PARALLELISM, strategy="sorted")
    stretches = run_stretches(job, live, epochs=epochs, stretch=epochs // STRETCHES, parallelism=PARALLELISM)
    for line in as_table(stretches).splitlines():
        say(line)
    return stretches


def _figures(section: str, stretches: Sequence[Stretch]) -> list[Figure]:
    costs = [cost for stretch in stretches for cost in stretch.costs]
    merging = [statistics.mean(cost.merge_seconds for cost in stretch.costs) * HOUR_S for stretch in stretches]
    rewritten = sum(cost.rewritten for cost in costs) / sum(cost.written for cost in costs)
    return [
        Figure.median(section, "an epoch, of the state only", "ms", [stretch.milliseconds[0] for stretch in stretches]),
        _change(section, "time of an epoch, last to second stretch", [s.milliseconds[0] for s in stretches], 1.3),
        _change(section, "runs in a manifest, last to second stretch", [s.runs for s in stretches], 1.1),
        _change(section, "bytes of a manifest, last to second stretch", [s.manifest_bytes for s in stretches], 1.1),
        Figure.median(section, "files in the checkpoint folder", "", [float(s.footprint.files) for s in stretches]),
        Figure.median(section, "bytes of a manifest", "B", [s.manifest_bytes for s in stretches]),
        Figure(section, "entries rewritten by merging, per entry", "x", rewritten, (rewritten,), at_most=6.0),
        Figure.median(section, "merging in an hour of an epoch a second", "s", merging),
    ]


def _change(section: str, name: str, values: Sequence[float], at_most: float) -> Figure:
    change = values[-1] / values[1]
    return Figure(section, name, "x", change, (change,), at_most=at_most)
