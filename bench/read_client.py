"""A client of state by HTTP, as a process: it sends point reads on a schedule, and prints their seconds as JSON.

    python bench/read_client.py PORT STEP [--keys 1000000] [--rate 500] [--seconds 10] [--connections 64]

It shares the machine with the server that is measured, so it imports little and does little for a request.
"""

import argparse
import json
import random
import re
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack

__all__ = ["run_client"]


def main() -> None:
    """Send the requests, and print the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("step")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    load = {"keys": given.keys, "rate": given.rate, "seconds": given.seconds, "connections": given.connections}
    print(json.dumps(latencies(given.port, given.step, **load)))


def run_client(port: int, step: str, *, keys: int, rate: int, seconds: int, connections: int) -> list[float]:
    """Return the seconds of each request of a client process."""
    options = {"--keys": keys, "--rate": rate, "--seconds": seconds, "--connections": connections}
    command = [sys.executable, __file__, str(port), step, *(str(part) for pair in options.items() for part in pair)]
    found: list[float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def latencies(port: int, step: str, *, keys: int, rate: int, seconds: int, connections: int) -> list[float]:
    """Return the seconds of each request for the state of a key, from its scheduled time on.

    One thread serves all connections; one that waits for an answer sends nothing.
    """
    chance, found = random.Random(1), list[float]()
    with selectors.DefaultSelector() as ready, ExitStack() as stack:
        opened = (socket.create_connection(("127.0.0.1", port)) for _ in range(connections))
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
        found = re.search(rb'"k":(\d+)[,}]', body)
        assert found is not None, body
        assert int(found[1]) == self._key, body
        return True


if __name__ == "__main__":
    main()
