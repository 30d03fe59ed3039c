"""The order of the runs, and what the runs of the rounds say about each other. Nothing is opened here.

A ratio is taken within a round, in which both ran soon after each other, so that what the machine does
meanwhile falls on both; its spread over the rounds says how far it can be trusted.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from mixedmode_bench.contestant import EpochSpan, Outcome
from mixedmode_bench.contestants import MODES
from mixedmode_bench.results import Entry, Figure, Measured, Ratio, Run
from mixedmode_bench.targets import FIGURES, MULTIPLES, RATIOS, FigureTarget, MultipleTarget, Part, RatioTarget

_FLOOR = "duckdb"  # keeps no state, so it is what ours is compared with, not the other way round


def turns(names: Sequence[str], number: int) -> list[str]:
    """Their order in a round: each begins once, and follows the same one as before, except where the circle closes."""
    first = number % len(names) if names else 0
    return [*names[first:], *names[:first]]


def warm(entry: Entry) -> tuple[Run, ...]:
    """The runs that count, in the order of their rounds."""
    return tuple(sorted((run for run in entry.runs if run.round > 0), key=lambda run: run.round))


def median_seconds(entry: Entry) -> float | None:
    """Of the warm rounds; None without one."""
    seconds = [run.outcome.seconds for run in warm(entry)]
    return median(seconds) if seconds else None


def live_epochs(outcome: Outcome, part: Part) -> list[EpochSpan]:
    """The live epochs after the first one, which opens the state; of large and small ones those that are meant."""
    live = [span for span in outcome.epochs if not span.is_backlog][1:]
    largest = max((span.events for span in live), default=0)
    if part == "large epochs":
        return [span for span in live if 2 * span.events > largest]
    return [span for span in live if 2 * span.events <= largest] if part == "small epochs" else live


def seconds_per_event(run: Run, events: int, part: Part = "") -> float | None:
    """Of a whole run, or the median of its epochs of a kind; None if it has none."""
    if not part:
        return run.outcome.seconds / events
    return median([s.seconds / s.events for s in live_epochs(run.outcome, part)] or [0.0]) or None


def ratios(workload: str, entries: Iterable[Entry]) -> tuple[Ratio, ...]:
    """Those with a target first, then each peer against the first of ours that ran, by all of its run."""
    by_name = {entry.contestant: entry for entry in entries}
    wanted = [*RATIOS.get(workload, ()), *_usual(by_name)]
    found: dict[tuple[str, str, str], Ratio] = {}
    for target in wanted:
        if target.slower in by_name and target.faster in by_name:
            ratio = _ratio(by_name[target.slower], by_name[target.faster], target)
            if ratio is not None:
                found.setdefault((target.slower, target.faster, target.of), ratio)
    return tuple(found.values())


def figures(workload: str, entries: Iterable[Entry], before: Iterable[Measured]) -> tuple[Figure, ...]:
    """Targets of one contestant alone. `before`: what was measured in the same run of the benchmark."""
    by_name = {entry.contestant: entry for entry in entries}
    found = [_figure(by_name, target) for target in FIGURES.get(workload, ())]
    earlier = {measured.workload: measured for measured in before if measured.is_full}
    found += [_multiple(by_name, earlier, target) for target in MULTIPLES.get(workload, ())]
    return tuple(figure for figure in found if figure is not None)


def _usual(entries: Mapping[str, Entry]) -> list[RatioTarget]:
    ours = next((name for name in MODES if name in entries), None)
    if ours is None:
        return []
    others = [name for name in entries if name != ours]
    return [RatioTarget(ours, name) if name == _FLOOR else RatioTarget(name, ours) for name in others]


def _ratio(slower: Entry, faster: Entry, target: RatioTarget) -> Ratio | None:
    by_round = {run.round: seconds_per_event(run, faster.events, target.of) for run in warm(faster)}
    values = []
    for run in warm(slower):
        above, below = seconds_per_event(run, slower.events, target.of), by_round.get(run.round)
        if above and below:
            values.append(above / below)
    if not values:
        return None
    return Ratio(slower.contestant, faster.contestant, tuple(values), target.at_least, target.at_most, target.of)


def _figure(entries: Mapping[str, Entry], target: FigureTarget) -> Figure | None:
    if target.contestant not in entries:
        return None
    values = []
    for run in warm(entries[target.contestant]):
        spans = live_epochs(run.outcome, target.of)
        if spans:
            per_second = target.unit == "events/s"
            values.append(median(s.events / s.seconds if per_second else s.seconds for s in spans))
    if not values:
        return None
    return Figure(target.name, target.contestant, target.unit, tuple(values), target.at_least, target.at_most)


def _multiple(entries: Mapping[str, Entry], earlier: Mapping[str, Measured], target: MultipleTarget) -> Figure | None:
    """By the median of the other workload, whose rounds are not those of this one."""
    if target.contestant not in entries or target.than not in earlier:
        return None
    other = next((e for e in earlier[target.than].entries if e.contestant == target.contestant), None)
    below = median_seconds(other) if other is not None else None
    if below is None:
        return None
    values = tuple(run.outcome.seconds / below for run in warm(entries[target.contestant]))
    name = f"seconds, times those of {target.than}"
    return Figure(name, target.contestant, "x", values, at_most=target.at_most) if values else None
