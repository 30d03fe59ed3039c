"""The page of a result: one HTML file that needs nothing else, and the charts as PNG files beside it.

Whoever gets the file sees what was measured, on what, by which command, and every number behind each
picture. Nothing is fetched, nothing is a script; it follows the light or dark setting of the reader.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from mixedmode_bench.charts import charts
from mixedmode_bench.drawing import DARK, LIGHT, Chart, Numbers, variables
from mixedmode_bench.results import Document, Measured
from mixedmode_bench.summary import Goal, Line, all_goals, by_workload, lines, notes, ours, part_names, rounds_text
from mixedmode_bench.texts import (
    bound_text,
    bytes_text,
    count_text,
    goal_text,
    machine_text,
    seconds_text,
    size_text,
    spread_text,
)

FILE = "index.html"

_STYLE = """
:root { color-scheme: light dark; --font: system-ui, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; LIGHT }
@media (prefers-color-scheme: dark) { :root { DARK } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 var(--font); }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3.2rem 0 .3rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .1rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; }
a { color: var(--ours); }
.quiet, figcaption, caption, td small { color: var(--quiet); }
pre { white-space: pre-wrap; margin: .8rem 0;
  padding: .7rem .9rem; border: 1px solid var(--grid); border-radius: .4rem; }
code { font: .92rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; vertical-align: baseline; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { color: var(--quiet); font-weight: 500; border-bottom: 1px solid var(--grid); }
tbody th { font-weight: 400; }
tbody tr + tr > * { border-top: 1px solid var(--grid); }
thead th, th small { white-space: normal; }
th small { display: block; max-width: 14rem; color: var(--quiet); font-weight: 400; }
tr.ours > * { font-weight: 650; } tr.ours th { color: var(--ours); }
.met, .missed { font-weight: 650; } .missed { color: var(--missed); } .met { color: var(--met); }
figure { margin: 0; } figcaption { max-width: 46rem; margin-bottom: .8rem; }
figure svg text { white-space: pre; }
figure svg { display: block; width: 100%; min-width: 38rem; height: auto; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--ours); }
"""
#: of the page alone: red and green are never the only sign
_VERDICTS_LIGHT, _VERDICTS_DARK = "--met: #1e7a4f; --missed: #b3261e;", "--met: #5fcf9b; --missed: #ff8a80;"


def write_page(document: Document, out: Path) -> Path:
    """Write the charts and the page to a folder. Returns the page's file."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = charts(document)
    for chart in drawn:
        chart.write_png(out)
    file = out / FILE
    file.write_text(as_html(document, drawn), encoding="utf-8")
    return file


def as_html(document: Document, drawn: Sequence[Chart]) -> str:
    """The whole page."""
    light, dark = variables(LIGHT) + _VERDICTS_LIGHT, variables(DARK) + _VERDICTS_DARK
    style = _STYLE.replace("LIGHT", light).replace("DARK", dark)
    body = [_head(document), _goals(all_goals(document)), *(_figure(chart) for chart in drawn), _results(document)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>mixedmode bench, {escape(document.started)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(body)}{_foot(document)}</main>\n</body>\n</html>\n"
    )


def _head(document: Document) -> str:
    where = escape(machine_text(document.machine))
    return (
        "<header>\n<h1>mixedmode, measured</h1>\n"
        f'<p class="quiet">{where}. {escape(document.started)}, {rounds_text(document)}.</p>\n'
        f"<pre><code>{escape(document.command)}</code></pre>\n</header>\n"
    )


def _goals(goals: Sequence[Goal]) -> str:
    if not goals:
        return "<p>There are no targets for what was measured: they are for some workloads at their default size.</p>\n"
    met = sum(goal.is_met for goal in goals)
    rows = "".join(_goal_row(goal) for goal in goals)
    table = _table(("", "target", "measured", "least .. most", ""), rows)
    return (
        f"<section>\n<h2>{met} of {len(goals)} targets met</h2>\n"
        "<p>A ratio says how many times as long the first took per event as the second, within one round.</p>\n"
        f"{table}</section>\n"
    )


def _goal_row(goal: Goal) -> str:
    verdict = (
        '<td class="met">\N{CHECK MARK} met</td>' if goal.is_met else '<td class="missed">\N{BALLOT X} missed</td>'
    )
    bound = bound_text(goal).replace(">=", "\N{GREATER-THAN OR EQUAL TO}").replace("<=", "\N{LESS-THAN OR EQUAL TO}")
    cells = (bound, goal_text(goal.value.mid, goal.unit), spread_text(goal.value, goal.unit))
    name = f'<th scope="row">{escape(goal.what)} <small>{escape(goal.workload)}</small></th>'
    return f"<tr>{name}{_cells(cells)}{verdict}</tr>\n"


def _figure(chart: Chart) -> str:
    return (
        f'<section>\n<h2 id="{chart.name}">{escape(chart.title)}</h2>\n<figure>\n'
        f"<figcaption>{escape(chart.caption)}</figcaption>\n"
        f'<div class="wide">{chart.as_svg()}</div>\n</figure>\n'
        f"<details><summary>The numbers</summary>{_numbers(chart.numbers)}</details>\n</section>\n"
    )


def _numbers(numbers: Numbers) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(name)}</th>{_cells(cells)}</tr>\n' for name, *cells in numbers.rows)
    return _table(numbers.headings, rows)


def _results(document: Document) -> str:
    tables = "".join(_result(sizes[0]) for sizes in by_workload(document) if len(sizes) == 1)
    return f"<section>\n<h2>Every workload</h2>\n{tables}</section>\n" if tables else ""


def _result(measured: Measured) -> str:
    base = ours(measured)
    headings = ["", "median", "least .. most", "cold", "events/s", "peak memory", "written"]
    if base is not None:
        headings[5:5] = [f"x {base}", "least .. most"]
    rows = "".join(_result_row(line, has_base=base is not None) for line in lines(measured))
    beside = "".join(f'<p class="quiet">{escape(note)}.</p>\n' for note in notes(measured))
    return (
        f'<h3>{escape(measured.workload)}</h3>\n<p class="quiet">{escape(measured.title)}. {size_text(measured)}.</p>\n'
        f"{_table(headings, rows)}{_parts(measured)}{beside}"
    )


def _result_row(line: Line, *, has_base: bool) -> str:
    cells = [
        seconds_text(line.seconds.mid),
        spread_text(line.seconds, "s"),
        "" if line.cold_s is None else seconds_text(line.cold_s),
        count_text(line.events_per_s),
    ]
    if has_base:
        times = line.times
        cells += [goal_text(times.mid, "x"), spread_text(times, "x")] if times else ["", ""]
    peak = sum(line.peak_bytes.values())
    cells += [bytes_text(peak) if peak else "", "" if line.written_bytes is None else bytes_text(line.written_bytes)]
    kind = ' class="ours"' if line.entry.is_ours else ""
    name = f'<th scope="row">{escape(line.entry.contestant)}<small>{escape(line.entry.title)}</small></th>'
    return f"<tr{kind}>{name}{_cells(cells)}</tr>\n"


def _parts(measured: Measured) -> str:
    """Seconds of the parts of a run, for those that have any."""
    found = [line for line in lines(measured) if line.parts]
    if not found:
        return ""
    names = part_names(found)
    rows = tuple(
        (line.entry.contestant, *(seconds_text(line.parts[name]) if name in line.parts else "" for name in names))
        for line in found
    )
    return _numbers(Numbers(("of which", *names), rows))


def _foot(document: Document) -> str:
    versions = ", ".join(f"{escape(name)} {escape(version)}" for name, version in document.machine.versions.items())
    return (
        "<footer>\n<h2>How it was measured</h2>\n"
        "<p>All contestants read the same data, each in a process of its own, bound to the same cores, and took turns "
        "in an order that rotates. Their answers were compared with those of DuckDB. A process is started before "
        "its first round, which is the cold one; medians are of the warm rounds after it. Machines are noisy: compare "
        "within this page, not across pages.</p>\n"
        f'<p class="quiet">{versions}. Every value of every run: <a href="result.json">result.json</a>.</p>\n'
        "</footer>\n"
    )


def _table(headings: Iterable[str], rows: str) -> str:
    """Rows under headings; where it is too wide, it scrolls in itself."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n'


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)
