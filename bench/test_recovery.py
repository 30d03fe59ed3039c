"""Recovery of a state of 2 M keys: how fast a machine that has nothing gets it back, and what a checkpoint costs.

Without Spark: the subtasks run one after the other, each over its half of the keys, from the runs of a backlog and of
twenty live epochs. All files are verified by checksum as they are fetched. On one disk they are hard links; the figure
with copies is that of a checkpoint folder on another disk.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.conftest import Say
from bench.growth import Keys, SimulatedJob, updates_of, writes_of
from bench.report import Figure, Report
from bench.scale import PARALLELISM, Scale
from mixedmode.keys import KeyGroupRange
from mixedmode.state import KeyedStateBackend

MAX_PARALLELISM = 128
LIVE_EPOCHS = 20


def test_recovery(
    work: Callable[[], Path], scale: Scale, report: Report, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(scale.live_keys, max_parallelism=MAX_PARALLELISM)
    job = SimulatedJob(work(), max_parallelism=MAX_PARALLELISM)
    job.run_epoch(writes_of(keys), parallelism=PARALLELISM, strategy="sorted")
    delta = updates_of(keys, scale.small_epoch / len(keys))
    per_key = []
    for _ in range(LIVE_EPOCHS):
        epoch = job.run_epoch(delta, parallelism=PARALLELISM)
        new = [run for run in job.runs if f"/{job.manifests[-1].epoch:010}-" in run.path and not run.merged_from]
        per_key.append(sum(run.bytes for run in new) / epoch.written)
    say(f"recovery  {job.footprint()}")
    linked = [rate for _ in range(scale.rounds) for rate in _restored(job, keys)]
    monkeypatch.setattr(os, "link", _across_disks)
    copied = [rate for _ in range(scale.rounds) for rate in _restored(job, keys)]
    say(f"recovery  {', '.join(f'{rate:,.0f}' for rate in linked)} keys/s per subtask")
    section = f"Recovery, {len(keys):,} keys in {PARALLELISM} subtasks"
    runs = len(job.runs) / PARALLELISM
    report.add(
        Figure.median(section, f"keys restored a second and subtask, {runs:.0f} runs", "/s", linked, at_least=1e6),
        Figure.median(section, "the same, with files that have to be copied", "/s", copied, at_least=1e6),
        Figure.median(section, f"bytes per changed key, {scale.small_epoch:,} of them", "B", per_key),
        Figure.median(section, "bytes of the manifest", "B", [float(epoch.manifest_bytes)]),
    )


def _restored(job: SimulatedJob, keys: Keys) -> list[float]:
    """Keys a second in each subtask of a machine without replicas, until its first epoch can read."""
    shutil.rmtree(job.folder / "local")
    rates: list[float] = []

    def checked(backend: KeyedStateBackend, groups: KeyGroupRange) -> None:
        own = keys.keys[keys.of(groups)]
        rates.append(len(own) / (time.perf_counter() - started))
        some = own[:: max(1, len(own) // 1_000)]
        assert None not in backend.read(0, some)

    for subtask in range(PARALLELISM):
        started = time.perf_counter()
        job.open_subtask(subtask, PARALLELISM, checked)
    return rates


def _across_disks(*_: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")
