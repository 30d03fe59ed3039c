"""`mixedmode bench`: asks for what is to be measured, says what comes of it, and writes the result where it is wanted.

Exit codes: 0 measured, whatever the figures; 1 a wrong answer, or a contestant that failed; 2 wrong usage; 130 stopped.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from mixedmode.cli.consoles import output_console, plain_table
from mixedmode.cli.doctor import require_environment
from mixedmode.cli.messages import errors_as_messages, screen_print

if TYPE_CHECKING:
    from mixedmode_bench.plan import Options
    from mixedmode_bench.results import Document

RESULT, PAGE = "result.json", "index.html"
STOPPED = 130
_CORES, _COLD = "cores", "cold"


def bench(  # noqa: PLR0913, PLR0917  an argument per option
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKLOAD",
            help="What to measure: names of --list, `scaling`, `all`; or `cores` or `cold` alone. "
            "Without one: count-sum and live.",
        ),
    ] = None,
    events: Annotated[int | None, typer.Option(help="Events of each workload; targets are for its own.", min=1)] = None,
    keys: Annotated[int | None, typer.Option(help="Keys of each workload; else in proportion.", min=1)] = None,
    modes: Annotated[str, typer.Option(help="Ours, with commas, or none.")] = "mixed,batch,streaming",
    peers: Annotated[
        str | None, typer.Option(help="The others, with commas, or none.", show_default="all that can run here")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Warm rounds, after the cold one.", min=1)] = 3,
    cores: Annotated[int, typer.Option(help="Cores that each contestant has.", min=1)] = 2,
    data: Annotated[
        Path | None, typer.Option(help="Where the data are kept for later runs.", show_default="in the user's cache")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where result.json, charts and index.html go.")] = Path("run/bench"),
    list_: Annotated[bool, typer.Option("--list", help="List workloads and contestants, and run nothing.")] = False,
    show: Annotated[
        Path | None, typer.Option(help="A result.json to show again, and write its page; runs nothing.")
    ] = None,
    refresh: Annotated[
        Path | None, typer.Option(help="A folder of results: run the command of each again, and replace them.")
    ] = None,
) -> None:
    """Measure this program and its alternatives on the same data. They take turns. Ctrl-C ends all of it."""
    with errors_as_messages():
        if list_:
            screen_print(_listed())
            return
        if show is not None:
            from mixedmode_bench.document import read_document

            _present(read_document(show), show, out)
            return
        if refresh is not None:
            from mixedmode_bench.refresh import refresh as measure_again

            require_environment([refresh])
            measure_again(refresh, data, _say())
            return
        from mixedmode_bench.plan import DEFAULT_WORKLOADS, Options

        if workloads == [_CORES]:
            _show_cores(events, keys, rounds, data)
            return
        if workloads == [_COLD]:
            _show_cold(events, keys, rounds, cores, data)
            return
        options = Options(
            workloads=tuple(workloads or DEFAULT_WORKLOADS),
            events=events,
            keys=keys,
            modes=_names(modes),
            peers=None if peers is None else _names(peers),
            rounds=rounds,
            cores=cores,
        )
        _present(_measured(options, data, out), out / RESULT, out)


def _show_cores(events: int | None, keys: int | None, rounds: int, data: Path | None) -> None:
    from mixedmode_bench.contestants import find_workload
    from mixedmode_bench.cores import WORKLOAD, growth_table, measure_cores, verdict
    from mixedmode_bench.data import default_root
    from mixedmode_bench.plan import resized

    size = resized(find_workload(WORKLOAD).size, events, keys)
    screen_print(f"cores: {WORKLOAD} of {size.events:,} events and {size.keys:,} keys, tasks one after the other")
    growths = measure_cores(size, data or default_root(), rounds, _say())
    screen_print(growth_table(growths, size))
    screen_print(verdict(growths))


def _show_cold(events: int | None, keys: int | None, rounds: int, cores: int, data: Path | None) -> None:
    from mixedmode_bench.cold import WORKLOAD, cold_table, cold_verdicts, measure_cold
    from mixedmode_bench.contestants import find_workload
    from mixedmode_bench.data import default_root
    from mixedmode_bench.plan import resized

    size = resized(find_workload(WORKLOAD).size, events, keys)
    screen_print(f"cold: new processes; {WORKLOAD} of {size.events:,} events and {size.keys:,} keys")
    pairs = measure_cold(size, data or default_root(), rounds, cores, _say())
    screen_print(cold_table(pairs))
    for line in cold_verdicts(pairs):
        screen_print(line)


def _measured(options: "Options", data: Path | None, out: Path) -> "Document":
    from mixedmode_bench.contestants import workload_names
    from mixedmode_bench.data import default_root
    from mixedmode_bench.document import write_document
    from mixedmode_bench.plan import checked
    from mixedmode_bench.run import Place, run_benchmark

    asked = checked(options, workload_names())
    root = data if data is not None else default_root()
    require_environment([root, out])
    place = Place(root, _say(), lambda document: write_document(document, out / RESULT))
    with _stopped_once(out / RESULT):
        return run_benchmark(asked, place)


def _present(document: "Document", result: Path, out: Path) -> None:
    from mixedmode_bench.page import write_page
    from mixedmode_bench.report import as_text

    screen_print("")
    screen_print(as_text(document))
    write_page(document, out)
    screen_print(f"every value: {result}, charts: {out / PAGE}")


def _say() -> Callable[[str], None]:
    console = output_console()
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _stopped_once(result: Path) -> Iterator[None]:
    """Ctrl-C or SIGTERM ends the run; another one does not keep it from ending its processes and removing its files."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        screen_print(
            "stopped: all contestants were ended, and what they wrote is removed; "
            f"workloads that were done are in the result: mixedmode bench --show {result}"
        )
        raise typer.Exit(STOPPED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _names(text: str) -> tuple[str, ...]:
    """`mixed, batch` -> (`mixed`, `batch`); `none` -> ()."""
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    return () if names == ("none",) else names


def _listed() -> Table:
    from mixedmode_bench.contestants import CONTESTANTS, find_workload, make_contestant, workload_names
    from mixedmode_bench.plan import SCALED, SCALING, SCALING_EVENTS, SCALING_KEYS

    table = plain_table(("workload", "events", "keys", "what it is"), numbers=("events", "keys"))
    for name in workload_names():
        workload = find_workload(name)
        table.add_row(name, f"{workload.size.events:,}", f"{workload.size.keys:,}", workload.title)
    ends = (f"{min(sizes):,} to {max(sizes):,}" for sizes in (SCALING_EVENTS, SCALING_KEYS))
    table.add_row(SCALING, *ends, f"{SCALED}, larger and larger")
    table.add_row(_CORES, "", "", f"{SCALED} with 1 to 16 subtasks: their processor time, and the bytes between them")
    table.add_section()
    table.add_row("")
    table.add_row("contestant", style="bold")
    for name in CONTESTANTS:
        contestant = make_contestant(name)
        missing = contestant.missing()
        table.add_row(name, "", "", contestant.title if missing is None else f"{contestant.title}; it lacks {missing}")
    return table
