# ruff: noqa: INP001, T201  (a script, which prints)
"""The example's data, its service, the class that asks it, and the answer in plain Python.

    python examples/segments/segments.py prepare     customers, and the orders of a day
    python examples/segments/segments.py serve       the service, until Ctrl-C
    python examples/segments/segments.py feed        live orders, for a while
    python examples/segments/segments.py check       what the job has written, compared with plain Python

Order n is a function of n, so the live orders go on where the others end.
"""

import argparse
import asyncio
import csv
import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request as HttpRequest
from urllib.request import urlopen
from zlib import crc32

from typing_extensions import override

from mixedmode import read_table
from mixedmode.process import AsyncMapFunction, Request

FOLDER = Path("run/segments")
PORT = 8765  # as in the job file
START = datetime(2025, 1, 1, tzinfo=UTC)
CUSTOMERS = 200  # the last 20 of them are not in the table
REGIONS = ("north", "south", "west")
FAILS_EVERY = 5  # calls of which the service refuses one

Order = dict[str, Any]


class Segment(AsyncMapFunction):
    """Asks the service about some customers in one call."""

    def __init__(self, url: str) -> None:
        self.url = url

    @override
    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._post, requests)

    def _post(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        body = [{"id": request.idempotency_key, "customer": request["customer"]} for request in requests]
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        sent = HttpRequest(self.url, data, headers)  # noqa: S310 - the address is in the job file
        with urlopen(sent, timeout=5) as reply:  # noqa: S310 - as above
            answers: list[dict[str, Any]] = json.load(reply)
            return answers


def segment_of(customer: str) -> str:
    """Return the segment of a customer, as the service knows it."""
    return "large" if crc32(customer.encode()) % 4 == 0 else "regular"


class Service(BaseHTTPRequestHandler):
    """The service: it answers a list of customers with a list of segments, and is too busy now and then."""

    calls: ClassVar[int] = 0
    asked: ClassVar[Counter[str]] = Counter()  #: {customer: how often it was answered}

    def do_POST(self) -> None:
        """Answer a call, or refuse it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Service.calls += 1
        if Service.calls % FAILS_EVERY == 0:
            self.send_error(503, "busy")
            return
        Service.asked.update(one["customer"] for one in body)
        reply = json.dumps([{"segment": segment_of(one["customer"])} for one in body]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about single calls."""


def orders(first: int, count: int) -> Iterator[Order]:
    """Yield the orders of these numbers."""
    for number in range(first, first + count):
        rng = random.Random(number)  # noqa: S311 - no secret
        customer, amount = f"customer {rng.randrange(CUSTOMERS)}", rng.randrange(1, 100)
        yield {"order_id": number, "customer": customer, "amount": amount, "at": START + timedelta(seconds=number)}


def prepare(folder: Path, *, count: int) -> None:
    """Write the table of customers, and `count` orders; what an earlier run left is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = [(f"customer {number}", REGIONS[number % len(REGIONS)]) for number in range(CUSTOMERS - 20)]
    with (folder / "customers.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("name", "region"), *rows])
    write_orders(folder, count)


def write_orders(folder: Path, count: int) -> None:
    """Write one file with the next `count` orders; a reader sees it when it is whole."""
    first = sum(len(path.read_text().splitlines()) for path in (folder / "orders").glob("*.json"))
    (folder / "orders").mkdir(exist_ok=True)
    text = "".join(json.dumps({**order, "at": order["at"].isoformat()}) + "\n" for order in orders(first, count))
    hidden = folder / "orders" / f".{first:09}.json"
    hidden.write_text(text, encoding="utf-8")
    hidden.rename(hidden.with_name(hidden.name[1:]))


def feed(folder: Path, *, seconds: int) -> None:
    """Write 50 orders a second, for some time."""
    for _ in range(seconds):
        write_orders(folder, 50)
        time.sleep(1)
    print(f"feed: {50 * seconds:,} live orders are in {folder / 'orders'}")


def serve(port: int = PORT) -> ThreadingHTTPServer:
    """Return the service, listening on this port of this machine; 0: any that is free."""
    return ThreadingHTTPServer(("127.0.0.1", port), Service)


def totals(folder: Path) -> dict[tuple[str | None, str], tuple[int, int]]:
    """Return {(region, segment): (orders, amount)} in plain Python."""
    with (folder / "customers.csv").open(encoding="utf-8") as file:
        regions = {row["name"]: row["region"] for row in csv.DictReader(file)}
    counts, amounts = Counter[tuple[str | None, str]](), Counter[tuple[str | None, str]]()
    for path in (folder / "orders").glob("*.json"):
        for order in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            key = regions.get(order["customer"]), segment_of(order["customer"])
            counts[key] += 1
            amounts[key] += order["amount"]
    return {key: (counts[key], amounts[key]) for key in counts}


def check(folder: Path) -> bool:
    """Return whether the table of the job is that of plain Python; print both where they differ."""
    expected = totals(folder)
    rows = read_table(str(folder / "totals")).to_pylist()
    found = {(row["region"], row["segment"]): (row["orders"], row["amount"]) for row in rows}
    differ = sorted({key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}, key=str)
    for key in differ:
        print(f"{key}: expected {expected.get(key, 'no row')}, found {found.get(key, 'no row')}")
    orders_in = sum(count for count, _ in found.values())
    print(f"check: {len(found)} totals of {orders_in:,} orders, {len(differ)} of them differ from plain Python")
    return not differ


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Data, service and answer of the example.")
    parser.add_argument("what", choices=["prepare", "serve", "feed", "check"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--orders", type=int, default=20_000, help="before the job starts (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of the feed (default: %(default)s)")
    chosen = parser.parse_args()
    if chosen.what == "prepare":
        prepare(chosen.folder, count=chosen.orders)
    elif chosen.what == "serve":
        serve().serve_forever()
    elif chosen.what == "feed":
        feed(chosen.folder, seconds=chosen.seconds)
    elif not check(chosen.folder):
        sys.exit(1)


if __name__ == "__main__":
    main()
