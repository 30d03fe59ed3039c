"""`mixedmode demo`: a history, a feed in a separate process, and one job over both, on this machine."""

import os
import shutil
import subprocess
import threading
from importlib.resources import files
from pathlib import Path

from mixedmode.cli.consoles import output_console
from mixedmode.cli.display import Display, screen
from mixedmode.cli.table import table_report
from mixedmode.config import LoadedJob, load_job
from mixedmode.demo.orders import Shop, history
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError
from mixedmode.folders import make_folder
from mixedmode.installed import python_command

ORDERS_PER_SECOND = 20_000
ROWS_SHOWN = 8
_MARKER = ".mixedmode-demo"
_FEED_SECONDS_MAX = 600  # if the demo is killed, the feed still ends after this time
_POLL_SECONDS = 0.1


def run_demo(directory: Path, *, orders: int, customers: int, seconds: int, stop: threading.Event) -> None:
    """Run the whole demo, from generating the data to the summary. `stop` ends it early, after the epoch under way."""
    console = output_console()
    _make_empty(directory)
    written_bytes = history(directory / "orders", orders=orders, shop=Shop(customers=customers))
    console.print(
        f"history: {orders:,} orders of {customers:,} customers, {written_bytes / 1e6:.0f} MB of Parquet; "
        f"feed: {ORDERS_PER_SECOND:,} orders/s from now on",
        highlight=False,
    )
    loaded = _job(directory)
    console.print(f"job:     {directory / 'job.yaml'}", highlight=False)
    feed = _start_feed(directory, orders=orders, customers=customers)
    try:
        with screen(loaded.spec) as display:
            _run(loaded, display, feed, seconds, stop)
    finally:
        _end(feed)
    display.print_summary()
    console.print(f"\nfirst rows of the result  (mixedmode table {directory / 'out'})", highlight=False)
    console.print(table_report(directory / "out", ROWS_SHOWN))
    console.print(f"\nmore:  mixedmode checkpoints {directory / 'checkpoints'}", highlight=False)


def _run(
    loaded: LoadedJob, display: Display, feed: "subprocess.Popen[bytes]", seconds: int, stop: threading.Event
) -> None:
    """Run the backlog, the flip, `seconds` of live data, and the records that are left when the feed has ended."""
    enough = threading.Event()

    def watch() -> None:
        while display.flip is None and not stop.wait(_POLL_SECONDS):
            pass
        stop.wait(seconds)
        _end(feed)
        enough.set()

    threading.Thread(target=watch, name="feed-watcher", daemon=True).start()
    run_job(loaded.spec, loaded.where, RunOptions(until=Until.STOPPED, observers=[display], stop=enough))
    if not stop.is_set():
        run_job(loaded.spec, loaded.where, RunOptions(until=Until.IDLE, observers=[display], stop=stop))


def _end(feed: "subprocess.Popen[bytes]") -> None:
    """Kill the feed. A file that it is still writing never appears; the other files are whole."""
    feed.kill()
    feed.wait()


def _job(directory: Path) -> LoadedJob:
    """Write the demo's job file to its folder, and load it. A reader can run it again with `mixedmode run`."""
    text = (files("mixedmode.demo") / "job.yaml").read_text(encoding="utf-8")
    path = directory / "job.yaml"
    path.write_text(text.replace("./run/demo/", "./"), encoding="utf-8")
    return load_job(path)


def _start_feed(directory: Path, *, orders: int, customers: int) -> "subprocess.Popen[bytes]":
    arguments = {
        "--seconds": _FEED_SECONDS_MAX,
        "--orders-per-second": ORDERS_PER_SECOND,
        "--first-order": orders,
        "--customers": customers,
    }
    command = [python_command(), "-m", "mixedmode.demo.feed", str(directory / "orders")]
    command += [str(part) for pair in arguments.items() for part in pair]
    # A session of its own, so that Ctrl-C reaches the job and not the feed.
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - our own program


def _make_empty(directory: Path) -> None:
    """Delete an earlier demo. Raises InvalidJobError if the folder holds anything else, and as make_folder."""
    marker = directory / _MARKER
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        msg = (
            "the demo's folder holds something that is not an earlier demo, and would be emptied. "
            f"Name another one with --directory. folder={directory}"
        )
        raise InvalidJobError(msg)
    if directory.exists():
        shutil.rmtree(os.path.realpath(directory))
    make_folder(directory)
    marker.touch()
