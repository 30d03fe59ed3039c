"""Point reads, one after the other on one connection: each has its own answer, however the requests arrive."""

import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.errors import RetryableError
from mixedmode.queryable import kept as kept_module
from mixedmode.queryable.kept import KeptState
from mixedmode.serve import point_reads
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site
from mixedmode.serve.folders import open_folders
from mixedmode.serve.server import Endpoint, Server
from mixedmode.serve.state import StateQuestion
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import EPOCHS, counts, row, totals

TOKEN = "a-token-of-a-test-that-reads"
STEP = "/api/v1/state/aggregate-1"


def request(query: str = "key=a", *headers: str, method: str = "GET", path: str = STEP) -> bytes:
    lines = [f"{method} {path}?{query} HTTP/1.1", "Host: localhost", *headers]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


class Wire:
    """A server of the state of a job, and connections to it."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self._port), timeout=10) as connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connected

    def alone(self, data: bytes) -> bytes:
        """Return the answer on a connection of its own."""
        with self.connection() as connected:
            connected.sendall(data)
            return answers_on(connected, 1)[0]


def answers_on(connected: socket.socket, count: int) -> list[bytes]:
    """Return the next answers on a connection, without their date."""
    arrived, found = b"", list[bytes]()
    while len(found) < count:
        head, end, rest = arrived.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if end and length is not None and len(rest) >= int(length[1]):
            own = int(length[1])
            found.append(re.sub(rb"date: [^\r]*\r\n", b"", head) + end + rest[:own])
            arrived = rest[own:]
            continue
        data = connected.recv(65536)
        assert data, (arrived, found)
        arrived += data
    assert arrived == b""
    return found


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    job = RunningJob(tmp_path_factory.mktemp("state") / "job", counts)
    for rows in EPOCHS:
        job.epoch(rows)
    with _served(job, Tokens()) as found:
        yield found


@contextmanager
def _served(job: RunningJob, tokens: Tokens) -> Iterator[Wire]:
    jobs = open_folders([str(job.checkpoints)])
    states = {one.id: KeptState(job.checkpoints) for one in jobs}
    with Server(Site(jobs, states=states), Endpoint(parse_address("0"), tokens)) as server:
        yield Wire(server.port)


def test_each_request_on_a_connection_has_the_answer_that_it_has_alone(wire: Wire) -> None:
    queries = ["key=a", "key=b", "key=a&key=b", "epoch=0&key=k7&name=result", "key=zz", "key=%61", "key=b+c", "key="]
    requests = [*map(request, queries), request("key=b", method="POST"), request("", path="/api/v1/state"), request()]
    with wire.connection() as connected:
        for data in requests:
            connected.sendall(data)
            assert answers_on(connected, 1) == [wire.alone(data)], data


@pytest.mark.parametrize("cut", range(1, len(request()), 21))
def test_a_request_that_comes_in_parts_has_the_answer_of_a_whole_one(cut: int, wire: Wire) -> None:
    data = request()
    with wire.connection() as connected:
        for _ in range(2):
            connected.sendall(data[:cut])
            wire.alone(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the part has been read by then
            connected.sendall(data[cut:])
            assert answers_on(connected, 1) == [wire.alone(data)]


def test_a_request_cannot_hide_in_the_head_of_another_one(wire: Wire) -> None:
    with wire.connection() as connected:
        connected.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: ")
        wire.alone(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connected.sendall(request("key=b"))
        (found,) = answers_on(connected, 1)
    assert b'"jobs"' in found or b"400" in found.split(b"\r\n")[0]


def test_requests_that_come_together_are_answered_in_their_order(wire: Wire) -> None:
    keys = ["a", "k1", "b", "zz", "k2"]
    expected = [wire.alone(request(f"key={key}")) for key in keys]
    with wire.connection() as connected:
        connected.sendall(b"".join(request(f"key={key}") for key in keys))
        assert answers_on(connected, len(keys)) == expected
        for key in keys:  # perhaps while the one before is read
            connected.sendall(request(f"key={key}"))
        assert answers_on(connected, len(keys)) == expected


@pytest.mark.parametrize("rest", [b"", request("key=k1"), request("key=k1")[:20]])
def test_a_client_that_closes_its_own_side_gets_its_answers_at_once(rest: bytes, wire: Wire) -> None:
    with wire.connection() as connected:
        connected.sendall(request("key=b"))
        connected.sendall(rest)
        connected.shutdown(socket.SHUT_WR)
        connected.settimeout(3)  # less than an idle connection is kept
        found = b""
        while data := connected.recv(65536):
            found += data
    assert found.count(b"HTTP/1.1 200 OK") == 1 + rest.endswith(b"\r\n\r\n")


def test_a_failed_read_is_one_error_and_the_connection_goes_on(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_state: object, questions: Sequence[StateQuestion]) -> list[Exception]:
        return [RetryableError("the disk failed") for _ in questions]

    with wire.connection() as connected:
        with monkeypatch.context() as patch:
            patch.setattr(point_reads, "answers", broken)
            connected.sendall(request("key=b"))
            (found,) = answers_on(connected, 1)
        for key in ("k1", "k2"):
            connected.sendall(request(f"key={key}"))
            assert answers_on(connected, 1) == [wire.alone(request(f"key={key}"))]
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"the disk failed" in found


def test_a_token_counts_for_the_requests_that_have_it(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job", counts)
    job.epoch(EPOCHS[0])
    right, wrong = f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {TOKEN[:-1]}x"
    with _served(job, Tokens(read=TOKEN)) as wire, wire.connection() as connected:
        statuses = []
        for header in (right, right, wrong, right, "X: none", right):
            connected.sendall(request("key=a", header))
            statuses.append(answers_on(connected, 1)[0].split(b" ")[1])
    assert statuses == [b"200", b"200", b"401", b"200", b"401", b"200"]


def test_answers_are_those_of_their_epoch_while_the_job_goes_on_and_is_rescaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(kept_module, "TICK_SHARE", 1e9)
    job, rows, keys = RunningJob(tmp_path / "job", counts), list(EPOCHS), ["a", "b", "k7", "new 5", "zz"]
    job.epoch([one for epoch in EPOCHS for one in epoch])
    expected = {0: {one["k"]: one for one in totals(EPOCHS)}}
    with _served(job, Tokens()) as wire, wire.connection() as connected:
        for number, parallelism in enumerate((2, 3, 1, 4, 2, 2), 1):
            rows.append([row("a", number, 10 + number), row(f"new {number}", 1, 10 + number)])
            expected[number] = {one["k"]: one for one in totals(rows)}
            newest = 0
            for asked in range(1000):
                if asked == 3:
                    job.epoch(rows[-1], parallelism=parallelism)
                    retained = list(job.manifests)
                    drop_old_checkpoints(job.log, retained, num_retained=1, now_ms=time.time_ns() // 1_000_000)
                    job.manifests[:] = retained
                key = keys[asked % len(keys)]
                connected.sendall(request(urlencode({"key": key})))
                (answer,) = answers_on(connected, 1)
                found = json.loads(answer.partition(b"\r\n\r\n")[2])
                newest = max(newest, found["epoch"])
                row_of_key = expected[found["epoch"]].get(key)
                assert found["rows"] == ([] if row_of_key is None else [row_of_key])
                if newest == number:
                    break
            assert newest == number
