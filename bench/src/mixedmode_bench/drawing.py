"""Draw a chart: a PNG for light paper, or SVG that takes its colours from the page that contains it.

A chart is drawn with the colours of a palette. In one palette each colour is a mark that stands for a
variable of CSS, so one SVG is right on a light page and on a dark one. Text stays text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH_IN, ROW_IN = 9.0, 0.235
TEXT_PT = 9.5
PNG_DPI = 160
FONT = "DejaVu Sans"  # comes with matplotlib, so that text has the same size everywhere


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by what they stand for. Those of data are told apart by everyone (after Okabe and Ito), or are labelled.

    ink, quiet, grid, paper: text, text beside it, lines, what they stand on. ours, peer: this program and the others.
    backlog, live: the phases, as in the project's other pictures. first to fourth: of a few things in one chart.
    """

    ink: str
    quiet: str
    grid: str
    paper: str
    ours: str
    peer: str
    backlog: str
    live: str
    first: str
    second: str
    third: str
    fourth: str


LIGHT = Palette(
    ink="#1f2933",
    quiet="#52606d",
    grid="#dde3e9",
    paper="#ffffff",
    ours="#0b63a5",
    peer="#7b8794",
    backlog="#c8811a",
    live="#2b78b5",
    first="#0b63a5",
    second="#c8811a",
    third="#2f9e77",
    fourth="#84909c",
)
DARK = Palette(
    ink="#e6eaee",
    quiet="#a9b4be",
    grid="#2f3943",
    paper="#14191f",
    ours="#64b5f0",
    peer="#8f9ba7",
    backlog="#e0a643",
    live="#58a6dd",
    first="#64b5f0",
    second="#e0a643",
    third="#4fc49a",
    fourth="#77838f",
)
#: colours that no one draws with; each is replaced by its variable
_MARKS = Palette(*(f"#0100{number:02x}" for number in range(1, 13)))

_SETTINGS: Mapping[str, object] = {
    "font.family": FONT,
    "font.size": TEXT_PT,
    "svg.fonttype": "none",
    "svg.hashsalt": "mixedmode",  # names within the SVG are the same each time
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The table behind a chart: its headings, and rows of text; the first column names the row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """name: of its file. caption: how to read it. description: what it shows, for those who do not see it."""

    name: str
    title: str
    caption: str
    description: str
    numbers: Numbers
    draw: Callable[[Palette], Figure]

    def write_png(self, folder: Path) -> Path:
        """The chart on white. Returns the file."""
        file = folder / f"{self.name}.png"
        with mpl.rc_context(dict(_SETTINGS)):  # type: ignore[arg-type]  # names are checked when they are set
            figure = self.draw(LIGHT)
            figure.suptitle(self.title, x=0.01, ha="left", size=12, weight="bold", color=LIGHT.ink)
            figure.savefig(
                file,
                dpi=PNG_DPI,
                facecolor=LIGHT.paper,
                metadata={"Title": self.title, "Description": self.description, "Software": None},
                bbox_inches="tight",
                pad_inches=0.15,
            )
        return file

    def as_svg(self) -> str:
        """An `svg` element to stand in a page that has the variables of `variables`."""
        text = StringIO()
        with mpl.rc_context(dict(_SETTINGS)):  # type: ignore[arg-type]  # as above
            figure = self.draw(_MARKS)
            figure.savefig(
                text,
                format="svg",
                transparent=True,
                metadata={"Date": None, "Creator": None},
                bbox_inches="tight",
                pad_inches=0.02,
            )
        return _as_element(text.getvalue(), self)


def variables(palette: Palette) -> str:
    """The colours as variables of CSS."""
    return " ".join(f"--{name}: {colour};" for name, colour in asdict(palette).items())


def bare(axes: Axes, palette: Palette, *, grid: str | None = "x") -> None:
    """Axes that leave the word to the data: no ticks, thin lines along one direction only."""
    axes.set_facecolor("none")
    axes.tick_params(colors=palette.quiet, labelcolor=palette.quiet, which="both")
    for spine in axes.spines.values():
        spine.set_color(palette.grid)
    axes.xaxis.label.set_color(palette.quiet)
    axes.yaxis.label.set_color(palette.quiet)
    if grid == "x":
        axes.xaxis.grid(visible=True, color=palette.grid, linewidth=0.8)
        axes.spines["left"].set_visible(False)
    elif grid == "y":
        axes.yaxis.grid(visible=True, color=palette.grid, linewidth=0.8)
        axes.spines["left"].set_visible(False)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a chart under one heading. `ours`: the rows that are this program's."""

    heading: str
    rows: tuple[str, ...]
    ours: frozenset[str] = frozenset()


def rows_in(groups: Sequence[RowGroup]) -> float:
    """Return the height of the groups in rows, headings and gaps included."""
    return sum(len(group.rows) + 1.6 for group in groups)


def lay_rows(axes: Axes, groups: Sequence[RowGroup], palette: Palette) -> list[list[float]]:
    """Name the rows down the left side, and write the headings. Returns the place of each row, group by group."""
    place, places = 0.0, []
    for group in groups:
        heading = axes.text(0, place, group.heading, transform=axes.get_yaxis_transform(), va="center_baseline")
        heading.set(color=palette.ink, weight="bold")
        places.append([place + 1 + number for number in range(len(group.rows))])
        place += len(group.rows) + 1.6
    axes.set_yticks([at for some in places for at in some], [name for group in groups for name in group.rows])
    axes.set_ylim(place - 0.9, -0.6)
    named = ((group, name) for group in groups for name in group.rows)
    for label, (group, name) in zip(axes.get_yticklabels(), named, strict=True):
        label.set_color(palette.ours if name in group.ours else palette.ink)
        label.set_fontweight("bold" if name in group.ours else "normal")
    return places


def note(axes: Axes, text: str, at: tuple[float, float], colour: str) -> None:
    """Text beside a point or the end of a bar."""
    axes.annotate(text, at, (7, 0), textcoords="offset points", va="center_baseline", color=colour)


def _as_element(svg: str, chart: Chart) -> str:
    """Without a prologue and a size of its own, with names that are the chart's, a title and a description."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id=")', rf"\1{chart.name}-", svg)
    svg = re.sub(r'((?:xlink:href="|url\()#)', rf"\1{chart.name}-", svg)
    for name, mark in asdict(_MARKS).items():
        svg = svg.replace(mark, f"var(--{name})")
    svg = svg.replace(f"'{FONT}'", "var(--font)")
    view = re.search(r'viewBox="[^"]*"', svg)
    assert view is not None, "matplotlib writes it"
    head = f'<svg {view.group()} role="img" aria-labelledby="{chart.name}-title {chart.name}-description">'
    named = (
        f'<title id="{chart.name}-title">{escape(chart.title)}</title>'
        f'<desc id="{chart.name}-description">{escape(chart.description)}</desc>'
    )
    return f"{head}{named}{svg[svg.index('>') + 1 :]}"
