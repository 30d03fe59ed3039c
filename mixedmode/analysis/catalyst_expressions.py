"""Reads the expressions of Spark's analysed plan as nodes of a query, if each is on the list of what tasks compute.

Spark computes constant expressions here.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from mixedmode.analysis.called_functions import NotCalledError, chain_of, function_of
from mixedmode.analysis.catalyst import tree_patterns
from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.optimised_nodes import OptimisedNodes
from mixedmode.expressions import FUNCTION_CALL, KINDS, NAMED_STRUCT, RAISE_ERROR, TEXT_PARTS, Call, Literal, type_named
from mixedmode.spark.frames import IN_UTC
from mixedmode.spark.java_classes import is_instance

__all__ = ["CatalystExpressions", "OnlySparkError"]

_Java = Any  # an object of the JVM

_REPLACEABLE = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_IS_REPLACEABLE: dict[str, bool] = {}  # {kind: whether Spark replaces it}; the same in each session
_SHOWN = 60  # characters of SQL in a reason
_NAME_AND_TEXT = 2  # the parameters of an error that raise_error raises


class OnlySparkError(Exception):
    """Only Spark can compute a frame. The text says why, as in `by Spark, because ...`."""


class CatalystExpressions:
    """Reads expressions over columns that are known.

    nodes: what was read. columns: {id of a column: function that returns its node}.
    """

    def __init__(self, session: SparkSession, *, may_leave: bool, may_call: bool) -> None:
        """may_leave: Spark can read the rows instead, so a node may raise LeftToSparkError for some values.

        may_call: an expression may call functions of the job.
        """
        self._session = session
        self._may_call = may_call
        self.nodes = OptimisedNodes(may_leave=may_leave)
        self.columns: dict[int, Callable[[], int]] = {}
        self._context = session.sparkContext
        #: expressions that Spark folds and that are no constants here: clocks, and those that Spark replaces first
        self._not_folded = tree_patterns(session, ("CURRENT_LIKE", "RUNTIME_REPLACEABLE"))
        #: {kind: how it is read}, of those that are no calls with the values of all children
        self._others: Mapping[str, Callable[[_Java], int]] = {
            **{kind: partial(self._choice, kind) for kind in ("CaseWhen", "Coalesce")},
            NAMED_STRUCT: self._struct,
            "GetStructField": self._field,
        }
        self._shared: dict[int, int] = {}  # {id of a common expression: its node}

    def later(self, read: Callable[[_Java], int], found: _Java) -> Callable[[], int]:
        """Return a function that reads a column at its first call, among the columns that are known now."""
        known: list[int] = []
        columns = self.columns

        def number() -> int:
            if not known:
                above, self.columns = self.columns, columns
                known.append(read(found))
                self.columns = above
            return known[0]

        return number

    def type_of(self, found: _Java) -> pa.DataType:
        """Return the type of an expression. Raise OnlySparkError if no task has it."""
        data_type = type_named(str(found.dataType().catalogString()))
        if data_type is None:
            raise _only_spark(found)
        return data_type

    def node_of(self, found: _Java) -> int:
        """Return the number of the node of an expression. Raise OnlySparkError if only Spark computes it."""
        kind = kind_of(found)
        column = self.columns.get(id_of(found)) if kind == "AttributeReference" else None
        if column is not None:
            return column()
        if kind == "Alias":
            return self.node_of(found.child())
        if found.foldable() and not found.containsAnyPattern(self._not_folded):
            try:
                return self.nodes.add(self._literal(found))
            except (Py4JError, PySparkException) as error:  # such as 1 / 0, which Spark mostly computes before any row
                raise _only_spark(found) from error
        if self._is_replaceable(kind, found):
            return self.node_of(found.replacement())
        if kind == "With":
            for one in items_of(found.defs()):
                self._shared[one.id().id()] = self.node_of(one.child())
            return self.node_of(found.child())
        if kind == "CommonExpressionRef":
            return self._shared[found.id().id()]
        if kind == "Cast" and kind_of(found.child()) == RAISE_ERROR:
            return self._raised(found)
        if kind in self._others:
            return self._others[kind](found)
        if kind not in KINDS:
            return self._called(kind, found)
        return self._call(kind, found, [self.node_of(child) for child in items_of(found.children())])

    def _called(self, kind: str, found: _Java) -> int:
        """Read a call of a function of the job."""
        if kind != FUNCTION_CALL or not self._may_call:
            raise _only_spark(found)
        chain = chain_of(found)
        arguments = tuple(self.node_of(child) for child in items_of(chain[0].children()))
        try:
            function = function_of(self._session, chain, [self.nodes[number] for number in arguments])
        except NotCalledError as error:
            msg = f"{_only_spark(found)}: {error}"
            raise OnlySparkError(msg) from error
        call = Call(kind, arguments, self.type_of(found), (str(found.evalType()),), function=function)
        return self._add(call, found)

    def _raised(self, cast: _Java) -> int:
        """Read `raise_error` with a constant text, which Spark casts from its own type without values."""
        parameters = list(items_of(cast.child().errorParms().children()))
        if len(parameters) != _NAME_AND_TEXT or not all(one.foldable() for one in parameters):
            raise _only_spark(cast)
        name, text = map(self._literal, parameters)
        if name.value != "errorMessage":
            raise _only_spark(cast)
        return self._add(Call(RAISE_ERROR, (self.nodes.add(text),), self.type_of(cast)), cast)

    def _struct(self, found: _Java) -> int:
        """Read `named_struct`, whose names are those of its type."""
        values = [self.node_of(child) for child in list(items_of(found.children()))[1::2]]
        data_type = to_arrow_type(StructType.fromJson(json.loads(found.dataType().json())), **IN_UTC)
        return self._add(Call(NAMED_STRUCT, tuple(values), data_type), found)

    def _field(self, found: _Java) -> int:
        """Read a field of a struct that is made of values here."""
        node = self.nodes[self.node_of(found.child())]
        if not isinstance(node, Call) or node.kind != NAMED_STRUCT:
            raise _only_spark(found)
        return node.arguments[int(found.ordinal())]

    def _choice(self, kind: str, found: _Java) -> int:
        """Read CASE or COALESCE as nested IF."""
        data_type, children = self.type_of(found), list(items_of(found.children()))
        numbers = [self.node_of(child) for child in children]
        if kind == "Coalesce":
            *first, other = numbers
            pairs = [(self._is_not_null(*one), one[1]) for one in zip(children, first, strict=False)]
        else:
            other = numbers.pop() if len(numbers) % 2 else self.nodes.add(Literal(None, data_type))
            pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        for condition, value in reversed(pairs):
            if value != other:  # else Spark does not check the condition
                other = self._add(Call("If", (condition, value, other), data_type), found)
        return other

    def _is_not_null(self, found: _Java, number: int) -> int:
        if found.nullable():
            return self._add(Call("IsNotNull", (number,), pa.bool_()), found)
        return self.nodes.add(Literal(value=True, data_type=pa.bool_()))

    def _call(self, kind: str, found: _Java, arguments: list[int]) -> int:
        if kind in ("IsNull", "IsNotNull") and not found.child().nullable():
            return self.nodes.add(Literal(kind == "IsNotNull", pa.bool_()))
        options = tuple(read(found) for read in _OPTIONS.get(kind, ()))
        data_type = TEXT_PARTS if kind == "StringSplitSQL" else self.type_of(found)
        return self._add(Call(kind, tuple(arguments), data_type, options), found)

    def _add(self, call: Call, found: _Java) -> int:
        if any(pa.types.is_struct(self.nodes[argument].data_type) for argument in call.arguments):
            raise _only_spark(found)
        number = self.nodes.call(call, lambda: str(found.sql()), lambda: bool(found.nullable()))
        if number is None:
            raise _only_spark(found)
        return number

    def _literal(self, found: _Java) -> Literal:
        if kind_of(found.dataType()) == "DayTimeIntervalType":
            return Literal(found.eval(None), pa.duration("us"))
        data_type, value = self.type_of(found), found.eval(None)
        if value is not None and pa.types.is_string(data_type):
            try:
                value = bytes(value.getBytes()).decode()
            except UnicodeDecodeError as error:  # such as CAST(x'ff' AS string)
                raise _only_spark(found) from error
        if value is not None and pa.types.is_decimal(data_type):
            value = str(value.toString())
        return Literal(value, data_type)

    def _is_replaceable(self, kind: str, found: _Java) -> bool:
        if kind not in _IS_REPLACEABLE:
            _IS_REPLACEABLE[kind] = is_instance(self._context, found, _REPLACEABLE)
        return _IS_REPLACEABLE[kind]


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
    "TimestampAddInterval": (_zone,),
    "Cast": (_mode, _zone),
    "Like": (lambda found: str(found.escapeChar()),),
}
