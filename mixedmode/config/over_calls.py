"""A call of an `over` step, as written in a job: `lag(price)`, `avg(price) rows between 9 preceding and current row`.

A call computes a value for each row from rows of its key, in the order of event time. The frame says from which: it
ends at the row itself, or some rows before, and begins at the first row of the key, or some rows before. As in Spark,
a frame that is not written begins at the first row and has all rows whose order is that of the row itself.

Invariant (tests/config/test_over_calls.py): parse(str(call)) == call
"""

import re
from dataclasses import dataclass
from typing import Self

from mixedmode.config.call_texts import closing, pieces
from mixedmode.config.calls import column_in
from mixedmode.config.spelling import did_you_mean
from mixedmode.durations import format_duration_ms, parse_duration_ms
from mixedmode.errors import InvalidJobError

__all__ = ["FRAME_ROWS_MAX", "OVER_FUNCTIONS", "RANKS", "OverCall"]

#: {canonical name: other accepted spellings} of the functions of an `over` step
OVER_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "row_number": (),
    "rank": (),
    "dense_rank": (),
    "lag": (),
    "count": (),
    "sum": (),
    "avg": ("mean",),
    "min": (),
    "max": (),
    "first_value": ("first",),
    "last_value": ("last",),
}
#: the most rows before a row that a call reads; the state has as many of each key
FRAME_ROWS_MAX = 1000
_CANONICAL = {spelling: name for name, others in OVER_FUNCTIONS.items() for spelling in (name, *others)}
#: functions without an argument and without a frame
RANKS = frozenset({"row_number", "rank", "dense_rank"})
_EDGES = frozenset({"first_value", "last_value"})
_HEAD = re.compile(r"\s*(\w+)\s*\(", re.ASCII)
_WORDS = re.compile(r"(?P<nulls>(?:ignore|respect)\s+nulls\b)?\s*(?P<frame>.*)", re.IGNORECASE | re.DOTALL)
_ROWS = re.compile(
    r"rows\s+(?:between\s+)?(?P<first>unbounded|\d{1,9})\s+preceding"
    r"(?:\s+and\s+(?:(?P<last>\d{1,9})\s+preceding|current\s+row))?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"range\s+(?:between\s+)?unbounded\s+preceding(?:\s+and\s+current\s+row)?", re.IGNORECASE)
_SPAN = re.compile(
    r"range\s+(?:between\s+)?(?:interval\s+)?(?:'(?P<quoted>\d{1,9})'|(?P<number>\d{1,9}))\s*"
    r"(?P<unit>second|minute|hour|day|week)s?\s+preceding(?:\s+and\s+current\s+row)?"
    r"|range\s+(?:between\s+)?(?P<span>\d+[a-z]\w*)\s+preceding(?:\s+and\s+current\s+row)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
#: a default of lag: a number, a text, true or false
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|'[^'\\]*'|true|false", re.ASCII | re.IGNORECASE)
_FRAME = "rows between 9 preceding and current row"


@dataclass(frozen=True, slots=True)
class OverCall:
    """A call. `function` is a key of OVER_FUNCTIONS; `argument` is a column, or None for a rank and for `count(*)`.

    `first`: how many rows before a row its frame begins; None: at the first row of the key. `last`: how many rows
    before a row its frame ends. `lag` reads the row `last` rows before. `has_peers`: the frame has all rows whose order
    is that of the row, too; it is set for a frame of `range`. `ignores_nulls`: of first_value and last_value.
    `span_ms`: how long before a row, in event time, its frame begins. `default`: of `lag`, the value where there is no
    such row, as it is written in SQL; None: NULL.
    """

    function: str
    argument: str | None = None
    first: int | None = None
    last: int = 0
    has_peers: bool = False
    ignores_nulls: bool = False
    span_ms: int | None = None
    default: str | None = None

    def __post_init__(self) -> None:
        assert self.function in OVER_FUNCTIONS, self.function
        assert (self.argument is None) == (self.function in RANKS) or self.function == "count", self.function
        assert not self.has_peers or (self.first is None and self.last == 0), self
        assert self.span_ms is None or self.has_peers, self
        assert not self.ignores_nulls or self.function in _EDGES, self.function

    def __str__(self) -> str:
        if self.function in RANKS:
            return f"{self.function}()"
        if self.function == "lag":
            return f"lag({self.argument}, {self.last}{'' if self.default is None else f', {self.default}'})"
        nulls = " ignore nulls" if self.ignores_nulls else ""
        if self.span_ms is not None:
            frame = f" range between {format_duration_ms(self.span_ms)} preceding and current row"
        elif self.has_peers:
            frame = ""
        else:
            first = "unbounded" if self.first is None else self.first
            last = f"{self.last} preceding" if self.last else "current row"
            frame = f" rows between {first} preceding and {last}"
        return f"{self.function}({self.argument or '*'}){nulls}{frame}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the call written as `text`. Raise InvalidJobError unless it is one call of a known function.

        >>> str(OverCall.parse("MEAN( price ) ROWS 2 PRECEDING"))
        'avg(price) rows between 2 preceding and current row'
        """
        head = _HEAD.match(text)
        if head is None:
            msg = f"this is no call of a function, such as lag(price) or sum(price) {_FRAME}. found={text}"
            raise InvalidJobError(msg)
        function = _CANONICAL.get(head[1].lower())
        if function is None:
            raise _unknown(head[1], text)
        end = closing(text, head.end())
        arguments = [piece.strip() for piece in pieces(text[head.end() : end], text)]
        words = _WORDS.fullmatch(text[end + 1 :].strip())
        assert words is not None, text
        nulls, frame = words["nulls"], words["frame"].strip()
        ignores_nulls = nulls is not None and nulls.lower().startswith("ignore")
        if function in _EDGES and len(arguments) > 1 and arguments[1].lower() in ("true", "false"):
            ignores_nulls |= arguments.pop(1).lower() == "true"
        if ignores_nulls and function not in _EDGES:
            msg = f"only first_value and last_value take IGNORE NULLS here. found={text}"
            raise InvalidJobError(msg)
        if function in RANKS or function == "lag":
            if frame:
                msg = f"{function} has no frame: it goes by the rows before a row. Remove it. found={frame}"
                raise InvalidJobError(msg)
            return cls._of_places(function, arguments, text)
        argument = _argument(function, arguments, text)
        span_ms = _span_ms(frame)
        if span_ms is not None:
            return cls(function, argument, has_peers=True, ignores_nulls=ignores_nulls, span_ms=span_ms)
        return cls(function, argument, *_bounds(frame, text), ignores_nulls)

    @classmethod
    def _of_places(cls, function: str, arguments: list[str], text: str) -> Self:
        """Return the call of a function that goes by the places of rows."""
        if function != "lag":
            if arguments != [""]:
                msg = f"{function} has no argument. Write {function}(). found={text}"
                raise InvalidJobError(msg)
            return cls(function)
        first, rows, default, *more = [*arguments, *["1", "NULL"][len(arguments) - 1 :]]
        if more or (default.upper() != "NULL" and not _LITERAL.fullmatch(default)):
            msg = (
                "lag has a column, how many rows before, and a default: a number, a text in quotes, true or false. "
                f"Compute another default with coalesce in a sql step after this one. found={text}"
            )
            raise InvalidJobError(msg)
        if not _WHOLE.fullmatch(rows) or not 1 <= int(rows) <= FRAME_ROWS_MAX:
            msg = (
                f"lag takes how many rows before: a whole number from 1 to {FRAME_ROWS_MAX:,}, as in lag(price, 2). "
                f"found={text}"
            )
            raise InvalidJobError(msg)
        written = None if default.upper() == "NULL" else default
        return cls("lag", _argument("lag", [first], text), int(rows), int(rows), default=written)


def _argument(function: str, arguments: list[str], text: str) -> str | None:
    """Return the column that a call reads; None for `*`."""
    if function == "count" and arguments == ["*"]:
        return None
    name = column_in(arguments[0]) if len(arguments) == 1 else None
    if name is None:
        msg = (
            f"{function} takes one column here. Compute an expression in a sql step before, and write its name. "
            f"found={text}"
        )
        raise InvalidJobError(msg)
    return arguments[0]


def _span_ms(frame: str) -> int | None:
    """Return the span of time that a frame has; None if it is another frame."""
    found = _SPAN.fullmatch(frame)
    if found is None:
        return None
    if found["span"] is not None:
        return parse_duration_ms(found["span"].lower())
    return int(found["quoted"] or found["number"]) * _UNITS_MS[found["unit"].lower()]


def _bounds(frame: str, text: str) -> tuple[int | None, int, bool]:
    """Return how many rows before a row its frame begins, where it ends, and whether it has the row's peers."""
    if not frame or _RANGE.fullmatch(frame):
        return None, 0, True
    found = _ROWS.fullmatch(frame)
    if found is None:
        msg = (
            "this is no frame that is known here. Write rows between N preceding and current row, where N is a number "
            "or unbounded; or end it with M preceding; or range between interval 1 hour preceding and current row. "
            f"found={frame}"
        )
        raise InvalidJobError(msg)
    first = None if found["first"].lower() == "unbounded" else int(found["first"])
    last = int(found["last"] or 0)
    if max(first or 0, last) > FRAME_ROWS_MAX:
        msg = (
            f"a frame has at most {FRAME_ROWS_MAX:,} rows before a row, as the state has as many of each key. Use an "
            f"aggregate with a window of time. found={text}"
        )
        raise InvalidJobError(msg)
    if first is not None and first < last:
        msg = f"the frame ends before it begins. Exchange its numbers. found={frame}"
        raise InvalidJobError(msg)
    return first, last, False


def _unknown(name: str, text: str) -> InvalidJobError:
    if name.lower() == "lead":
        return InvalidJobError(
            "lead reads a row that comes later, and it may never come. Turn it round: lag gives each row the value of "
            f"the row before. found={text}"
        )
    return InvalidJobError(
        f"there is no function {name} of an over step.{did_you_mean(name, _CANONICAL)} docs/running-values.md lists "
        f"the functions; a process function may compute what none of them does. found={text}"
    )
