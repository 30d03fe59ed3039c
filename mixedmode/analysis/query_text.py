"""The queries of a SQL text, found without Spark: words outside of quotes and comments, by their parentheses.

Example: in `WITH c AS (SELECT 1) SELECT k FROM c WHERE k > 0 GROUP BY k`, the text before the GROUP BY has the parts
`WITH c AS (SELECT 1) ` and `FROM c WHERE k > 0 `. A query without GROUP BY that calls an aggregate function has an
aggregate, over all rows. The parts of a UNION, INTERSECT or EXCEPT, and what
is before |>, are queries only where they are in parentheses.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mixedmode.config.calls import AGGREGATE_WORDS

__all__ = [
    "InnerQuery",
    "before_group_by",
    "before_qualify",
    "has_groups",
    "inner_queries",
    "parts_of_operator",
    "with_parentheses",
    "without_distinct",
]

#: text that is skipped, or a word, a parenthesis, a comma or |>; a backslash escapes in strings, as in Spark. The ANY
#: of LIKE ANY ('a%', 'b%') is no aggregate, and * EXCEPT (k) leaves out a column
_TOKEN = re.compile(
    r"""(?P<skipped>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/|\bi?like\s+(?:any|some)\b|\*\s*except\b)"""
    r"|(?P<token>`[^`]*`|\w+|[(),]|\|>)",
    re.DOTALL | re.IGNORECASE,
)
_IN_DEFINITION = frozenset({"as", "(", "max"})  # what may follow a parenthesis in WITH
_QUANTIFIERS = frozenset({"all", "distinct"})
_UNION, _UNION_ALL, _INTERSECT = "UNION", "UNION ALL", "INTERSECT"


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A query in parentheses that brings rows together, but has no such query inside it.

    sql: its text, with those definitions of WITH around it that it names. before, after: the text around it.
    """

    sql: str
    before: str
    after: str

    def rest(self, name: str) -> str:
        """Return the text around the query, which reads the rows of the query as a table of this name."""
        return _without_unused(f"{self.before}SELECT * FROM {name}{self.after}")  # noqa: S608 - the job's own SQL


@dataclass
class _Definition:
    """A query of WITH: its name, and the positions of its text.  is_open: its query has begun."""

    name: str
    start: int
    end: int | None = None
    is_open: bool = False


@dataclass
class _Operator:
    """A UNION, INTERSECT or EXCEPT: the positions of its words, and these in upper case, such as UNION ALL."""

    start: int
    end: int
    words: str


@dataclass
class _Query:
    """A query between parentheses, or the whole text.

    start, end: its positions. body: where it begins after WITH. select, from_: positions of the last SELECT and of its
    FROM. groups: (SELECT, FROM, the end before it) of each GROUP BY. distinct, qualify, having: positions of DISTINCT,
    QUALIFY and HAVING. operators: those between its parts. pipes: positions of |>. aggregates: it calls an aggregate
    function. has_ranks: it has ROW_NUMBER.
    """

    start: int
    outer: "_Query | None" = None
    end: int = 0
    body: int | None = None
    select: int | None = None
    from_: int | None = None
    groups: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)
    qualify: list[int] = field(default_factory=list)
    having: list[int] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    pipes: list[int] = field(default_factory=list)
    aggregates: bool = False
    has_ranks: bool = False
    definitions: list[_Definition] = field(default_factory=list)
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
            case _, "qualify":
                self.qualify.append(position)
            case _, "having":
                self.having.append(position)
            case _, "row_number":
                self.has_ranks = True
            case "group", "by":
                self.groups.append((self.select, self.from_, start))
            case _, ("union" | "intersect" | "except" | "minus" | "all" | "distinct" | "|>"):
                self._operate(position, token, start, before)

    def _operate(self, position: int, token: str, start: int, before: str) -> None:
        """Note a word of a UNION, INTERSECT or EXCEPT, or a |>."""
        end = position + len(token)
        if token == "|>":  # noqa: S105 - of SQL
            self.pipes.append(position)
        elif token not in _QUANTIFIERS:
            self.operators.append(_Operator(position, end, token.upper()))
        elif self.operators and self.operators[-1].start == start:
            words = before if token == "distinct" else f"{before} {token}"  # noqa: S105 - a word of SQL
            self.operators[-1] = _Operator(start, end, words.upper())

    def _define(self, position: int, token: str, start: int, before: str) -> None:
        match before, token:
            case "with", "recursive":
                self.is_recursive = True
            case (("with" | "recursive" | ","), _):
                self.definitions.append(_Definition(token.strip("`"), position))
            case "as", "(":
                self.definitions[-1].is_open = True
            case ")", ",":
                self.definitions[-1].end = start + 1
            case ")", _ if token not in _IN_DEFINITION or (token == "(" and self.definitions[-1].is_open):  # noqa: S105 - of SQL
                self.definitions[-1].end = start + 1
                self.defines = False

    @property
    def is_grouped(self) -> bool:
        """True if the query itself has an aggregate, a DISTINCT, a ROW_NUMBER, or an operator that keeps a row once."""
        has_sets = any(not one.words.endswith("ALL") for one in self.operators)
        has_groups = bool(self.groups or self.distinct) or self.aggregates or self.has_ranks
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

    def close(self, position: int) -> "_Query":
        """End at a parenthesis, and return the query around it, which has the calls of one that has no SELECT."""
        assert self.outer is not None
        self.end = position
        if not self._is_query:
            self.outer.aggregates |= self.aggregates
            self.outer.has_ranks |= self.has_ranks
        return self.outer


def before_group_by(sql: str) -> tuple[str, str] | None:
    """Return (the text before the SELECT of an aggregate, that from its FROM to GROUP BY, to HAVING, or to the end).

    A SELECT may be between the two. That of the aggregate after the last |> has the text to this one before it, and
    nothing after it. None if there are several GROUP BY outside of parentheses, or no FROM after SELECT.
    """
    query = _queries(sql)[-1]
    if query.pipes:
        return _before_pipe(sql, query)
    over_all = [(query.select, query.from_, query.having[0] if query.having else query.end)]
    groups = query.groups or over_all
    if len(groups) != 1 or groups[0][0] is None or groups[0][1] is None:
        return None
    select, from_, end = groups[0]
    return sql[:select], sql[from_:end]


def before_qualify(sql: str) -> tuple[str, str] | None:
    """Return (the text before the last SELECT, that from its FROM to QUALIFY or to the end), as `before_group_by`.

    None if there is no FROM after SELECT outside of parentheses.
    """
    query = _queries(sql)[-1]
    if query.pipes:
        return _before_pipe(sql, query)
    if query.select is None or query.from_ is None:
        return None
    return sql[: query.select], sql[query.from_ : query.qualify[0] if query.qualify else None]


def _before_pipe(sql: str, query: _Query) -> tuple[str, str]:
    return f"{sql[: query.pipes[-1]]}|> ", ""


def without_distinct(sql: str) -> str | None:
    """Return the text without its only DISTINCT after SELECT outside of parentheses, or with UNION ALL for its UNIONs.

    None if there is neither.
    """
    query = _queries(sql)[-1]
    if query.operators:
        unions = [one for one in query.operators if one.words in (_UNION, _UNION_ALL)]
        if query.distinct or len(unions) < len(query.operators):
            return None
        for one in reversed(unions):
            sql = f"{sql[: one.start]}{_UNION_ALL}{sql[one.end :]}"
        return sql
    found = query.distinct
    return f"{sql[: found[0]]}{sql[found[0] + len('distinct') :].lstrip()}" if len(found) == 1 else None


def parts_of_operator(sql: str) -> tuple[str, str, str] | None:
    """Return (the text before the first part, the first part, the second one) of an operator between two queries in
    parentheses; None if there is not one.
    """
    query = _queries(sql)[-1]
    start = query.first
    if start is None or len(query.operators) != 1 or any(one > query.operators[0].start for one in query.pipes):
        return None
    (operator,) = query.operators
    first = sql[start : query.pipes[-1] if query.pipes else operator.start]
    return sql[:start], _in_parentheses(first.strip()), _in_parentheses(sql[operator.end :].strip())


def has_groups(sql: str) -> bool:
    """Return whether a text has a query that brings rows together, such as one with an aggregate."""
    return any(query.is_grouped for query in _queries(sql))


def inner_queries(sql: str) -> list[InnerQuery]:
    """Return the queries in parentheses that bring rows together, each after those inside it."""
    return [_inner(sql, query) for query in _queries(sql)[:-1] if query.is_grouped]


def with_parentheses(sql: str) -> str:
    """Return the text in which each part of a UNION, INTERSECT or EXCEPT is in parentheses, if one has an aggregate or
    the like, or keeps a row once, and so is what is before |> if it ends with that.

    Between parentheses is then one UNION ALL, one UNION of any number of parts, or another operator of two parts, as
    Spark reads them: INTERSECT first, the others from left to right.
    """
    # each operator changes the text at most once, also in a text that is no SQL
    for _ in range(sum(len(query.operators) + len(query.pipes) for query in _queries(sql))):
        sql = next((one for query in _queries(sql) if (one := _arranged(sql, query)) != sql), sql)
    return sql


def _arranged(sql: str, query: _Query) -> str:
    """Return the text with parentheses for the parts of a query of it."""
    start = query.first
    if not query.is_grouped or start is None:
        return sql
    if query.pipes:
        pairs = zip([start, *query.pipes], query.pipes, strict=False)
        end = next((end for first, end in pairs if _queries(sql[first:end])[-1].is_grouped), None)
        return sql if end is None else f"{sql[:start]}{_in_parentheses(sql[start:end].strip())} {sql[end:]}"
    if not query.operators:
        return sql
    starts, ends = [start, *(one.end for one in query.operators)], [*(one.start for one in query.operators), query.end]
    parts = [_in_parentheses(sql[first:last].strip()) for first, last in zip(starts, ends, strict=True)]
    terms, operators = [(parts[0], "")], list[str]()
    for part, operator in zip(parts[1:], query.operators, strict=True):
        if operator.words.startswith(_INTERSECT):
            terms[-1] = _combined(terms[-1], operator.words, (part, ""))
        else:
            terms.append((part, ""))
            operators.append(operator.words)
    whole = terms[0]
    for term, words in zip(terms[1:], operators, strict=True):
        whole = _combined(whole, words, term)
    return f"{sql[:start]}{whole[0]}{sql[query.end :]}"


def _combined(left: tuple[str, str], words: str, right: tuple[str, str]) -> tuple[str, str]:
    """Return (text, operator) of two such, with an operator between them; that of a text with parentheses is ''."""
    is_longer = words in (_UNION, _UNION_ALL) and left[1] == words
    first = left[0] if is_longer or not left[1] else f"({left[0]})"
    return f"{first} {words} {f'({right[0]})' if right[1] else right[0]}", words


def _in_parentheses(part: str) -> str:
    """Return a part of a query in parentheses."""
    is_inside = any(one.start == 1 and one.end == len(part) - 1 for one in _queries(part)[:-1])
    return part if is_inside else f"({part}\n)" if "--" in part else f"({part})"


def _inner(sql: str, query: _Query) -> InnerQuery:
    around = [*_around(query)]
    definitions = [
        sql[one.start : one.end]
        for outer in reversed(around)
        for one in outer.definitions
        if one.end is not None and (one.end <= query.start or outer is query)
    ]
    is_recursive = any(one.is_recursive for one in around)
    clause = f"WITH {'RECURSIVE ' if is_recursive else ''}{', '.join(definitions)} " if definitions else ""
    text = f"{clause}{sql[query.body or query.start : query.end]}"
    return InnerQuery(_without_unused(text), sql[: query.start], sql[query.end :])


def _around(query: _Query | None) -> Iterator[_Query]:
    """Yield a query, and those around it."""
    while query is not None:
        yield query
        query = query.outer


def _without_unused(sql: str) -> str:
    """Return a text without the definitions of WITH whose names are not in the text after them."""
    while (unused := _unused(sql, _queries(sql))) is not None:
        sql = f"{sql[: unused[0]]}{sql[unused[1] :]}"
    return sql


def _unused(sql: str, queries: Sequence[_Query]) -> tuple[int, int] | None:
    """Return the positions of the text of an unused definition, with a comma or with WITH; None if there is none."""
    for query in queries:
        for number, one in enumerate(query.definitions):
            if one.end is None or query.body is None:
                continue
            words = {token.strip("`") for _, token in _tokens(sql[one.end : query.end])}
            if one.name not in words:
                if len(query.definitions) == 1:
                    return query.start, query.body
                is_last = number == len(query.definitions) - 1
                before = query.definitions[number - 1].end if is_last else one.start
                return before or one.start, one.end if is_last else query.definitions[number + 1].start
    return None


def _queries(sql: str) -> list[_Query]:
    """Return the queries of a text, in the order in which they end; the last is the whole."""
    closed = list[_Query]()
    query = _Query(0)
    for (start, before), (position, token) in pairwise([(0, ""), *_tokens(sql)]):
        match token:
            case "(":
                is_call = not sql[start + len(before) : position].strip()
                query.aggregates |= is_call and before in AGGREGATE_WORDS
                query.read(position, token, start, before)
                query = _Query(position + 1, query)
            case ")" if query.outer is not None:
                closed.append(query)
                query = query.close(position)
            case _:
                query.read(position, token, start, before)
    query.end = len(sql)
    return [*closed, query]


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, text in lower case) of words, parentheses and commas."""
    return ((found.start(), found["token"].lower()) for found in _TOKEN.finditer(text) if found["token"])
