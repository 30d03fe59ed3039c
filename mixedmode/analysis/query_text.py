"""The text around GROUP BY and DISTINCT, found without Spark: words outside of quotes, comments and parentheses.

Example: in `WITH c AS (SELECT 1) SELECT k FROM c WHERE k > 0 GROUP BY k`, the text before the GROUP BY has the parts
`WITH c AS (SELECT 1) ` and `FROM c WHERE k > 0 `.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["before_group_by", "without_distinct"]

#: text that is skipped, or a word or a parenthesis; a backslash escapes in strings, as in Spark
_TOKEN = re.compile(
    r"""(?P<skipped>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/)|(?P<token>\w+|[()])""", re.DOTALL
)


@dataclass
class _Query:
    """The positions of SELECT and FROM in a query between parentheses."""

    select: int | None = None
    from_: int | None = None


def before_group_by(sql: str) -> tuple[str, str] | None:
    """Return (the text before the SELECT of the only GROUP BY, that from its FROM to the GROUP BY).

    Of a query in parentheses, nothing before it is needed. None if there is not one GROUP BY, or no FROM after SELECT.
    """
    queries, found = [_Query()], list[tuple[_Query, int, int]]()
    for (start, before), (position, token) in pairwise([(0, ""), *_tokens(sql)]):
        match before, token:
            case _, "(":
                queries.append(_Query())
            case _, ")" if len(queries) > 1:
                queries.pop()
            case _, "select":
                queries[-1] = _Query(position)
            case word, "from" if queries[-1].from_ is None and word != "distinct":  # IS DISTINCT FROM
                queries[-1].from_ = position
            case "group", "by":
                found.append((queries[-1], start, len(queries)))
    if len(found) != 1:
        return None
    ((query, end, depth),) = found
    if query.select is None or query.from_ is None:
        return None
    return (sql[: query.select] if depth == 1 else ""), sql[query.from_ : end]


def without_distinct(sql: str) -> str | None:
    """Return the text without its only DISTINCT after SELECT; None if there is not one."""
    tokens = [*_tokens(sql)]
    found = [at for (_, before), (at, token) in pairwise(tokens) if (before, token) == ("select", "distinct")]
    return f"{sql[: found[0]]}{sql[found[0] + len('distinct') :].lstrip()}" if len(found) == 1 else None


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, text in lower case) of words and parentheses."""
    return ((found.start(), found["token"].lower()) for found in _TOKEN.finditer(text) if found["token"])
