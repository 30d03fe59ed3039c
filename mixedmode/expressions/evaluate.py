"""Computes a query on the batches of a file.

A value is computed only for rows in which Spark computes it, where it may raise an error: `x <> 0 AND 1 / x > 2` does
not divide by zero. A value that cannot raise is computed for all rows, which is faster. calls.py says for which rows
the job's own functions are called.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.expressions.arithmetic import ARITHMETIC
from mixedmode.expressions.calls import CALLS, QueryCalls
from mixedmode.expressions.casts import CASTS
from mixedmode.expressions.comparisons import COMPARISONS
from mixedmode.expressions.kernels import Kernel, integers
from mixedmode.expressions.structs import STRUCTS
from mixedmode.expressions.table_rows import TableRows
from mixedmode.expressions.texts import TEXTS
from mixedmode.expressions.times import TIMES
from mixedmode.expressions.values import Call, Column, Literal, Match, Node, Query, Table, Taken, Value, arguments_of

__all__ = [
    "KINDS",
    "can_raise",
    "evaluate",
    "evaluate_here",
    "is_exact",
    "is_null_of_null",
    "is_partial",
    "raising_nodes",
]

_KERNELS: Mapping[str, Kernel] = {**COMPARISONS, **ARITHMETIC, **CASTS, **TEXTS, **TIMES, **STRUCTS, **CALLS}
_JOINED_BYTES = 2**26  # of the values that rows get from tables
_CHOICES = frozenset({"And", "Or", "If"})  # they evaluate an argument only for some rows
KINDS = (frozenset(_KERNELS) | _CHOICES) - frozenset(CALLS)  # the closed list, without functions of the job


def is_exact(call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether a call is on the list: its result here is Spark's result, for every value."""
    if call.kind in ("And", "Or"):
        return True
    if call.kind == "If":
        return all(argument.data_type == call.data_type for argument in arguments[1:])
    return call.kind in _KERNELS and _KERNELS[call.kind].accepts(call, arguments)


def can_raise(call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether a call itself may raise an error for some values."""
    return call.kind in _KERNELS and _KERNELS[call.kind].raises(call, arguments)


def is_partial(call: Call) -> bool:
    """Return whether a call leaves some values to Spark (LeftToSparkError)."""
    if call.function is not None:
        return call.function.is_partial
    return call.kind in _KERNELS and _KERNELS[call.kind].is_partial


def is_null_of_null(call: Call) -> bool:
    """Return whether a call is NULL wherever one of its arguments is."""
    return call.kind in _KERNELS and not _KERNELS[call.kind].takes_null


def evaluate(queries: Sequence[Query], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each query over each batch. Raise InvalidJobError where Spark raises an error on a value.

    Raise LeftToSparkError for a value that only Spark computes.
    """
    known = [(query, raising_nodes(query.nodes), QueryCalls.of(query)) for query in queries]
    rows_max = min((_rows_at_once(query) for query in queries), default=1)
    for batch in batches:
        for start in range(0, max(1, batch.num_rows), rows_max):
            for query, raising, calls in known:
                yield _rows_of(query, raising, calls, batch.slice(start, rows_max))


def _rows_at_once(query: Query) -> int:
    """Return how many rows are joined at once: a long value of a table may be that of every row.

    Without a table, the rows stay together.
    """
    widest = sum(_rows_in(table).row_bytes_max for table in query.tables)
    return max(1, _JOINED_BYTES // widest) if widest else sys.maxsize


def evaluate_here(queries: Sequence[Query], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `evaluate` does, where Spark cannot compute the rows instead: between two steps, and in a join.

    Raise InvalidJobError also for a value that would be left to Spark.
    """
    try:
        yield from evaluate(queries, batches)
    except LeftToSparkError as error:
        msg = (
            "an expression over the rows of a step, or the condition of a join, has a value that only Spark computes, "
            "and nothing was committed. Make text valid with make_valid_utf8(...) in a sql step over the source. "
            f"cause={error}"
        )
        raise InvalidJobError(msg) from error


def _rows_of(query: Query, raising: Sequence[bool], calls: QueryCalls, batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = _Rows(query, raising, batch.num_rows, batch.column)
    passing: Value | None = None  # of the filters since the last selection, none of which can raise
    for number in query.filters:
        if (raising[number] or number in calls.filters) and passing is not None:
            rows, passing = rows.where(passing), None
        if number in calls.filters:
            rows.compute(calls.of_filters)
        found = rows.value(number)
        passing = found if passing is None else pc.and_kleene(passing, found)
    if passing is not None:
        rows = rows.where(passing)
    rows.compute(calls.of_columns)
    return pa.record_batch([rows.column(number) for _, number in query.columns], [name for name, _ in query.columns])


def raising_nodes(nodes: Sequence[Node]) -> list[bool]:
    """Return for each node whether it, or an argument of it, may raise an error."""
    found: list[bool] = []
    for node in nodes:
        arguments = arguments_of(node)
        raises = isinstance(node, Call) and can_raise(node, [nodes[number] for number in arguments])
        found.append(raises or any(found[number] for number in arguments))
    return found


class _Rows:
    """Some rows of a batch, and the values that were computed for them."""

    def __init__(self, query: Query, raising: Sequence[bool], length: int, read: Callable[[str], pa.Array]) -> None:
        self._query = query
        self._nodes = query.nodes
        self._raising = raising
        self._length = length
        self._read = read
        self._values: dict[int, Value] = {}

    def where(self, condition: Value) -> "_Rows":
        """Return the rows for which a condition is true."""
        mask = self._array(condition)
        length = pc.sum(mask).as_py() or 0
        if length == self._length:
            return self
        selected = _Rows(self._query, self._raising, length, lambda name: self._read(name).filter(mask))
        for number, value in self._values.items():
            selected._values[number] = value.filter(mask) if isinstance(value, pa.Array) else value
        return selected

    def column(self, number: int) -> pa.Array:
        """Return the value of a node for each row."""
        return self._array(self.value(number))

    def compute(self, numbers: Iterable[int]) -> None:
        """Compute the values of nodes for all rows, also where no column needs them."""
        for number in numbers:
            self.value(number)

    def value(self, number: int) -> Value:
        """Return the value of a node, which is computed once."""
        if number not in self._values:
            node = self._nodes[number]
            match node:
                case Column():
                    self._values[number] = self._read(node.name)
                case Literal():
                    self._values[number] = node.scalar()
                case Call():
                    self._values[number] = self._call(node)
                case Match():
                    keys = [self.column(key) for key in node.arguments]
                    self._values[number] = _rows_in(self._query.tables[node.table]).matches(keys)
                case Taken():
                    found = self.column(*node.arguments)
                    self._values[number] = _rows_in(self._query.tables[node.table]).columns[node.column].take(found)
        return self._values[number]

    def _call(self, call: Call) -> Value:
        if call.kind in _CHOICES:
            return self._choice(call)
        kernel = _KERNELS[call.kind]
        if kernel.takes_null:
            given = [self.value(number) for number in call.arguments]
        elif any(_is_null(self._nodes[number]) for number in call.arguments):
            return pa.scalar(None, call.data_type)  # as in Spark, the other arguments are not computed
        else:
            given = self._arguments(call, kernel)
            if any(isinstance(one, pa.Scalar) and not one.is_valid for one in given):
                return pa.scalar(None, call.data_type)
        if all(isinstance(one, pa.Scalar) for one in given):
            given[kernel.column] = self._array(given[kernel.column])
        if not self._length:
            return pa.nulls(0, call.data_type)
        try:
            return kernel.compute(call, given)
        except pa.ArrowInvalid as error:
            raise _refused(call, kernel, given) from error

    def _arguments(self, call: Call, kernel: Kernel) -> list[Value]:
        """Return the arguments. One that may raise is computed only where those before it are not NULL."""
        numbers = call.arguments[::-1] if kernel.right_first else call.arguments
        found: list[Value] = []
        for number in numbers:
            if found and isinstance(found[-1], pa.Scalar) and not found[-1].is_valid:
                return [found[-1]]
            nullable = [one for one in found if isinstance(one, pa.Array) and one.null_count]
            if self._raising[number] and nullable:
                found.append(self._only_where(_all_valid(nullable), number))
            else:
                found.append(self.value(number))
        return found[::-1] if kernel.right_first else found

    def _choice(self, call: Call) -> Value:
        first = self.value(call.arguments[0])
        if call.kind == "If":
            is_true = pc.fill_null(first, fill_value=False)
            chosen = self._only_where(is_true, call.arguments[1])
            other = self._only_where(pc.invert(is_true), call.arguments[2])
            return pc.if_else(is_true, chosen, other)
        is_and = call.kind == "And"
        decides = pc.invert(first) if is_and else first  # where it is true, the other side is not evaluated
        second = self._only_where(pc.invert(pc.fill_null(decides, fill_value=False)), call.arguments[1])
        return (pc.and_kleene if is_and else pc.or_kleene)(first, second)

    def _only_where(self, mask: Value, number: int) -> Value:
        """Return the value of a node; if it may raise, only for the rows of `mask`, and NULL in the others."""
        if not self._raising[number] or number in self._values:
            return self.value(number)
        chosen = self._array(mask)
        selected = self.where(chosen)
        found = selected.value(number)
        if selected is self or isinstance(found, pa.Scalar):
            return found
        is_chosen = chosen.to_numpy(zero_copy_only=False)
        return found.take(pa.array(np.cumsum(is_chosen) - 1, mask=~is_chosen))

    def _array(self, value: Value) -> pa.Array:
        return pa.repeat(value, self._length) if isinstance(value, pa.Scalar) else value


def _rows_in(table: Table) -> TableRows:
    assert table.rows is not None, f"the rows of {table.name} are read before the tasks run"
    return table.rows


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _all_valid(values: Iterable[pa.Array]) -> pa.Array:
    found = None
    for value in values:
        valid = pc.is_valid(value)
        found = valid if found is None else pc.and_(found, valid)
    return found


def _refused(call: Call, kernel: Kernel, given: Sequence[Value]) -> InvalidJobError:
    """Return the error for the first row whose value cannot be computed.  given: arguments, one of them an array."""
    first, count = 0, max(len(one) for one in given if isinstance(one, pa.Array))
    cause = _cause(call, kernel, given, first, count)
    while count > 1:
        half = count // 2
        found = _cause(call, kernel, given, first, half)
        first, count = (first, half) if found else (first + half, count - half)
        cause = found or cause
    values = [_shown(one[first] if isinstance(one, pa.Array) else one) for one in given]
    msg = (
        "a value of a computed column, of a sql step or of an argument cannot be computed, and nothing was committed. "
        "Correct the SQL, let it return NULL for such a value, as try_cast does, or filter such records out in a sql "
        f"step before it. cause={cause}, expression={call.text}, values={', '.join(values)}"
    )
    return InvalidJobError(msg)


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except UnicodeDecodeError:  # text that is not UTF-8
        return str(value.cast(pa.binary()).as_py())
    except (OverflowError, ValueError):  # a time beyond those of Python
        return str(integers(value))


def _cause(call: Call, kernel: Kernel, given: Sequence[Value], first: int, count: int) -> str:
    """Return why some rows cannot be computed; an empty text if they can."""
    try:
        kernel.compute(call, [one.slice(first, count) if isinstance(one, pa.Array) else one for one in given])
    except pa.ArrowInvalid as error:
        return str(error)
    return ""
