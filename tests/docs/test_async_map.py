"""The example of docs/async-map.md without Spark, against a real HTTP service on this machine that the test starts."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typing_extensions import override

from mixedmode.errors import RetryableError
from mixedmode.job import Job
from mixedmode.testing import run_graph
from tests.docs.examples import example_of

NAME = "docs/async-map.md"
SEGMENTS = {"ann": "regular", "bob": "new"}
ORDERS = [
    {"order_id": number, "customer": customer, "amount": 10.0 * number, "at": number}
    for number, customer in enumerate(["ann", "bob", "ann", "eve", "ann"])
]


class Segments:
    """The service: what it was sent, by idempotency key. The first of all calls gets 503, and eve is unknown."""

    def __init__(self) -> None:
        self.sent = Counter[str]()
        self.customers: dict[str, str] = {}
        self.calls = 0
        self.url = ""

    def answer(self, requests: list[dict[str, str]]) -> tuple[int, Any]:
        self.calls += 1
        for request in requests:
            self.sent[request["id"]] += 1
            self.customers[request["id"]] = request["customer"]
        if self.calls == 1:
            return 503, {}
        return 200, [{"segment": SEGMENTS.get(request["customer"])} for request in requests]


@contextmanager
def served() -> Iterator[Segments]:
    """A service on a port of its own."""
    service = Segments()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = service.answer(requests)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_address[1]}/segments"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


def job_of(url: str, **changes: Any) -> Job:
    """The job of the document, which asks the service at this place, with changes of its step; None removes a key."""
    document = yaml.safe_load(Path("job.yaml").read_text(encoding="utf-8"))
    step = document["steps"][0]
    assert step["args"]["url"] == "http://127.0.0.1:8000/segments"
    given = {**step, "args": {"url": url}, "backoff": "1ms", **changes}
    document["steps"][0] = {key: value for key, value in given.items() if value is not None}
    Path("here.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return Job.from_file("here.yaml")


TOTALS = [
    {"segment": None, "orders": 1, "amount": 30.0},
    {"segment": "new", "orders": 1, "amount": 10.0},
    {"segment": "regular", "orders": 3, "amount": 60.0},
]


def totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["segment"] or "")


def test_the_example_asks_once_for_each_customer_in_all_modes(tmp_path: Path) -> None:
    with example_of(NAME, tmp_path):
        for inputs, live in ((ORDERS, []), (ORDERS[:2], [ORDERS[2:4], ORDERS[4:]])):
            with served() as service:
                found = run_graph(job_of(service.url), {"orders": inputs}, live=[{"orders": rows} for rows in live])
            assert totals(found.table()) == TOTALS
            assert found["dead-letter"] == []
            assert sorted(service.customers.values()) == ["ann", "bob", "eve"], "each has one idempotency key"
            assert sum(service.sent.values()) >= 4, "the call that got 503 was sent again, with its keys"
            assert max(service.sent.values()) == 2


def test_a_service_that_is_away_leaves_the_rows_as_dead_letters(tmp_path: Path) -> None:
    with example_of(NAME, tmp_path):
        with served() as service:
            pass  # nobody listens there any more
        found = run_graph(job_of(service.url, retries=1), {"orders": ORDERS})
        assert found.table() == []
        assert sorted(json.loads(row["record"])["order_id"] for row in found["dead-letter"]) == [0, 1, 2, 3, 4]
        assert all("URLError" in row["error"] and "functions.py:" in row["error"] for row in found["dead-letter"])


def test_a_service_that_is_away_stops_a_job_that_may_be_started_again(tmp_path: Path) -> None:
    with example_of(NAME, tmp_path):
        with served() as service:
            pass
        job = job_of(service.url, retries=0, **{"on-error": "fail", "dead-letter": None})
        with pytest.raises(RetryableError, match="Make the service available"):
            run_graph(job, {"orders": ORDERS})
