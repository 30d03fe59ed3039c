"""The statements that a SQL file may have, in the dialect of Spark and its declarative pipelines.

    SET key = value
    CREATE TEMPORARY VIEW name [(columns)] USING format [OPTIONS (...)]       records from outside
    CREATE TEMPORARY VIEW name AS query                                       rows that other queries read
    CREATE STREAMING TABLE name [USING format] [PARTITIONED BY (...)] [TBLPROPERTIES (...)] [AS query]
    CREATE MATERIALIZED VIEW name [USING format] ... AS query                 in a project of pipelines
    CREATE FLOW name AS INSERT INTO table BY NAME query
    CREATE TEMPORARY FUNCTION name AS 'module:function'

Keywords are compared without case. Whatever else Spark allows in such a statement is refused, with what to write
instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mixedmode.config.sql_queries import WrittenQuery, read_query
from mixedmode.config.sql_tokens import Statement, Token, WrongSqlError, joined_strings, text_of

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
_BEGINS_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})


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

    format: None for a view.  query: None if flows insert its rows.
    """

    name: str
    format: str | None
    properties: tuple[Property, ...]
    partitions: tuple[str, ...]
    query: WrittenQuery | None
    line: int


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """A table whose query reads others as a whole, and has no STREAM."""

    table: Table
    query: WrittenQuery
    line: int


@dataclass(frozen=True, slots=True)
class Flow:
    """A query whose rows a streaming table gets, column by column of the same name."""

    name: str
    table: str
    query: WrittenQuery
    line: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Python, as `module:function`."""

    name: str
    function: str
    line: int


WrittenStatement = Setting | View | Table | MaterializedView | Flow | Function


def read_statement(text: str, statement: Statement) -> WrittenStatement:
    """Return what a statement of the file with this text says. Raises WrongSqlError if it is none of those above."""
    words = _Words(text, statement.tokens)
    for begin, read in _STATEMENTS:
        if words.take(*begin.split()):
            return read(words)
    begin = " ".join(token.text for token in statement.tokens[:3])
    raise WrongSqlError(statement.line, f"{_KNOWN}{_advice(statement.tokens)} found={begin}")


class _Words:
    """The tokens of a statement, read from left to right."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._at = 0

    @property
    def line(self) -> int:
        """The line on which the statement begins."""
        return self._tokens[0].line

    @property
    def rest(self) -> Sequence[Token]:
        """The tokens that have not been read."""
        return self._tokens[self._at :]

    def refuse(self, text: str) -> NoReturn:
        """Raise WrongSqlError about the next token."""
        here = self.rest[0] if self.rest else self._tokens[-1]
        raise WrongSqlError(here.line, f"{text} found={here.text if self.rest else 'the end of the statement'}")

    def take(self, *words: str) -> bool:
        """Read these words if they come next. Return whether they did."""
        found = tuple(token.word for token in self.rest[: len(words)])
        if found != words:
            return False
        self._at += len(words)
        return True

    def name(self, what: str) -> str:
        """Read a name of one part.  what: such as "view", for the message."""
        if not self.rest or (name := self.rest[0].name) is None:
            self.refuse(f"here belongs the name of the {what}. Write it.")
        if "." in name or (len(self.rest) > 1 and self.rest[1].text == "."):
            self.refuse(f"the name of a {what} has one part here: a job has no catalog. Remove the others.")
        self._at += 1
        return name

    def parentheses(self) -> Sequence[Token] | None:
        """Read a part in parentheses, and return what is in it; None if none begins here."""
        if not self.rest or self.rest[0].text != "(":
            return None
        depth = 0
        for count, token in enumerate(self.rest):
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                inner = self.rest[1:count]
                self._at += count + 1
                return inner
        raise AssertionError(self.rest)  # statements_of has checked it

    def string(self, what: str) -> str:
        """Read a text in quotes."""
        count = 0
        while count < len(self.rest) and self.rest[count].is_string:
            count += 1
        value = joined_strings(self.rest[:count])
        if value is None:
            self.refuse(f"here belongs {what} in quotes. Write it.")
        self._at += count
        return value

    def query(self) -> WrittenQuery:
        """Read the query that the rest of the statement is."""
        if not self.rest or self.rest[0].word not in _BEGINS_QUERY:
            self.refuse("here belongs a query. Write a SELECT.")
        found = read_query(self.text, self.rest)
        self._at = len(self._tokens)
        return found

    def end(self, instead: str) -> None:
        """Raise WrongSqlError if there is more.  instead: what the statement may have."""
        if self.rest:
            self.refuse(f"this has no meaning here. {instead}")


def _setting(words: _Words) -> Setting:
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


def _view(words: _Words) -> View | Table:
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


def _table(words: _Words) -> Table:
    name = _new_name(words, "table")
    if words.parentheses() is not None:
        msg = "the columns of a streaming table are those of its query. Remove them, and CAST in the query if need be."
        words.refuse(msg)
    format_: str | None = None
    properties: tuple[Property, ...] = ()
    partitions: tuple[str, ...] = ()
    while words.rest and not words.take("AS"):
        if words.take("USING"):
            format_ = words.name("format").lower()
        elif words.take("PARTITIONED", "BY"):
            partitions = _columns(words)
        elif words.take("TBLPROPERTIES"):
            properties += _properties(words.parentheses() or ())
        elif words.take("COMMENT"):
            words.string("the comment")
        else:
            words.refuse("a streaming table has USING, PARTITIONED BY, TBLPROPERTIES, COMMENT, and AS and a query.")
    query = words.query() if words.rest else None
    return Table(name, format_ or "parquet", properties, partitions, query, words.line)


def _materialized_view(words: _Words) -> MaterializedView:
    table = _table(words)
    if table.query is None:
        words.refuse("a materialized view has a query. Write AS, and a SELECT.")
    stream = next((read for read in table.query.reads if read.is_stream), None)
    if stream is not None:
        text = "a materialized view reads tables as a whole. Remove STREAM, or CREATE STREAMING TABLE. found="
        raise WrongSqlError(stream.line, f"{text}STREAM {stream.name}")
    return MaterializedView(table, table.query, table.line)


def _flow(words: _Words) -> Flow:
    name = words.name("flow")
    if words.take("COMMENT"):
        words.string("the comment")
    if not words.take("AS", "INSERT", "INTO"):
        words.refuse("a flow inserts into a table. Write CREATE FLOW name AS INSERT INTO table BY NAME SELECT ...")
    words.take("TABLE")
    table = words.name("table")
    if not words.take("BY", "NAME"):
        words.refuse(
            "columns of several flows are found by their names. Write BY NAME before the query, as Spark asks."
        )
    return Flow(name, table, words.query(), words.line)


def _function(words: _Words) -> Function:
    name = _new_name(words, "function")
    if not words.take("AS"):
        words.refuse("a function is one of Python. Write CREATE TEMPORARY FUNCTION name AS 'module:function'.")
    function = words.string("module:function")
    words.end("Only 'module:function' comes after AS.")
    return Function(name, function, words.line)


def _new_name(words: _Words, what: str) -> str:
    words.take("IF", "NOT", "EXISTS")
    return words.name(what)


def _columns(words: _Words) -> tuple[str, ...]:
    inner = words.parentheses() or ()
    names = [token.name for token in inner[::2]]
    if not names or None in names or any(token.text != "," for token in inner[1::2]):
        words.refuse("PARTITIONED BY has the names of columns in parentheses. Write PARTITIONED BY (day).")
    return tuple(name for name in names if name is not None)


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
_STATEMENTS: Sequence[tuple[str, Callable[[_Words], WrittenStatement]]] = (
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
