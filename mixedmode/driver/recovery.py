"""Where a start goes on: it verifies what is there, and goes back to an older checkpoint if the newest is damaged.

    find    read only: the checkpoints from the newest one down to one that is whole; nothing whole is an error
    (the caller checks that this job can read the state of the one that was found)
    leave   go back to it, and mend what Spark's log lacks

The one idea: nothing is changed before it is known that there is a whole checkpoint, and that it is this job's.

Invariants (tests/faults/test_damage.py, tests/checkpoint/test_go_back.py):
  I1  after any damage from which there is a way back, the output ends as that of an undisturbed run
  I2  where there is none, no file is changed
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
    """The newest whole checkpoint (None: there is none at all), and those above it that are damaged, newest first.

    `left` are the manifests of the latter that can be read, oldest first.
    """

    whole: Manifest | None
    damaged: tuple[CheckedCheckpoint, ...] = ()
    left: tuple[Manifest, ...] = ()


def find_checkpoint(log: CheckpointLog, sinks: Sinks, *, reads: bool) -> FoundCheckpoint:
    """The newest checkpoint from which a start can go on. Changes nothing.

    reads: whether checksums are compared. Raises CorruptStateError if there are checkpoints and none is whole.
    """
    known = _known_epochs(log, sinks)  # before Spark's log is listed: it is written before the manifests are
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
    """Return what Spark has planned beyond the checkpoint that was found. Changes nothing.

    present: raises CorruptStateError if one of the files, all of which will be read again, is gone.
    """
    if found.whole is not None and found.whole.is_final:
        return PlannedInput((), (), ())
    planned = planned_input(log, spark_listing(log), found.whole, line_sources, left=found.left)
    present([file.url for file in planned.files])
    return planned


def drop_damaged_plan(log: CheckpointLog, planned: PlannedInput, observer: Observer) -> None:
    """Let Spark plan anew what it has planned and what is damaged of it."""
    _tell_repaired(log, drop_planned(log, planned), observer)


def leave_damaged(
    log: CheckpointLog, sinks: Sinks, found: FoundCheckpoint, generation: Generation, observer: Observer
) -> list[Manifest]:
    """Make the whole checkpoint that was found the newest one; the manifests there are then, oldest to newest.

    Raises CorruptStateError, and has changed nothing, if an output cannot become what it was after that checkpoint.
    """
    whole = found.whole
    assert whole is not None, "there is a checkpoint"
    obstacle = sinks.obstacle(whole)
    if obstacle is not None:
        raise CorruptStateError(obstacle)
    if found.damaged:
        reasons = tuple(f"checkpoint {one.epoch}: {damage}" for one in found.damaged for damage in one.damages)
        back = GoingBack(generation, whole.epoch, reasons)
        files = go_back(log, whole, back, take_back=sinks.take_back)
        observer.on_went_back(WentBack(whole.epoch, found.damaged, files, sinks.lasting))
    goings_back = log.goings_back()
    older, _ = readable_manifests(log, [epoch for epoch in log.epochs() if epoch < whole.epoch])
    counted = [one for one in older if not is_abandoned(one.epoch, one.generation, goings_back)]
    retained = [*counted, whole]
    repaired = repair_spark_log(log, retained)
    _tell_repaired(log, repaired, observer)
    return retained


def _tell_repaired(log: CheckpointLog, repaired: Sequence[str], observer: Observer) -> None:
    if repaired:
        observer.on_spark_log_repaired(SparkLogRepaired(tuple(f"{log.store.url}/{path}" for path in repaired)))


def _known_epochs(log: CheckpointLog, sinks: Sinks) -> tuple[Epoch, ...]:
    """All epochs that were committed and not dropped, newest first, also those whose manifest is gone.

    What follows a commit is looked at before the manifests: an older start that is still running may be committing.
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
