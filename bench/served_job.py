"""A live job with a server, and figures of its epochs, for the measurements in this folder.

The job reads a history with one record per key, then a small file each second.
"""

import http.client
import json
import random
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["epoch_seconds", "latencies", "running", "serving", "wait_until_live"]

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


def latencies(port: int, step: str, *, keys: int, rate: int, seconds: int, clients: int) -> list[float]:
    """Return the seconds of each request for the state of a key, from its scheduled time on.

    clients: connections; one that waits for an answer sends nothing. One thread serves all of them, with little work
    for a request: the client shares the machine with the server that is measured.
    """
    chance, found = random.Random(1), list[float]()
    with selectors.DefaultSelector() as ready, ExitStack() as stack:
        opened = (socket.create_connection(("127.0.0.1", port)) for _ in range(clients))
        free = deque(_Connection(stack.enter_context(one)) for one in opened)  # in turns, so that none is idle for long
        for one in free:
            ready.register(one.socket, selectors.EVENT_READ, one)
        sent, start = 0, time.monotonic() + 0.1
        while len(found) < rate * seconds:
            now = time.monotonic() - start
            while free and sent < rate * seconds and sent / rate <= now:
                free.popleft().ask(f"/api/v1/state/{step}?key=", chance.randrange(keys), start + sent / rate)
                sent += 1
            left = sent / rate - now if free and sent < rate * seconds else 30.0
            for event, _ in ready.select(max(0.0, left)):
                one = event.data
                if one.has_answered():
                    found.append(time.monotonic() - one.due)
                    free.append(one)
    return found


class _Connection:
    """A connection that sends one request after the other. `due`: when the last one was scheduled."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self.due = 0.0
        self._key = 0
        self._arrived = b""

    def ask(self, path: str, key: int, due: float) -> None:
        self.due, self._key, self._arrived = due, key, b""
        self.socket.sendall(f"GET {path}{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def has_answered(self) -> bool:
        """Read what has arrived; return whether the answer is complete. Check that it is the right one."""
        arrived = self.socket.recv(65536)
        assert arrived, "the server has ended the connection"
        self._arrived += arrived
        head, end, body = self._arrived.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not end or length is None or len(body) < int(length[1]):
            return False
        assert json.loads(body)["rows"][0]["k"] == self._key, body
        return True


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
