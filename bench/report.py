"""The figures of a run with their targets, as a table at its end and as JSON.

A figure keeps all values that it was made of, so that the table can show how far they spread. A missed
target is a row that says so, never a failure: a benchmark that fails is one that gave a wrong answer.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Literal, Self

from rich.console import Console
from rich.table import Table

from bench.scale import FULL, PARALLELISM, Scale
from mixedmode_bench.machine import this_machine
from mixedmode_bench.results import is_met

RESULTS = Path(__file__).parent / "results" / "latest.json"
PAGE_COLUMNS = 130

Unit = Literal["s", "ms", "x", "/s", "MiB", "B", ""]
_FORMATS: dict[Unit, str] = {
    "s": "{:,.2f} s",
    "ms": "{:,.1f} ms",
    "x": "{:,.2f}x",
    "/s": "{:,.0f}/s",
    "MiB": "{:,.0f} MiB",
    "B": "{:,.1f} B",
    "": "{:,.0f}",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One row. `values` are those of the rounds (or epochs); `value` stands for them. At most one target is set."""

    section: str
    name: str
    unit: Unit
    value: float
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @classmethod
    def median(cls, section: str, name: str, unit: Unit, values: Sequence[float], **target: float) -> Self:
        """The median of what was measured."""
        return cls(section, name, unit, statistics.median(values), tuple(values), **target)

    @classmethod
    def ratio(cls, section: str, name: str, above: Sequence[float], below: Sequence[float], **target: float) -> Self:
        """The ratio of two medians; its values are the ratios of the rounds, in each of which both were measured."""
        value = statistics.median(above) / statistics.median(below)
        values = tuple(a / b for a, b in zip(above, below, strict=True))
        return cls(section, name, "x", value, values, **target)

    @property
    def is_met(self) -> bool | None:
        """None without a target."""
        return is_met(self.value, self.at_least, self.at_most)


@dataclass
class Report:
    """The figures of one run, in the order in which they were added."""

    scale: Scale
    figures: list[Figure] = field(default_factory=list)

    def add(self, *figures: Figure) -> None:
        """Add rows."""
        self.figures += figures

    def as_text(self) -> str:
        """The table, for a terminal."""
        page = StringIO()
        console = Console(file=page, width=PAGE_COLUMNS, color_system=None)
        console.print(self._table())
        missed = [figure for figure in self.figures if figure.is_met is False]
        if not self.scale.is_full:
            console.print(
                f"The targets are for {FULL.events:,} events and {FULL.keys:,} keys; this run was another size."
            )
        elif missed:
            console.print(f"Targets missed: {len(missed)}.")
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines())

    def write_json(self, path: Path) -> None:
        """All values of all figures, and what they were measured on."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_document(), indent=2) + "\n", encoding="utf-8")

    def _table(self) -> Table:
        scale = self.scale
        title = f"{scale.events:,} events, {scale.keys:,} keys, {scale.rounds} rounds, {PARALLELISM} cores"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        table.add_column("", min_width=60)
        for heading in ("measured", "min .. max", "target", "met"):
            table.add_column(heading, justify="right", no_wrap=True)
        section = ""
        for figure in self.figures:
            if figure.section != section:
                section = figure.section
                table.add_section()
                table.add_row("", "", "", "", "")
                table.add_row(section, "", "", "", "", style="bold")
            table.add_row(*_cells(figure, is_full=scale.is_full))
        return table

    def _as_document(self) -> dict[str, Any]:
        return {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "scale": asdict(self.scale),
            "is_full": self.scale.is_full,
            "machine": asdict(this_machine(PARALLELISM)),
            "figures": [{**asdict(figure), "is_met": figure.is_met} for figure in self.figures],
        }


def _cells(figure: Figure, *, is_full: bool) -> tuple[str, ...]:
    low, high = min(figure.values), max(figure.values)
    spread = f"{_text(low, figure.unit)} .. {_text(high, figure.unit)}" if len(figure.values) > 1 else ""
    met = {None: "", True: "yes", False: "NO"}[figure.is_met if is_full else None]
    return f"  {figure.name}", _text(figure.value, figure.unit), spread, _target(figure), met


def _target(figure: Figure) -> str:
    if figure.at_least is not None:
        return f"at least {_text(figure.at_least, figure.unit)}"
    if figure.at_most is not None:
        return f"at most {_text(figure.at_most, figure.unit)}"
    return ""


def _text(value: float, unit: Unit) -> str:
    return _FORMATS[unit].format(value)
