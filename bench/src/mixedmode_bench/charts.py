"""The charts of a result, each with a text that says what it shows.

A chart is made for a question, and only if the result can answer it: who is how fast, what happens at the
flip, how cost grows, where the time goes, what memory it takes. Lengths begin at 0; where a range is too wide for that,
values are points on a logarithmic axis, which says so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from mixedmode_bench.drawing import (
    ROW_IN,
    TEXT_PT,
    WIDTH_IN,
    Chart,
    Numbers,
    Palette,
    RowGroup,
    bare,
    lay_rows,
    note,
    rows_in,
)
from mixedmode_bench.results import Document, Measured
from mixedmode_bench.run_charts import fed, memory, profiled, stages, timeline
from mixedmode_bench.summary import Line, by_workload, contestants_in, lines
from mixedmode_bench.texts import count_text, event_text, rounded, seconds_text, times_text


def charts(document: Document) -> list[Chart]:
    """Those that the result has numbers for."""
    groups = by_workload(document)
    single = [sizes[0] for sizes in groups if len(sizes) == 1 and lines(sizes[0])]
    found = [_speed(single)] if single else []
    found += [timeline(measured) for measured in single if fed(measured)]
    found += [_growth(sizes) for sizes in groups if len(sizes) > 1]
    with_profile = [measured for measured in single if profiled(measured)]
    if with_profile:
        found.append(stages(with_profile))
    if any(line.peak_bytes for measured in single for line in lines(measured)):
        found.append(memory(single))
    return found


# --- who is how fast -------------------------------------------------------------------------------------------------


def _speed(all_measured: Sequence[Measured]) -> Chart:
    """A point per contestant, on one logarithmic axis for all workloads."""
    rows = [(measured, lines(measured)) for measured in all_measured]
    numbers = Numbers(
        ("workload, contestant", "time per event", "least", "most", "events/s", "cold run", "x ours"),
        tuple(
            (
                f"{measured.workload}: {line.entry.contestant}",
                *(event_text(value) for value in (line.per_event_s.mid, line.per_event_s.low, line.per_event_s.high)),
                count_text(line.events_per_s),
                "" if line.cold_s is None else seconds_text(line.cold_s),
                times_text(line.times.mid) if line.times else "",
            )
            for measured, found in rows
            for line in found
        ),
    )
    said = (
        f"{measured.workload}: "
        + ", ".join(f"{line.entry.contestant} {event_text(line.per_event_s.mid)}" for line in found)
        for measured, found in rows
    )
    return Chart(
        "time-per-event",
        "Time per event",
        "Each line to the right is ten times slower. A dot is the median of the warm rounds, the bar through it goes "
        "from the fastest to the slowest of them, and a ring is the first, cold run. Beside it: the multiple of ours.",
        "Points on a logarithmic axis, the fastest on top. " + "; ".join(said) + ".",
        numbers,
        lambda palette: _draw_speed(rows, palette),
    )


def _draw_speed(rows: Sequence[tuple[Measured, list[Line]]], palette: Palette) -> Figure:
    groups = [_rows_of(measured, found) for measured, found in rows]
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * rows_in(groups) + 0.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    bare(axes, palette)
    for (_, found), places in zip(rows, lay_rows(axes, groups, palette), strict=True):
        for line, place in zip(found, places, strict=True):
            _draw_point(axes, line, place, palette)
    ends = [end for _, found in rows for line in found for end in _ends(line)]
    axes.set_xlim(min(ends) / 1.6, max(ends) * (max(ends) / min(ends)) ** 0.16)
    axes.xaxis.set_major_locator(LogLocator(10))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(event_text(value))))
    axes.set_xlabel("time per event, logarithmic")
    look: dict[str, Any] = {"color": palette.quiet, "marker": "o"}
    handles = [
        Line2D([], [], markersize=6.5, linewidth=2, label="warm rounds: median, fastest to slowest", **look),
        Line2D([], [], markersize=5, markerfacecolor="none", linestyle="", label="cold", **look),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, labelcolor=palette.quiet)
    return figure


def _rows_of(measured: Measured, found: Sequence[Line]) -> RowGroup:
    heading = f"{measured.workload}   {count_text(measured.events)} events, {count_text(measured.keys)} keys"
    ours = frozenset(line.entry.contestant for line in found if line.entry.is_ours)
    return RowGroup(heading, tuple(line.entry.contestant for line in found), ours)


def _draw_point(axes: Axes, line: Line, place: float, palette: Palette) -> None:
    colour = palette.ours if line.entry.is_ours else palette.peer
    low, mid, high = line.per_event_s.low, line.per_event_s.mid, line.per_event_s.high
    axes.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
    axes.plot([mid], [place], color=colour, marker="o", markersize=6.5)
    cold = _cold_per_event(line)
    axes.plot(cold, [place] * len(cold), color=colour, marker="o", markersize=5, markerfacecolor="none", linestyle="")
    times = f"   {times_text(line.times.mid)}" if line.times else ""
    beside = palette.ours if line.entry.is_ours else palette.ink
    note(axes, f"{event_text(mid)}{times}", (max(_ends(line)), place), beside)


def _ends(line: Line) -> list[float]:
    """All values that a row has to have room for."""
    return [line.per_event_s.low, *_cold_per_event(line), line.per_event_s.high]


def _cold_per_event(line: Line) -> list[float]:
    return [] if line.cold_s is None else [line.cold_s / line.entry.events]


# --- how cost grows --------------------------------------------------------------------------------------------------


def _growth(sizes: Sequence[Measured]) -> Chart:
    """Time per event, once over keys and once over events."""
    events = Counter(measured.events for measured in sizes).most_common(1)[0][0]
    keys = Counter(measured.keys for measured in sizes).most_common(1)[0][0]
    over_keys = sorted((m for m in sizes if m.events == events), key=lambda m: m.keys)
    over_events = sorted((m for m in sizes if m.keys == keys), key=lambda m: m.events)
    ordered = sorted(sizes, key=lambda measured: (measured.events, measured.keys))
    names = contestants_in(ordered)
    cells = [{line.entry.contestant: event_text(line.per_event_s.mid) for line in lines(m)} for m in ordered]
    rows = tuple(
        (f"{count_text(m.events)} events, {count_text(m.keys)} keys", *(row.get(name, "") for name in names))
        for m, row in zip(ordered, cells, strict=True)
    )
    panels = [
        (f"over keys, {count_text(events)} events", "keys", [(m.keys, m) for m in over_keys]),
        (f"over events, {count_text(keys)} keys", "events", [(m.events, m) for m in over_events]),
    ]
    said = "; ".join(
        f"{size}: " + ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
        for size, *values in rows
    )
    return Chart(
        f"growth-{sizes[0].workload}",
        "Cost per event as keys and events grow",
        f"{sizes[0].title}. All axes are logarithmic. A flat line costs the same per event however much there is; a "
        "line that falls has a price to begin with, which more events share.",
        f"Time per event by size. {said}.",
        Numbers(("size", *names), rows),
        lambda palette: _draw_growth([panel for panel in panels if len(panel[2]) > 1], names, palette),
    )


def _draw_growth(
    panels: Sequence[tuple[str, str, Sequence[tuple[int, Measured]]]], names: Sequence[str], palette: Palette
) -> Figure:
    figure = Figure(figsize=(WIDTH_IN, 3.6), layout="constrained")
    looks = dict(zip(names, _looks(names, palette), strict=True))
    for axes, (title, unit, points) in zip(
        figure.subplots(1, max(1, len(panels)), sharey=True, squeeze=False)[0], panels, strict=False
    ):
        axes.set_xscale("log")
        axes.set_yscale("log")
        bare(axes, palette, grid="y")
        for name in names:
            at = [(x, li.per_event_s.mid) for x, m in points for li in lines(m) if li.entry.contestant == name]
            colour, marker = looks[name]
            axes.plot([x for x, _ in at], [y for _, y in at], color=colour, marker=marker, linewidth=2, markersize=6)
            if at:
                note(axes, name, at[-1], palette.ours if name == "mixed" else palette.ink)
        axes.set_title(title, loc="left", fontsize=TEXT_PT, color=palette.ink)
        axes.set_xlabel(f"{unit}, logarithmic")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(count_text(value))))
        axes.set_xlim(right=points[-1][0] * (points[-1][0] / points[0][0]) ** 0.28)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(event_text(value))))
        axes.minorticks_off()
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    figure.axes[0].set_ylabel("time per event, logarithmic")
    return figure


def _looks(names: Iterable[str], palette: Palette) -> list[tuple[str, str]]:
    """Colour and marker of each."""
    others = iter(((palette.second, "s"), (palette.third, "D"), (palette.fourth, "^"), (palette.peer, "v")) * 3)
    return [(palette.ours, "o") if name == "mixed" else next(others) for name in names]
