"""Reads the analysed plan of a frame as a query that map tasks compute on Arrow, if everything in it is on the list.

Only columns that the frame needs are read: a projection below may have others that only Spark can compute. What is
constant, Spark computes here.

A UNION ALL is a query for each of its branches. Every branch ends in a frame that the caller knows, so no branch is
missed: those that end in `until` are the queries, and those that end in one of `others` are queries of these.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from mixedmode.analysis.call_conditions import in_order
from mixedmode.analysis.called_functions import NotCalledError, chain_of, function_of
from mixedmode.analysis.catalyst import analysed, items_of, kind_of, tree_patterns
from mixedmode.analysis.optimised_nodes import OptimisedNodes
from mixedmode.connectors.files.parquet_settings import unusual_in
from mixedmode.expressions import FUNCTION_CALL, KINDS, RAISE_ERROR, TEXT_PARTS, Call, Column, Literal, Query

__all__ = ["OnlySparkError", "read_queries_of", "read_query_of"]

_Java = Any  # an object of the JVM

_REPLACEABLE = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LEGACY = re.compile(r"\bspark\.sql\.legacy\.[\w.]+")
_SHOWN = 60  # characters of SQL in a reason
_NAME_AND_TEXT = 2  # the parameters of an error that raise_error raises


class OnlySparkError(Exception):
    """Only Spark can compute a frame. The text says why, as in `by Spark, because ...`."""


class _ForkError(Exception):
    """A plan has a UNION ALL of `branches`, and nothing says which of them to read."""

    def __init__(self, branches: int) -> None:
        super().__init__(branches)
        self.branches = branches


class _OtherFrameError(Exception):
    """A branch of a UNION ALL ends in another frame."""


def read_query_of(frame: DataFrame, *, until: DataFrame, names: Sequence[str] | None = None) -> Query:
    """Return the rows of a frame as a query over the rows of `until`. Raise OnlySparkError if only Spark can do it.

    It has no call of a function of the job.
    names: those of the columns of `until` in the query; None: their own, no two of which are equal.
    """
    queries = read_queries_of(frame, until=until, names=names, may_call=False)
    if len(queries) > 1:
        msg = "it has Union"
        raise OnlySparkError(msg)
    return queries[0]


def read_queries_of(
    frame: DataFrame,
    *,
    until: DataFrame,
    others: Sequence[DataFrame] = (),
    names: Sequence[str] | None = None,
    may_leave: bool = False,
    may_call: bool = True,
) -> tuple[Query, ...]:
    """Return the rows of a frame that are made of those of `until`, as queries: one, or one for each branch of unions.

    Raise OnlySparkError if only Spark can do it. others: frames in which other branches may end.
    may_leave: Spark can read the rows instead, so a query may raise LeftToSparkError for some values.
    may_call: a query may call functions of the job.  names: see `read_query_of`.
    """
    try:
        _check_settings(str(frame._jdf.sparkSession().conf().getAll().toString()), of_files=may_leave)
        ends = [analysed(one) for one in (until, *others)]
        reader = partial(_Reader, frame, ends, names=names, may_leave=may_leave, may_call=may_call)
        return tuple(_queries(lambda path: reader(path).query()))
    except (Py4JError, PySparkException) as error:  # of a version of Spark whose classes are others
        msg = "its plan cannot be read"
        raise OnlySparkError(msg) from error


def _queries(read: Callable[[Sequence[int]], Query]) -> Iterator[Query]:
    """Yield the query of each branch that ends in `until`.  read: reads the branch of a path."""
    paths: list[tuple[int, ...]] = [()]  # the number of the branch in each union, from the top
    while paths:
        path = paths.pop(0)
        try:
            yield read(path)
        except _ForkError as fork:
            paths[:0] = [(*path, branch) for branch in range(fork.branches)]
        except _OtherFrameError:
            continue


def _check_settings(text: str, *, of_files: bool) -> None:
    """Raise OnlySparkError for a setting with which Spark computes, or reads files, in another way."""
    changed = _LEGACY.search(text)
    if changed is not None:
        msg = f"{changed[0]} is set"
        raise OnlySparkError(msg)
    unusual = unusual_in(text) if of_files else None
    if unusual is not None:
        msg = f"{unusual[0]} is {unusual[1]}"
        raise OnlySparkError(msg)


class _Reader:
    """Reads one branch of the plan of a frame.  ends: the plan of `until`, and those of other frames."""

    def __init__(
        self,
        frame: DataFrame,
        ends: Sequence[_Java],
        path: Sequence[int],
        names: Sequence[str] | None,
        *,
        may_leave: bool,
        may_call: bool,
    ) -> None:
        context = frame.sparkSession.sparkContext
        self._gateway = context._gateway
        #: expressions that Spark folds and that are no constants here: clocks, and those that Spark replaces first
        self._not_folded = tree_patterns(frame.sparkSession, ("CURRENT_LIKE", "RUNTIME_REPLACEABLE"))
        self._plan = analysed(frame)
        self._ends = ends
        self._path = list(path)
        self._is_branch = False
        self._names = names
        self._session = frame.sparkSession
        self._may_call = may_call
        self._nodes = OptimisedNodes(may_leave=may_leave)
        self._filters: list[int] = []
        #: {id of a column: function that returns its node}, of the columns below the node that is read
        self._columns: dict[int, Callable[[], int]] = {}
        self._shared: dict[int, int] = {}  # {id of a common expression: its node}
        self._defined: dict[int, _Java] = {}  # {id of a WITH query: its plan}
        self._replaceable: dict[str, bool] = {}  # {kind: whether Spark replaces it}

    def query(self) -> Query:
        """Return the whole query."""
        self._read(self._plan)
        columns = [(str(one.name()), self._columns[one.exprId().id()]()) for one in items_of(self._plan.output())]
        # Spark does not check the other conditions if one is false for all rows
        filters = sorted(self._filters, key=lambda number: not isinstance(self._nodes[number], Literal))
        query = self._nodes.query(filters, columns)
        try:
            return in_order(query)
        except NotCalledError as error:
            raise OnlySparkError(str(error)) from error

    def _read(self, plan: _Java) -> None:
        """Note the filters of a plan, and its columns."""
        kind = kind_of(plan)
        end = self._end_of(plan)
        if end is not None and end > 0:
            raise _OtherFrameError
        if end == 0:
            columns = list(items_of(plan.output()))
            names = self._names or [str(column.name()) for column in columns]
            for name, column in zip(names, columns, strict=True):
                self._columns[column.exprId().id()] = self._later(partial(self._column, name), column)
        elif kind in ("SubqueryAlias", "View"):
            self._read(plan.child())
        elif kind == "Union":
            self._read_branch(plan)
        elif kind == "WithCTE":
            self._defined |= {one.id(): one.child() for one in items_of(plan.cteDefs())}
            self._read(plan.plan())
        elif kind == "CTERelationRef" and plan.cteId() in self._defined:
            self._read_defined(plan, self._defined.pop(plan.cteId()))
        elif kind == "Project":
            self._read(plan.child())
            for one in items_of(plan.projectList()):
                if kind_of(one) == "Alias":
                    self._columns[one.exprId().id()] = self._later(self._expression, one.child())
        elif kind == "Filter":
            self._read(plan.child())
            self._filters += self._conditions(plan.condition())
        else:
            msg = f"it has {kind}"
            raise OnlySparkError(msg)

    def _end_of(self, plan: _Java) -> int | None:
        """Return the number of the frame whose plan this is; None if it is none.

        Where a frame is read in two branches, Spark has a copy of its plan in one of them, with ids of its own.
        """
        equal = [number for number, end in enumerate(self._ends) if plan.equals(end)]
        if not equal and self._is_branch:
            equal = [number for number, end in enumerate(self._ends) if plan.sameResult(end)]
        return equal[0] if len(equal) == 1 else None

    def _read_branch(self, union: _Java) -> None:
        branches = list(items_of(union.children()))
        if not self._path:
            raise _ForkError(len(branches))
        branch = branches[self._path.pop(0)]
        self._is_branch = True
        self._read(branch)
        of_branch = [self._columns[column.exprId().id()] for column in items_of(branch.output())]
        # columns of a union may have the ids of those below, such as those that another branch renames
        of_union = (column.exprId().id() for column in items_of(union.output()))
        self._columns = dict(zip(of_union, of_branch, strict=True))

    def _read_defined(self, reference: _Java, plan: _Java) -> None:
        self._read(plan)
        for column, before in zip(items_of(reference.output()), items_of(plan.output()), strict=True):
            self._columns[column.exprId().id()] = self._columns[before.exprId().id()]

    def _conditions(self, condition: _Java) -> list[int]:
        """Return the conditions that AND combines, in the order in which Spark checks them."""
        if kind_of(condition) == "And":
            return self._conditions(condition.left()) + self._conditions(condition.right())
        return [self._expression(condition)]

    def _later(self, read: Callable[[_Java], int], found: _Java) -> Callable[[], int]:
        """Return a function that reads a column at its first call, among the columns that are known now."""
        known: list[int] = []
        columns = self._columns

        def number() -> int:
            if not known:
                above, self._columns = self._columns, columns
                known.append(read(found))
                self._columns = above
            return known[0]

        return number

    def _column(self, name: str, column: _Java) -> int:
        return self._nodes.add(Column(name, self._type(column)))

    def _type(self, found: _Java) -> pa.DataType:
        name = str(found.dataType().catalogString())
        decimal = _DECIMAL.fullmatch(name)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if name not in _TYPES:
            raise _only_spark(found)
        return _TYPES[name]

    def _expression(self, found: _Java) -> int:
        """Return the number of the node of an expression."""
        kind = kind_of(found)
        if kind == "AttributeReference" and found.exprId().id() in self._columns:
            return self._columns[found.exprId().id()]()
        if kind == "Alias":
            return self._expression(found.child())
        if found.foldable() and not found.containsAnyPattern(self._not_folded):
            try:
                return self._nodes.add(self._literal(found))
            except (Py4JError, PySparkException) as error:  # such as 1 / 0, which Spark mostly computes before any row
                raise _only_spark(found) from error
        if self._is_replaceable(kind, found):
            return self._expression(found.replacement())
        if kind == "With":
            for one in items_of(found.defs()):
                self._shared[one.id().id()] = self._expression(one.child())
            return self._expression(found.child())
        if kind == "CommonExpressionRef":
            return self._shared[found.id().id()]
        if kind in ("CaseWhen", "Coalesce"):
            return self._choice(kind, found)
        if kind == "Cast" and kind_of(found.child()) == RAISE_ERROR:
            return self._raised(found)
        if kind not in KINDS:
            return self._called(kind, found)
        return self._call(kind, found, [self._expression(child) for child in items_of(found.children())])

    def _called(self, kind: str, found: _Java) -> int:
        """Read a call of a function of the job."""
        if kind != FUNCTION_CALL or not self._may_call:
            raise _only_spark(found)
        chain = chain_of(found)
        arguments = tuple(self._expression(child) for child in items_of(chain[0].children()))
        try:
            function = function_of(self._session, chain, [self._nodes[number] for number in arguments])
        except NotCalledError as error:
            msg = f"{_only_spark(found)}: {error}"
            raise OnlySparkError(msg) from error
        call = Call(kind, arguments, self._type(found), (str(found.evalType()),), function=function)
        return self._add(call, found)

    def _raised(self, cast: _Java) -> int:
        """Read `raise_error` with a constant text, which Spark casts from its own type without values."""
        parameters = list(items_of(cast.child().errorParms().children()))
        if len(parameters) != _NAME_AND_TEXT or not all(one.foldable() for one in parameters):
            raise _only_spark(cast)
        name, text = map(self._literal, parameters)
        if name.value != "errorMessage":
            raise _only_spark(cast)
        return self._add(Call(RAISE_ERROR, (self._nodes.add(text),), self._type(cast)), cast)

    def _choice(self, kind: str, found: _Java) -> int:
        """Read CASE or COALESCE as nested IF."""
        data_type, children = self._type(found), list(items_of(found.children()))
        numbers = [self._expression(child) for child in children]
        if kind == "Coalesce":
            *first, other = numbers
            pairs = [(self._is_not_null(*one), one[1]) for one in zip(children, first, strict=False)]
        else:
            other = numbers.pop() if len(numbers) % 2 else self._nodes.add(Literal(None, data_type))
            pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        for condition, value in reversed(pairs):
            if value != other:  # else Spark does not check the condition
                other = self._add(Call("If", (condition, value, other), data_type), found)
        return other

    def _is_not_null(self, found: _Java, number: int) -> int:
        if found.nullable():
            return self._add(Call("IsNotNull", (number,), pa.bool_()), found)
        return self._nodes.add(Literal(value=True, data_type=pa.bool_()))

    def _call(self, kind: str, found: _Java, arguments: list[int]) -> int:
        if kind in ("IsNull", "IsNotNull") and not found.child().nullable():
            return self._nodes.add(Literal(kind == "IsNotNull", pa.bool_()))
        options = tuple(read(found) for read in _OPTIONS.get(kind, ()))
        data_type = TEXT_PARTS if kind == "StringSplitSQL" else self._type(found)
        return self._add(Call(kind, tuple(arguments), data_type, options), found)

    def _add(self, call: Call, found: _Java) -> int:
        number = self._nodes.call(call, lambda: str(found.sql()), lambda: bool(found.nullable()))
        if number is None:
            raise _only_spark(found)
        return number

    def _literal(self, found: _Java) -> Literal:
        data_type, value = self._type(found), found.eval(None)
        if value is not None and pa.types.is_string(data_type):
            try:
                value = bytes(value.getBytes()).decode()
            except UnicodeDecodeError as error:  # such as CAST(x'ff' AS string)
                raise _only_spark(found) from error
        if value is not None and pa.types.is_decimal(data_type):
            value = str(value.toString())
        return Literal(value, data_type)

    def _is_replaceable(self, kind: str, found: _Java) -> bool:
        if kind not in self._replaceable:
            self._replaceable[kind] = bool(is_instance_of(self._gateway, found, _REPLACEABLE))
        return self._replaceable[kind]


def _only_spark(found: _Java) -> OnlySparkError:
    text = " ".join(str(found.sql()).split())
    return OnlySparkError(f"only Spark computes {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}")


def _mode(found: _Java) -> str:
    return str(found.evalMode().toString())


def _failing_mode(found: _Java) -> str:
    return "ANSI" if found.failOnError() else "LEGACY"


def _zone(found: _Java) -> str:
    zone = found.timeZoneId()
    name = str(zone.get()) if zone.isDefined() else ""
    return "UTC" if name == "Etc/UTC" else name


#: {kind: functions that return its options}
_OPTIONS: Mapping[str, tuple[Callable[[_Java], str], ...]] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod"), (_mode,)),
    **dict.fromkeys(("UnaryMinus", "Abs"), (_failing_mode,)),
    **dict.fromkeys(("DateFormatClass", "Hour", "Minute", "Second", "TruncTimestamp"), (_zone,)),
    "Cast": (_mode, _zone),
    "Like": (lambda found: str(found.escapeChar()),),
}
