"""A job whose checkpoints and output are in S3, with latency: what its epochs wait for.

    python bench/object_store.py [--latency-ms 30] [--megabytes-per-second 20] [--epochs 20]

The store is a process of its own (moto). It waits for the latency before each answer, and takes the bytes of each
connection at the given rate. Small live epochs are measured without and with latency, in turns: the difference, divided
by the latency, is the number of requests that an epoch waits for one after the other. The backlog shows how much of its
state and output was stored before the tasks had computed all of them.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.scale import PARALLELISM
from mixedmode.driver.events import EpochCommitted, Event
from mixedmode.job import Job, Sink, Source
from tests.s3 import environment, serve_forever

_EVENTS = 20_000  # of a live epoch
_BACKLOG_EVENTS = 8_000_000
_PORT = 5643  # the same for all stores: Spark's workers have the address from their start
_WARM = 3  # epochs that are not counted: Spark compiles its code, and the state is opened


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=30)
    parser.add_argument("--megabytes-per-second", type=float, default=20)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        rate = given.megabytes_per_second * 1e6
        serve_forever(given.serve, lambda size: time.sleep(given.latency_ms / 1000 + size / rate))
        return
    rate = given.megabytes_per_second
    with tempfile.TemporaryDirectory(prefix="object-store-") as name:
        folder = Path(name)
        epochs: dict[float, list[EpochCommitted]] = {0.0: [], given.latency_ms: []}
        for number in range(4):
            latency = given.latency_ms if number % 4 in {1, 2} else 0.0
            with store(latency, rate) as url:
                found = run(folder / f"live-{number}", url, mode="streaming", files=given.epochs, events=_EVENTS)
            epochs[latency] += found[_WARM:]
        report_live(epochs, given.latency_ms)
        with store(given.latency_ms, rate) as url:
            run(folder / "warm", url, mode="mixed", files=2, events=_EVENTS)
            (backlog,) = run(folder / "backlog", url, mode="mixed", files=2, events=_BACKLOG_EVENTS // 2)
        report_backlog(backlog, rate)


def report_live(epochs: dict[float, list[EpochCommitted]], latency_ms: float) -> None:
    """Print the seconds of live epochs, and what they wait for."""
    medians = {latency: statistics.median(one.seconds for one in found) for latency, found in epochs.items()}
    for latency, found in epochs.items():
        stages = {
            name.removeprefix("driver: "): statistics.median(one.profile[name] for one in found)
            for name in found[0].profile
            if name.startswith("driver: ")
        }
        shown = ", ".join(f"{name} {seconds:.3f}" for name, seconds in stages.items())
        print(f"live epochs of {_EVENTS:,} events, {latency:g} ms a request: {medians[latency]:.3f} s ({shown})")
    waits = 1000 * (medians[latency_ms] - medians[0.0]) / latency_ms
    print(f"an epoch waits for about {waits:.1f} requests one after the other")


def report_backlog(epoch: EpochCommitted, rate: float) -> None:
    """Print what a backlog waits for its files."""
    waits = epoch.profile["store state"] + epoch.profile["store output"]
    print(
        f"backlog of {epoch.records:,} records, {epoch.state_bytes / 2**20:.0f} MiB of state, {rate:g} MB/s a "
        f"connection: {epoch.seconds:.2f} s, of which its {PARALLELISM} subtasks wait {waits / PARALLELISM:.2f} s"
    )


def run(folder: Path, url: str, *, mode: Any, files: int, events: int) -> list[EpochCommitted]:
    """Run a job over so many files of so many events; in streaming mode, each is an epoch. Return its epochs."""
    folder.mkdir()
    for number in range(files):
        random = np.random.default_rng(number)
        keys = random.integers(0, events * files, events)
        pq.write_table(pa.table({"k": keys, "v": random.integers(0, 100, events)}), folder / f"{number:04}.parquet")
    epochs: list[EpochCommitted] = []

    def observe(event: Event) -> None:
        if isinstance(event, EpochCommitted):
            epochs.append(event)

    job = Job(
        "object-store",
        sources={"events": Source.parquet(folder, max_files_per_epoch=1)},
        mode=mode,
        parallelism=PARALLELISM,
        checkpoint_dir=f"{url}/{folder.name}/checkpoints",
    )
    job = job.key_by("k").aggregate(n="count(*)", total="sum(v)").write(Sink.parquet(f"{url}/{folder.name}/out"))
    job.run(until="idle", observers=[observe])
    return epochs


@contextmanager
def store(latency_ms: float, rate: float) -> Iterator[str]:
    """Run a store; give the URL of a new bucket."""
    options = ["--latency-ms", str(latency_ms), "--megabytes-per-second", str(rate)]
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(_PORT), *options])
    try:
        endpoint, bucket = f"http://127.0.0.1:{_PORT}", f"bucket-{time.monotonic_ns()}"
        os.environ |= environment(endpoint) | {"AWS_TIMEOUT": "20s"}
        until_it_answers(Request(f"{endpoint}/{bucket}", method="PUT"))
        yield f"s3://{bucket}"
    finally:
        process.kill()
        process.wait()


def until_it_answers(request: Request) -> None:
    """Send a request until the server is there."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urlopen(request):
                return
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main()
