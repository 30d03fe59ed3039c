"""The cost of a scrape of the metrics: CPU time, and the epochs of a live job with and without one scrape a second.

    python bench/scrape.py [--scrapes 500]                the CPU time of a scrape, without Spark
    python bench/scrape.py --live [--rounds 6]            the epochs of a job on Spark

The CPU time is that of the server and of its client together, so an upper bound. With one scrape a second, milliseconds
are tenths of a percent of one core. `--live` alternates 10 s with scrapes and 10 s without, in one run.
"""

import argparse
import http.client
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.served_job import epoch_seconds, running, wait_until_live
from tests.serve import story
from tests.serve.site import served

_SECONDS = 10


def main() -> None:
    """Print the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scrape-") as name:
        if given.live:
            live(Path(name), given.rounds)
        else:
            cpu(Path(name), given.scrapes)


def cpu(folder: Path, scrapes: int) -> None:
    """Print the CPU time of a scrape of a job with three steps, after its backlog and 60 live epochs."""
    with served(folder, spec=story.spec(folder)) as site:
        for _, event in (*story.backlog(), *story.live()):
            site.tell(event)
        scrape(site.server.port, 20)  # warm-up
        worked = time.process_time()
        size = scrape(site.server.port, scrapes)
        milliseconds = 1000 * (time.process_time() - worked) / scrapes
    share = milliseconds / 10
    print(f"{scrapes} scrapes of {size:,} bytes: {milliseconds:.2f} ms of CPU each, {share:.2f} % of a core at 1/s")


def live(folder: Path, rounds: int) -> None:
    """Print the ratio of the epochs with scrapes to those without, from alternating parts of one run."""
    found: dict[bool, list[float]] = {False: [], True: []}
    with running(folder, 100_000) as port:
        wait_until_live(port)
        time.sleep(_SECONDS)
        for number in range(2 * rounds):
            has_scrapes = number % 4 in {1, 2}  # without, with, with, without: a trend of the machine counts for both
            for _ in range(_SECONDS):
                if has_scrapes:
                    scrape(port, 1)
                time.sleep(1)
            found[has_scrapes] += epoch_seconds(port, _SECONDS)
    means = {has: float(np.mean(seconds)) for has, seconds in found.items()}
    errors = [float(np.std(seconds)) / len(seconds) ** 0.5 / means[has] for has, seconds in found.items()]
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    error = sum(one * one for one in errors) ** 0.5
    print(f"epochs with scrapes: {len(found[True])}, mean {means[True]:.4f} s")
    print(f"epochs without: {len(found[False])}, mean {means[False]:.4f} s")
    print(f"ratio: {means[True] / means[False]:.3f}, standard error {error:.3f}")


def scrape(port: int, times: int) -> int:
    """Scrape one after the other; return the bytes of the last answer."""
    size = 0
    for _ in range(times):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        size = len(answer.read())
        assert answer.status == 200, answer.status
        connection.close()
    return size


if __name__ == "__main__":
    main()
