"""The tables of docs/benchmarks.md, made of the result files that they quote.

To write them anew: `python -m tests.docs.results` prints the section.
"""

from collections.abc import Iterator
from pathlib import Path

from mixedmode_bench.document import read_document
from mixedmode_bench.results import Document, Measured
from mixedmode_bench.summary import Goal, goals, lines, rounds_text
from mixedmode_bench.texts import bound_text, count_text, event_text, goal_text, seconds_text, spread_text, times_text

FOLDER = Path(__file__).parents[2] / "bench" / "results"
KEPT = (
    "modes.json",
    "main.json",
    "live.json",
    "sizes.json",
    "flights.json",
    "workloads.json",
    "nexmark.json",
    "joins.json",
    "joins-live.json",
    "regular.json",
    "tables.json",
    "scaling.json",
)


def results_section() -> str:
    """Markdown: for each file its command and machine, and a table for each of its workloads."""
    parts = [_file(name, read_document(FOLDER / name)) for name in KEPT if (FOLDER / name).exists()]
    return "\n".join(parts)


def _file(name: str, document: Document) -> str:
    machine, versions = document.machine, document.machine.versions
    tools = ", ".join(f"{tool} {versions[tool]}" for tool in sorted(versions))
    head = (
        f"### `bench/results/{name}`\n\n"
        f"```sh\n{document.command}\n```\n\n"
        f"{document.started[:10]}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, {machine.processor}, "
        f"{machine.system}; {tools}; {rounds_text(document)}.\n"
    )
    sizes: dict[str, list[Measured]] = {}
    for measured in document.measured:
        sizes.setdefault(measured.workload, []).append(measured)
    tables = [_sizes(found) if len(found) > 1 else _workload(found[0]) for found in sizes.values()]
    all_goals = [goal for measured in document.measured for goal in goals(measured)]
    return "\n".join([head, *tables, *([_goals(all_goals)] if all_goals else [])])


def _workload(measured: Measured) -> str:
    rows = [
        "| {} | {} | {} | {} | {} | {} |".format(
            f"`{line.entry.contestant}`",
            count_text(line.entry.events),
            seconds_text(line.seconds.mid),
            "" if line.cold_s is None else seconds_text(line.cold_s),
            event_text(line.per_event_s.mid),
            "" if line.times is None else f"{times_text(line.times.mid)} ({spread_text(line.times, 'x')})",
        )
        for line in lines(measured)
    ]
    head = f"**{measured.workload}**, {count_text(measured.events)} events, {count_text(measured.keys)} keys\n"
    columns = ["| | events | warm | cold | per event | times ours |", "|---|---|---|---|---|---|"]
    return "\n".join([head, *columns, *rows, ""])


def _sizes(found: list[Measured]) -> str:
    names = list(dict.fromkeys(entry.contestant for measured in found for entry in measured.entries))
    head = [f"**{found[0].workload}**, time per event\n", "| events | keys | " + " | ".join(names) + " |"]
    return "\n".join([*head, "|---" * (2 + len(names)) + "|", *_size_rows(found, names), ""])


def _size_rows(found: list[Measured], names: list[str]) -> Iterator[str]:
    for measured in found:
        by_name = {line.entry.contestant: event_text(line.per_event_s.mid) for line in lines(measured)}
        cells = [count_text(measured.events), count_text(measured.keys), *(by_name.get(name, "") for name in names)]
        yield f"| {' | '.join(cells)} |"


def _goals(found: list[Goal]) -> str:
    rows = [
        f"| {goal.workload}: {goal.what} | {goal_text(goal.value.mid, goal.unit)} | "
        f"{spread_text(goal.value, goal.unit)} | {bound_text(goal)} | {'yes' if goal.is_met else 'no'} |"
        for goal in found
    ]
    return "\n".join(["**Targets**\n", "| | median | min .. max | target | met |", "|---|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    print(results_section())  # noqa: T201  that is what it is for
