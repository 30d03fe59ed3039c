"""The tables on the terminal: per workload who was how fast, with what memory, and which targets were met.

The fastest stands on top, and each figure has its spread beside it. Where the terminal is too narrow,
memory and disk are a table of their own; where there is no terminal, it is plain text.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mixedmode_bench.results import Document, Measured
from mixedmode_bench.summary import (
    Goal,
    Line,
    all_goals,
    by_workload,
    contestants_in,
    lines,
    memory_by_role,
    notes,
    ours,
    part_names,
    roles_of,
    rounds_text,
)
from mixedmode_bench.texts import (
    bound_text,
    bytes_text,
    count_text,
    event_text,
    goal_text,
    machine_text,
    seconds_text,
    size_text,
    spread_text,
)


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cell: Callable[[Line], str]


def as_text(document: Document) -> RenderableType:
    """All of it, for a console, at whose width it is laid out."""
    return _Report(document)


@dataclass(frozen=True, slots=True)
class _Report:
    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self.document
        yield Text(f"$ {document.command}", style="bold")
        yield Text(f"{machine_text(document.machine)}; {document.started}; {rounds_text(document)}", style="dim")
        for sizes in by_workload(document):
            yield ""
            if len(sizes) > 1:
                yield from _at_sizes(sizes)
                continue
            yield from _workload(sizes[0], lambda table: _fits(table, console, options))
        yield ""
        yield from _goals(all_goals(document))


def _fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    return Measurement.get(console, options.update(max_width=10_000), table).maximum <= options.max_width


def _workload(measured: Measured, fits: Callable[[Table], bool]) -> Iterator[RenderableType]:
    yield Text.assemble((measured.workload, "bold"), f"  {measured.title}")
    yield Text(size_text(measured), style="dim")
    found = lines(measured)
    speed, memory = _speed_columns(ours(measured)), _memory_columns(found)
    whole = _table(found, [*speed, *memory])
    if fits(whole):
        yield whole
    else:
        yield _table(found, speed)
        yield ""
        yield _table(found, memory)
    with_parts = [line for line in found if line.parts]
    if with_parts:
        yield ""
        yield _table(with_parts, [_part_column(name) for name in part_names(with_parts)])
    for note in notes(measured):
        yield Text(note, style="dim")


def _at_sizes(sizes: Iterable[Measured]) -> Iterator[RenderableType]:
    """One workload at several sizes: time per event, a row per size and a column per contestant."""
    ordered = sorted(sizes, key=lambda measured: (measured.events, measured.keys))
    yield Text.assemble((ordered[0].workload, "bold"), "  time per event: ", ordered[0].title)
    names = contestants_in(ordered)
    table = _new_table("events", justify="right")
    for heading in ("keys", *names):
        table.add_column(heading, justify="right", no_wrap=True)
    for measured in ordered:
        per_event = {line.entry.contestant: event_text(line.per_event_s.mid) for line in lines(measured)}
        cells = (per_event.get(name, "") for name in names)
        table.add_row(count_text(measured.events), count_text(measured.keys), *cells)
    yield table


def _goals(goals: list[Goal]) -> Iterator[RenderableType]:
    if not goals:
        yield Text("No targets: they are stated for some workloads, at their default size.")
        return
    table = _new_table("targets", no_wrap=False)
    for heading in ("", "measured", "min .. max", "met"):
        table.add_column(heading, justify="right", no_wrap=True)
    workload = ""
    for goal in goals:
        if goal.workload != workload:
            workload = goal.workload
            table.add_row(workload, style="bold")
        met = Text("yes", style="green") if goal.is_met else Text("NO", style="bold red")
        measured, spread = goal_text(goal.value.mid, goal.unit), spread_text(goal.value, goal.unit)
        table.add_row(f"  {goal.what}", bound_text(goal), measured, spread, met)
    yield table
    missed = sum(not goal.is_met for goal in goals)
    verdict = f"{missed} of {len(goals)} targets missed." if missed else f"All {len(goals)} targets met."
    yield Text(verdict, style="bold red" if missed else "bold green")


def _table(found: Iterable[Line], columns: list[_Column]) -> Table:
    table = _new_table("")
    for column in columns:
        table.add_column(column.heading.replace(" ", "\n"), justify="right", no_wrap=True, vertical="bottom")
    for line in found:
        style = "bold" if line.entry.is_ours else None
        table.add_row(line.entry.contestant, *(column.cell(line) for column in columns), style=style)
    return table


def _new_table(heading: str, *, no_wrap: bool = True, justify: Literal["left", "right"] = "left") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(heading, no_wrap=no_wrap, justify=justify, vertical="bottom")
    return table


def _speed_columns(base: str | None) -> list[_Column]:
    columns = [
        _Column("median", lambda line: seconds_text(line.seconds.mid)),
        _Column("cold", lambda line: "" if line.cold_s is None else seconds_text(line.cold_s)),
        _Column("events/s", lambda line: count_text(line.events_per_s)),
    ]
    if base is None:
        return columns
    return [
        *columns,
        _Column(f"x {base}", lambda line: goal_text(line.times.mid, "x") if line.times else ""),
        _Column("min..max", lambda line: spread_text(line.times, "x") if line.times else ""),
    ]


def _memory_columns(found: Iterable[Line]) -> list[_Column]:
    """Roles that none of them has are left out."""
    return [
        _Column("peak", lambda line: bytes_text(sum(line.peak_bytes.values()))),
        *(_role_column(role) for role in roles_of(found)),
        _Column("written", lambda line: _bytes_or_none(line.written_bytes)),
    ]


def _role_column(role: str) -> _Column:
    return _Column(role, lambda line: _bytes_or_none(memory_by_role(line).get(role)))


def _part_column(name: str) -> _Column:
    return _Column(name, lambda line: seconds_text(line.parts[name]) if name in line.parts else "")


def _bytes_or_none(size: float | None) -> str:
    return bytes_text(size) if size else ""
