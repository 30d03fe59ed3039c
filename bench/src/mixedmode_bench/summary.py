"""The summary of a workload: a line per contestant, the fastest first, and the targets.

The table on the terminal, the charts and the page are made of these, so they cannot disagree. Every
value is the median over the warm rounds, or over the cold one if there is no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from mixedmode_bench.results import Document, Entry, Measured, Run
from mixedmode_bench.rounds import warm

#: of those that a ratio is shown to, the first that took part
OURS = ("mixed", "batch", "streaming")
ROLES = ("JVM", "driver", "Python worker")  # of processes, in the order in which they are shown
OTHER = "other"  # all other roles, added up


@dataclass(frozen=True, slots=True)
class Spread:
    """A value of each round: the least, the median, the most."""

    low: float
    mid: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """There has to be one at least."""
        ordered = sorted(values)
        return cls(ordered[0], median(ordered), ordered[-1])


@dataclass(frozen=True, slots=True)
class Line:
    """One contestant on one workload.

    per_event_s: seconds per event. times: its time per event in multiples of ours; None for ours itself, and where the
    rounds of the two do not match. peak_bytes: by role, the largest of the rounds. parts: seconds by name.
    """

    entry: Entry
    seconds: Spread
    per_event_s: Spread
    cold_s: float | None
    times: Spread | None
    peak_bytes: Mapping[str, int]
    written_bytes: float | None
    parts: Mapping[str, float]

    @property
    def events_per_s(self) -> float:
        """By the median."""
        return 1 / self.per_event_s.mid


def memory_by_role(line: Line) -> dict[str, int]:
    """Peaks by those of ROLES that it has, and OTHER."""
    found = {role: line.peak_bytes[role] for role in ROLES if role in line.peak_bytes}
    other = sum(peak for role, peak in line.peak_bytes.items() if role not in ROLES)
    return found | ({OTHER: other} if other else {})


def roles_of(found: Iterable[Line]) -> list[str]:
    """The roles that any of them has, in the order in which they are shown."""
    there = {role for line in found for role in memory_by_role(line)}
    return [role for role in (*ROLES, OTHER) if role in there]


@dataclass(frozen=True, slots=True)
class Goal:
    """A target, and what was measured. unit: "x", "s" or "events/s"."""

    workload: str
    what: str
    value: Spread
    unit: str
    at_least: float | None
    at_most: float | None
    is_met: bool


def lines(measured: Measured) -> list[Line]:
    """A line for each contestant that ran, by time per event."""
    return sorted(
        (_line(entry, measured) for entry in measured.entries if entry.runs), key=lambda line: line.per_event_s.mid
    )


def by_workload(document: Document) -> list[tuple[Measured, ...]]:
    """Return the measurements of each workload, in the order of the document: at one size, or at several."""
    found: dict[str, list[Measured]] = {}
    for measured in document.measured:
        found.setdefault(measured.workload, []).append(measured)
    return [tuple(of_one) for of_one in found.values()]


def contestants_in(all_measured: Iterable[Measured]) -> list[str]:
    """The names of all that took part, each once."""
    return list(dict.fromkeys(entry.contestant for measured in all_measured for entry in measured.entries))


def ours(measured: Measured) -> str | None:
    """The contestant that the others are compared with."""
    return next((name for name in OURS if any(e.contestant == name and e.runs for e in measured.entries)), None)


def notes(measured: Measured) -> list[str]:
    """Return a note on each contestant that ran over fewer events or did not run."""
    fewer = [entry for entry in measured.entries if entry.runs and entry.events < measured.events]
    return [
        *(f"{entry.contestant} ran over {entry.events:,} events, since it takes long" for entry in fewer),
        *(f"{name} is left out: {why}" for name, why in measured.left_out.items()),
    ]


def goals(measured: Measured) -> list[Goal]:
    """Return the figures that have a target; none if the size is not the one that targets are stated for."""
    if not measured.is_full:
        return []
    found = []
    for ratio in measured.ratios:
        if ratio.is_met is not None:
            of = f", {ratio.of}" if ratio.of else ""
            what = f"{ratio.slower} / {ratio.faster}{of}"
            value = Spread.of(ratio.by_round)
            found.append(Goal(measured.workload, what, value, "x", ratio.at_least, ratio.at_most, ratio.is_met))
    for figure in measured.figures:
        if figure.is_met is not None:
            what = f"{figure.contestant}, {figure.name}"
            value = Spread.of(figure.by_round)
            found.append(
                Goal(measured.workload, what, value, figure.unit, figure.at_least, figure.at_most, figure.is_met)
            )
    return found


def all_goals(document: Document) -> list[Goal]:
    """Of all workloads."""
    return [goal for measured in document.measured for goal in goals(measured)]


def rounds_text(document: Document) -> str:
    """Say how many rounds the medians are of; workloads may have fewer than were asked for, as `scaling` has."""
    counts = sorted({len(warm(entry)) for measured in document.measured for entry in measured.entries})
    if counts in ([], [0]):
        return "cold runs only"
    if counts == [1]:
        return "one warm round"
    return f"medians of {' to '.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))} warm rounds"


def counted(entry: Entry) -> tuple[Run, ...]:
    """The warm runs; all there are, if none is."""
    return warm(entry) or entry.runs


def part_names(found: Iterable[Line]) -> list[str]:
    """The names of all parts, in the order of those who have the most of them."""
    ordered = sorted(found, key=lambda line: -len(line.parts))
    return list(dict.fromkeys(name for line in ordered for name in line.parts))


def typical(entry: Entry) -> Run:
    """The run nearest to the median, to be shown for all of them."""
    runs = counted(entry)
    mid = median(run.outcome.seconds for run in runs)
    return min(runs, key=lambda run: abs(run.outcome.seconds - mid))


def medians(values: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of each name, over those that have it; the names in the order in which they come."""
    by_name: dict[str, list[float]] = {}
    for each in values:
        for name, value in each.items():
            by_name.setdefault(name, []).append(value)
    return {name: median(found) for name, found in by_name.items()}


def _line(entry: Entry, measured: Measured) -> Line:
    runs = counted(entry)
    seconds = Spread.of(run.outcome.seconds for run in runs)
    peaks: dict[str, int] = {}
    for run in runs:
        for role, peak in run.peak_bytes.items():
            peaks[role] = max(peak, peaks.get(role, 0))
    written = [run.written_bytes for run in runs if run.written_bytes is not None]
    return Line(
        entry=entry,
        seconds=seconds,
        per_event_s=Spread(*(value / entry.events for value in (seconds.low, seconds.mid, seconds.high))),
        cold_s=next((run.outcome.seconds for run in entry.runs if run.round == 0), None),
        times=_times(entry.contestant, measured),
        peak_bytes=peaks,
        written_bytes=median(written) if written else None,
        parts=medians(run.outcome.parts for run in runs),
    )


def _times(name: str, measured: Measured) -> Spread | None:
    """Its time per event in multiples of ours, off the ratios, whichever way round they are stated."""
    base = ours(measured)
    for ratio in measured.ratios:
        if not ratio.of and ratio.by_round and (ratio.slower, ratio.faster) == (name, base):
            return Spread.of(ratio.by_round)
        if not ratio.of and ratio.by_round and (ratio.slower, ratio.faster) == (base, name):
            return Spread.of(1 / value for value in ratio.by_round)
    return None
