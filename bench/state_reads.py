"""Point reads of state by HTTP beside a live job: their latency, and what they cost the job's epochs.

    python bench/state_reads.py [--keys 1000000] [--rate 500] [--seconds 10] [--rounds 2]

Each round has three parts: no reads; reads from the server of the job; reads from `mixedmode serve`, a process of its
own over the same checkpoint folder. Requests follow a fixed schedule, and a latency counts from the scheduled time. So
a server that falls behind shows it. The client is a process of its own, too, and has a share of the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.served_job import epoch_seconds, latencies, running, serving, wait_until_live

_CLIENTS = 64  # connections; one that waits for an answer sends nothing, so there are more than enough


def main() -> None:
    """Print the latencies, and the epochs with and without requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client is not None:
        load = {"keys": given.keys, "rate": given.rate, "seconds": given.seconds, "clients": _CLIENTS}
        print(json.dumps(latencies(given.client, "by_k", **load)))
        return
    with tempfile.TemporaryDirectory(prefix="state-reads-") as name:
        measure(Path(name), given)


def measure(folder: Path, given: argparse.Namespace) -> None:
    """Run the job and a server beside it, and print the figures of all rounds."""
    epochs: dict[str, list[float]] = {}
    found: dict[str, list[float]] = {}
    with running(folder, given.keys) as own:
        wait_until_live(own)
        with serving(["serve", "checkpoints", "--listen", "0"], folder) as apart:
            ports = {"the job's server": own, "mixedmode serve": apart}
            for port in ports.values():
                _client(port, given, 3)  # warm-up
            for _ in range(given.rounds):
                time.sleep(given.seconds)
                epochs.setdefault("no reads", []).extend(epoch_seconds(own, given.seconds))
                for name, port in ports.items():
                    found.setdefault(name, []).extend(_client(port, given, given.seconds))
                    epochs.setdefault(name, []).extend(epoch_seconds(own, given.seconds))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    without = float(np.median(epochs["no reads"]))
    for name, seconds in found.items():
        shown = {f"p{share}": round(1000 * float(np.percentile(seconds, share)), 1) for share in (50, 90, 99)}
        median = float(np.median(epochs[name]))
        print(f"{name}: {len(seconds)} requests, {given.rate} a second, {given.keys} keys; milliseconds: {shown}")
        print(f"  seconds of an epoch, median: {median:.3f}, {without:.3f} without reads, ratio {median / without:.2f}")


def _client(port: int, given: argparse.Namespace, seconds: int) -> list[float]:
    """Return the seconds of each request of a client process."""
    options = {"--client": port, "--keys": given.keys, "--rate": given.rate, "--seconds": seconds}
    command = [sys.executable, __file__, *(str(part) for pair in options.items() for part in pair)]
    found: list[float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


if __name__ == "__main__":
    main()
