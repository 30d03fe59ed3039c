"""Decide whether a job may go on from a savepoint, perhaps with a changed program: facts in, a small value out.

A step's state depends on all of its input since the job began. So a step may be added only where all of
that input can be produced again. This is possible only downstream of the savepoint's steps: the last step that is kept
emits its whole stored table once (JobPlan.with_full_snapshot). Hence the kept steps must be the first steps of the old
program and of the new one, in the same order.

    stored job      wanted job      decision
    a, b            a, b, c         restorable: c is added at the end, and b emits its whole table for it
    a, b            a               restorable if dropped state is allowed: b is dropped
    a, b            a, x, b         refused: b's state came from other input than x would emit

Invariants (tests/checkpoint/test_decide_restore.py):
  I1  no step reads state that another step wrote, or state with another number of key groups
  I2  no state is left out without permission
  I3  no step starts in the middle of its input
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from mixedmode.changes import changes
from mixedmode.checkpoint.decide import Refused
from mixedmode.checkpoint.types import JobIdentity

__all__ = ["Program", "Restorable", "RestoreDecision", "decide_restore"]

#: the entry of JobIdentity.operators that is not a step (JobPlan.fingerprints)
_SOURCES = "sources"


@dataclass(frozen=True, slots=True)
class Program:
    """A job that is to go on from a savepoint.

    stateless: the steps of the job and of the savepoint that keep no state. can_emit_full_snapshot: the job's steps
    whose state holds all rows that they have emitted. is_output_new: the job's main output is new and empty.
    """

    identity: JobIdentity
    stateless: Collection[str]
    can_emit_full_snapshot: Collection[str]
    is_output_new: bool


@dataclass(frozen=True, slots=True)
class Restorable:
    """The job may go on. Steps are in the order of the chain; `dropped` are the steps whose state is left out.

    `changes_output`: the rows of the main output have another meaning than before.
    """

    kept: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changes_output: bool


RestoreDecision = Restorable | Refused


def decide_restore(wanted: Program, stored: JobIdentity, *, allow_dropped: bool) -> RestoreDecision:
    """Decide whether a job may go on from a savepoint.  stored: the identity of the job that took the savepoint.

    The job's name and its parallelism may differ from the stored ones. Callers ask before they write anything.
    """
    before, now = _steps(stored), _steps(wanted.identity)
    kept = [step for step in before if now.get(step) == before[step]]
    dropped = [step for step in before if step not in kept]
    added = [step for step in now if step not in kept]
    lost = [step for step in dropped if step not in wanted.stateless]
    reasons = (
        list(_changed(wanted, stored))
        or list(_misplaced(kept, list(before), list(now)))
        or list(_begins_in_the_middle(wanted, kept, added))
        or list(_not_asked_for(wanted, added, dropped, lost, allow_dropped=allow_dropped))
    )
    if reasons:
        return Refused(f"the job cannot go on from the savepoint: {'; '.join(reasons)}. {_NOTHING_WRITTEN}")
    return Restorable(tuple(kept), tuple(added), tuple(lost), changes_output=bool(added or dropped))


def _steps(identity: JobIdentity) -> dict[str, Mapping[str, object]]:
    return {step: fingerprint for step, fingerprint in identity.operators.items() if step != _SOURCES}


def _changed(wanted: Program, stored: JobIdentity) -> Iterator[str]:
    now = wanted.identity
    if now.max_parallelism != stored.max_parallelism:
        yield (
            f"pipeline.max-parallelism was {stored.max_parallelism} and is {now.max_parallelism} (state is stored by "
            "key group, and this is their number; parallelism may change)"
        )
    sources, sources_now = stored.operators.get(_SOURCES), now.operators.get(_SOURCES)
    if sources != sources_now:
        yield f"the sources were changed ({changes(sources, sources_now)}), and Spark knows them by their order"
    for step, fingerprint in stored.operators.items():
        is_other = step in now.operators and now.operators[step] != fingerprint
        if step != _SOURCES and is_other and step not in wanted.stateless:
            yield f"step {step!r} was changed ({changes(fingerprint, now.operators[step])})"


def _misplaced(kept: list[str], before: list[str], now: list[str]) -> Iterator[str]:
    """Yield the reason for the first step that was added or removed elsewhere than at the end."""
    for number, step in enumerate(kept):
        for steps, what in ((now, "added"), (before, "removed")):
            if number < len(steps) and steps[number] != step:
                yield f"step {steps[number]!r} was {what} before step {step!r}, whose state came from other input"
                return


def _begins_in_the_middle(wanted: Program, kept: list[str], added: list[str]) -> Iterator[str]:
    new_state = [step for step in added if step not in wanted.stateless]
    if not new_state:
        return
    if not kept:
        yield f"step {new_state[0]!r} was added, and nothing in the savepoint holds the rows that it has missed"
    elif kept[-1] not in wanted.can_emit_full_snapshot:
        yield (
            f"step {new_state[0]!r} was added behind step {kept[-1]!r}, which cannot give again what it has given "
            "(windows that have fired, and functions, do not keep their rows)"
        )


def _not_asked_for(
    wanted: Program, added: list[str], dropped: list[str], lost: list[str], *, allow_dropped: bool
) -> Iterator[str]:
    if lost and not allow_dropped:
        yield (
            f"it has state of steps that the job does not have: {_named(lost)} (restore with --allow-dropped-state to "
            "leave that out)"
        )
    if (added or dropped) and not wanted.is_output_new:
        yield (
            f"steps were added, removed or changed ({_named([*added, *dropped])}), so the main output is another table "
            "now, and there is the old one in its folder (set a new sink.path)"
        )


def _named(steps: list[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(steps)))


_NOTHING_WRITTEN = "Nothing was written. Correct the job file, or start the job without the savepoint."
