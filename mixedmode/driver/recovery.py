"""Finds the checkpoint that a start goes on from: the newest one, or an older one if the newest is damaged.

    find    read only: verify checkpoints from the newest to the first whole one; an error if none is whole
    (the caller checks that this job can read the state of the checkpoint that was found)
    leave   go back to this checkpoint, and repair missing entries of Spark's log

Nothing is changed before it is certain that a whole checkpoint exists, and that it belongs to this job.

Invariants (tests/faults/test_damage.py, tests/checkpoint/test_go_back.py):
  I1  after any damage from which the job can go back, the final output equals that of an undisturbed run
  I2  after other damage, no file is changed
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import (
    ForeignOutput,
    GoBack,
    NothingWhole,
    UseNewest,
    decide_lost_epochs,
    decide_recovery,
)
from mixedmode.checkpoint.gc import readable_manifests
from mixedmode.checkpoint.go_back import go_back, repair_spark_log, spark_listing
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.planned_input import PlannedInput, drop_planned, planned_input
from mixedmode.checkpoint.spark_log import epochs_done, newest_begun
from mixedmode.checkpoint.types import CheckedCheckpoint, Epoch, Generation, GoingBack, Manifest
from mixedmode.checkpoint.verify import Verifier
from mixedmode.driver.events import Observer, SparkLogRepaired, WentBack
from mixedmode.errors import CorruptStateError
from mixedmode.sinks import Sinks

__all__ = ["FoundCheckpoint", "drop_damaged_plan", "find_checkpoint", "leave_damaged", "planned_beyond"]


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """The newest whole checkpoint, None if there are no checkpoints at all.

    `damaged` are the newer checkpoints, which are damaged, newest first. `left` are those of their manifests that can
    be read, oldest first.
    """

    whole: Manifest | None
    damaged: tuple[CheckedCheckpoint, ...] = ()
    left: tuple[Manifest, ...] = ()


def find_checkpoint(log: CheckpointLog, sinks: Sinks, *, reads: bool) -> FoundCheckpoint:
    """Return the newest checkpoint from which a start can go on. Change nothing.

    reads: whether to compare checksums. Raise CorruptStateError if there are checkpoints and none is whole.
    """
    # list manifests before Spark's log: the log's entry of an epoch is written before its manifest
    known = _known_epochs(log, sinks)
    verifier = Verifier(log, sinks.by_name, reads, spark_listing(log), log.goings_back())
    checked: list[CheckedCheckpoint] = []
    manifests: dict[Epoch, Manifest] = {}
    for epoch in known:
        manifest, checkpoint = verifier.check(epoch)
        checked.append(checkpoint)
        if manifest is not None:
            manifests[epoch] = manifest
        if not checkpoint.damages:
            break
    decision = decide_recovery(checked)
    match decision:
        case UseNewest():
            return FoundCheckpoint(manifests[checked[0].epoch]) if checked else FoundCheckpoint(None)
        case GoBack(to=to, damaged=damaged):
            left = tuple(manifests[epoch] for epoch in sorted(manifests) if epoch > to)
            return FoundCheckpoint(manifests[to], damaged, left)
        case NothingWhole(reason=reason):
            raise CorruptStateError(reason)
        case _:
            assert_never(decision)


def planned_beyond(
    log: CheckpointLog, found: FoundCheckpoint, line_sources: Sequence[int], present: Callable[[Sequence[str]], object]
) -> PlannedInput:
    """Return the input that Spark has planned after the checkpoint that was found. Change nothing.

    The job will read all these files again. present: raises CorruptStateError if one of them does not exist.
    """
    if found.whole is not None and found.whole.is_final:
        return PlannedInput((), (), ())
    planned = planned_input(log, spark_listing(log), found.whole, line_sources, left=found.left)
    present([file.url for file in planned.files])
    return planned


def drop_damaged_plan(log: CheckpointLog, planned: PlannedInput, observer: Observer) -> None:
    """Drop the damaged part of Spark's planned input, so that Spark plans it again."""
    _tell_repaired(log, drop_planned(log, planned), observer)


def leave_damaged(
    log: CheckpointLog, sinks: Sinks, found: FoundCheckpoint, generation: Generation, observer: Observer
) -> list[Manifest]:
    """Make the whole checkpoint that was found the newest one. Return the remaining manifests, oldest to newest.

    Raise CorruptStateError if an output cannot be rolled back to that checkpoint; then nothing has been changed.
    """
    whole = found.whole
    assert whole is not None, "there is a checkpoint"
    obstacle = sinks.obstacle(whole)
    if obstacle is not None:
        raise CorruptStateError(obstacle)
    if found.damaged:
        reasons = tuple(f"checkpoint {one.epoch}: {damage}" for one in found.damaged for damage in one.damages)
        back = GoingBack(generation, whole.epoch, reasons)
        files = go_back(log, whole, back, roll_back=sinks.roll_back)
        observer(WentBack(whole.epoch, found.damaged, files, sinks.not_rolled_back))
    goings_back = log.goings_back()
    older, _ = readable_manifests(log, [epoch for epoch in log.epochs() if epoch < whole.epoch])
    counted = [one for one in older if not is_abandoned(one.epoch, one.generation, goings_back)]
    retained = [*counted, whole]
    repaired = repair_spark_log(log, retained)
    _tell_repaired(log, repaired, observer)
    return retained


def _tell_repaired(log: CheckpointLog, repaired: Sequence[str], observer: Observer) -> None:
    if repaired:
        observer(SparkLogRepaired(tuple(f"{log.store.url}/{path}" for path in repaired)))


def _known_epochs(log: CheckpointLog, sinks: Sinks) -> tuple[Epoch, ...]:
    """Return all epochs that were committed and not dropped, newest first, also epochs whose manifest is missing.

    An older start may still be committing. So read the traces that follow a commit first, and the manifests last.
    """
    spark_log, published = spark_listing(log), sinks.newest_published()
    begun = newest_begun(spark_log)
    if published is not None and (begun is None or published > begun):
        begun = max((epoch for epoch in (begun, _newest_run(log)) if epoch is not None), default=None)
    epochs = log.epochs()
    latest = epochs[-1] if epochs else None
    match decide_lost_epochs(latest, done=epochs_done(spark_log), begun=begun, published=published):
        case ForeignOutput(reason=reason):
            raise CorruptStateError(reason)
        case lost:
            return (*lost, *reversed(epochs))


def _newest_run(log: CheckpointLog) -> Epoch | None:
    parsed = (paths.parse_run_path(path) for path, _ in log.store.list(paths.RUNS))
    return max((file.epoch for file in parsed if file is not None), default=None)
