"""The words of a SQL text outside of quotes and comments, and the queries that its parentheses make of it.

Nobody parses here: a query is what is between two parentheses, with the places of the words that divide it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from mixedmode.config.calls import AGGREGATE_WORDS

__all__ = ["Definition", "Operator", "Query", "queries_of", "words_of"]

#: text that is skipped, or a word, a parenthesis, a comma or |>; a backslash escapes in strings, as in Spark. The ANY
#: of LIKE ANY ('a%', 'b%') is no aggregate, and * EXCEPT (k) leaves out a column
_TOKEN = re.compile(
    r"""(?P<skipped>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/|\bi?like\s+(?:any|some)\b|\*\s*except\b)"""
    r"|(?P<token>`[^`]*`|\w+|[(),]|\|>)",
    re.DOTALL | re.IGNORECASE,
)
_IN_DEFINITION = frozenset({"as", "(", "max"})  # what may follow a parenthesis in WITH
_QUANTIFIERS = frozenset({"all", "distinct"})


@dataclass
class Definition:
    """A query of WITH: its name, and the positions of its text.  is_open: its query has begun."""

    name: str
    start: int
    end: int | None = None
    is_open: bool = False


@dataclass
class Operator:
    """A UNION, INTERSECT or EXCEPT: the positions of its words, and these in upper case, such as UNION ALL."""

    start: int
    end: int
    words: str


@dataclass
class Query:
    """A query between parentheses, or the whole text.

    start, end: its positions. body: where it begins after WITH. select, from_: positions of the last SELECT and of its
    FROM. groups: (SELECT, FROM, the end before it) of each GROUP BY. distinct, qualify, having, limit: positions of
    DISTINCT, QUALIFY, HAVING and LIMIT. order: that of the last ORDER BY. operators: those between its parts. pipes:
    positions of |>. aggregates: it calls an aggregate function. has_over: it has OVER.
    """

    start: int
    outer: "Query | None" = None
    end: int = 0
    body: int | None = None
    select: int | None = None
    from_: int | None = None
    groups: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)
    qualify: list[int] = field(default_factory=list)
    having: list[int] = field(default_factory=list)
    order: int | None = None
    limit: list[int] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    pipes: list[int] = field(default_factory=list)
    aggregates: bool = False
    has_over: bool = False
    definitions: list[Definition] = field(default_factory=list)
    is_recursive: bool = False
    defines: bool = False

    def read(self, position: int, token: str, start: int, before: str) -> None:
        """Note a token.  before, start: the token before it, and where the text after that one begins."""
        match token:
            case "with" if self.body is None and not self.definitions:
                self.defines = True
            case _ if self.defines:
                self._define(position, token, start, before)
        if self.body is None and not self.defines:
            self.body = position
        match before, token:
            case _, "select":
                self.select, self.from_ = position, None
            case "select", "distinct":
                self.distinct.append(position)
            case word, "from" if self.from_ is None and word != "distinct":  # IS DISTINCT FROM
                self.from_ = position
            case _, ("qualify" | "having" | "limit"):
                {"qualify": self.qualify, "having": self.having, "limit": self.limit}[token].append(position)
            case _, "over":
                self.has_over = True
            case "group", "by":
                self.groups.append((self.select, self.from_, start))
            case "order", "by":
                self.order = start
            case _, ("union" | "intersect" | "except" | "minus" | "all" | "distinct" | "|>"):
                self._operate(position, token, start, before)

    def _operate(self, position: int, token: str, start: int, before: str) -> None:
        """Note a word of a UNION, INTERSECT or EXCEPT, or a |>."""
        end = position + len(token)
        if token == "|>":  # noqa: S105 - of SQL
            self.pipes.append(position)
        elif token not in _QUANTIFIERS:
            self.operators.append(Operator(position, end, token.upper()))
        elif self.operators and self.operators[-1].start == start:
            words = before if token == "distinct" else f"{before} {token}"  # noqa: S105 - a word of SQL
            self.operators[-1] = Operator(start, end, words.upper())

    def _define(self, position: int, token: str, start: int, before: str) -> None:
        match before, token:
            case "with", "recursive":
                self.is_recursive = True
            case (("with" | "recursive" | ","), _):
                self.definitions.append(Definition(token.strip("`"), position))
            case "as", "(":
                self.definitions[-1].is_open = True
            case ")", ",":
                self.definitions[-1].end = start + 1
            case ")", _ if token not in _IN_DEFINITION or (token == "(" and self.definitions[-1].is_open):  # noqa: S105 - of SQL
                self.definitions[-1].end = start + 1
                self.defines = False

    @property
    def is_grouped(self) -> bool:
        """True if the query itself has an aggregate, a DISTINCT, OVER, or an operator that keeps a row once."""
        has_sets = any(not one.words.endswith("ALL") for one in self.operators)
        has_groups = bool(self.groups or self.distinct) or self.aggregates or self.has_over
        return has_sets or (self._is_query and has_groups)

    @property
    def first(self) -> int | None:
        """The position where the query begins after WITH; None if it is not known: WITH t (TABLE u) (TABLE t)."""
        if not self.definitions:
            return self.start if self.body is None else self.body
        is_operator = bool(self.operators) and self.body == self.operators[0].start
        return None if is_operator else self.body

    @property
    def _is_query(self) -> bool:
        """False for the arguments of a call, and for what is in parentheses only."""
        return self.select is not None or bool(self.pipes)

    def close(self, position: int) -> "Query":
        """End at a parenthesis, and return the query around it, which has the calls of one that has no SELECT."""
        assert self.outer is not None
        self.end = position
        if not self._is_query:
            self.outer.aggregates |= self.aggregates
            self.outer.has_over |= self.has_over
        return self.outer


def queries_of(sql: str) -> list[Query]:
    """Return the queries of a text, in the order in which they end; the last is the whole."""
    closed = list[Query]()
    query = Query(0)
    for (start, before), (position, token) in pairwise([(0, ""), *words_of(sql)]):
        match token:
            case "(":
                is_call = not sql[start + len(before) : position].strip()
                query.aggregates |= is_call and before in AGGREGATE_WORDS
                query.read(position, token, start, before)
                query = Query(position + 1, query)
            case ")" if query.outer is not None:
                closed.append(query)
                query = query.close(position)
            case _:
                query.read(position, token, start, before)
    query.end = len(sql)
    return [*closed, query]


def words_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, text in lower case) of words, parentheses and commas."""
    return ((found.start(), found["token"].lower()) for found in _TOKEN.finditer(text) if found["token"])
