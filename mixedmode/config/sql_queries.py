"""The inputs of a query in a SQL file, and the query as a sql step has it: without STREAM and WATERMARK.

Example: `SELECT * FROM STREAM orders WATERMARK at DELAY OF INTERVAL 10 MINUTES o` reads the stream `orders`, whose
event time `at` may be 10 minutes late, and becomes `SELECT * FROM orders o`. The words that are left out become spaces,
so that Spark's messages about the rest name its places.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mixedmode.config.sql_tokens import Token, WrongSqlError, text_of
from mixedmode.durations import count_of, format_duration_ms

__all__ = ["EventTime", "Read", "WrittenQuery", "read_query"]

#: words before which no relation stands any more
_ENDS_FROM = frozenset(
    {
        *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"),
        *("UNION", "INTERSECT", "EXCEPT", "QUALIFY"),
    }
)
_NO_RELATION = frozenset({"LATERAL", "VALUES", "TABLE", "IDENTIFIER"})
_BEGINS_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES"})
_UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_AMOUNT = re.compile(r"([0-9]+)\s*([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class EventTime:
    """The WATERMARK of a stream.

    column: the name of the event time.  expression: the SQL that computes it; None if it is a column of the records.
    delay: how late a record may come, as a duration of the job file.
    """

    column: str
    expression: str | None
    delay: str
    line: int


@dataclass(frozen=True, slots=True)
class Read:
    """A name after FROM or JOIN.  is_stream: it is read with STREAM."""

    name: str
    line: int
    is_stream: bool
    event_time: EventTime | None = None


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """A query. sql: its text without the words of streams.  reads: the names that it reads, without those of WITH."""

    sql: str
    reads: tuple[Read, ...]
    line: int


def read_query(text: str, tokens: Sequence[Token]) -> WrittenQuery:
    """Return the query that consists of these tokens of a file.

    Raises WrongSqlError if a WATERMARK is no watermark that a source can have.
    """
    query = _Query(text, tokens)
    reads = tuple(query.reads())
    sql = text_of(text, tokens)
    for first, after in query.left_out:
        start, end = first - tokens[0].start, after - tokens[0].start
        sql = sql[:start] + re.sub(r"\S", " ", sql[start:end]) + sql[end:]
    return WrittenQuery(sql, tuple(read for read in reads if read.name.lower() not in query.defined), tokens[0].line)


@dataclass(slots=True)
class _Frame:
    """The state between two parentheses.  in_from: after FROM.  is_open: a relation may come next."""

    in_from: bool = False
    is_open: bool = False


class _Query:
    """A query while it is read.  left_out: (start, end) of the texts that are not in the step.

    defined: the names of WITH, in lower case.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self.left_out: list[tuple[int, int]] = []
        self.defined = {
            name.name.lower()
            for name, as_, opening, first in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False)
            if name.name and as_.word == "AS" and opening.text == "(" and first.word in _BEGINS_QUERY
        }

    def reads(self) -> Iterator[Read]:
        """Yield the names after FROM, JOIN and the commas between relations."""
        frames = [_Frame()]
        at = 0
        while at < len(self._tokens):
            token, frame = self._tokens[at], frames[-1]
            match token.word:
                case "(":
                    frames.append(_Frame(in_from=frame.is_open, is_open=frame.is_open))
                    frame.is_open = False
                case ")" if len(frames) > 1:
                    frames.pop()
                case "FROM" if not self._is_after(at, "DISTINCT"):
                    frame.in_from = frame.is_open = True
                case "JOIN":
                    frame.is_open = True
                case ",":
                    frame.is_open = frame.in_from
                case word if word in _ENDS_FROM:
                    frame.in_from = frame.is_open = False
                case "STREAM" if frame.is_open and self._stream_name(at) is not None:
                    read, at = self._stream(at)
                    frame.is_open = False
                    yield read
                    continue
                case _ if frame.is_open:
                    frame.is_open = False
                    if token.name is not None and token.word not in _NO_RELATION and self._text_at(at + 1) != "(":
                        yield Read(token.name, token.line, is_stream=False)
            at += 1

    def _text_at(self, at: int) -> str:
        return self._tokens[at].word if at < len(self._tokens) else ""

    def _is_after(self, at: int, word: str) -> bool:
        return at > 0 and self._tokens[at - 1].word == word

    def _stream_name(self, at: int) -> int | None:
        """Return the position of the name that STREAM reads: `STREAM orders` or `STREAM(orders)`."""
        inner = at + 2 if self._text_at(at + 1) == "(" else at + 1
        is_name = inner < len(self._tokens) and self._tokens[inner].name is not None
        return inner if is_name and (inner == at + 1 or self._text_at(inner + 1) == ")") else None

    def _stream(self, at: int) -> tuple[Read, int]:
        """Return what the STREAM at a position reads, and the position after it."""
        inner = self._stream_name(at)
        assert inner is not None
        token = self._tokens[inner]
        assert token.name is not None
        self.left_out.append((self._tokens[at].start, token.start))
        end = inner + 1
        if inner > at + 1:
            self.left_out.append((token.end, self._tokens[end].end))
            end += 1
        event_time = None
        if self._text_at(end) == "WATERMARK":
            first = end
            event_time, end = self._watermark(end)
            self.left_out.append((self._tokens[first].start, self._tokens[end - 1].end))
        return Read(token.name, token.line, is_stream=True, event_time=event_time), end

    def _watermark(self, at: int) -> tuple[EventTime, int]:
        """Return the watermark at a position, and the position after it: WATERMARK at DELAY OF INTERVAL 10 MINUTES."""
        line = self._tokens[at].line
        end = at + 1
        while end < len(self._tokens) and self._text_at(end) != "DELAY":
            end += 1
        timed = self._tokens[at + 1 : end]
        if self._text_at(end + 1) != "OF" or self._text_at(end + 2) != "INTERVAL" or not timed:
            msg = "a watermark has a column and a delay. Write WATERMARK at DELAY OF INTERVAL 10 MINUTES."
            raise WrongSqlError(line, msg)
        column, expression = self._event_time(timed)
        delay_ms, end = self._delay_ms(end + 3)
        return EventTime(column, expression, format_duration_ms(delay_ms), line), end

    def _event_time(self, timed: Sequence[Token]) -> tuple[str, str | None]:
        """Return the name of the event time, and the SQL that computes it, if it is not a column."""
        name = timed[-1].name
        if len(timed) == 1 and name is not None:
            return name, None
        without = timed[:-2] if len(timed) > 2 and timed[-2].word == "AS" else ()
        if name is None or not without:
            msg = "an event time that is computed needs a name. Write WATERMARK timestamp_millis(ts) AS at DELAY OF ..."
            raise WrongSqlError(timed[0].line, f"{msg} found={text_of(self._text, timed)}")
        return name, text_of(self._text, without)

    def _delay_ms(self, at: int) -> tuple[int, int]:
        """Return the milliseconds of an interval, and the position after it."""
        first = at
        parts: list[str] = []
        while at < len(self._tokens):
            token = self._tokens[at]
            if not (token.is_string or token.text.isdigit()) or at + 1 == len(self._tokens):
                break
            parts.append(f"{token.value} {self._tokens[at + 1].text}")
            at += 2
        written = " ".join(parts)
        amounts = _AMOUNT.findall(written)
        units = [_UNIT_MS.get(unit.upper().removesuffix("S")) for _, unit in amounts]
        if not amounts or None in units or _AMOUNT.sub("", written).strip():
            here = self._tokens[min(first, len(self._tokens) - 1)]
            msg = "this delay is not in weeks, days, hours, minutes, seconds or milliseconds. Write INTERVAL 10 MINUTES"
            raise WrongSqlError(here.line, f"{msg}, for example. found={written or here.text}")
        return sum(count_of(digits) * (unit or 0) for (digits, _), unit in zip(amounts, units, strict=True)), at
