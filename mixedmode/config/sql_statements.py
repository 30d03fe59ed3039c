"""The statements that a SQL file may have, in the dialect of Spark and its declarative pipelines.

    SET key = value
    CREATE TEMPORARY VIEW name [(columns)] USING format [OPTIONS (...)]       records from outside
    CREATE TEMPORARY VIEW name AS query                                       rows that other queries read
    CREATE STREAMING TABLE name [USING format] [PARTITIONED BY (...)] [TBLPROPERTIES (...)] [AS query]
    CREATE STREAMING TABLE name ... FLOW AUTO CDC FROM STREAM source KEYS (...) ...
    CREATE MATERIALIZED VIEW name [USING format] ... AS query                 in a project of pipelines
    CREATE FLOW name AS INSERT INTO table BY NAME query
    CREATE FLOW name AS AUTO CDC INTO table FROM STREAM source KEYS (...) ...
    CREATE TEMPORARY FUNCTION name AS 'module:function'

Keywords are compared without case. Whatever else Spark allows in such a statement is refused, with what to write
instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mixedmode.config.sql_changes import Changes, read_changes
from mixedmode.config.sql_queries import WrittenQuery
from mixedmode.config.sql_tokens import Statement, Token, WrongSqlError, joined_strings, text_of
from mixedmode.config.sql_words import Words

__all__ = [
    "Flow",
    "Function",
    "MaterializedView",
    "Property",
    "Setting",
    "Table",
    "View",
    "WrittenStatement",
    "read_statement",
]

_KNOWN = (
    "this statement has no meaning in a job. A SQL file has SET, CREATE TEMPORARY VIEW, CREATE STREAMING TABLE, "
    "CREATE FLOW and CREATE TEMPORARY FUNCTION."
)


@dataclass(frozen=True, slots=True)
class Setting:
    """SET key = value.  is_quoted: the value is a text in quotes, whose number is no number."""

    key: str
    value: str
    line: int
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Property:
    """An entry of OPTIONS or TBLPROPERTIES."""

    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class View:
    """A temporary view of records from outside.  columns: their DDL; None if the place says them."""

    name: str
    format: str
    columns: str | None
    options: tuple[Property, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Table:
    """A streaming table, with its query; or a view with a query, which has no format.

    format: None for a view.  query: None if flows insert its rows.  changes: how it is made of the rows of the query,
    if these are records of changes.
    """

    name: str
    format: str | None
    properties: tuple[Property, ...]
    partitions: tuple[str, ...]
    query: WrittenQuery | None
    line: int
    changes: Changes | None = None


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """A table whose query reads others as a whole, and has no STREAM."""

    table: Table
    query: WrittenQuery
    line: int


@dataclass(frozen=True, slots=True)
class Flow:
    """A query whose rows a streaming table gets, column by column of the same name.

    changes: how the rows of the table are made of those of the query, if these are records of changes.
    """

    name: str
    table: str
    query: WrittenQuery
    line: int
    changes: Changes | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Python, as `module:function`."""

    name: str
    function: str
    line: int


WrittenStatement = Setting | View | Table | MaterializedView | Flow | Function


def read_statement(text: str, statement: Statement) -> WrittenStatement:
    """Return what a statement of the file with this text says. Raises WrongSqlError if it is none of those above."""
    words = Words(text, statement.tokens)
    for begin, read in _STATEMENTS:
        if words.take(*begin.split()):
            return read(words)
    begin = " ".join(token.text for token in statement.tokens[:3])
    raise WrongSqlError(statement.line, f"{_KNOWN}{_advice(statement.tokens)} found={begin}")


def _setting(words: Words) -> Setting:
    tokens = words.rest
    equals = next((at for at, token in enumerate(tokens) if token.text == "="), 0)
    if not equals:
        words.refuse("SET has a key and a value. Write SET key = value.")
    key = text_of(words.text, tokens[:equals])
    name = tokens[0].name
    if equals == 1 and name is not None:
        key = name
    value = text_of(words.text, tokens[equals + 1 :])
    quoted = joined_strings(tokens[equals + 1 :])
    is_quoted = quoted is not None
    return Setting("".join(key.split()), value if quoted is None else quoted, words.line, is_quoted)


def _view(words: Words) -> View | Table:
    name = _new_name(words, "view")
    columns = words.parentheses()
    if words.take("USING"):
        format_ = words.name("format").lower()
        options = _properties(words.parentheses() or ()) if words.take("OPTIONS") else ()
        words.end("After the format, a view has OPTIONS (...), and nothing else.")
        return View(name, format_, None if columns is None else text_of(words.text, columns), options, words.line)
    if columns is not None:
        words.refuse("columns are declared before USING; those of a query have the names of its SELECT.")
    if words.take("COMMENT"):
        words.string("the comment")
    if not words.take("AS"):
        words.refuse("a view has USING and the format of its records, or AS and a query.")
    return Table(name, None, (), (), words.query(), words.line)


def _table(words: Words) -> Table:
    name = _new_name(words, "table")
    if words.parentheses() is not None:
        msg = "the columns of a streaming table are those of its query. Remove them, and CAST in the query if need be."
        words.refuse(msg)
    format_: str | None = None
    properties: tuple[Property, ...] = ()
    partitions: tuple[str, ...] = ()
    while words.rest and not words.take("AS"):
        if words.take("FLOW", "AUTO", "CDC"):
            records, changes = read_changes(words)
            return Table(name, format_ or "parquet", properties, partitions, records, words.line, changes)
        if words.take("USING"):
            format_ = words.name("format").lower()
        elif words.take("PARTITIONED", "BY"):
            partitions = words.columns("PARTITIONED BY")
        elif words.take("TBLPROPERTIES"):
            properties += _properties(words.parentheses() or ())
        elif words.take("COMMENT"):
            words.string("the comment")
        else:
            words.refuse("a streaming table has USING, PARTITIONED BY, TBLPROPERTIES, COMMENT, and AS and a query.")
    query = words.query() if words.rest else None
    return Table(name, format_ or "parquet", properties, partitions, query, words.line)


def _materialized_view(words: Words) -> MaterializedView:
    table = _table(words)
    if table.query is None:
        words.refuse("a materialized view has a query. Write AS, and a SELECT.")
    stream = next((read for read in table.query.reads if read.is_stream), None)
    if stream is not None:
        text = "a materialized view reads tables as a whole. Remove STREAM, or CREATE STREAMING TABLE. found="
        raise WrongSqlError(stream.line, f"{text}STREAM {stream.name}")
    return MaterializedView(table, table.query, table.line)


def _flow(words: Words) -> Flow:
    name = words.name("flow")
    if words.take("COMMENT"):
        words.string("the comment")
    if words.take("AS", "AUTO", "CDC", "INTO"):
        table = words.name("table")
        query, changes = read_changes(words)
        return Flow(name, table, query, words.line, changes)
    if not words.take("AS", "INSERT", "INTO"):
        words.refuse("a flow inserts into a table. Write CREATE FLOW name AS INSERT INTO table BY NAME SELECT ...")
    words.take("TABLE")
    table = words.name("table")
    if not words.take("BY", "NAME"):
        words.refuse(
            "columns of several flows are found by their names. Write BY NAME before the query, as Spark asks."
        )
    return Flow(name, table, words.query(), words.line)


def _function(words: Words) -> Function:
    name = _new_name(words, "function")
    if not words.take("AS"):
        words.refuse("a function is one of Python. Write CREATE TEMPORARY FUNCTION name AS 'module:function'.")
    function = words.string("module:function")
    words.end("Only 'module:function' comes after AS.")
    return Function(name, function, words.line)


def _new_name(words: Words, what: str) -> str:
    words.take("IF", "NOT", "EXISTS")
    return words.name(what)


def _properties(tokens: Sequence[Token]) -> tuple[Property, ...]:
    """Return the entries of `(path 'data', 'event-time' = at, header true)`: a key, and a value with or without `=`."""
    found: list[Property] = []
    entry: list[Token] = []
    for token in [*tokens, None]:
        if token is not None and token.text != ",":
            entry.append(token)
        elif entry:
            found.append(_property(entry))
            entry = []
    return tuple(found)


def _property(tokens: Sequence[Token]) -> Property:
    """Return one entry. Its key is a text in quotes, or names with `.` or `-` between them."""
    end = 1
    if not tokens[0].is_string:
        while end + 1 < len(tokens) and tokens[end].text in {".", "-"}:
            end += 2
    key = "".join(token.value if token.is_string else token.name or token.text for token in tokens[:end])
    value = tokens[end + 1 :] if end < len(tokens) and tokens[end].text == "=" else tokens[end:]
    text = joined_strings(value)
    if text is None and value and not any(token.is_string for token in value):
        text = "".join(token.text for token in value)
    if text is None:
        msg = "an entry here is a key and a value, such as path 'data/orders', with a comma after it."
        raise WrongSqlError(tokens[0].line, f"{msg} found={' '.join(token.text for token in tokens)}")
    return Property(key, text, tokens[0].line)


#: (the words with which a statement begins, what reads the rest)
_STATEMENTS: Sequence[tuple[str, Callable[[Words], WrittenStatement]]] = (
    ("SET", _setting),
    *((f"CREATE {words}TEMP{rest} VIEW", _view) for words in ("", "OR REPLACE ") for rest in ("ORARY", "")),
    *((f"CREATE {words}TEMP{rest} FUNCTION", _function) for words in ("", "OR REPLACE ") for rest in ("ORARY", "")),
    ("CREATE STREAMING TABLE", _table),
    ("CREATE MATERIALIZED VIEW", _materialized_view),
    ("CREATE FLOW", _flow),
)


def _advice(tokens: Sequence[Token]) -> str:
    """Return what to write instead of a statement, after a space; empty if there is nothing that it may mean."""
    match [token.word for token in tokens[:3]]:
        case ["SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            return " Write CREATE STREAMING TABLE name AS before the query, so that its rows have a place."
        case ["INSERT", *_]:
            return " Write CREATE FLOW name AS before INSERT INTO."
        case ["CREATE", "OR", "REFRESH"]:
            return " Write CREATE STREAMING TABLE: its rows change with those of its query."
        case ["CREATE", "VIEW", *_] | ["CREATE", "OR", "REPLACE"]:
            return " Write CREATE TEMPORARY VIEW: a job has no catalog."
        case ["CREATE", "TABLE", *_]:
            return " Write CREATE TEMPORARY VIEW for records from outside, and CREATE STREAMING TABLE for results."
        case _:
            return ""
