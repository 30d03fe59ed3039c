"""Charts of what happens within a run: its epochs one after the other, its stages, and the memory of its processes.

Time and memory are lengths, so every axis here begins at 0, and what is drawn is one run, or the worst
one, never an average that no run ever was.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mixedmode_bench.contestant import EpochSpan
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
from mixedmode_bench.results import Entry, Measured
from mixedmode_bench.rounds import live_epochs
from mixedmode_bench.summary import OTHER, ROLES, Line, lines, memory_by_role, ours, roles_of, typical
from mixedmode_bench.targets import Part
from mixedmode_bench.texts import bytes_text, count_text, rounded, seconds_text

PANELS_MAX = 3  # of workloads in one chart; the table below it has all of them
PARTS: tuple[Part, ...] = ("large epochs", "small epochs")
DRIVER = "driver: "  # stages that are time on the driver, not work in the tasks
SHARE_MIN = 0.002  # of the longest bar; what is shorter is in the table only
GIB = 2**30

Profiled = tuple[Measured, Entry, Mapping[str, float]]


# --- through backlog, flip and live ----------------------------------------------------------------------------------


def fed(measured: Measured) -> list[Entry]:
    """Those that have live epochs."""
    entries = [line.entry for line in lines(measured)]
    return [entry for entry in entries if any(not span.is_backlog for span in typical(entry).outcome.epochs)]


def timeline(measured: Measured) -> Chart:
    """A panel per contestant, with one axis of time for all."""
    entries = fed(measured)
    spans = [(entry, typical(entry).outcome.epochs) for entry in entries]
    rows = tuple(
        (
            f"{entry.contestant}, {'backlog' if span.is_backlog else 'live'} {number}",
            seconds_text(span.start_s),
            seconds_text(span.seconds),
            count_text(span.events),
            count_text(_rate(span)),
        )
        for entry, epochs in spans
        for number, span in enumerate(epochs)
    )
    return Chart(
        f"timeline-{measured.workload}",
        f"Throughput through backlog, flip and live ({measured.workload})",
        "A step is an epoch, or a micro-batch: as wide as it took, as high as its events per second. So its area is "
        "its events: panels over as many have the same area. Between live epochs it waits for the next second. The run "
        "shown is the one nearest to the median.",
        "Events per second over time. " + " ".join(_said_of_life(entry) for entry in entries),
        Numbers(("epoch", "begins at", "takes", "events", "events/s"), rows),
        lambda palette: _draw_timeline(spans, palette),
    )


def _draw_timeline(spans: Sequence[tuple[Entry, Sequence[EpochSpan]]], palette: Palette) -> Figure:
    figure = Figure(figsize=(WIDTH_IN, 1.75 * len(spans) + 0.5), layout="constrained")
    figure.get_layout_engine().set(hspace=0.09)  # type: ignore[union-attr, call-arg]  # it is the one just named
    panels = figure.subplots(len(spans), sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (entry, epochs) in zip(panels, spans, strict=True):
        bare(axes, palette, grid="y")
        for is_backlog, colour in ((True, palette.backlog), (False, palette.live)):
            chosen = [span for span in epochs if span.is_backlog == is_backlog]
            axes.bar(
                [span.start_s for span in chosen],
                [_rate(span) for span in chosen],
                [span.seconds for span in chosen],
                align="edge",
                color=colour,
                edgecolor=palette.paper,
                linewidth=0.6,
            )
        ends = [span.end_s for span in epochs if span.is_backlog]
        if ends:
            axes.axvline(max(ends), color=palette.ink, linewidth=1.2, linestyle=(0, (4, 3)))
            word = "flip" if entry.contestant == "mixed" else "caught up"
            place = (max(ends), 1.0)
            above = axes.get_xaxis_transform()
            axes.annotate(word, place, (4, -2), xycoords=above, textcoords="offset points", va="top", color=palette.ink)
        colour = palette.ours if entry.is_ours else palette.ink
        axes.set_title(_said_of_life(entry), loc="left", fontsize=TEXT_PT, color=colour)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(count_text(value))))
        axes.set_ylabel("events/s")
    panels[-1].set_xlim(left=0)
    panels[-1].set_xlabel("seconds since the start")
    return figure


def _said_of_life(entry: Entry) -> str:
    outcome = typical(entry).outcome
    backlog = [span for span in outcome.epochs if span.is_backlog]
    said = [f"{entry.title}:"]
    if backlog:
        said.append(f"live after {seconds_text(backlog[-1].end_s)};")
    kinds = []
    for part in PARTS:
        took = [span.seconds for span in live_epochs(outcome, part)]
        if took:
            kinds.append(f"{part} {seconds_text(median(took))}")
    return " ".join([*said, ", ".join(kinds)]).strip() + "."


def _rate(span: EpochSpan) -> float:
    return span.events / max(span.seconds, 1e-9)


# --- where the time goes ---------------------------------------------------------------------------------------------


def profiled(measured: Measured) -> Entry | None:
    """The contestant whose stages are shown: the one that others are compared with, else the fastest that tells."""
    tell = [line.entry for line in lines(measured) if typical(line.entry).outcome.profile]
    return next((entry for entry in tell if entry.contestant == ours(measured)), tell[0] if tell else None)


def stages(all_measured: Sequence[Measured]) -> Chart:
    """Seconds by stage: work of the tasks, and time that passed on the driver."""
    profiles: list[Profiled] = []
    for measured in all_measured:
        entry = profiled(measured)
        assert entry is not None, "only such are asked for"
        profiles.append((measured, entry, dict(typical(entry).outcome.profile)))
    rows = tuple(
        (f"{measured.workload}: {stage}", seconds_text(seconds), _share(stage, profile))
        for measured, _, profile in profiles
        for stage, seconds in profile.items()
    )
    said = "; ".join(
        f"{measured.workload}: " + ", ".join(f"{stage} {seconds_text(seconds)}" for stage, seconds in profile.items())
        for measured, _, profile in profiles
    )
    return Chart(
        "stages",
        "Where the time of an epoch goes",
        "Blue: work in the tasks, added up over all of them and over all epochs of the run, in the order in which the "
        "stages begin; on two cores, two seconds of work fit into one. Grey: time that passed on the driver, which "
        "waits while the tasks run. Each has shares of its own.",
        f"Seconds by stage. {said}.",
        Numbers(("stage", "seconds", "share"), rows),
        lambda palette: _draw_stages(profiles[:PANELS_MAX], palette),
    )


def _draw_stages(profiles: Sequence[Profiled], palette: Palette) -> Figure:
    groups = [
        RowGroup(f"{measured.workload}   {entry.title}", tuple(sorted(_long(profile), key=_is_of_driver)))
        for measured, entry, profile in profiles
    ]
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * rows_in(groups) + 0.5), layout="constrained")
    axes = figure.subplots()
    bare(axes, palette)
    for (_, _, profile), group, places in zip(profiles, groups, lay_rows(axes, groups, palette), strict=True):
        colours = [palette.peer if _is_of_driver(stage) else palette.ours for stage in group.rows]
        axes.barh(places, [profile[stage] for stage in group.rows], height=0.68, color=colours)
        for place, stage in zip(places, group.rows, strict=True):
            note(
                axes, f"{seconds_text(profile[stage])}   {_share(stage, profile)}", (profile[stage], place), palette.ink
            )
    axes.set_xlim(0, 1.2 * max(max(profile.values()) for _, _, profile in profiles))
    axes.set_xlabel("seconds")
    return figure


def _is_of_driver(stage: str) -> bool:
    return stage.startswith(DRIVER)


def _long(profile: Mapping[str, float]) -> list[str]:
    """The stages that a bar would be seen of."""
    most = max(profile.values())
    return [stage for stage, seconds in profile.items() if seconds >= SHARE_MIN * most]


def _share(stage: str, profile: Mapping[str, float]) -> str:
    """Of the work of all tasks, or of the time on the driver."""
    whole = sum(seconds for name, seconds in profile.items() if _is_of_driver(name) == _is_of_driver(stage))
    if not whole:
        return ""
    share = profile[stage] / whole
    return f"{share:.0%}" if share >= 0.005 else "<1%"


# --- what it takes ---------------------------------------------------------------------------------------------------


def memory(all_measured: Sequence[Measured]) -> Chart:
    """Peak memory by role of the process, and bytes written."""
    found = [(measured, lines(measured)) for measured in all_measured]
    roles = roles_of(line for _, some in found for line in some)
    rows = tuple(
        (
            f"{measured.workload}: {line.entry.contestant}",
            bytes_text(sum(line.peak_bytes.values())),
            *(bytes_text(size) if (size := memory_by_role(line).get(role)) else "" for role in roles),
            "" if line.written_bytes is None else bytes_text(line.written_bytes),
        )
        for measured, some in found
        for line in some
    )
    said = "; ".join(f"{row[0]} {row[1]}" for row in rows)
    return Chart(
        "memory",
        "Peak memory, and bytes written",
        "The most that each kind of process ever had resident during a run, one upon the other, though they may not "
        "have peaked at once; and what all of them wrote to disks.",
        f"Peak memory: {said}.",
        Numbers(("workload, contestant", "peak", *roles, "written"), rows),
        lambda palette: _draw_memory(found[:PANELS_MAX], roles, palette),
    )


def _draw_memory(found: Sequence[tuple[Measured, list[Line]]], roles: Sequence[str], palette: Palette) -> Figure:
    groups = [RowGroup(measured.workload, tuple(line.entry.contestant for line in some)) for measured, some in found]
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * rows_in(groups) + 0.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    of_role = dict(zip((*ROLES, OTHER), (palette.first, palette.second, palette.third, palette.fourth), strict=True))
    looks = [(role, of_role[role]) for role in roles]
    for axes in (left, right):
        bare(axes, palette)
    for (_, some), places in zip(found, lay_rows(left, groups, palette), strict=True):
        for line, place in zip(some, places, strict=True):
            start = 0.0
            for role, colour in looks:
                size = memory_by_role(line).get(role, 0) / GIB
                left.barh(place, size, left=start, height=0.68, color=colour)
                start += size
            note(left, bytes_text(start * GIB), (start, place), palette.ink)
            written = line.written_bytes
            right.barh(place, (written or 0) / GIB, height=0.68, color=palette.peer)
            note(
                right,
                "not known" if written is None else bytes_text(written),
                ((written or 0) / GIB, place),
                palette.ink,
            )
    right.tick_params(labelleft=False)
    for axes, title in ((left, "peak memory"), (right, "written")):
        axes.set_xlim(0, 1.28 * (axes.dataLim.x1 or 1))
        axes.set_xlabel(f"{title}, GiB")
    handles = [Line2D([], [], color=colour, marker="s", linestyle="", label=role) for role, colour in looks]
    figure.legend(
        handles=handles, loc="outside upper right", ncols=len(handles), frameon=False, labelcolor=palette.quiet
    )
    return figure
