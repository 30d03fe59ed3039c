"""Reads the analysed plan of a frame as a query that map tasks compute on Arrow, if everything in it is on the list.

Only columns that the frame needs are read: a projection below may have others that only Spark can compute.

A join with a dimension finds at most one row of it for each row, and adds its columns (expressions/values.py).

A UNION ALL is a query for each of its branches. Every branch ends in a frame that the caller knows, so no branch is
missed: those that end in `until` are the queries, and those that end in one of `others` are queries of these.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from mixedmode.analysis.call_conditions import in_order
from mixedmode.analysis.called_functions import NotCalledError
from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_conditions import conjuncts
from mixedmode.analysis.catalyst_expressions import CatalystExpressions, OnlySparkError
from mixedmode.analysis.catalyst_objects import columns_of, id_of, ids_of, items_of, kind_of
from mixedmode.analysis.dimension_joins import DimensionJoin, dimension_join, dimension_name, is_in_dimension
from mixedmode.connectors.files.parquet_settings import unusual_in
from mixedmode.expressions import Call, Column, Literal, Match, Query, QueryCalls, Table, Taken, is_key_type

__all__ = ["OnlySparkError", "read_queries_of", "read_query_of"]

_Java = Any  # an object of the JVM

_LEGACY = re.compile(r"\bspark\.sql\.legacy\.[\w.]+")


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
    dimensions: Collection[str] = (),
    may_leave: bool = False,
    may_call: bool = True,
) -> tuple[Query, ...]:
    """Return the rows of a frame that are made of those of `until`, as queries: one, or one for each branch of unions.

    Raise OnlySparkError if only Spark can do it. others: frames in which other branches may end.
    may_leave: Spark can read the rows instead, so a query may raise LeftToSparkError for some values.
    may_call: a query may call functions of the job. dimensions: names of those that the frame may join. names: see
    `read_query_of`.
    """
    try:
        _check_settings(str(frame._jdf.sparkSession().conf().getAll().toString()), of_files=may_leave)
        ends = _Ends([analysed(one) for one in (until, *others)], {name.lower(): name for name in dimensions})
        reader = partial(_Reader, frame, ends, names=names or ends.names, may_leave=may_leave, may_call=may_call)
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


@dataclass(frozen=True, slots=True)
class _Ends:
    """Ends of plans: the plan of `until` and those of other frames, and {name in lower case: name} of dimensions."""

    plans: Sequence[_Java]
    dimensions: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns of `until`."""
        return [name for name, _ in columns_of(self.plans[0].output())]

    def number_of(self, plan: _Java, *, is_branch: bool) -> int | None:
        """Return the number of the frame whose plan this is; None if it is none.

        Where a frame is read in two branches, Spark has a copy of its plan in one of them, with ids of its own. A
        projection that only renames columns has the same result, so the columns of a copy are known by their places.
        """
        equal = [number for number, end in enumerate(self.plans) if plan.equals(end)]
        if not equal and is_branch:
            equal = [number for number, end in enumerate(self.plans) if plan.sameResult(end)]
        return equal[0] if len(equal) == 1 else None


@dataclass(frozen=True, slots=True)
class _EndsInDimension:
    """The plan of a dimension."""

    name: str
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def number_of(self, plan: _Java, *, is_branch: bool) -> int | None:
        del is_branch
        is_end = kind_of(plan) == "View" and dimension_name(plan, (self.name.lower(),)) is not None
        return 0 if is_end else None


class _Reader:
    """Reads one branch of the plan of a frame."""

    def __init__(
        self,
        frame: DataFrame,
        ends: _Ends | _EndsInDimension,
        path: Sequence[int],
        names: Sequence[str] | None,
        *,
        may_leave: bool,
        may_call: bool,
    ) -> None:
        self._frame = frame
        self._plan = analysed(frame)
        self._ends = ends
        self._path = list(path)
        self._is_branch = False
        self._names = names
        self._may_leave = may_leave
        self._found = CatalystExpressions(frame.sparkSession, may_leave=may_leave, may_call=may_call)
        self._filters: list[int] = []
        self._tables: list[_TableRead] = []
        self._defined: dict[int, _Java] = {}  # {id of a WITH query: its plan}

    def query(self) -> Query:
        """Return the whole query."""
        self._read(self._plan)
        return self._query([(name, self._found.columns[number]) for name, number in columns_of(self._plan.output())])

    def _query(self, columns: Sequence[tuple[str, Callable[[], int]]]) -> Query:
        numbers = [(name, read()) for name, read in columns]
        # Spark does not check the other conditions if one is false for all rows
        filters = sorted(self._filters, key=lambda number: not isinstance(self._found.nodes[number], Literal))
        query = self._found.nodes.query(filters, numbers, [table.table() for table in self._tables])
        if query.tables and QueryCalls.of(query).has_any:
            msg = "it calls a function and joins a dimension, and Spark's optimiser decides which comes first"
            raise OnlySparkError(msg)
        try:
            return in_order(query)
        except NotCalledError as error:
            raise OnlySparkError(str(error)) from error

    def _read(self, plan: _Java) -> None:
        """Note the filters of a plan, and its columns."""
        kind = kind_of(plan)
        end = self._ends.number_of(plan, is_branch=self._is_branch)
        if end is not None and end > 0:
            raise _OtherFrameError
        if end == 0:
            self._read_end(plan.output())
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
                    self._found.columns[id_of(one)] = self._found.later(self._found.node_of, one.child())
        elif kind in ("Filter", "Join"):
            is_filter = kind == "Filter"
            self._read_filtered(*((plan.child(), list(conjuncts(plan.condition()))) if is_filter else (plan, [])))
        else:
            msg = f"it has {kind}"
            raise OnlySparkError(msg)

    def _read_end(self, columns: _Java) -> None:
        """Make the columns of the frame known; each is read if it is used."""
        for place, (name, number) in enumerate(columns_of(columns)):
            read = partial(self._column, self._names[place] if self._names else name, columns)
            self._found.columns[number] = self._found.later(read, place)

    def _read_branch(self, union: _Java) -> None:
        branches = list(items_of(union.children()))
        if not self._path:
            raise _ForkError(len(branches))
        branch = branches[self._path.pop(0)]
        self._is_branch = True
        self._read(branch)
        of_branch = [self._found.columns[number] for number in ids_of(branch.output())]
        # columns of a union may have the ids of those below, such as those that another branch renames
        self._found.columns = dict(zip(ids_of(union.output()), of_branch, strict=True))

    def _read_defined(self, reference: _Java, plan: _Java) -> None:
        self._read(plan)
        for number, before in zip(ids_of(reference.output()), ids_of(plan.output()), strict=True):
            self._found.columns[number] = self._found.columns[before]

    def _read_filtered(self, plan: _Java, conditions: Sequence[_Java]) -> None:
        """Read a plan, of whose rows only those pass for which all conditions are true."""
        if kind_of(plan) != "Join":
            self._read(plan)
        else:
            join = dimension_join(plan, self._ends.dimensions, conditions)
            if join is None:
                msg = f"it has {kind_of(plan)}"
                raise OnlySparkError(msg)
            self._read(join.rows)
            self._join(join)
            conditions = () if join.type == "Inner" else conditions  # else they are conditions of the join, too
        for condition in conditions:
            semi_join = is_in_dimension(condition, self._ends.dimensions)
            if semi_join is None:
                self._filters.append(self._found.node_of(condition))
            else:
                self._join(semi_join)

    def _join(self, join: DimensionJoin) -> None:
        """Add the columns of a dimension, and leave out the rows that the join leaves out."""
        table = self._table_of(join)
        types = [(self._found.type_of(ours), self._found.type_of(theirs)) for ours, theirs in join.keys]
        if not types or any(ours != theirs or not is_key_type(ours) for ours, theirs in types):
            msg = "it joins a dimension by what tasks cannot look up"
            raise OnlySparkError(msg)
        number = len(self._tables)
        self._tables.append(table)
        match = self._found.nodes.add(Match(number, tuple(self._found.node_of(ours) for ours, _ in join.keys)))
        if join.rest:
            self._take_columns(table, number, match, join)
            match = self._matching(match, join)
        self._take_columns(table, number, match, join)
        if join.type != "LeftOuter":
            kind = "IsNull" if join.type == "LeftAnti" else "IsNotNull"
            self._filters.append(self._found.nodes.add(Call(kind, (match,), pa.bool_())))

    def _matching(self, match: int, join: DimensionJoin) -> int:
        """Return a match that is NULL if another condition of the join is not true."""
        none, found = self._found.nodes.add(Literal(None, pa.int64())), match
        # the conditions are computed only where there is a match
        is_match = self._found.nodes.add(Call("IsNotNull", (match,), pa.bool_()))
        for condition in (*reversed([self._found.node_of(one) for one in join.rest]), is_match):
            found = self._found.nodes.add(Call("If", (condition, found, none), pa.int64()))
        return found

    def _table_of(self, join: DimensionJoin) -> "_TableRead":
        ends = _EndsInDimension(join.dimension)
        reader = _Reader(self._frame, ends, (), None, may_leave=self._may_leave, may_call=False)
        reader._read(join.table)
        reader._filters += [reader._found.node_of(condition) for condition in join.of_table]
        keys = [reader._found.node_of(theirs) for _, theirs in join.keys]
        return _TableRead(join.dimension, reader, keys, is_set=join.is_set)

    def _take_columns(self, table: "_TableRead", number: int, match: int, join: DimensionJoin) -> None:
        """Make the columns of a dimension known; each is read if it is used."""
        columns = join.table.output()
        for place, column in enumerate(ids_of(columns)):
            take = partial(self._taken, table, column, number, match, columns)
            self._found.columns[column] = self._found.later(take, place)

    def _taken(self, table: "_TableRead", column: int, number: int, match: int, columns: _Java, place: int) -> int:
        data_type = self._found.type_of(columns.apply(place))
        return self._found.nodes.add(Taken(number, table.name_of(column), (match,), data_type))

    def _column(self, name: str, columns: _Java, place: int) -> int:
        return self._found.nodes.add(Column(name, self._found.type_of(columns.apply(place))))


@dataclass
class _TableRead:
    """A dimension that a plan joins.  keys: their nodes. columns: {id of a column that is used: its name}."""

    name: str
    reader: _Reader
    keys: Sequence[int]
    is_set: bool
    columns: dict[int, str] = field(default_factory=dict)

    def name_of(self, column: int) -> str:
        """Return the name of a column in the rows of the table, of which it becomes one."""
        return self.columns.setdefault(column, f"column {len(self.columns)}")

    def table(self) -> Table:
        """Return the table with its keys, and the columns that are used."""
        keys = [(f"key {n}", partial(int, number)) for n, number in enumerate(self.keys)]
        columns = [(name, self.reader._found.columns[column]) for column, name in self.columns.items()]
        return Table(self.name, self.reader._query([*keys, *columns]), len(keys), is_set=self.is_set)
