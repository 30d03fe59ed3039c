r"""Point reads that differ from the request before on their connection only in the key: answered from its bytes.

To parse a request, to check it and to write the heads of its answer takes more CPU time than the read itself. A client
that reads key after key sends the same bytes each time, apart from the key:

    GET /api/v1/state/by_k?key=5 HTTP/1.1\r\nHost: localhost\r\n\r\n
    |--------- before ---------|key|-------------- after ------------|

So a connection remembers a request that was answered as usual, and a request with the same bytes around its key is the
same question about another key: checks, routes and headers would say the same again.

Invariants (tests/serve/test_repeats.py):
  I1  an answer is the one that the request would get as usual, byte for byte, apart from the date
  I2  a request is answered from its bytes only if it is whole, comes alone, and begins where the one before has ended
  I3  an error, or an answer that is not small, is the answer of the usual way: the request goes there after all
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from typing_extensions import override

from mixedmode.serve.documents import Document
from mixedmode.serve.point_reads import PointReads
from mixedmode.serve.protocol import LimitedProtocol
from mixedmode.serve.state import StateQuestion
from mixedmode.serve.state_routes import REPEATABLE, point_answer

__all__ = ["RepeatedRead", "RepeatingProtocol"]

#: a key that means itself in a query. The target has no `#`, behind which a parser might look for no parameters
_KEY = rb"[A-Za-z0-9_.~-]{1,256}"
_ONLY_KEY = re.compile(_KEY)
_HEAD = re.compile(rb"(?:[^\r\n]+\r\n)+\r\n")
_REQUEST = re.compile(rb"(GET [^ #]*[?&]key=)(%b)((?:&[^ #]*)? HTTP/1\.1\r\n.+)" % _KEY, re.DOTALL)
_BEYOND_THE_HEAD = frozenset({b"content-length", b"transfer-encoding", b"upgrade", b"expect"})
_Headers = Iterable[tuple[bytes, bytes]]
_SMALL_BYTES = 64 * 1024  # an answer that a client may read in one piece


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """A request that was answered: its bytes around the key, and what it asked."""

    before: bytes
    after: bytes
    points: PointReads
    question: StateQuestion

    @classmethod
    def of(cls, data: bytes, points: PointReads, question: StateQuestion) -> Self | None:
        """Return the request in `data`; None if its key is not one that stands for itself."""
        found = _REQUEST.fullmatch(data)
        if found is None or question.keys != (found[2].decode(),):
            return None
        return cls(found[1], found[3], points, question)

    def question_in(self, data: bytes) -> StateQuestion | None:
        """Return the question of a request with the same bytes around its key; None for any other data."""
        end = len(data) - len(self.after)
        if end <= len(self.before) or not data.startswith(self.before) or not data.endswith(self.after):
            return None
        key = _ONLY_KEY.fullmatch(data, len(self.before), end)
        return None if key is None else self.question.about(key[0].decode())


class RepeatingProtocol(LimitedProtocol):
    """A connection of a client, which may repeat its point reads."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_between = True  # all data so far were whole requests, so the parser waits for the beginning of one
        self._parsed = b""  # the newest request, if it came whole
        self._repeated: RepeatedRead | None = None  # the newest request, if its answer is complete
        self._is_reading = False  # the answer to a repeated read is awaited
        self._later = b""  # data that came meanwhile
        self._answered_at = 0.0  # the newest repeated read, by the clock of the event loop
        self._ends_after_answer = False

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_reading:
            self._later += data
            self.flow.pause_reading()
            return
        question = self._repeated_question(data)
        if question is None:
            self._parse(data)
            return
        assert self._repeated is not None
        self._is_reading = True
        self._repeated.points.put(question, partial(self._tell, data))

    def _repeated_question(self, data: bytes) -> StateQuestion | None:
        repeated = self._repeated
        if repeated is None or self.flow.write_paused or repeated.points.is_full:
            return None
        return repeated.question_in(data)

    def _parse(self, data: bytes) -> None:
        """Let uvicorn handle data; remember them if they are one whole request."""
        before, is_between = self.cycle, self._is_between and not self._is_answering
        self._repeated, self._parsed = None, b""
        super().data_received(data)
        cycle: Any = self.cycle  # a new one if a head is complete
        self._is_between = is_between and cycle is not before and not cycle.more_body and _is_one_head(data, cycle)
        if self._is_between and cycle.keep_alive:
            self._parsed = data

    @override
    def on_response_complete(self) -> None:
        cycle: Any = self.cycle
        asked = cycle.scope.get(REPEATABLE)
        if asked is not None and self._parsed:
            self._repeated = RepeatedRead.of(self._parsed, *asked)
        super().on_response_complete()

    def _tell(self, data: bytes, answer: Document | Exception) -> None:
        """Send the answer to a repeated read."""
        self._is_reading = False
        if self.transport.is_closing():
            return
        body = _small(answer, self.server_state.default_headers)
        if body is None:
            self._parse(data)
            # rows that are large are likely to be followed by such ones, and each would be read twice
            self._is_between = self._is_between and isinstance(answer, Exception)
            self._parsed = self._parsed if self._is_between else b""
        else:
            self.transport.write(body)
            self._answered_at = self.loop.time()
        if self._ends_after_answer:
            super().shutdown()
        elif self._later:
            later, self._later = self._later, b""
            self.flow.resume_reading()
            self.data_received(later)
        if self._is_half_closed and not self._is_answering:
            self.transport.close()

    @override
    def timeout_keep_alive_handler(self) -> None:
        """End a connection that is idle. A repeated read moves no timer, which would cost as much as its answer."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._is_reading:
            left = float(self.timeout_keep_alive)
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    @override
    def shutdown(self) -> None:
        self._ends_after_answer = True
        if not self._is_reading:
            super().shutdown()

    @property
    @override
    def _is_answering(self) -> bool:
        return self._is_reading or super()._is_answering


def _is_one_head(data: bytes, cycle: Any) -> bool:
    """Return whether data are the head of one request, and nothing else follows or is to follow."""
    names = {name for name, _ in cycle.scope["headers"]}
    return _HEAD.fullmatch(data) is not None and _BEYOND_THE_HEAD.isdisjoint(names)


def _small(answer: Document | Exception, headers: _Headers) -> bytes | None:
    """Return an answer with its head; None if it is an error or not small, which the usual way has to send."""
    if isinstance(answer, Exception):
        return None
    try:
        found = point_answer(answer, headers)
    except Exception:  # noqa: BLE001  # the usual way meets it again, and logs it
        return None
    return found if len(found) <= _SMALL_BYTES else None
