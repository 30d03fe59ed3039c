"""The events of a job from its start through backlog and flip to some live epochs, a rescaling and a failure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixedmode.checkpoint.types import Epoch, Generation, Manifest, OperatorState, RunFile, SourceProgress
from mixedmode.config import JobSpec
from mixedmode.driver.events import (
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    PhaseBegan,
    Rescaled,
    StepRescaled,
    TaskPhase,
)
from tests.serve.site import committed

START_MS = 1_767_225_600_000  # 2026-01-01
STEPS = ("orders_by_customer", "top_customers", "sessions")


def spec(folder: Path) -> JobSpec:
    """The job of the story, with the steps that its manifests have."""
    (folder / "in").mkdir(exist_ok=True)
    keyed = {"key-by": ["customer"], "aggregate": {"total": "sum(price)"}}
    return JobSpec.model_validate(
        {
            "name": "orders",
            "execution": {"runtime-mode": "mixed", "checkpointing": {"dir": str(folder / "checkpoints")}},
            "sources": {
                "orders": {"format": "json", "path": str(folder / "in"), "schema": "customer string, price long"}
            },
            "steps": [{"name": name, **keyed} for name in STEPS],
            "sink": {"format": "console"},
        }
    )


def manifest(epoch: int, at_ms: int, *, records: int = 100, subtasks: int = 4, start: int = 1) -> Manifest:
    """The manifest of an epoch with state of three steps, which grows."""

    def state(number: int, name: str) -> OperatorState:
        size = (number + 1) * 40_000_000 + epoch * 600_000 * (3 - number)
        runs = tuple(
            RunFile(f"runs/{name}/{epoch:010}-{one:010}-x.sst", 0, size // 2, size // 100, 64 * one, 64 * one + 64, "0")
            for one in range(2)
        )
        return OperatorState(name, {}, runs, subtasks)

    watermark_us = 1000 * (at_ms - 12_000 - 400 * (epoch % 7))
    return Manifest(
        job="totals",
        epoch=Epoch(epoch),
        generation=Generation(start),
        previous=Epoch(epoch - 1) if epoch else None,
        created_ms=at_ms,
        is_backlog=epoch == 0,
        strategy="sorted" if epoch == 0 else "streaming",
        parallelism=subtasks,
        max_parallelism=128,
        sources={"orders": SourceProgress(40_000_000 + 5_000 * epoch, None, watermark_us)},
        offsets="",
        operators=tuple(state(number, name) for number, name in enumerate(STEPS)),
        outputs=(),
        records_in=records,
        rows_out=records // 4,
        pairs=records // 4,
        watermark_us=watermark_us,
        rows_read={name: records // (1, 4, 4)[number] for number, name in enumerate(STEPS)},
    )


def progress(share: float, phase: TaskPhase, seconds: float) -> EpochProgress:
    """The progress of the backlog of 41 million records."""
    read = min(1.0, share * 2)
    return EpochProgress(
        epoch=Epoch(0),
        is_backlog=True,
        seconds=seconds,
        step=STEPS[0],
        phase=phase,
        share=share,
        seconds_left=seconds / share - seconds,
        records=int(41_000_000 * read),
        records_total=41_000_000,
        bytes_read=int(2_400_000_000 * read),
        bytes_total=2_400_000_000,
        tasks_done=int(32 * read),
        tasks_total=32,
        keys_share=0.0 if phase == "reading" else share,
        bytes_spilled=0 if phase == "reading" else 350_000_000,
    )


def backlog() -> Iterator[tuple[int, Event]]:
    """(seconds since the start, event) until the middle of the backlog."""
    yield 0, PhaseBegan("starting")
    yield 7, PhaseBegan("catching up")
    yield 8, EpochStarted(Epoch(0), is_backlog=True, strategy="sorted")
    yield 40, progress(0.31, "reading", 32)
    yield 70, progress(0.62, "sorting", 62)


def live(epochs: int = 60) -> Iterator[tuple[int, Event]]:
    """The rest of the story: the backlog ends, and live epochs follow, one each second."""
    driver: dict[str, float] = {"driver: tasks": 99.1, "driver: commit": 0.2, "driver: publish": 0.1}
    tasks = {"read input": 160.0, "fold": 90.0, "sort": 31.0, "process": 44.0, "write state": 21.0, "store state": 8.0}
    yield 108, _committed(0, 108, records=41_000_000, seconds=99.6, profile={**tasks, **driver})
    yield 108, Flipped(START_MS + 108_000, Epoch(0))
    yield 108, PhaseBegan("live")
    for epoch in range(1, epochs + 1):
        at, wave = 108 + epoch, (epoch * 7919) % 13
        if epoch == 30:
            steps = tuple(StepRescaled(name, 4, 6) for name in STEPS)
            yield at, Rescaled(Epoch(30), steps, "asked for with `mixedmode rescale`")
        yield at, EpochStarted(Epoch(epoch), is_backlog=False, strategy="streaming")
        if epoch == 44:
            yield at, EpochFailed(Epoch(44), 1, 3, "the store does not answer, url=s3://totals/checkpoints")
            yield at, EpochStarted(Epoch(44), is_backlog=False, strategy="streaming")
        profile = {name: seconds / 900 * (1 + wave / 20) for name, seconds in tasks.items()} | {
            "driver: tasks": 0.314 + wave / 100 + (0.5 if epoch == 30 else 0),
            "driver: commit": 0.03,
            "driver: publish": 0.012 + wave / 2000,
        }
        seconds = sum(value for name, value in profile.items() if name.startswith("driver"))
        late = wave if epoch % 9 == 0 else 0
        skipped = 2 if epoch % 21 == 0 else 0
        given: dict[str, Any] = {"records_late": late, "records_skipped": skipped, "seconds": seconds}
        given["processing_lag_seconds"] = seconds
        records, subtasks = 4_200 + 130 * wave, 4 if epoch < 30 else 6
        yield at, _committed(epoch, at, records=records, subtasks=subtasks, profile=profile, **given)


def _committed(epoch: int, second: int, *, records: int, subtasks: int = 4, **values: Any) -> Event:
    stored = manifest(epoch, START_MS + 1000 * second, records=records, subtasks=subtasks)
    state = sum(run.bytes for operator in stored.operators for run in operator.runs)
    given = {"records": records, "rows_out": records // 4, "state_bytes": state, "watermark_us": stored.watermark_us}
    return committed(epoch, created_ms=stored.created_ms, manifest=stored, **given, **values)
