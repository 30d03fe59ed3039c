"""Attacks of clients that the server withstands: large bodies, slow requests, many connections, tricks with paths."""

import asyncio
import contextlib
import json
import socket
import threading
from http.client import HTTPResponse
from pathlib import Path

import pytest
from typing_extensions import override

from mixedmode.serve import app
from mixedmode.serve.address import Tokens
from mixedmode.serve.guard import BODY_BYTES_MAX
from mixedmode.serve.protocol import LimitedProtocol
from mixedmode.serve.stream import QUEUE_MAX, Hub
from tests.serve.site import NO_TOKEN_CONTROL, Served, served

STOP = b"POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\nX-Mixedmode-Control: 1\r\n"
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class Impatient(LimitedProtocol):
    """Gives a slow client little time."""

    head_seconds = 0.3
    write_seconds = 0.3
    connections_max = 20


def connected(site: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.client.port), timeout=10)


def answer_on(connection: socket.socket) -> int:
    """Return the status of the next answer on a connection that stays open; all of the answer is read."""
    with HTTPResponse(connection) as answer:
        answer.begin()
        answer.read()
        return answer.status


def all_of(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection, in order or not."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/assets/../../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/..%2fapp.py",
        "/assets//page.js",
        "/assets/",
        "/assets",
        "//other.example/",
        "/api/v1/job/",
        "/api/v1/../../etc/passwd",
        "/index.html",
        "/assets/page.js%00.css",
        "/%",
    ],
)
def test_a_path_is_one_of_the_routes_or_nothing(path: str, tmp_path: Path) -> None:
    with served(tmp_path) as site:
        answer = site.client(path)
    assert answer.status == 404
    assert "location" not in answer.headers
    assert answer.json == {"error": {"kind": "404", "message": "Not Found"}}


def test_a_large_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        with connected(site) as connection:
            connection.sendall(STOP + b"Content-Length: 1000000000000\r\n\r\n")
            assert all_of(connection).startswith(b"HTTP/1.1 413 ")
        largest = b'{"x":"' + b"y" * (BODY_BYTES_MAX - 8) + b'"}'
        json_type = {"content_type": "application/json", "x_mixedmode_control": "1"}
        assert site.client("/api/v1/stop", "POST", largest, **json_type).status == 409, "an unknown name, and no 413"
        assert site.client("/api/v1/stop", "POST", largest + b" ", **json_type).status == 413
        with connected(site) as connection:
            connection.sendall(STOP + b"Transfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"10000\r\n" + b"z" * 0x10000 + b"\r\n" + b"1\r\nz\r\n")
            assert b" 413 " in all_of(connection).split(b"\r\n")[0]
        assert site.client("/healthz", "GET", b"a body").status == 413
        assert not site.control.stop.is_set()


def test_a_request_that_arrives_slowly_is_dropped_and_others_are_answered_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.3)
    with served(tmp_path, protocol=Impatient) as site:
        with connected(site) as silent, connected(site) as half, connected(site) as second, connected(site) as body:
            half.sendall(HEAD)
            second.sendall(HEAD + b"\r\n")
            assert answer_on(second) == 200
            second.sendall(HEAD)
            body.sendall(STOP + b"Content-Length: 9\r\n\r\n{")
            assert site.client("/healthz").status == 200
            assert (all_of(silent), all_of(half)) == (b"", b"")
            assert b"HTTP" not in all_of(second)
            assert all_of(body).startswith(b"HTTP/1.1 408 ")
        assert not site.control.stop.is_set()


def test_a_head_that_is_too_large_ends_its_connection_and_no_other(tmp_path: Path) -> None:
    with served(tmp_path) as site, connected(site) as endless, connected(site) as other:
        other.sendall(HEAD + b"\r\n")
        assert answer_on(other) == 200
        with contextlib.suppress(ConnectionError):
            for number in range(100):
                endless.sendall(b"X-%d: " % number + b"y" * 10_000 + b"\r\n" if number else HEAD)
        assert b" 200 " not in all_of(endless)
        other.sendall(HEAD + b"\r\n")
        assert answer_on(other) == 200


def test_a_client_that_does_not_read_its_answer_is_dropped(tmp_path: Path) -> None:
    ended, aborted = threading.Event(), list[bool]()

    class Told(Impatient):
        def connection_lost(self, exc: Exception | None) -> None:
            aborted.append("write" in self._timers)
            super().connection_lost(exc)
            ended.set()

    with served(tmp_path, protocol=Told) as site:
        for number in range(500):
            site.job.mark("savepoint", f"{number} {'x' * 20_000}")
        with connected(site) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET /api/v1/timeline HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert ended.wait(10), "the connection is still open"
    assert aborted == [True]


def test_with_200_idle_connections_the_server_answers(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        idle = [connected(site) for _ in range(200)]
        assert site.client("/api/v1/job").status == 200
        for connection in idle:
            connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert all(all_of(connection).startswith(b"HTTP/1.1 200 OK") for connection in idle)
        for connection in idle:
            connection.close()


def test_connections_beyond_the_limit_end_at_once_and_room_comes_back(tmp_path: Path) -> None:
    with served(tmp_path, protocol=Impatient) as site:
        first = [connected(site) for _ in range(20)]
        with connected(site) as one_more:
            assert all_of(one_more) == b""
        assert [all_of(connection) for connection in first] == [b""] * 20, "they said nothing in time"
        assert site.client("/healthz").status == 200
        for connection in first:
            connection.close()


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"[" * 50_000, "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"name=x", "application/x-www-form-urlencoded", 415),
        (b'{"unknown": 1}', "application/json", 409),
    ],
)
def test_a_body_is_an_object_of_json_with_known_names(
    body: bytes, content_type: str, status: int, tmp_path: Path
) -> None:
    with served(tmp_path) as site:
        headers = {"content_type": content_type, "x_mixedmode_control": "1"}
        assert site.client("/api/v1/drain", "POST", body, **headers).status == status
        assert not site.control.drain.is_set()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_other_methods_are_refused_with_those_that_the_path_allows(method: str, tmp_path: Path) -> None:
    allowed = {"/api/v1/job": {"GET", "HEAD"}, "/api/v1/state/a": {"GET", "HEAD"}, "/api/v1/stop": {"POST"}}
    with served(tmp_path) as site:
        for path, methods in allowed.items():
            if method not in methods:
                body = None if method == "GET" else b"a body"
                answer = site.client(path, method, body, x_mixedmode_control="1")
                assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, methods)
        assert not site.control.stop.is_set()


def test_a_client_that_closes_its_own_side_gets_all_its_answers_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        for requests in (1, 3):
            with connected(site) as connection:
                connection.sendall((HEAD + b"\r\n") * requests)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(3)  # less than an idle connection is kept
                assert all_of(connection).count(b"HTTP/1.1 200 OK") == requests
        for incomplete in (b"", HEAD, STOP + b"Content-Length: 9\r\n\r\n{"):
            with connected(site) as connection:
                connection.sendall(incomplete)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(3)
                assert all_of(connection) == b""
        assert not site.control.stop.is_set()


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/events", "/api/v1/job", "/api/v1/nothing"])
def test_every_answer_to_head_is_a_head_and_ends(path: str, tmp_path: Path) -> None:
    with served(tmp_path) as site, connected(site) as connection:
        connection.settimeout(3)
        connection.sendall(f"HEAD {path}".encode() + HEAD.removeprefix(b"GET /healthz") + b"Connection: close\r\n\r\n")
        assert all_of(connection).endswith(b"\r\nconnection: close\r\n\r\n")


def test_two_headers_of_one_name_do_not_choose_who_is_asked(tmp_path: Path) -> None:
    with served(tmp_path, tokens=Tokens(read="r" * 20)) as site, connected(site) as connection:
        bearer = b"Authorization: Bearer " + b"r" * 20 + b"\r\n"
        connection.sendall(b"GET /api/v1/job HTTP/1.1\r\nHost: localhost\r\n" + bearer + bearer.replace(b"r\r", b"x\r"))
        connection.sendall(b"Connection: close\r\n\r\n")
        assert all_of(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=2001", "limit=x", "before=x", "limit=1e3", "job=other"]
)
def test_a_query_out_of_range_is_refused(query: str, tmp_path: Path) -> None:
    with served(tmp_path) as site:
        assert site.client(f"/api/v1/epochs?{query}").status in {400, 404}


@pytest.mark.parametrize("path", ["jobs", "job", "epochs", "state", "state/aggregate-1", "events"])
def test_a_query_that_is_not_utf_8_is_refused_and_not_guessed(path: str, tmp_path: Path) -> None:
    with served(tmp_path) as site:
        answer = site.client(f"/api/v1/{path}?key=%FF")
    assert (answer.status, answer.error.partition(":")[0]) == (400, "the query is not UTF-8")


def test_a_client_that_reads_the_stream_too_slowly_is_asked_to_connect_again() -> None:
    async def read() -> list[str]:
        hub, found = Hub(), list[str]()
        stream = hub.events()
        assert await anext(stream) == "retry: 2000\n\n"
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        for number in range(QUEUE_MAX + 2):
            hub.publish("mark", {"number": number})
        with contextlib.suppress(StopAsyncIteration):
            found.append(await waiting)
            found += [text async for text in stream]
        return found

    found = asyncio.run(read())
    numbers = [json.loads(text.split("data: ")[1])["number"] for text in found]
    assert numbers == [], "its queue was full, so the stream has ended, and the client reads the job anew"


def test_the_server_ends_soon_although_clients_read_the_stream(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        readers = [site.client.connection() for _ in range(3)]
        answers = []
        for reader in readers:
            reader.request("GET", "/api/v1/events")
            answers.append(reader.getresponse())
        assert [answer.readline() for answer in answers] == [b"retry: 2000\n"] * 3
    assert not site.server._thread.is_alive()
    for reader, answer in zip(readers, answers, strict=True):
        answer.close()
        reader.close()


def test_control_without_a_token_needs_its_header(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        assert site.client("/api/v1/stop", "POST").status == 403
        site.client.headers = NO_TOKEN_CONTROL
        assert site.client("/api/v1/stop", "POST", origin="http://other.example").status == 403
        assert not site.control.stop.is_set()
        assert site.client("/api/v1/stop", "POST").status == 202
        assert site.control.stop.is_set()


def test_a_small_answer_does_not_wait_for_the_acknowledgement_of_its_head(tmp_path: Path) -> None:
    options: list[int] = []

    class Looking(LimitedProtocol):
        @override
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            connected = transport.get_extra_info("socket")
            options.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    with served(tmp_path, protocol=Looking) as site:
        assert site.client("/healthz").status == 200
    assert options == [1], "otherwise each answer on a connection that is used again takes 40 ms"
