"""The cost of a scrape of the metrics: CPU time of the server and of its client together, so an upper bound.

    python bench/scrape.py [--scrapes 500]

With one scrape a second, milliseconds per scrape are tenths of a percent of one core.
"""

import argparse
import http.client
import tempfile
import time
from pathlib import Path

from tests.serve import story
from tests.serve.site import served


def main() -> None:
    """Print the CPU time of a scrape of a job with three steps, after its backlog and 60 live epochs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scrapes", type=int, default=500)
    scrapes = parser.parse_args().scrapes
    with tempfile.TemporaryDirectory(prefix="scrape-") as name:
        folder = Path(name)
        with served(folder, spec=story.spec(folder)) as site:
            for _, event in (*story.backlog(), *story.live()):
                site.tell(event)
            scrape(site.server.port, 20)  # warm-up
            worked = time.process_time()
            size = scrape(site.server.port, scrapes)
            milliseconds = 1000 * (time.process_time() - worked) / scrapes
    share = milliseconds / 10
    print(f"{scrapes} scrapes of {size:,} bytes: {milliseconds:.2f} ms of CPU each, {share:.2f} % of a core at 1/s")


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
