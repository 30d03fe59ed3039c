"""The server of state alone, without Spark: CPU time of a point read by HTTP and of a new epoch, and speed of a scan.

    python bench/state_server.py [--keys 1000000] [--rate 500] [--seconds 10]

The client is a process of its own. CPU time hardly depends on what else the machine does; latencies do.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.read_client import run_client
from mixedmode.queryable import open_state
from mixedmode.queryable.kept import KeptState
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site
from mixedmode.serve.folders import open_folders
from mixedmode.serve.server import Endpoint, Server
from tests.queryable.jobs import RunningJob

_ROWS = 250_000  # rows of an epoch
_CONNECTIONS = 32
_EPOCHS, _UPDATES = 20, 5000  # new epochs, and the keys that each updates


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="state-server-") as name:
        job = job_of(Path(name), given.keys)
        scan(job.checkpoints)
        point_reads(job.checkpoints, given)
        new_epochs(job, given.keys)


def job_of(folder: Path, keys: int) -> RunningJob:
    """Return a job that has counted so many keys."""
    job = RunningJob(
        folder / "job",
        lambda job: job.key_by("k").aggregate(n="count(*)", s="sum(v)", top="max(v)"),
        ddl="k long, v long, at timestamp",
    )
    for start in range(0, keys, _ROWS):
        _count(job, np.arange(start, min(keys, start + _ROWS)))
    return job


def _count(job: RunningJob, keys: np.ndarray) -> None:
    numbers = pa.array(keys)
    job.table_epoch(pa.table([numbers, numbers, numbers.cast(pa.timestamp("us", "UTC"))], schema=job.schema))


def scan(checkpoints: Path) -> None:
    """Print how fast all keys are read to Arrow."""
    with open_state(checkpoints) as state:
        state.read("aggregate-1", keys=[1])
        began, worked = time.monotonic(), time.process_time()
        table = state.read("aggregate-1").table
        seconds, cpu = time.monotonic() - began, time.process_time() - worked
    rates = f"{table.num_rows / seconds:,.0f} keys/s, {table.num_rows / cpu:,.0f} keys per second of CPU"
    print(f"scan of {table.num_rows:,} keys: {rates}")


def point_reads(checkpoints: Path, given: argparse.Namespace) -> None:
    """Print latencies, and the CPU time of a request."""
    jobs = open_folders([str(checkpoints)])
    site = Site(jobs, states={one.id: KeptState(checkpoints) for one in jobs})
    with Server(site, Endpoint(parse_address("0"), Tokens())) as server:
        load = {"keys": given.keys, "rate": given.rate, "connections": _CONNECTIONS}
        for seconds in (2, given.seconds):  # the first one is a warm-up
            worked = time.process_time()
            found = sorted(run_client(server.port, "aggregate-1", seconds=seconds, **load))
            cpu = time.process_time() - worked
    shown = {f"p{share}": round(1000 * found[int(len(found) * share / 100)], 1) for share in (50, 90, 99)}
    each = f"{1000 * cpu / len(found):.2f} ms of CPU each"
    print(f"{len(found)} requests, {given.rate} a second: milliseconds {shown}, {each}")


def new_epochs(job: RunningJob, keys: int) -> None:
    """Print the CPU time of going to a new epoch that has updated a few keys."""
    chance, found = np.random.default_rng(1), list[float]()
    state = KeptState(job.checkpoints)
    state.ask(lambda snapshot: snapshot.read("aggregate-1", keys=list(range(64))))
    for _ in range(_EPOCHS):
        _count(job, chance.integers(0, keys, _UPDATES))
        worked = time.process_time()
        state.tick()
        found.append(time.process_time() - worked)
        state.ask(lambda snapshot: snapshot.read("aggregate-1", keys=list(range(64))))
    state.close()
    print(f"a new epoch, of {len(found)}: {1000 * float(np.median(found)):.1f} ms of CPU, median")


if __name__ == "__main__":
    main()
