"""AUTO CDC in a SQL file: the table that records of changes make, as in Spark's declarative pipelines.

    ... FROM STREAM source | FROM (query)
    KEYS (columns)
    [APPLY AS DELETE WHEN condition]
    SEQUENCE BY expression
    [COLUMNS (columns) | COLUMNS * EXCEPT (columns)]
    [STORED AS SCD TYPE 1 | 2]
    [TRACK HISTORY ON (columns) | TRACK HISTORY ON * EXCEPT (columns)]

The clauses after KEYS may be in any order. It is a step with `apply-changes`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixedmode.config.sql_queries import WrittenQuery, read_query
from mixedmode.config.sql_tokens import Token, WrongSqlError, statements_of, text_of
from mixedmode.config.sql_words import Words

__all__ = ["Changes", "read_changes", "sequence_texts"]

_ENDS = (("APPLY", "AS"), ("SEQUENCE", "BY"), ("COLUMNS",), ("STORED", "AS"), ("TRACK", "HISTORY"), ("IGNORE", "NULL"))
_CLAUSES = "APPLY AS DELETE WHEN, SEQUENCE BY, COLUMNS, STORED AS SCD TYPE and TRACK HISTORY ON"
_TRUNCATE = (
    "a record that deletes all rows of a table is not taken. Write a record that deletes for each of its rows, with "
    "APPLY AS DELETE WHEN."
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rest of the statement after its source.

    keys: the columns of the key. settings: those of `apply-changes` in a job file. reads_query: the source is a query,
    and not the name of a stream.
    """

    keys: tuple[str, ...]
    settings: Mapping[str, Any]
    reads_query: bool


def read_changes(words: Words) -> tuple[WrittenQuery, Changes]:
    """Return the source of the changes, and the rest. Raises WrongSqlError for another clause than those above."""
    query, reads_query = _source(words)
    if not words.take("KEYS"):
        words.refuse("AUTO CDC has the key of the table. Write KEYS (id) after its source.")
    keys, settings = words.columns("KEYS"), dict[str, Any]()
    while words.rest:
        key, value = _clause(words)
        if key in settings:
            words.refuse(f"this clause is there twice. AUTO CDC has each of {_CLAUSES} once.")
        settings[key] = value
    if "sequence-by" not in settings:
        words.refuse("AUTO CDC has the order of the records. Write SEQUENCE BY and a column.")
    return query, Changes(keys, settings, reads_query)


def _source(words: Words) -> tuple[WrittenQuery, bool]:
    """Return what the changes are read from, and whether it is a query in parentheses."""
    if not words.rest or words.rest[0].word != "FROM":
        words.refuse("AUTO CDC reads the records of changes. Write FROM STREAM and the name of a view or table.")
    tokens = words.until(("KEYS",))
    inner = tokens[2:-1] if len(tokens) > 2 and tokens[1].text == "(" and tokens[-1].text == ")" else ()
    if inner:
        return read_query(words.text, inner), True
    query = read_query(words.text, tokens)
    if len(query.reads) != 1:
        words.refuse("AUTO CDC reads one stream. Write FROM STREAM name, or FROM (SELECT ...) for several.")
    return replace(query, sql=f"SELECT * {query.sql}"), False


def _clause(words: Words) -> tuple[str, Any]:
    """Return the setting that a clause is, and its value."""
    for begin, read in _READ.items():
        if words.take(*begin.split()):
            return read(words)
    return words.refuse(f"this has no meaning in AUTO CDC. After KEYS, it has {_CLAUSES}.")


def _delete(words: Words) -> tuple[str, Any]:
    return "delete-when", text_of(words.text, _expression(words, "APPLY AS DELETE WHEN has a condition."))


def _truncate(words: Words) -> tuple[str, Any]:
    return words.refuse(_TRUNCATE)


def _ignore_nulls(words: Words) -> tuple[str, Any]:
    return words.refuse("a record has all columns of its row here: NULL is a value. Fill them in the records. clause=")


def _sequence(words: Words) -> tuple[str, Any]:
    tokens = _expression(words, "SEQUENCE BY has a column or an expression.")
    return "sequence-by", _sequence_texts(words.text, tokens)


def _chosen(words: Words) -> tuple[str, Any]:
    if words.take("*", "EXCEPT"):
        return "except-columns", [*words.columns("COLUMNS * EXCEPT")]
    return "columns", [*words.columns("COLUMNS")]


def _stored(words: Words) -> tuple[str, Any]:
    if words.take("SCD", "TYPE", "1"):
        return "history", False
    if words.take("SCD", "TYPE", "2"):
        return "history", True
    return words.refuse("a table has its current rows, or all versions of them. Write SCD TYPE 1, or SCD TYPE 2.")


def _tracked(words: Words) -> tuple[str, Any]:
    if words.take("*", "EXCEPT"):
        return "track-except", [*words.columns("TRACK HISTORY ON * EXCEPT")]
    return "track", [*words.columns("TRACK HISTORY ON")]


def _expression(words: Words, what: str) -> Sequence[Token]:
    tokens = words.until(*_ENDS)
    if not tokens:
        words.refuse(f"{what} Write it.")
    return tokens


def sequence_texts(expression: str) -> list[str]:
    """Return the expressions by which records are ordered: those in `struct(...)`, or the expression itself.

    >>> sequence_texts("struct(at, lsn)"), sequence_texts("lsn")
    (['at', 'lsn'], ['lsn'])
    """
    try:
        (statement,) = statements_of(expression)
    except (WrongSqlError, ValueError):  # Spark says what is wrong with it
        return [expression]
    return _sequence_texts(expression, statement.tokens)


def _sequence_texts(text: str, tokens: Sequence[Token]) -> list[str]:
    if tokens[0].word == "STRUCT" and len(tokens) > 3 and (tokens[1].text, tokens[-1].text) == ("(", ")"):
        return [text_of(text, part) for part in _parts(tokens[2:-1])]
    return [text_of(text, tokens)]


def _parts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the parts between commas that are in no parentheses."""
    parts, first, depth = list[Sequence[Token]](), 0, 0
    for at, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == "," and depth == 0:
            parts.append(tokens[first:at])
            first = at + 1
    return [*parts, tokens[first:]]


#: {the words with which a clause begins: what reads the rest}
_READ: Mapping[str, Callable[[Words], tuple[str, Any]]] = {
    "APPLY AS DELETE WHEN": _delete,
    "APPLY AS TRUNCATE WHEN": _truncate,
    "SEQUENCE BY": _sequence,
    "COLUMNS": _chosen,
    "STORED AS": _stored,
    "TRACK HISTORY ON": _tracked,
    "IGNORE NULL UPDATES": _ignore_nulls,
}
