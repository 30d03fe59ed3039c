"""Random expression trees over columns of every type: what is nested in what is not chosen by hand.

A tree may raise an error for some rows, and may be one that only Spark computes.
"""

import random
from collections.abc import Callable, Mapping, Sequence

#: {letter of a column: Spark's name of its type}; the columns of a letter are x1 and x2
KINDS: Mapping[str, str] = {
    "b": "tinyint",
    "s": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "t": "string",
    "y": "boolean",
    "n": "decimal(9,2)",
    "m": "decimal(30,5)",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "x": "binary",
}
WHOLE, NUMBERS = ("b", "s", "i", "l"), ("b", "s", "i", "l", "f", "d", "n", "m")
TIMES = ("dt", "ts", "tn")
#: kinds that Spark casts to a kind, where both meet
_NEAR: Mapping[str, Sequence[str]] = {
    "s": "b",
    "i": "bs",
    "l": "bsi",
    "d": "bsilf",
    "n": "b",
    "m": "nil",
    "ts": ("tn", "dt"),
    "tn": ("dt",),
}
_CONSTANTS: Mapping[str, Sequence[str]] = {
    "b": ("1Y", "0Y", "-1Y", "127Y", "-128Y", "7Y"),
    "s": ("1S", "0S", "-1S", "32767S", "300S"),
    "i": ("0", "1", "-1", "2", "7", "2147483647", "-2147483648", "1000", "-3"),
    "l": ("0L", "1L", "-1L", "3L", "9223372036854775807L", "-7L", "100L"),
    "f": ("CAST('NaN' AS float)", "0.0F", "-0.0F", "1.5F", "CAST('Infinity' AS float)", "3.4e38F"),
    "d": ("double('NaN')", "0.0D", "-0.0D", "0.1D", "-double('Infinity')", "1e308D", "2.5D"),
    "t": ("''", "'a'", "'ä'", "'😀'", "'1'", "' '", "'\\\\'", "'%'", "'a.b'", "'2020-01-01'"),
    "y": ("true", "false"),
    "n": ("0.01BD", "1.50BD", "CAST(9999999.99 AS decimal(9,2))", "CAST(-0.05 AS decimal(9,2))", "5BD"),
    "m": ("CAST(1.5 AS decimal(30,5))", "CAST('9999999999999999999999999.99999' AS decimal(30,5))"),
    "dt": ("DATE '1970-01-01'", "DATE '0001-01-01'", "DATE '1582-10-10'", "DATE '+10000-01-01'"),
    "ts": ("TIMESTAMP '1500-06-01 12:34:56.789012'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    "tn": ("TIMESTAMP_NTZ '2021-03-14 02:30:00.5'", "TIMESTAMP_NTZ '0001-01-01 00:00:00'"),
    "x": ("X''", "X'FF'", "X'6100'"),
}
_LIKE = (
    *("a%", "%b", "a_b", "%", "", "_", "%a%", "a.b", "__", "%ä_", "😀%", "_%", "a%_b%"),
    *("(%", "[a]%", "a$", "^a", "%.%", "1%", "%*%", "a+"),
)
_FORMATS = ("yyyy-MM-dd", "yyyyMMdd", "HH:mm:ss", "yyyy", "MM/dd HH", "ss", "dd dd", " yyyy ")
_REGULAR = ("(a)(b)?", "a|(b)", "^a*", "[^a]+", "(&|^)channel_id=([^&]*)", "a+b*", "(a|b)", "^(x|a)")


class Trees:
    """Draws expressions."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._one = rng.choice

    def drawn(self, depth: int) -> str:
        """Return an expression of any kind."""
        return self.of(self._one(list(KINDS)), self._rng.randint(1, depth))

    def of(self, kind: str, depth: int) -> str:
        """Return an expression of a kind, whose type may be another one that Spark casts to it."""
        if depth <= 0 or self._rng.random() < 0.08:
            return self._column(kind) if self._rng.random() < 0.72 else self._constant(kind)
        near = [kind] * 3 + list(_NEAR.get(kind, ()))

        def some(*kinds: str) -> str:
            return self.of(self._one(kinds or near), depth - 1)

        return self._one(self._choices(kind, some))()

    def _column(self, kind: str) -> str:
        return f"{kind}{self._one('12')}"

    def _constant(self, kind: str) -> str:
        return f"CAST(NULL AS {KINDS[kind]})" if self._rng.random() < 0.12 else self._one(_CONSTANTS[kind])

    def _choices(self, kind: str, some: Callable[..., str]) -> list[Callable[[], str]]:
        one = self._one
        found: list[Callable[[], str]] = [
            lambda: f"if({some('y')}, {some()}, {some()})",
            lambda: f"CASE WHEN {some('y')} THEN {some()} WHEN {some('y')} THEN {some()} END",
            lambda: f"coalesce({some()}, {some()}, {some()})",
            lambda: f"{one(('nvl', 'ifnull'))}({some()}, {some()})",
            lambda: f"nvl2({some(*KINDS)}, {some()}, {some()})",
        ]
        if kind in NUMBERS:
            signs = "+-*" if kind in WHOLE else "+-*/"
            found += [lambda: f"({some()} {one(signs)} {some()})"] * 4
            found += [
                lambda: f"(-{some(kind)})",
                lambda: f"abs({some(kind)})",
                lambda: f"CAST({some(*NUMBERS)} AS {KINDS[kind]})",
            ]
        if kind in (*WHOLE, *TIMES):
            found.append(lambda: f"{one(('greatest', 'least'))}({some()}, {some()})")
        if kind in WHOLE:
            found += [lambda: f"({some()} {one('%&|^')} {some()})"] * 2
            found.append(lambda: f"pmod({some()}, {some()})")
            found.append(lambda: f"CAST({some('l')} div {some('i', 'l')} AS {KINDS[kind]})")
        return found + self._choices_of(kind, some) * (1 if kind in "il" else 3)

    def _choices_of(self, kind: str, some: Callable[..., str]) -> list[Callable[[], str]]:
        """Return what only expressions of this kind can be."""
        one = self._one
        of_kind: dict[str, list[Callable[[], str]]] = {
            "i": [
                lambda: f"length({some('t', 'x')})",
                lambda: f"{one(('year', 'month', 'day'))}({some(*TIMES)})",
                lambda: f"{one(('hour', 'minute', 'second'))}({some('ts', 'tn')})",
                lambda: f"CAST({some('y')} AS int)",
            ],
            "l": [lambda: f"unix_{one(('micros', 'millis', 'seconds'))}({some('ts')})"],
            "t": [
                lambda: f"({some()} || {some('t', 'i', 'dt', 'l')})",
                lambda: f"concat({some()}, {some()}, {some()})",
                lambda: f"substring({some()}, {one((0, 1, 2, 2**31 - 1))}, {one((0, 1, 5, -1, 2**31 - 1))})",
                lambda: f"{one(('left', 'right'))}({some()}, {one((0, 1, 3, -1))})",
                lambda: f"CAST({some(*WHOLE, 'y', 'dt')} AS string)",
                lambda: f"date_format({some('ts', 'tn')}, '{one(_FORMATS)}')",
                lambda: f"split_part({some()}, {one(('a', '.', '😀', ' ', 'ä'))!r}, {one((1, 2, -1, 5))})",
                lambda: f"{one(('upper', 'lower'))}({some()})",
                lambda: f"regexp_extract({some()}, '{one(_REGULAR)}', {one('01')})",
            ],
            "y": [
                self._comparison(some),
                self._comparison(some),
                lambda: f"({some()} {one(('AND', 'OR'))} {some()})",
                lambda: f"(NOT {some()})",
                lambda: f"({some(*KINDS)} IS {one(('', 'NOT '))}NULL)",
                lambda: f"({some('t')} {one(('', 'NOT '))}LIKE '{one(_LIKE)}')",
                lambda: f"{one(('startswith', 'endswith', 'contains'))}({some('t')}, {self._constant('t')})",
                lambda: f"isnan({some('f', 'd')})",
                self._membership(some),
            ],
            "dt": [lambda: f"CAST({some('ts', 'tn')} AS date)", lambda: f"to_date({some('ts')})"],
            "ts": [
                lambda: f"date_trunc('{one(('MINUTE', 'hour', 'SECOND', 'DAY'))}', {some()})",
                lambda: f"CAST({some('tn', 'dt')} AS timestamp)",
            ],
            "tn": [lambda: f"CAST({some('ts', 'dt')} AS timestamp_ntz)"],
        }
        return of_kind.get(kind, [])

    def _comparison(self, some: Callable[..., str]) -> Callable[[], str]:
        def text() -> str:
            kind = self._one(list(KINDS))
            other = self._one([kind] * 2 + list(NUMBERS if kind in NUMBERS else TIMES if kind in TIMES else [kind]))
            return f"({some(kind)} {self._one(('=', '<=>', '<>', '<', '<=', '>', '>='))} {some(other)})"

        return text

    def _membership(self, some: Callable[..., str]) -> Callable[[], str]:
        def text() -> str:
            kind = self._one(list(KINDS))
            values = ", ".join(self._constant(kind) for _ in range(self._rng.randint(1, 4)))
            return f"({some(kind)} {self._one(('', 'NOT '))}IN ({values}))"

        return text
