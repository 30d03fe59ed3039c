"""Point reads of state by HTTP beside a live job: their latency, and what they cost the job's epochs.

    python bench/state_reads.py [--keys 1000000] [--rate 500] [--seconds 3] [--rounds 10]

Each round has four parts: no reads; reads from the server of the job; reads from `mixedmode serve`, a process of its
own over the same checkpoint folder; the same requests to a process that answers without reading anything. The last one
is what client and connections alone cost the job on this machine. Each round begins with another part.

Requests follow a fixed schedule, and a latency counts from the scheduled time. So a server that falls behind shows it.
The client is a process of its own, too.
"""

import argparse
import asyncio
import os
import re
import tempfile
import time
from pathlib import Path
from typing import cast

import numpy as np
from typing_extensions import override

from bench.read_client import run_client
from bench.served_job import epoch_seconds, running, serving, wait_until_live

_CONNECTIONS = 64  # one that waits for an answer sends nothing, so there are more than enough


def main() -> None:
    """Print the latencies, and the epochs with and without requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--empty-server", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.empty_server:
        asyncio.run(_serve_nothing())
        return
    with tempfile.TemporaryDirectory(prefix="state-reads-") as name:
        measure(Path(name), given)


def measure(folder: Path, given: argparse.Namespace) -> None:
    """Run the job and a server beside it, and print the figures of all rounds."""
    epochs: dict[str, list[float]] = {}
    found: dict[str, list[float]] = {}
    with running(folder, given.keys) as own:
        wait_until_live(own)
        apart = serving(["-m", "mixedmode", "serve", "checkpoints", "--listen", "0"], folder)
        empty = serving([str(Path(__file__).absolute()), "--empty-server"], folder)
        with apart as apart_port, empty as empty_port:
            ports = {"the job's server": own, "mixedmode serve": apart_port, "a server without reads": empty_port}
            for port in ports.values():
                _client(port, given, 3)  # warm-up
            parts: list[tuple[str, int | None]] = [("no reads", None), *ports.items()]
            for number in range(given.rounds):
                for name, asked in parts[number % len(parts) :] + parts[: number % len(parts)]:
                    if asked is None:
                        time.sleep(given.seconds)
                    else:
                        found.setdefault(name, []).extend(_client(asked, given, given.seconds))
                    epochs.setdefault(name, []).extend(epoch_seconds(own, given.seconds))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    without = float(np.median(epochs["no reads"]))
    for name in ports:
        seconds = found[name]
        shown = {f"p{share}": round(1000 * float(np.percentile(seconds, share)), 1) for share in (50, 90, 99)}
        median = float(np.median(epochs[name]))
        print(f"{name}: {len(seconds)} requests, {given.rate} a second, {given.keys} keys; milliseconds: {shown}")
        print(f"  seconds of an epoch, median: {median:.3f}, {without:.3f} without reads, ratio {median / without:.2f}")


def _client(port: int, given: argparse.Namespace, seconds: int) -> list[float]:
    return run_client(port, "by_k", keys=given.keys, rate=given.rate, seconds=seconds, connections=_CONNECTIONS)


class _Empty(asyncio.Protocol):
    """Answers each request with the key that it asks for."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        asked = re.search(rb"key=(\d+)", data)
        assert asked is not None, data
        body = b'{"rows":[{"k":%b}]}' % asked[1]
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


async def _serve_nothing() -> None:
    server = await asyncio.get_running_loop().create_server(_Empty, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
