# ruff: noqa: INP001, T201, S603  (a script, which prints, and starts programs of its own)
"""The whole example in one run: servers, data, feed, job, check. docs/tutorial-orders.md does it step by step.

    python examples/orders/run.py

Servers that KAFKA_SERVERS and POSTGRES_URL name are used; else it starts its own, over run/orders-services. The job
flips under the feed; some seconds later the feed ends, the table is compared, and the job is stopped as by Ctrl-C.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
POLL_S = 0.1
WAIT_S = 60  # for the job to take the last orders
SERVICES = Path("run/orders-services")
DATA = [sys.executable, str(HERE / "orders.py")]
MIXEDMODE = [sys.executable, "-m", "mixedmode"]


def main() -> int:
    """Run it, and return 0 if the table is right."""
    parser = argparse.ArgumentParser(description="History, live feed, job and check, in one run.")
    parser.add_argument("--folder", type=Path, default=Path("run/orders"))
    parser.add_argument("--history", type=int, default=300_000, help="orders (default: %(default)s)")
    parser.add_argument("--live-seconds", type=float, default=20, help="after the flip (default: %(default)s)")
    parser.add_argument("--per-second", type=int, default=1_000, help="live orders (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], help="passed on to mixedmode run; may be repeated")
    chosen = parser.parse_args()
    at = ["--folder", str(chosen.folder)]
    folder = chosen.folder.absolute()
    settings = [
        f"execution.checkpointing.dir={folder / 'checkpoints'}",
        f"sources.orders.history.path={folder / 'history'}",
    ]
    job = [*MIXEDMODE, "run", str(HERE / "job.yaml")]
    job += [part for setting in (*settings, *chosen.set) for part in ("--set", setting)]
    with services():
        prepare = [*DATA, "prepare", *at, "--orders", str(chosen.history)]
        say(prepare)
        subprocess.run(prepare, check=True)
        feed = [*DATA, "feed", *at, "--per-second", str(chosen.per_second)]
        check = [*DATA, "check", *at, "--wait", str(WAIT_S)]
        manifests = folder / "checkpoints" / "manifests"
        return run_over(feed, job, check, manifests=manifests, live_s=chosen.live_seconds)


def run_over(feed: Sequence[str], job: Sequence[str], check: Sequence[str], *, manifests: Path, live_s: float) -> int:
    """Run the job until the check is done, and the feed until the job has been live (which the first manifest says) for
    `live_s`; 0 if all went well.
    """
    say([*feed, "&"])
    feeding = subprocess.Popen(feed)
    say(job)
    running = subprocess.Popen(job)
    try:
        flipped = None
        while running.poll() is None and (flipped is None or time.monotonic() - flipped < live_s):
            time.sleep(POLL_S)
            if flipped is None and any(manifests.glob("*")):
                flipped = time.monotonic()
        feeding.kill()
        feeding.wait()
        if running.poll() is not None:  # it never ends by itself, unless something is wrong
            return running.returncode or 1
        say(check)
        is_wrong = subprocess.run(check, check=False).returncode
    finally:
        feeding.kill()
        running.send_signal(signal.SIGINT)
        code = running.wait()
    return code or is_wrong


@contextmanager
def services() -> Iterator[None]:
    """Servers: those of the environment, else own ones for as long as this lasts."""
    if {"KAFKA_SERVERS", "POSTGRES_URL"} <= os.environ.keys():
        yield
        return
    command = [sys.executable, "-m", "mixedmode", "services", "--folder", str(SERVICES)]
    say(command)
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert running.stdout is not None
    try:
        for line in running.stdout:
            print(line, end="", flush=True)
            if "Ctrl-C stops" in line:
                break
        environment = SERVICES / "services.env"
        lines = environment.read_text(encoding="utf-8").splitlines() if environment.exists() else []
        for line in lines:
            name, _, value = line.removeprefix("export ").replace("'", "").partition("=")
            os.environ[name] = value
        if "POSTGRES_URL" not in os.environ:
            sys.exit("the example needs both servers, see above")
        yield
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate()


def say(command: Sequence[str]) -> None:
    """Print a command as one would type it."""
    words = ("python" if word == sys.executable else word.removeprefix(f"{Path.cwd()}/") for word in command)
    print(f"\n$ {' '.join(words)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
