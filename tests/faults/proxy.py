"""A small HTTP proxy that delays, fails, throttles and cuts requests by a plan, in front of a local S3 server.

A plan is a function from what the proxy knows of a request to one fault, so a test can say both "the
answer to the first manifest gets lost" and "a fifth of everything fails, by this seed".
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLOW_SECONDS = 0.1
STUCK_SECONDS = 60.0  # longer than a client of a test waits
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_INTERNAL = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "date", "server"})


class Fault(Enum):
    """The fate of one request. `after`: the store has done what it was asked, and the client does not hear it."""

    NONE = "none"
    SLOW = "slow"
    STUCK = "stuck"  # no answer for longer than the client waits
    THROTTLED = "throttled"  # 503 SlowDown
    FAILED_BEFORE = "failed before"  # 500
    FAILED_AFTER = "failed after"
    CUT_BEFORE = "cut before"  # the connection is closed
    CUT_AFTER = "cut after"
    CUT_IN_ANSWER = "cut in answer"  # half of the answer's bytes, then the connection is closed


AFTER = frozenset({Fault.FAILED_AFTER, Fault.CUT_AFTER, Fault.CUT_IN_ANSWER})
EVERY_FAULT = tuple(fault for fault in Fault if fault not in {Fault.NONE, Fault.STUCK})


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its number (from 0), method, and path with query."""

    number: int
    method: str
    path: str


Plan = Callable[[Request], Fault]


def seeded(seed: int, share: float, faults: Sequence[Fault] = EVERY_FAULT) -> Plan:
    """This share of all requests meets one of `faults`."""

    def plan(request: Request) -> Fault:
        rng = random.Random(f"{seed}-{request.number}")
        return rng.choice(faults) if rng.random() < share else Fault.NONE

    return plan


def once(fault: Fault, method: str | None = None, part: str = "") -> Plan:
    """The first request of this method (None: any) with `part` in its path meets the fault."""
    met = threading.Event()

    def plan(request: Request) -> Fault:
        if met.is_set() or method not in {None, request.method} or part not in request.path:
            return Fault.NONE
        met.set()
        return fault

    return plan


class FaultProxy:
    """A proxy: its address, its plan, and the requests that it has met. `plan` may be replaced at any time."""

    def __init__(self, server: ThreadingHTTPServer, plan: Plan) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.plan = plan
        self.met: list[tuple[Request, Fault]] = []
        self._lock = threading.Lock()
        self.over = threading.Event()

    def fault_of(self, method: str, path: str) -> Fault:
        """The fault of the next request."""
        with self._lock:
            request = Request(len(self.met), method, path)
            fault = self.plan(request)
            self.met.append((request, fault))
            return fault

    def faults_met(self) -> set[Fault]:
        """The kinds of fault that there have been."""
        return {fault for _, fault in self.met} - {Fault.NONE}


@contextmanager
def fault_proxy(upstream_port: int, plan: Plan = lambda _request: Fault.NONE) -> Iterator[FaultProxy]:
    """A proxy in front of a server on this machine, in threads of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    proxy = FaultProxy(server, plan)
    server.proxy, server.upstream_port = proxy, upstream_port  # type: ignore[attr-defined]  # where a handler looks
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _any(self) -> None:
        proxy: FaultProxy = self.server.proxy  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = proxy.fault_of(self.command, self.path)
        with suppress(ConnectionError):  # the client may have gone
            match fault:
                case Fault.THROTTLED:
                    self._answer(503, _SLOW_DOWN)
                case Fault.FAILED_BEFORE:
                    self._answer(500, _INTERNAL)
                case Fault.CUT_BEFORE:
                    self._cut()
                case _:
                    if fault in {Fault.SLOW, Fault.STUCK}:
                        proxy.over.wait(SLOW_SECONDS if fault is Fault.SLOW else STUCK_SECONDS)
                    self._forward(body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any  # noqa: N815 - the names that the base class looks for

    def _forward(self, body: bytes, fault: Fault) -> None:
        upstream = HTTPConnection("127.0.0.1", self.server.upstream_port)  # type: ignore[attr-defined]
        try:
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
        except (OSError, HTTPException):  # the store is away
            self._cut()
            return
        finally:
            upstream.close()
        if fault is Fault.FAILED_AFTER:
            self._answer(500, _INTERNAL)
        elif fault is Fault.CUT_AFTER:
            self._cut()
        else:
            self._pass_on(answer, data, is_cut=fault is Fault.CUT_IN_ANSWER)

    def _pass_on(self, answer: HTTPResponse, data: bytes, *, is_cut: bool) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if is_cut else data)
        if is_cut:
            self._cut()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
