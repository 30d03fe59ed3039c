"""Stateless SQL over the rows of a file as frozen values: conditions and columns, made of the columns of the file.

A query is a flat list of nodes, and each node names its arguments by their numbers, which are lower than its own. So a
value that several columns use is one node, and is computed once, however deep the SQL is nested.

    Example: SELECT a % 5 AS m FROM t WHERE a % 5 > b
    0 Column a   1 Literal 5   2 Call Remainder (0, 1)   3 Column b   4 Call GreaterThan (2, 3)
    filters (4,), columns (("m", 2),)

A join with a table is a node, too: the number of the row of the table that has the keys, NULL if there is none.

    Example: SELECT t.a, d.name FROM t JOIN d ON t.a = d.id
    0 Column a   1 Match table 0 (0,)   2 Call IsNotNull (1,)   3 Taken table 0, column name (1,)
    filters (2,), columns (("a", 0), ("name", 3)), tables (d: keys id, columns name)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, TypeAlias

import pyarrow as pa

from mixedmode.expressions.table_rows import TableRows

__all__ = [
    "Call",
    "Column",
    "ColumnFunction",
    "Literal",
    "Match",
    "Node",
    "Nodes",
    "Query",
    "Table",
    "Taken",
    "Value",
    "arguments_of",
]

#: a column of values, or one value for all rows
Value: TypeAlias = pa.Array | pa.Scalar


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the file, by its name there."""

    name: str
    data_type: pa.DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. None is NULL; a date is days, a timestamp microseconds since 1970; a decimal is text."""

    value: bool | int | float | str | bytes | None
    data_type: pa.DataType

    def scalar(self) -> pa.Scalar:
        """Return the constant as an Arrow scalar."""
        is_decimal = pa.types.is_decimal(self.data_type) and self.value is not None
        return pa.scalar(Decimal(str(self.value)) if is_decimal else self.value, self.data_type)


class ColumnFunction(Protocol):
    """A function of the job, called with columns. Picklable."""

    @property
    def is_partial(self) -> bool:
        """Return whether it leaves some values to Spark (LeftToSparkError)."""

    def __call__(self, given: Sequence[Value]) -> pa.Array:
        """Return the results for all rows of the arguments, at least one of which is an array.

        Raise InvalidJobError if the function raises, or returns what is not of its type.
        """


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other nodes. `kind` is the simple name of Catalyst's class.

    `options`: what else decides the result, such as (ANSI,), (UTC,) or the escape character of LIKE. `text`: the SQL of
    the call, for errors. `function`: that of the job which is called; None for all other kinds.
    """

    kind: str
    arguments: tuple[int, ...]
    data_type: pa.DataType
    options: tuple[str, ...] = ()
    text: str = ""
    function: ColumnFunction | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """The number of the row of a table whose keys are `arguments`; NULL if there is none, or if an argument is NULL."""

    table: int
    arguments: tuple[int, ...]
    data_type: pa.DataType = field(default_factory=pa.int64)


@dataclass(frozen=True, slots=True)
class Taken:
    """The value of a column of a table in the row of a Match; NULL where it is."""

    table: int
    column: str
    arguments: tuple[int]
    data_type: pa.DataType


Node = Column | Literal | Call | Match | Taken


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a query joins, by its name.

    `query`: makes its keys and columns of its rows; the first `keys` columns are the keys. `is_set`: it only matters
    whether there is a match, so keys may be equal. `rows`: what the query has made of one version of the table; None in
    a plan.
    """

    name: str
    query: "Query"
    keys: int
    is_set: bool = False
    rows: TableRows | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """The rows that pass all `filters`, in their order, with `columns`: (name, number of the node).

    `tables`: what it joins, by the numbers in Match and Taken.
    """

    nodes: tuple[Node, ...]
    filters: tuple[int, ...]
    columns: tuple[tuple[str, int], ...]
    tables: tuple[Table, ...] = ()

    @property
    def reads(self) -> Iterator[Column]:
        """Yield the columns of the file that are used, each once."""
        needed = {*self.filters, *(number for _, number in self.columns)}
        for number in range(len(self.nodes) - 1, -1, -1):  # arguments have lower numbers than calls
            node = self.nodes[number]
            if number in needed:
                needed.update(arguments_of(node))
        yield from (node for number, node in enumerate(self.nodes) if number in needed and isinstance(node, Column))


def arguments_of(node: Node) -> tuple[int, ...]:
    """Return the numbers of the arguments of a node."""
    return () if isinstance(node, Column | Literal) else node.arguments


class Nodes:
    """Nodes as they are added. Equal nodes are one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # by text, because 0.0 == -0.0 and NaN != NaN
        self._nodes: list[Node] = []

    def add(self, node: Node) -> int:
        """Return the number of a node."""
        key = repr(node)
        if key not in self._numbers:
            self._numbers[key] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[key]

    def query(self, filters: Sequence[int], columns: Sequence[tuple[str, int]], tables: Sequence[Table] = ()) -> Query:
        """Return a query of these nodes."""
        return Query(tuple(self._nodes), tuple(filters), tuple(columns), tuple(tables))

    def __getitem__(self, number: int) -> Node:
        """Return a node by its number."""
        return self._nodes[number]
