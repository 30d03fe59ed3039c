"""Decide whether a job may go on from a savepoint, perhaps with a changed program: facts in, a small value out.

A step's state depends on all of its input since the job began. So a step with state may be added only where all of that
input can be produced again: downstream of a kept step whose state holds all rows that it has emitted. This step emits
its whole stored table once (JobPlan.with_full_snapshot), so all of its readers have to be new. A step is kept if its
fingerprint is the same, and if all steps that it reads are kept. The fingerprint names these steps (`from`). The keys
that are stored for an output with a `key` are those of its rows, so a new output begins without them, as an added step.

    stored job      wanted job            decision
    a -> b          a -> b -> c           restorable: c is added at the end, and b emits its whole table for it
    a -> b          a                     restorable if dropped state is allowed: b is dropped
    a -> b          a -> x -> b           refused: b's state came from other input than x would emit
    a -> b          a -> b and a -> c     refused: a would have to emit its table to c alone
    a -> b, a -> c  a -> b                restorable if dropped state is allowed: c is dropped

Invariants (tests/checkpoint/test_decide_restore.py):
  I1  no step reads state that another step wrote, or state with another number of key groups
  I2  no state is left out without permission, other than the keys of an output that the job does not continue
  I3  no step starts in the middle of its input
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mixedmode.changes import changes
from mixedmode.checkpoint.decide import Refused
from mixedmode.checkpoint.types import OUTPUT_ENTRY, SOURCES_ENTRY, JobIdentity

__all__ = ["Program", "Restorable", "RestoreDecision", "decide_restore"]

_MAIN = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A job that is to go on from a savepoint.

    stateless: the steps of the job and of the savepoint that keep no state. can_emit_full_snapshot: the job's steps
    whose state holds all rows that they have emitted. new_outputs: those of the job's outputs of whole steps that are
    new and empty; the main output is "". sources, has_clock: those that the job's query reads, in Spark's order, and
    whether it reads the clock. readers: {step or output that reads sources: these sources}. begins_anew: {step that
    makes the upserts of an output by its key: this output} of the new outputs; its state is of the output before.
    """

    identity: JobIdentity
    stateless: Collection[str]
    can_emit_full_snapshot: Collection[str]
    new_outputs: Collection[str]
    sources: Sequence[str] = ()
    has_clock: bool = False
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    begins_anew: Mapping[str, str] = field(default_factory=dict)

    def named(self, step: str) -> str:
        """Return a step as a message names it."""
        return f"output {self.begins_anew[step]!r}" if step in self.begins_anew else f"step {step!r}"


@dataclass(frozen=True, slots=True)
class Restorable:
    """The job may go on. `dropped` are the steps whose state is left out.

    `changed_outputs`: the outputs of whole steps whose rows have another meaning than before, or which did not exist.
    """

    kept: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed_outputs: tuple[str, ...]


RestoreDecision = Restorable | Refused

_Fingerprints = Mapping[str, Mapping[str, object]]


def decide_restore(wanted: Program, stored: JobIdentity, *, allow_dropped: bool) -> RestoreDecision:
    """Decide whether a job may go on from a savepoint.  stored: the identity of the job that took the savepoint.

    The job's name and its parallelism may differ from the stored ones. Callers ask before they write anything.
    """
    before, now = stored.steps, wanted.identity.steps
    kept = _kept({step: one for step, one in before.items() if step not in wanted.begins_anew}, now)
    dropped = [step for step in before if step not in kept and step not in wanted.begins_anew]
    added = [step for step in now if step not in kept and step not in wanted.begins_anew]
    lost = [step for step in dropped if step not in wanted.stateless]
    changed = _changed_outputs(wanted.identity, stored, kept, is_other=bool(added or dropped))
    reasons = (
        list(_changed(wanted, stored))
        or list(_displaced(wanted, kept, before, now))
        or list(_begins_in_the_middle(wanted, kept, changed, now))
        or list(_not_asked_for(wanted, [*added, *dropped], lost, changed, allow_dropped=allow_dropped))
    )
    if reasons:
        return Refused(f"the job cannot go on from the savepoint: {'; '.join(reasons)}. {_NOTHING_WRITTEN}")
    return Restorable(tuple(kept), tuple(added), tuple(lost), tuple(changed))


def _from(fingerprint: Mapping[str, object]) -> Sequence[str]:
    """Return the steps that a step or an output reads."""
    found = fingerprint.get("from", ())
    assert isinstance(found, list | tuple), found
    return found


def _kept(before: _Fingerprints, now: _Fingerprints) -> list[str]:
    """Return the steps that are the same and read kept steps. A step reads steps before it only."""
    kept: list[str] = []
    for step, fingerprint in before.items():
        if now.get(step) == fingerprint and all(one in kept for one in _from(fingerprint)):
            kept.append(step)
    return kept


def _changed_outputs(wanted: JobIdentity, stored: JobIdentity, kept: Sequence[str], *, is_other: bool) -> list[str]:
    """Return the outputs that are new, read something else, or read a step that is not kept.

    is_other: there are other steps. The main output reads the last step, so it has other rows then.
    """
    named = {entry: one for entry, one in wanted.operators.items() if entry.startswith(OUTPUT_ENTRY)}
    if not named:
        return [_MAIN] if is_other or any(entry.startswith(OUTPUT_ENTRY) for entry in stored.operators) else []
    return [
        entry.removeprefix(OUTPUT_ENTRY)
        for entry, fingerprint in named.items()
        if stored.operators.get(entry) != fingerprint or any(step not in kept for step in _from(fingerprint))
    ]


def _changed(wanted: Program, stored: JobIdentity) -> Iterator[str]:
    now = wanted.identity
    if now.max_parallelism != stored.max_parallelism:
        yield (
            f"pipeline.max-parallelism was {stored.max_parallelism} and is {now.max_parallelism} (state is stored by "
            "key group, and this is their number; parallelism may change)"
        )
    yield from _other_readers(wanted, stored)
    steps_now = now.steps
    for step, fingerprint in stored.steps.items():
        other = steps_now.get(step, fingerprint)
        if other == fingerprint or step in wanted.stateless:
            continue
        if _without_from(other) == _without_from(fingerprint):
            yield (
                f"step {step!r} read {_inputs(fingerprint)} and now reads {_inputs(other)}, so its state came from "
                "other input"
            )
        else:
            yield f"step {step!r} was changed ({changes(fingerprint, other)})"


def _other_readers(wanted: Program, stored: JobIdentity) -> Iterator[str]:
    """Yield why the readers of sources are others. Readers may be removed, as the offsets of a source are those of all.

    A step with state that is added needs no reason here: it begins in the middle.
    """
    before, now = stored.operators.get(SOURCES_ENTRY), wanted.identity.operators.get(SOURCES_ENTRY)
    if before == now:
        return
    had = {} if before is None else before.get("read-by", {})
    assert isinstance(had, Mapping), before
    if before is None and len(wanted.sources) == 1:  # it had one source, with one reader
        had = {entry: sources for entry, sources in wanted.readers.items() if entry in stored.operators}
        same, had_clock = len(had) == 1, False
    else:
        same = bool(before is not None and had and before["sources"] == list(wanted.sources))
        had_clock = before is not None and bool(before.get("clock"))
    if not same or had_clock != wanted.has_clock:
        yield f"the sources were changed ({changes(before, now)}), and Spark knows them by their order"
        return
    for entry, sources in wanted.readers.items():
        is_output = entry.startswith(OUTPUT_ENTRY)
        named = f"{'output' if is_output else 'step'} {entry.removeprefix(OUTPUT_ENTRY)!r}"
        if entry not in had and (is_output or entry in wanted.stateless):
            yield f"{named} reads a source and was added, {_MISSED}"
        elif entry in had and list(had[entry]) != list(sources):
            then, others = (", ".join(map(repr, names)) for names in (had[entry], sources))
            yield f"{named} read {then} and now reads {others}, so its rows came from other input"


def _without_from(fingerprint: Mapping[str, object]) -> Mapping[str, object]:
    return {key: value for key, value in fingerprint.items() if key != "from"}


def _inputs(fingerprint: Mapping[str, object]) -> str:
    return ", ".join(map(repr, _from(fingerprint))) or "the sources"


def _displaced(wanted: Program, kept: Sequence[str], before: _Fingerprints, now: _Fingerprints) -> Iterator[str]:
    """Yield the reason for the first step with state that is the same, but reads a step that is not."""
    for step, fingerprint in before.items():
        if step in kept or step in wanted.stateless or step in wanted.begins_anew or now.get(step) != fingerprint:
            continue
        changed = next(one for one in _from(fingerprint) if one not in kept)
        yield f"step {changed!r} was changed before step {step!r}, whose state came from other input"
        return


def _begins_in_the_middle(
    wanted: Program, kept: Sequence[str], changed: Sequence[str], now: _Fingerprints
) -> Iterator[str]:
    outputs = {
        entry.removeprefix(OUTPUT_ENTRY): fingerprint
        for entry, fingerprint in wanted.identity.operators.items()
        if entry.startswith(OUTPUT_ENTRY)
    }
    had = {one for step in kept for one in _from(now[step])}
    had |= {one for name, fingerprint in outputs.items() if name not in changed for one in _from(fingerprint)}
    for step in now:
        if step in kept or step in wanted.stateless:
            continue
        roots = _roots(step, now, wanted.stateless, kept)
        if not roots:
            yield f"{wanted.named(step)} was added, {_MISSED}"
            return
        silent = next((one for one in roots if one not in wanted.can_emit_full_snapshot), None)
        if silent is not None:
            yield (
                f"{wanted.named(step)} was added behind step {silent!r}, which cannot emit again what it has emitted "
                "(windows that have fired, joins and functions do not keep their rows)"
            )
            return
        shared = next((one for one in roots if one in had), None)
        if shared is not None:
            yield _beside_others(wanted.named(step), shared)
            return
    for name in changed:
        shared = next((one for one in _from(outputs.get(name, {})) if one in had), None)
        if shared in wanted.can_emit_full_snapshot:
            yield _beside_others(f"output {name!r}", str(shared))
            return


def _roots(step: str, now: _Fingerprints, stateless: Collection[str], kept: Sequence[str]) -> list[str]:
    """Return the kept steps that have to emit their tables for a new step; [] if it also misses rows of a source."""
    found: list[str] = []
    for one in _from(now[step]):
        if one in kept:
            found.append(one)
        elif one in stateless:
            below = _roots(one, now, stateless, kept)
            if not below:
                return []
            found += below
        # a new step with state has a reason of its own, if any; it emits all of its rows to this one
        else:
            found += _roots(one, now, stateless, kept)
    reads_sources = not _from(now[step]) or "sources" in now[step]
    return [] if reads_sources else list(dict.fromkeys(found))


def _beside_others(new: str, step: str) -> str:
    return (
        f"{new} was added behind step {step!r}, whose rows others read already, so that it cannot emit its whole table "
        "to the new one alone"
    )


def _not_asked_for(
    wanted: Program, others: list[str], lost: list[str], changed: Sequence[str], *, allow_dropped: bool
) -> Iterator[str]:
    if lost and not allow_dropped:
        yield (
            f"it has state of steps that the job does not have: {_named(lost)} (restore with --allow-dropped-state to "
            "leave that out)"
        )
    for name in changed:
        if name in wanted.new_outputs:
            continue
        if name == _MAIN:
            yield (
                f"steps were added, removed or changed ({_named(others)}), so the main output is another table "
                "now, and there is the old one in its folder (set a new sink.path)"
            )
        else:
            yield (
                f"output {name!r} reads other steps than before, or steps that were changed, so it is another table "
                f"now, and there is the old one in its place (set a new outputs.{name}.path)"
            )


def _named(steps: list[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(steps)))


_MISSED = (
    "and nothing in the savepoint holds the rows that it has missed (put it into a job of its own, which reads the "
    "sources from their beginning)"
)
_NOTHING_WRITTEN = "Nothing was written. Correct the job file, or start the job without the savepoint."
