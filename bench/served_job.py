"""A live job with a server, and figures of its epochs, for the measurements in this folder.

The job reads a history with one record per key, then a small file each second.
"""

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["epoch_seconds", "running", "serving", "wait_until_live"]

_JOB = """
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


@contextmanager
def running(folder: Path, keys: int) -> Iterator[int]:
    """Run the job, and feed it. Return the port of its server."""
    (folder / "in").mkdir()
    _write(folder, "history", np.arange(keys))
    (folder / "job.yaml").write_text(_JOB.format(folder=folder))
    ended = threading.Event()
    feed = threading.Thread(target=_feed, args=(folder, keys, ended))
    with serving(["-m", "mixedmode", "run", "job.yaml", "--serve", "0", "--log-level", "warning"], folder) as port:
        feed.start()
        try:
            yield port
        finally:
            ended.set()


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[int]:
    """Run a Python program that has a server and prints its URL. Return its port."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = _port_in(process.stdout)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _port_in(said: IO[str]) -> int:
    lines = []
    for line in said:
        lines.append(line)
        found = re.search(r"://[^/]*:(\d+)/", line)
        if found is not None:
            return int(found[1])
    msg = f"the server did not start: {''.join(lines)}"
    raise RuntimeError(msg)


def _feed(folder: Path, keys: int, ended: threading.Event) -> None:
    chance, number = np.random.default_rng(1), 0
    while not ended.wait(1):
        number += 1
        _write(folder, f"live-{number}", chance.integers(0, keys, 5000))


def _write(folder: Path, name: str, keys: np.ndarray) -> None:
    staged = folder / f"{name}.staged"
    pq.write_table(pa.table({"k": keys.astype(np.int64), "v": keys.astype(np.int64)}), staged)
    staged.rename(folder / "in" / f"{name}.parquet")


def wait_until_live(port: int) -> None:
    """Return when the job has caught up."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/readyz")
        if connection.getresponse().status == 200:
            return
        time.sleep(1)


def epoch_seconds(port: int, seconds: float) -> list[float]:
    """Return the seconds of the epochs that were committed in the last seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/api/v1/epochs")
    epochs = json.loads(connection.getresponse().read())["epochs"]
    since = 1000 * (time.time() - seconds)
    return [epoch["seconds"] for epoch in epochs if epoch["committed_ms"] > since]
