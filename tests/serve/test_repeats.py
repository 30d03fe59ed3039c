"""Point reads that repeat the request before on their connection: the same answers as the usual way, byte for byte."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from mixedmode.checkpoint.retention import drop_old_checkpoints
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.queryable import kept as kept_module
from mixedmode.queryable.kept import KeptState
from mixedmode.serve import point_reads, repeats
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.app import Site
from mixedmode.serve.folders import open_folders
from mixedmode.serve.point_reads import PointReads
from mixedmode.serve.repeats import RepeatedRead, RepeatingProtocol
from mixedmode.serve.server import Endpoint, Server
from mixedmode.serve.state import StateQuestion
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import EPOCHS, counts, row, totals

TOKEN = "a-token-of-a-test-that-reads"
STEP = "/api/v1/state/aggregate-1"


def request(query: str = "key=a", *headers: str, method: str = "GET", path: str = STEP) -> bytes:
    lines = [f"{method} {path}?{query} HTTP/1.1", "Host: localhost", *headers]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


class Counted(RepeatingProtocol):
    """Counts the requests that were answered from their bytes."""

    repeated = 0
    #: called when such a request waits for its answer
    asked: Callable[[RepeatingProtocol], None] | None = None

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_reading and Counted.asked is not None:
            Counted.asked(self)

    @override
    def _tell(self, data: bytes, answer: Any) -> None:
        Counted.repeated += 1
        super()._tell(data, answer)


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
        """Return the answer on a connection of its own, which has nothing to repeat."""
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
def _served(job: RunningJob, tokens: Tokens, protocol: type[RepeatingProtocol] = Counted) -> Iterator[Wire]:
    jobs = open_folders([str(job.checkpoints)])
    states = {one.id: KeptState(job.checkpoints) for one in jobs}
    with Server(Site(jobs, states=states), Endpoint(parse_address("0"), tokens), protocol) as server:
        yield Wire(server.port)


@pytest.fixture(autouse=True)
def none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "repeated", 0)


SAME: list[tuple[list[bytes], int]] = [
    ([request(f"key={key}") for key in ("a", "k7", "zz", "a", "b")], 4),
    ([request(f"epoch=0&key={key}&name=result") for key in ("a", "k7", "zz")], 2),
    ([request("key=a"), request("key=a&key=b"), request("key=k1"), request("key=k2")], 1),
    ([request("key=a"), request("key=b", path="/api/v1/state/no-such-step"), request("key=c"), request("key=c")], 1),
    ([request("key=a"), request("key=b&x=1"), request("key=b#&key=c"), request("key=k1"), request("key=k2")], 1),
    ([request("key=a"), request("key=%61"), request("key=b+c"), request("key=[null]"), request("key=")], 0),
    ([request("key=a&epoch=99"), request("key=b&epoch=99")], 0),
    ([request("key=a"), request("key=b", method="POST"), request("key=b"), request("key=c")], 1),
    ([request("key=a", "Host: localhost"), request("key=b", "Host: localhost")], 0),
    ([request("key=a", "Content-Length: 0"), request("key=b", "Content-Length: 0")], 0),
    ([request("limit=5&key=a"), request("limit=5&key=b")], 0),
    ([request("key=a", "Accept: */*", "X: 1"), request("key=b", "Accept: */*", "X: 1"), request("key=c", "X: 1")], 1),
]


@pytest.mark.parametrize(("requests", "repeated"), SAME)
def test_requests_on_one_connection_have_the_answers_of_the_usual_way(
    requests: Sequence[bytes], repeated: int, wire: Wire
) -> None:
    with wire.connection() as connected:
        for data in requests:
            connected.sendall(data)
            assert answers_on(connected, 1) == [wire.alone(data)], data
    assert Counted.repeated == repeated


def test_a_head_has_no_content_and_other_requests_get_between_repeated_ones(wire: Wire) -> None:
    with wire.connection() as connected:
        for data in (request("key=a"), request("key=b"), request("", path="/api/v1/state"), request("key=a")):
            connected.sendall(data)
            assert answers_on(connected, 1) == [wire.alone(data)]
        connected.sendall(request("key=b") + request("key=a", "Connection: close", method="HEAD"))
        found = b""
        while data := connected.recv(65536):
            found += data
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert found.endswith(b"connection: close\r\n\r\n")
    assert Counted.repeated == 1


@pytest.mark.parametrize("cut", range(1, len(request()), 7))
def test_a_request_that_comes_in_parts_is_answered_as_usual(cut: int, wire: Wire) -> None:
    data = request()
    with wire.connection() as connected:
        connected.sendall(data)
        answers_on(connected, 1)
        connected.sendall(data[:cut])
        wire.alone(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the part has been read by then
        connected.sendall(data[cut:])
        assert answers_on(connected, 1) == [wire.alone(data)]
        for _ in range(2):
            connected.sendall(data)
            assert answers_on(connected, 1) == [wire.alone(data)]
    assert Counted.repeated == 0, "where a request begins, only the parser knows"


def test_a_request_cannot_hide_in_the_head_of_another_one(wire: Wire) -> None:
    inner = request("key=b")
    with wire.connection() as connected:
        connected.sendall(request("key=a"))
        answers_on(connected, 1)
        connected.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: ")
        wire.alone(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connected.sendall(inner)
        (found,) = answers_on(connected, 1)
    assert b'"jobs"' in found or b"400" in found.split(b"\r\n")[0]
    assert Counted.repeated == 0


def test_requests_that_come_together_are_answered_in_their_order(wire: Wire) -> None:
    keys = ["a", "k1", "b", "zz", "k2"]
    expected = [wire.alone(request(f"key={key}")) for key in keys]
    with wire.connection() as connected:
        connected.sendall(request())
        answers_on(connected, 1)
        connected.sendall(b"".join(request(f"key={key}") for key in keys))
        assert answers_on(connected, len(keys)) == expected
        connected.sendall(request("key=a"))
        assert answers_on(connected, 1) == expected[:1]
    with wire.connection() as connected:
        connected.sendall(request())
        answers_on(connected, 1)
        for key in keys:  # perhaps while the one before is read
            connected.sendall(request(f"key={key}"))
        assert answers_on(connected, len(keys)) == expected


def test_data_that_come_while_a_repeated_read_waits_are_answered_after_it(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = request("key=k1") + request("", path="/api/v1/state")

    def more(protocol: RepeatingProtocol) -> None:
        monkeypatch.setattr(Counted, "asked", None)
        protocol.data_received(later[:100])
        protocol.data_received(later[100:])

    with wire.connection() as connected:
        connected.sendall(request())
        answers_on(connected, 1)
        monkeypatch.setattr(Counted, "asked", more)
        connected.sendall(request("key=b"))
        found = answers_on(connected, 3)
    assert found == [
        wire.alone(data) for data in (request("key=b"), request("key=k1"), request("", path="/api/v1/state"))
    ]
    assert Counted.repeated == 1


@pytest.mark.parametrize("rest", [b"", request("key=k1"), request("key=k1")[:20]])
def test_a_client_that_closes_its_own_side_gets_its_answers_at_once(rest: bytes, wire: Wire) -> None:
    with wire.connection() as connected:
        connected.sendall(request())
        answers_on(connected, 1)
        connected.sendall(request("key=b"))
        connected.sendall(rest)
        connected.shutdown(socket.SHUT_WR)
        connected.settimeout(3)  # less than an idle connection is kept
        found = b""
        while data := connected.recv(65536):
            found += data
    assert found.count(b"HTTP/1.1 200 OK") == 1 + rest.endswith(b"\r\n\r\n")


def failing(*_given: object) -> bytes:
    raise RecursionError


@pytest.mark.parametrize(("name", "value"), [("_SMALL_BYTES", 10), ("point_answer", failing)])
def test_an_answer_that_is_not_small_is_sent_as_usual_and_so_are_those_after_it(
    name: str, value: object, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [wire.alone(request(f"key={key}")) for key in ("a", "b", "k1", "k2")]
    with wire.connection() as connected:
        connected.sendall(request("key=a"))
        found = answers_on(connected, 1)
        monkeypatch.setattr(repeats, name, value)
        for key in ("b", "k1", "k2"):
            connected.sendall(request(f"key={key}"))
            found += answers_on(connected, 1)
    assert found == expected
    assert Counted.repeated == 1


def test_an_error_is_that_of_the_usual_way_and_later_requests_are_repeated(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_state: object, questions: Sequence[StateQuestion]) -> list[Exception]:
        return [RetryableError("the disk failed") for _ in questions]

    with wire.connection() as connected:
        connected.sendall(request("key=a"))
        answers_on(connected, 1)
        with monkeypatch.context() as patch:
            patch.setattr(point_reads, "answers", broken)
            connected.sendall(request("key=b"))
            (found,) = answers_on(connected, 1)
        for key in ("k1", "k2"):
            connected.sendall(request(f"key={key}"))
            assert answers_on(connected, 1) == [wire.alone(request(f"key={key}"))]
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"the disk failed" in found
    assert Counted.repeated == 2, "key=b, and k2"


def test_a_token_counts_for_the_requests_that_have_it(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job", counts)
    job.epoch(EPOCHS[0])
    right, wrong = f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {TOKEN[:-1]}x"
    with _served(job, Tokens(read=TOKEN)) as wire, wire.connection() as connected:
        statuses = []
        for header in (right, right, wrong, right, right, "X: none", right):
            connected.sendall(request("key=a", header))
            statuses.append(answers_on(connected, 1)[0].split(b" ")[1])
    assert statuses == [b"200", b"200", b"401", b"200", b"200", b"401", b"200"]
    assert Counted.repeated == 2


def test_repeated_reads_keep_their_connection_and_an_idle_one_ends(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job", counts)
    job.epoch(EPOCHS[0])
    handled: list[bool] = []

    class Brief(Counted):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.timeout_keep_alive = 0.2  # type: ignore[assignment]

        @override
        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            handled.append(self.transport.is_closing())

    with _served(job, Tokens(), Brief) as wire, wire.connection() as connected:
        while handled.count(False) < 2:  # longer than an idle connection lasts
            connected.sendall(request())
            answers_on(connected, 1)
        assert connected.recv(1) == b"", "it ends when it is idle"
    assert handled == [False] * (len(handled) - 1) + [True]


HEADS = [
    ("Host: localhost",),
    ("Host: localhost", "Accept: */*", "Authorization: Bearer key=a"),
    ("X: key=a HTTP/1.1",),
]
QUERIES = ["key=a", "name=key&key=a", "key=a&name=b", "epoch=3&key=a&name=key"]
TEXTS = ["a", "a.b", "~", "-1", "", "a&key=b", "a b", "%61", "+", "a#b", "a\r\nX: 1", "é", "a/b?key=c", "=", "[1]"]


def of_request(data: bytes) -> tuple[StateQuestion, Any] | None:
    """Return what another parser of HTTP reads: the question, and all of the head but the target."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    try:
        head, end = connection.next_event(), connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(head, h11.Request) or not isinstance(end, h11.EndOfMessage) or connection.trailing_data[0]:
        return None
    path, _, query = head.target.partition(b"?")
    try:
        question = StateQuestion.of("s", parse_qsl(query.decode(), keep_blank_values=True), is_arrow=False)
    except (InvalidJobError, UnicodeDecodeError):
        return None
    return question, (path, head.method, head.http_version, head.headers.raw_items())


@given(
    query=st.sampled_from(QUERIES),
    heads=st.sampled_from(HEADS),
    text=st.sampled_from(TEXTS),
    cut=st.tuples(st.integers(0, 150), st.integers(0, 3)),
    inserted=st.sampled_from([b"", b"\r\n", b"\n", b"0", b"&", b" ", b"X: 1\r\n"]),
)
def test_a_request_is_repeated_only_if_another_parser_reads_the_same_question_of_another_key(
    query: str, heads: tuple[str, ...], text: str, cut: tuple[int, int], inserted: bytes
) -> None:
    def of(written: str) -> bytes:
        return "".join(f"{line}\r\n" for line in (f"GET /s?{written} HTTP/1.1", *heads, "")).encode()

    first = of_request(of(query))
    if first is None:
        return
    question, rest = first
    read = RepeatedRead.of(of(query), PointReads(None), question)  # type: ignore[arg-type]
    assert read is not None
    assert read.question_in(of(query)) == question
    changed = of(query.replace("key=a", f"key={text}"))
    changed = changed[: cut[0]] + inserted + changed[cut[0] + cut[1] :]
    found = read.question_in(changed)
    if found is not None:
        assert of_request(changed) == (found, rest)
        assert len(found.keys) == 1


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
    assert Counted.repeated > 6
