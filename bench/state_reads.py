"""Point reads of state by HTTP beside a live job: their latency, and what they cost the job's epochs.

    python bench/state_reads.py [--keys 1000000] [--rate 500] [--seconds 20]

The job reads a history with one record per key, then a small file each second. Requests follow a fixed schedule, and a
latency counts from the scheduled time. So a server that falls behind shows it.
"""

import argparse
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JOB = """
name: reads
parallelism: 2
execution:
  runtime-mode: mixed

  checkpointing: {{dir: {folder}/checkpoints}}
sources:
  t: {{format: parquet, path: {folder}/in, schema: "k long, v long"}}
steps:
  - name: by_k
    key-by: [k]
    aggregate: {{n: count(*), s: sum(v), top: max(v)}}
sink: {{format: parquet, path: {folder}/out}}
"""
_CLIENTS = 64  # connections; one that waits for an answer sends nothing, so there are more than enough


def main() -> None:
    """Print the latencies, and the epochs with and without requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="state-reads-") as name, _running(Path(name), given.keys) as port:
        _wait_until_live(port)
        _latencies(port, given.keys, given.rate, 5)  # warm-up
        time.sleep(given.seconds)
        before = _epoch_seconds(port, given.seconds)
        found = sorted(_latencies(port, given.keys, given.rate, given.seconds))
        during = _epoch_seconds(port, given.seconds)
    shown = {f"p{share}": round(1000 * found[int(len(found) * share / 100)], 1) for share in (50, 90, 99)}
    print(f"requests: {len(found)}, {given.rate} a second, {given.keys} keys; milliseconds: {shown}")
    print(f"seconds of an epoch, median: {before:.3f} without requests, {during:.3f} with requests")


@contextmanager
def _running(folder: Path, keys: int) -> Iterator[int]:
    """Run the job, and feed it. Return the port of its server."""
    (folder / "in").mkdir()
    _write(folder, "history", np.arange(keys))
    (folder / "job.yaml").write_text(JOB.format(folder=folder))
    command = [sys.executable, "-m", "mixedmode", "run", "job.yaml", "--serve", "0", "--log-level", "warning"]
    job = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert job.stderr is not None
    ended = threading.Event()
    feed = threading.Thread(target=_feed, args=(folder, keys, ended))
    try:
        found = next(found for line in job.stderr if (found := re.search(r"serving .*:(\d+)/", line)))
        threading.Thread(target=job.stderr.read, daemon=True).start()
        feed.start()
        yield int(found[1])
    finally:
        ended.set()
        job.terminate()
        job.wait(60)


def _feed(folder: Path, keys: int, ended: threading.Event) -> None:
    chance, number = np.random.default_rng(1), 0
    while not ended.wait(1):
        number += 1
        _write(folder, f"live-{number}", chance.integers(0, keys, 5000))


def _write(folder: Path, name: str, keys: np.ndarray) -> None:
    staged = folder / f"{name}.staged"
    pq.write_table(pa.table({"k": keys.astype(np.int64), "v": keys.astype(np.int64)}), staged)
    staged.rename(folder / "in" / f"{name}.parquet")


def _wait_until_live(port: int) -> None:
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/readyz")
        if connection.getresponse().status == 200:
            return
        time.sleep(1)


def _latencies(port: int, keys: int, rate: int, seconds: int) -> list[float]:
    """Return the seconds of each request."""
    found: list[float] = []
    start = time.monotonic() + 0.1

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        chance = random.Random(number)
        for request in range(number, rate * seconds, _CLIENTS):
            due = start + request / rate
            time.sleep(max(0.0, due - time.monotonic()))
            key = chance.randrange(keys)
            connection.request("GET", f"/api/v1/state/by_k?key={key}")
            answer = json.loads(connection.getresponse().read())
            assert answer["rows"][0]["k"] == key, answer
            found.append(time.monotonic() - due)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _epoch_seconds(port: int, seconds: int) -> float:
    """Return the median seconds of the epochs in the last seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/api/v1/epochs")
    epochs = json.loads(connection.getresponse().read())["epochs"]
    since = 1000 * (time.time() - seconds)
    return float(np.median([epoch["seconds"] for epoch in epochs if epoch["committed_ms"] > since]))


if __name__ == "__main__":
    main()
