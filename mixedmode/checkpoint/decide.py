"""Decisions about starts, epochs and commits: facts in, small values out. This module does no I/O.

The caller collects the facts, asks for a decision, and acts on it. So every case is a value that a test can construct.
Callers close each union with `assert_never`.

Invariants (tests/checkpoint/test_decide.py):
  I1  a committed epoch is never run again: RunEpoch is only for the epoch after the latest committed one
  I2  only the newest generation gets a CommitPermit
  I3  a job whose operators cannot read the stored state never starts
  I4  a job whose input has ended never starts
  I5  a start goes on from the newest whole checkpoint, and never from a damaged one
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mixedmode.changes import changes
from mixedmode.checkpoint.types import (
    OUTPUT_ENTRY,
    SOURCES_ENTRY,
    CheckedCheckpoint,
    Epoch,
    ExecutionStrategy,
    Generation,
    JobIdentity,
)

__all__ = [
    "CommitDecision",
    "CommitPermit",
    "Damaged",
    "EpochDecision",
    "EpochPolicy",
    "Fenced",
    "ForeignOutput",
    "Fresh",
    "Gap",
    "GoBack",
    "Mode",
    "NothingWhole",
    "Over",
    "RecoveryDecision",
    "Refused",
    "Republish",
    "Resume",
    "RunEpoch",
    "SkipPublished",
    "SourceFacts",
    "StartDecision",
    "UseNewest",
    "decide_commit",
    "decide_epoch",
    "decide_epoch_policy",
    "decide_lost_epochs",
    "decide_recovery",
    "decide_start",
]

#: the mode of a run. `automatic` is resolved earlier; `mixed` with an interval during backlog becomes 'streaming'
Mode = Literal["batch", "streaming", "mixed"]


@dataclass(frozen=True, slots=True)
class Fresh:
    """Nothing is committed: the first epoch begins without state."""


@dataclass(frozen=True, slots=True)
class Resume:
    """First publish the outputs of the epoch `latest` once more, then go on with the epoch after it."""

    latest: Epoch


@dataclass(frozen=True, slots=True)
class Over:
    """The input has ended with the epoch `latest`: publish its outputs once more, and nothing else."""

    latest: Epoch


@dataclass(frozen=True, slots=True)
class Refused:
    """The stored state belongs to a different job.  `reason` is the text of an InvalidJobError."""

    reason: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """The folder contradicts itself.  `reason` is the text of a CorruptStateError."""

    reason: str


@dataclass(frozen=True, slots=True)
class UseNewest:
    """The newest checkpoint is whole, or there is none."""


@dataclass(frozen=True, slots=True)
class GoBack:
    """Abandon the `damaged` checkpoints (newest first), and go on from the epoch `to`, which is whole."""

    to: Epoch
    damaged: tuple[CheckedCheckpoint, ...]


@dataclass(frozen=True, slots=True)
class NothingWhole:
    """Checkpoints exist, but none of them can be used.  `reason` is the text of a CorruptStateError."""

    reason: str


@dataclass(frozen=True, slots=True)
class ForeignOutput:
    """The output has epochs that this checkpoint folder never began.  `reason` is the text of a CorruptStateError."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Run the epoch on the state that the epoch `previous` committed (None: without earlier state)."""

    epoch: Epoch
    previous: Epoch | None


@dataclass(frozen=True, slots=True)
class Republish:
    """The epoch is the latest committed one: only publish its outputs once more."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class SkipPublished:
    """Do nothing: the epoch is older than the latest committed epoch, so its outputs are already published."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Gap:
    """Spark's log and the manifests disagree.  `reason` is the text of a CorruptStateError."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommitPermit:
    """The right to commit one epoch. Only decide_commit creates it, right before the commit."""

    epoch: Epoch
    generation: Generation


@dataclass(frozen=True, slots=True)
class Fenced:
    """A newer start of the job has taken over.  `reason` is the text of a FencedError."""

    own: Generation
    newest: Generation
    reason: str


@dataclass(frozen=True, slots=True)
class EpochPolicy:
    """The processing of an epoch: whether it is backlog, its execution strategy, and the sources in backlog."""

    is_backlog: bool
    strategy: ExecutionStrategy
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about a source at the start of an epoch.

    `watermark_us` is the source's own watermark after the previous epoch, in microseconds. It is None if the source has
    no watermark or is idle; then its lag is unknown and counts as none. `says_backlog`: the source itself reports that
    the records of the epoch are backlog.
    """

    watermark_us: int | None = None
    says_backlog: bool = False


StartDecision = Fresh | Resume | Over | Refused | Damaged
RecoveryDecision = UseNewest | GoBack | NothingWhole
EpochDecision = RunEpoch | Republish | SkipPublished | Gap
CommitDecision = CommitPermit | Fenced


def decide_start(
    wanted: JobIdentity, stored: JobIdentity | None, *, latest: Epoch | None, is_final: bool = False
) -> StartDecision:
    """Decide whether a job may use a checkpoint folder.

    stored: the content of job.json. latest: the epoch of the newest manifest. is_final: that manifest says that the
    input has ended. A start calls this once, after it has claimed its generation. On Fresh, the caller creates job.json
    unless it exists.
    """
    assert latest is not None or not is_final, "only a manifest can be final"
    if stored is None:
        return Fresh() if latest is None else Damaged(_JOB_LOST.format(latest=latest))
    differences = list(_differences(wanted, stored))
    if differences:
        return Refused(_refusal(differences, latest))
    if latest is None:
        return Fresh()
    return Over(latest) if is_final else Resume(latest)


def decide_lost_epochs(
    latest: Epoch | None, *, done: Epoch | None, begun: Epoch | None, published: Epoch | None
) -> tuple[Epoch, ...] | ForeignOutput:
    """Return the epochs that were committed but whose manifests are gone, newest first.

    They come after the newest manifest that still exists. latest: the epoch of that manifest. done: the newest epoch
    that Spark has recorded as completed. begun: the newest epoch of which this checkpoint folder has any trace.
    published: the newest epoch of which the output has files. None always means "no epoch". An output that is ahead of
    the folder does not belong to it: the output is a copy from another time, or another job writes to it.

    Example: with latest=3, done=5, begun=5 and published=4, the lost epochs are (5, 4).
    """
    after_latest = 0 if latest is None else latest + 1
    if latest is not None and published is not None and published > max(latest, -1 if begun is None else begun):
        return ForeignOutput(_FOREIGN_OUTPUT.format(published=published, latest=latest, begun=begun))
    ours = published if begun is not None and published is not None and published <= begun else None
    newest = max((epoch for epoch in (done, ours) if epoch is not None), default=-1)
    return tuple(Epoch(epoch) for epoch in range(newest, after_latest - 1, -1))


def decide_recovery(checked: Sequence[CheckedCheckpoint]) -> RecoveryDecision:
    """Decide from which checkpoint a start goes on.  checked: newest to oldest, at least to the newest whole one."""
    for number, checkpoint in enumerate(checked):
        if not checkpoint.damages:
            return GoBack(checkpoint.epoch, tuple(checked[:number])) if number else UseNewest()
    return NothingWhole(_nothing_whole(checked)) if checked else UseNewest()


def decide_epoch(
    epoch: Epoch, *, latest: Epoch | None, offsets: str, committed_offsets: str | None = None
) -> EpochDecision:
    """Decide what to do with an epoch that Spark passes to `foreachBatch`.

    latest: the newest manifest's epoch. offsets: Spark's current offset log entry of `epoch`. committed_offsets: the
    entry in the manifest of `epoch`, None if that manifest does not exist. The two entries are compared character by
    character. If Spark lost its log and planned a new range under an old number, publishing the old outputs again would
    lose records.
    """
    expected = Epoch(0) if latest is None else Epoch(latest + 1)
    if epoch == expected:
        return RunEpoch(epoch, latest)
    if epoch > expected:
        return Gap(_EPOCHS_MISSING.format(epoch=epoch, latest=latest))
    if committed_offsets is None:
        return Gap(_MANIFEST_MISSING.format(epoch=epoch, latest=latest))
    if offsets != committed_offsets:
        return Gap(_RANGE_CHANGED.format(epoch=epoch, latest=latest))
    return Republish(epoch) if epoch == latest else SkipPublished(epoch)


def decide_commit(epoch: Epoch, *, own: Generation, newest: Generation) -> CommitDecision:
    """Decide whether this start of the job may commit an epoch.  newest: the highest generation that exists now.

    The answer can be out of date a moment later. That is safe, because a manifest is create-once. If an older start
    commits in between, its epoch counts as a whole, and the newer start finds it (log.AlreadyCommitted).
    """
    assert own <= newest, (own, newest)  # own was claimed, so it exists
    if own == newest:
        return CommitPermit(epoch, own)
    return Fenced(own, newest, _FENCED.format(epoch=epoch, own=own, newest=newest))


def decide_epoch_policy(
    mode: Mode,
    *,
    is_initial_backlog: bool,
    sources: Mapping[str, SourceFacts],
    now_ms: int,
    lag_threshold_ms: int | None,
) -> EpochPolicy:
    """Decide whether an epoch is backlog, and its execution strategy. All behaviour specific to backlog depends on it.

    An epoch is live only if no source is in backlog. is_initial_backlog: no epoch has been committed.
    lag_threshold_ms: None turns off the detection of backlog by lag.

    Example: in mixed mode with now_ms=100_000 and lag_threshold_ms=60_000, a source whose watermark is at 30 s of event
    time lags by 70 s. So the epoch is backlog.
    """
    if mode == "batch" or (mode == "mixed" and is_initial_backlog):
        return EpochPolicy(is_backlog=True, strategy="sorted", sources=frozenset(sources))
    found = frozenset(name for name, facts in sources.items() if _is_in_backlog(facts, now_ms, lag_threshold_ms))
    if found:
        return EpochPolicy(is_backlog=True, strategy="sorted", sources=found)
    return EpochPolicy(is_backlog=False, strategy="streaming")


def _is_in_backlog(facts: SourceFacts, now_ms: int, lag_threshold_ms: int | None) -> bool:
    if facts.says_backlog:
        return True
    if lag_threshold_ms is None or facts.watermark_us is None:
        return False
    return now_ms * 1000 - facts.watermark_us > lag_threshold_ms * 1000


def _differences(wanted: JobIdentity, stored: JobIdentity) -> Iterator[str]:
    if wanted.name != stored.name:
        yield f"the name was {stored.name!r} and is {wanted.name!r}"
    if wanted.max_parallelism != stored.max_parallelism:
        yield (
            f"pipeline.max-parallelism was {stored.max_parallelism} and is {wanted.max_parallelism} (it fixes the key "
            "group of every key for the life of a job)"
        )
    for operator_id in sorted(wanted.operators.keys() | stored.operators.keys()):
        before, now = stored.operators.get(operator_id), wanted.operators.get(operator_id)
        kind = "output" if operator_id.startswith(OUTPUT_ENTRY) else "step"
        entry = f"{kind} {operator_id.removeprefix(OUTPUT_ENTRY)!r}"
        if operator_id == SOURCES_ENTRY and before != now:
            difference = f" ({changes(before, now)})" if before is not None and now is not None else ""
            yield f"the sources, or the steps and outputs that read them, are others{difference}"
            continue
        if before is None:
            yield f"{entry} was added"
        elif now is None:
            yield f"{entry} was removed"
        elif before != now:
            yield f"{entry} was changed ({changes(before, now)})"


def _refusal(differences: list[str], latest: Epoch | None) -> str:
    empty = "" if latest is not None else " Nothing is committed there yet, so the folder may also be deleted."
    return (
        "the job is not the one whose state is in the checkpoint folder, and can neither read that state nor go on "
        f"from it: {'; '.join(differences)}. Put the setting back, or take a savepoint with it and restore the changed "
        "job from that (docs/savepoints.md says what may change), or give the job a new execution.checkpointing.dir "
        f"(it then starts from the beginning of its sources).{empty} latest_epoch={latest}"
    )


def _nothing_whole(checked: Sequence[CheckedCheckpoint]) -> str:
    shown = [f"checkpoint {one.epoch}: {one.damages[0]}{_and_more(len(one.damages) - 1)}" for one in checked[:_SHOWN]]
    return _NOTHING_WHOLE.format(damages="; ".join(shown) + _and_more(len(checked) - _SHOWN))


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count > 0 else ""


#: the number of damaged checkpoints that an error message lists
_SHOWN = 10

_FOLDERS = (
    "Restore the whole checkpoint folder from a copy, or start over with a new execution.checkpointing.dir and output."
)
_AGAIN = "Find out what did it, and start the job again: it goes on from the newest checkpoint that is whole."
_JOB_LOST = (
    "the checkpoint folder has manifests but no job.json, so it cannot be told whose state it holds. Part of the "
    f"folder was deleted or not copied. {_FOLDERS} latest_epoch={{latest}}"
)
_NOTHING_WHOLE = (
    "no checkpoint is whole, so there is none to go on from, and nothing was changed. Restore what is damaged from a "
    "copy (it is found in its place at the next start), or the whole checkpoint folder; or start over with a new "
    "execution.checkpointing.dir and output. {damages}"
)
_FOREIGN_OUTPUT = (
    "the output holds epochs that this checkpoint folder never began, so one of the two is from another time, or "
    "another job writes to the same output; nothing was changed. Restore the checkpoint folder that belongs to the "
    "output; or, to go on from this one, move the newer files of the output away. "
    "newest_epoch_in_output={published}, newest_begun={begun}, latest_committed={latest}"
)
_EPOCHS_MISSING = (
    "Spark's log is ahead of the manifests: epochs that Spark counts as done were never committed here, or their "
    "manifests were deleted while the job ran, so their records would be missing from the state. "
    f"{_AGAIN} epoch={{epoch}}, latest_committed={{latest}}"
)
_MANIFEST_MISSING = (
    "Spark repeats an epoch that is older than the latest committed one and whose manifest is gone, so it cannot be "
    "told whether it is the same epoch. Spark's part of the checkpoint folder (spark/) was changed while the job ran. "
    f"{_AGAIN} epoch={{epoch}}, latest_committed={{latest}}"
)
_RANGE_CHANGED = (
    "Spark repeats a committed epoch with another range of input than the one that was committed, so records would be "
    "lost or counted twice. Spark's part of the checkpoint folder (spark/) was changed while the job ran. "
    f"{_AGAIN} epoch={{epoch}}, latest_committed={{latest}}"
)
_FENCED = (
    "a newer start of this job has taken over its checkpoint folder, so this one stops without committing its epoch. "
    "Nothing is lost: the other one goes on. If both were started by mistake, stop the one that is not wanted. "
    "epoch={epoch}, own_generation={own}, newest_generation={newest}"
)
