"""The queries of a SQL text, found without Spark: words outside of quotes and comments, by their parentheses.

Example: in `WITH c AS (SELECT 1) SELECT k FROM c WHERE k > 0 GROUP BY k`, the text before the GROUP BY has the parts
`WITH c AS (SELECT 1) ` and `FROM c WHERE k > 0 `. A query without GROUP BY that calls an aggregate function has an
aggregate, over all rows. The parts of a UNION, INTERSECT or EXCEPT, and what is before |>, are queries only where they
are in parentheses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mixedmode.analysis.query_words import Query, queries_of, words_of

__all__ = [
    "InnerQuery",
    "OrderedQuery",
    "before_group_by",
    "before_qualify",
    "has_groups",
    "inner_queries",
    "ordered_queries",
    "parts_of_operator",
    "with_parentheses",
    "without_distinct",
]

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


@dataclass(frozen=True, slots=True)
class OrderedQuery:
    """A query with ORDER BY and LIMIT.

    whole: its text, with those definitions of WITH around it that it names. rows: the same without ORDER BY and LIMIT.
    before, body, after: the whole text, of which `body` is the query after WITH and before ORDER BY.
    """

    whole: str
    rows: str
    before: str
    body: str
    after: str


def before_group_by(sql: str) -> tuple[str, str] | None:
    """Return (the text before the SELECT of an aggregate, that from its FROM to GROUP BY, to HAVING, or to the end).

    A SELECT may be between the two. That of the aggregate after the last |> has the text to this one before it, and
    nothing after it. None if there are several GROUP BY outside of parentheses, or no FROM after SELECT.
    """
    query = queries_of(sql)[-1]
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
    query = queries_of(sql)[-1]
    if query.pipes:
        return _before_pipe(sql, query)
    if query.select is None or query.from_ is None:
        return None
    return sql[: query.select], sql[query.from_ : query.qualify[0] if query.qualify else None]


def _before_pipe(sql: str, query: Query) -> tuple[str, str]:
    return f"{sql[: query.pipes[-1]]}|> ", ""


def without_distinct(sql: str) -> str | None:
    """Return the text without its only DISTINCT after SELECT outside of parentheses, or with UNION ALL for its UNIONs.

    None if there is neither.
    """
    query = queries_of(sql)[-1]
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
    query = queries_of(sql)[-1]
    start = query.first
    if start is None or len(query.operators) != 1 or any(one > query.operators[0].start for one in query.pipes):
        return None
    (operator,) = query.operators
    first = sql[start : query.pipes[-1] if query.pipes else operator.start]
    return sql[:start], _in_parentheses(first.strip()), _in_parentheses(sql[operator.end :].strip())


def has_groups(sql: str) -> bool:
    """Return whether a text has a query that brings rows together, such as one with an aggregate."""
    return any(query.is_grouped for query in queries_of(sql))


def inner_queries(sql: str) -> list[InnerQuery]:
    """Return the queries in parentheses that bring rows together, each after those inside it."""
    return [_inner(sql, query) for query in queries_of(sql)[:-1] if query.is_grouped]


def ordered_queries(sql: str) -> list[OrderedQuery]:
    """Return the queries with ORDER BY and then LIMIT, and without |>, each after those inside it."""
    found = list[OrderedQuery]()
    for query in queries_of(sql):
        start, end = query.first, query.end
        if start is None or query.order is None or not query.limit or query.limit[-1] < query.order or query.pipes:
            continue
        whole, body = _inner(sql, query).sql, sql[start : query.order]
        rows = whole[: len(whole) - (end - query.order)]
        found.append(OrderedQuery(whole, rows, sql[:start], body, sql[end:]))
    return found


def with_parentheses(sql: str) -> str:
    """Return the text in which each part of a UNION, INTERSECT or EXCEPT is in parentheses, if one has an aggregate or
    the like, or keeps a row once, and so is what is before |> if it ends with that.

    Between parentheses is then one UNION ALL, one UNION of any number of parts, or another operator of two parts, as
    Spark reads them: INTERSECT first, the others from left to right.
    """
    # each operator changes the text at most once, also in a text that is no SQL
    for _ in range(sum(len(query.operators) + len(query.pipes) for query in queries_of(sql))):
        sql = next((one for query in queries_of(sql) if (one := _arranged(sql, query)) != sql), sql)
    return sql


def _arranged(sql: str, query: Query) -> str:
    """Return the text with parentheses for the parts of a query of it."""
    start = query.first
    if not query.is_grouped or start is None:
        return sql
    if query.pipes:
        pairs = zip([start, *query.pipes], query.pipes, strict=False)
        end = next((end for first, end in pairs if queries_of(sql[first:end])[-1].is_grouped), None)
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
    is_inside = any(one.start == 1 and one.end == len(part) - 1 for one in queries_of(part)[:-1])
    return part if is_inside else f"({part}\n)" if "--" in part else f"({part})"


def _inner(sql: str, query: Query) -> InnerQuery:
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


def _around(query: Query | None) -> Iterator[Query]:
    """Yield a query, and those around it."""
    while query is not None:
        yield query
        query = query.outer


def _without_unused(sql: str) -> str:
    """Return a text without the definitions of WITH whose names are not in the text after them."""
    while (unused := _unused(sql, queries_of(sql))) is not None:
        sql = f"{sql[: unused[0]]}{sql[unused[1] :]}"
    return sql


def _unused(sql: str, queries: Sequence[Query]) -> tuple[int, int] | None:
    """Return the positions of the text of an unused definition, with a comma or with WITH; None if there is none."""
    for query in queries:
        for number, one in enumerate(query.definitions):
            if one.end is None or query.body is None:
                continue
            words = {token.strip("`") for _, token in words_of(sql[one.end : query.end])}
            if one.name not in words:
                if len(query.definitions) == 1:
                    return query.start, query.body
                is_last = number == len(query.definitions) - 1
                before = query.definitions[number - 1].end if is_last else one.start
                return before or one.start, one.end if is_last else query.definitions[number + 1].start
    return None
