"""A sql step with a join of two inputs as what it means: sql for each side, a step with join, and sql over its rows.

Example: `SELECT o.id, p.paid FROM orders o JOIN payments p ON lower(o.id) = p.id WHERE o.total > 9` becomes

    left     SELECT id, lower(id) AS lower_id FROM orders WHERE total > 9
    right    SELECT paid, id FROM payments
    step     on: [left.lower_id = right.id], select: [left.id, right.paid]
    after    SELECT id, paid FROM previous

Two rules of Spark's optimiser move conditions to the sides, and leave out columns that nothing reads. Two others make
joins of IN and EXISTS with a subquery. A side may be a join itself, or a UNION ALL of inputs, and a join with a
dimension is part of the text of a side, or of that over the pairs. Each text that is written is read back by Spark, and
must be the part that it was written for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pydantic import ValidationError
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_conditions import compared, conjuncts, is_not_in
from mixedmode.analysis.catalyst_nulls import may_be_null
from mixedmode.analysis.catalyst_objects import (
    columns_of,
    companion,
    id_of,
    ids_of,
    items_of,
    kind_of,
    sequence_of,
    view_name,
)
from mixedmode.analysis.catalyst_plans import joins_of_subqueries, without_with
from mixedmode.analysis.catalyst_texts import TextLostError, cast_once, columns_over, projected, renamed, within_query
from mixedmode.analysis.dimension_joins import dimension_name
from mixedmode.analysis.join_refusals import AS_VALUE, without_key
from mixedmode.analysis.join_times import bound_of
from mixedmode.analysis.joined_text import joined_text, union_text
from mixedmode.analysis.plan_text import PlanText
from mixedmode.analysis.relations import check_columns
from mixedmode.analysis.same_plans import PASSED, TextInput, children_of
from mixedmode.analysis.sql_joins import Condition, JoinedRows, SqlJoin
from mixedmode.analysis.written_sql import free_name, is_free, item, own_name
from mixedmode.config.calls import quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.errors import InvalidJobError
from mixedmode.operators.join import LEFT, RIGHT

__all__ = ["joined_sql"]

_Java = Any  # an object of the JVM
_CHAIN = frozenset({"Filter", "Generate", "Project", *(PASSED - {"View"})})
_TYPES = {
    "Inner": "inner",
    "Cross": "inner",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}
_SIGNS = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_ALIASES = {LEFT: "left", RIGHT: "right"}
_OWN_STEP = "Put this part into a sql step of its own, or write the join as a step with join."


def joined_sql(
    session: SparkSession, query: AnalysedQuery, inputs: Collection[str], tables: Collection[str], where: str
) -> JoinedRows | None:
    """Return the parts of a query whose top is a join of two inputs, or a UNION ALL with one; None for another one.

    inputs, tables: names in the text of those, and of dimensions. where: the place of the step. Raise InvalidJobError
    for a join that no step is, and for a part that no text says.
    """
    plan = joins_of_subqueries(session, without_with(session, query.plan))
    if not _has_join(plan):
        return None
    check_columns(query.frame(session), where)
    for rule in ("PushDownPredicates", "ColumnPruning"):
        plan = companion(session, f"optimizer.{rule}").apply(plan)
    try:
        given, joined = ({name.lower(): name for name in names} for names in (inputs, tables))
        reader = _Reader(session, given, joined, where)
        return reader.side(plan, [name for name, _ in columns_of(plan.output())]).rows
    except (TextLostError, ValidationError) as error:
        msg = f"{where}: the step with join for this text cannot be written out. {_OWN_STEP} found={error}"
        raise InvalidJobError(msg) from error


@dataclass
class _Side:
    """A side of a join, while it is read.

    columns: the columns of its plan, and their names in `rows`. taken: names, in lower case, that what is computed does
    not have. computed: {name: text} of columns besides.
    """

    session: SparkSession
    rows: JoinedRows
    columns: Sequence[tuple[_Java, str]]
    output: _Java
    taken: Collection[str]
    computed: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[int, str]:
        """{id: name} of the columns."""
        return {id_of(column): name for column, name in self.columns}

    def name_of(self, expression: _Java) -> str:
        """Return the name of the column with this value, which becomes one if it is none."""
        value = cast_once(self.session, expression)
        if _is_column(value):
            return self.names[id_of(value)]
        (text,) = columns_over(self.session, self.columns, [value])
        found = next((name for name, known in self.computed.items() if known == text), None)
        if found is None:
            found = free_name(text, {*self.taken, *(name.lower() for name in (*self.names.values(), *self.computed))})
            self.computed[found] = text
        return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads plans over inputs.  inputs, tables: {name in lower case: name} of those, and of dimensions."""

    session: SparkSession
    inputs: Mapping[str, str]
    tables: Mapping[str, str]
    where: str

    def side(self, top: _Java, names: Sequence[str] | None = None) -> _Side:
        """Return the rows of a plan.

        names: those of its columns; None: those of the columns that they are below. The event time of an input is found
        by its name, so what is computed has another one.
        """
        levels, node = _levels(top)
        output = list(items_of(top.output()))
        below = self._below(levels, output)
        pairs = list(zip(output, below, strict=True))
        source: str | SqlJoin | Mapping[str, JoinedRows]
        taken: Collection[str] = ()
        if _is_of_inputs(node):
            names = names or _own_names(pairs, _named(node), taken)
            passed = {id_of(one): name for one, name in zip(below, names, strict=True) if _is_column(one)}
            source, given = self._join(node, _read_by(levels, top), passed, names)
            text = self._text_over(PREVIOUS, node, given)
        else:
            source, text, taken = self._union(node) if kind_of(node) == "Union" else self._input(node)
            names = names or _own_names(pairs, text.named, taken)
        columns = list(zip(output, names, strict=True))
        for level in levels:
            text = self._with(text, level)
        text.arrange(columns)
        sql = None if text.is_bare else text.sql(top)
        return _Side(self.session, JoinedRows(source, sql), columns, top.outputSet(), taken)

    def _text_over(self, name: str, node: _Java, columns: Sequence[tuple[_Java, str]]) -> PlanText:
        """Return the text of the rows of a node."""
        return PlanText.over(self.session, TextInput.of_columns(name, node, columns))

    def _with(self, text: PlanText, level: _Java) -> PlanText:
        """Return a text with one more level: a node over its rows, or the join of them with a dimension."""
        if kind_of(level) != "Join":
            text.add(level)
            return text
        if level.left().isStreaming():
            return joined_text(self.session, text, self._table(level.right()), level, "Table")
        return joined_text(self.session, self._table(level.left()), text, level, "Table")

    def _table(self, plan: _Java) -> PlanText:
        """Return the text of a dimension, with a filter and columns of it."""
        name = dimension_name(plan, self.tables)
        if name is None:
            self._refuse(kind_of(plan), "What is no input is a dimension, with SELECT and WHERE.")
        levels, node = list[_Java](), plan
        while kind_of(node) != "View":
            levels.insert(0, node)
            node = node.child()
        text = self._text_over(self.tables[name], node, _named(node))
        for level in levels:
            text.add(level)
        return _without_others(text)

    def _union(self, node: _Java) -> tuple[Mapping[str, JoinedRows], PlanText, Collection[str]]:
        """Return the parts of a UNION ALL, the text over them, and names that are not for what is computed.

        A column has the name that it has in all parts, or a name of no input. So what is computed is no event time, as
        `side` says.
        """
        base = "part"
        while any(name.startswith(f"{base}_") for name in self.tables):
            base += "_"
        parts = {f"{base}_{number}": self.side(child) for number, child in enumerate(children_of(node), 1)}
        taken = set[str]().union(*(part.taken for part in parts.values()))
        texts = []
        for (name, part), child in zip(parts.items(), children_of(node), strict=True):
            given = TextInput.of_columns(name, child, part.columns)
            ids = [id_of(column) for column, _ in part.columns]
            texts.append(_without_others(PlanText.over(self.session, given, timed=ids, times=taken)))
        return {name: part.rows for name, part in parts.items()}, union_text(self.session, texts, node), taken

    def _below(self, levels: Sequence[_Java], columns: Sequence[_Java]) -> list[_Java]:
        """Return the columns below the levels that columns are; a column that is computed is itself."""
        values = dict[int, _Java]()
        for level in levels:
            if kind_of(level) == "Project":
                values = projected(self.session, level, values)
        found = [values.get(id_of(column), column) for column in columns]
        return [value if _is_column(value) else column for value, column in zip(found, columns, strict=True)]

    def _input(self, node: _Java) -> tuple[str, PlanText, Collection[str]]:
        """Return an input, the text of its rows, and the names of all of its columns, in lower case."""
        kind = kind_of(node)
        name = self.inputs.get(view_name(node).lower()) if kind == "View" else None
        if name is None:
            self._refuse(kind, "Its sides are inputs, or a UNION ALL of such.")
        names = {str(name).lower() for name in node.desc().schema().fieldNames()}  # also those that nothing reads
        return name, self._text_over(PREVIOUS, node, _named(node)), names

    def _refuse(self, kind: str, why: str) -> NoReturn:
        msg = (
            f"{self.where}: no step joins two inputs in this way. {why} They may have SELECT, WHERE, LATERAL VIEW and "
            f"joins, also with dimensions. {_OWN_STEP} found={kind}"
        )
        raise InvalidJobError(msg)

    def _join(
        self, node: _Java, needed: Collection[int], shown: Mapping[int, str], names: Sequence[str]
    ) -> tuple[SqlJoin, list[tuple[_Java, str]]]:
        """Return a join, and the columns that are read of it, with their names.

        needed: the ids of these columns. shown: {id: name} of those that the text returns. names: those of all that it
        returns, which no other column of the join has: the event time of its rows is found by its name.
        """
        kind = self._type_of(node)
        sides = (self.side(node.left()), self.side(node.right()))
        keys, conditions = self._conditions(node, sides)
        if not keys:
            msg = f"{self.where}: {without_key(node)}"
            raise InvalidJobError(msg)
        columns = list(items_of(node.output()))
        columns = [column for column in columns if id_of(column) in needed] or columns[:1]  # a row has a column
        taken = {name.lower() for name in names}
        given, places = list[tuple[_Java, str]](), list[tuple[int, str, str]]()
        for column in columns:
            number = id_of(column)
            side = next(side for side in (LEFT, RIGHT) if number in sides[side].names)
            name = shown[number] if number in shown else own_name(sides[side].names[number], taken)
            given.append((column, name))
            places.append((side, sides[side].names[number], name))
        settings = {
            "left": _ALIASES[LEFT],
            "right": _ALIASES[RIGHT],
            "on": [f"{_of(LEFT, left)} = {_of(RIGHT, right)}" for left, right in keys],
            "type": kind,
            "select": [item(_of(side, own), name) for side, own, name in places],
        }
        left, right = sides
        computed = (left.computed, right.computed)
        return SqlJoin((left.rows, right.rows), computed, settings, places, {*shown.values()}, keys, conditions), given

    def _type_of(self, node: _Java) -> str:
        """Return the type of a join. Raise InvalidJobError if no step has it."""
        found = str(node.joinType().toString())
        kind = _TYPES.get(found)
        if kind is None:
            why = AS_VALUE if found.startswith("ExistenceJoin") else f"{_OWN_STEP} found={found}"
            msg = f"{self.where}: no step joins two inputs in this way. {why}"
            raise InvalidJobError(msg)
        return kind

    def _conditions(self, node: _Java, sides: tuple[_Side, _Side]) -> tuple[list[tuple[str, str]], list[Condition]]:
        """Return the pairs of columns that are equal, and the other conditions."""
        keys, rest, read = list[tuple[str, str]](), list[_Java](), list[Condition]()
        whole = node.condition()
        for condition in self._parts(node, whole.get()) if whole.isDefined() else ():
            found = compared(condition, sides[LEFT].output, sides[RIGHT].output)
            if found is None:
                rest.append(condition)
                continue
            kind, values = found
            names = (sides[LEFT].name_of(values[LEFT]), sides[RIGHT].name_of(values[RIGHT]))
            bound = bound_of(self.session, kind, values, (sides[LEFT].names, sides[RIGHT].names))
            if kind == "EqualTo" and names not in keys:
                keys.append(names)
            if kind != "EqualTo" or bound is not None:
                text = f"{_of(LEFT, names[LEFT])} {_SIGNS[kind]} {_of(RIGHT, names[RIGHT])}"
                read.append(Condition(text, names, bound))
        return keys, [*read, *map(Condition, self._texts(rest, sides))]

    def _parts(self, node: _Java, condition: _Java) -> Iterator[_Java]:
        """Yield the conditions that AND combines; BETWEEN is two of them, and NOT IN of values that are no NULL is one
        that compares them.
        """
        for one in conjuncts(condition):
            if kind_of(one) == "Between":
                value, least, greatest = (within_query(self.session, part) for part in items_of(one.parameters()))
                yield companion(self.session, "expressions.GreaterThanOrEqual").apply(value, least)
                yield companion(self.session, "expressions.LessThanOrEqual").apply(value, greatest)
            elif is_not_in(one) and not self._may_be_null(one.left(), node):
                yield one.left()
            else:
                yield one

    def _may_be_null(self, equality: _Java, node: _Java) -> bool:
        """Return whether one of the values that a join compares may be NULL."""
        sides = (node.left(), node.right())
        found = compared(equality, *(side.outputSet() for side in sides))
        pairs = () if found is None else zip(found[1], sides, strict=True)
        return found is None or any(may_be_null(self.session, value, side) for value, side in pairs)

    def _texts(self, conditions: Sequence[_Java], sides: tuple[_Side, _Side]) -> list[str]:
        """Return conditions as SQL over `left` and `right`."""
        columns = [
            renamed(self.session, column, name).withQualifier(sequence_of(self.session, [_ALIASES[side]]))
            for side in (LEFT, RIGHT)
            for column, name in sides[side].columns
        ]
        return columns_over(self.session, [(column, None) for column in columns], conditions)


def _levels(plan: _Java) -> tuple[list[_Java], _Java]:
    """Return the nodes on top of a plan that are part of a text, the lowest one first, and the one below them.

    Those of SELECT, WHERE and LATERAL VIEW, and joins with tables.
    """
    levels = list[_Java]()
    while (kind := kind_of(plan)) in _CHAIN or (kind == "Join" and not _is_of_inputs(plan) and plan.isStreaming()):
        levels.insert(0, plan)
        plan = next(one for one in items_of(plan.children()) if one.isStreaming()) if kind == "Join" else plan.child()
    return levels, plan


def _own_names(
    columns: Iterable[tuple[_Java, _Java]], given: Iterable[tuple[_Java, str]], others: Iterable[str]
) -> list[str]:
    """Return names for columns of a side.

    columns: each, and the one below that it is. given: those below that are read, and their names. others: names, in
    lower case, that what is computed does not have.
    """
    first = {name.lower(): id_of(one) for one, name in reversed([*given])}  # columns of a join may have one name
    below = {id_of(one): name for one, name in given if first[name.lower()] == id_of(one)}
    taken = {*others, *first}
    passed = [(column, below.pop(id_of(value), None)) for column, value in columns]  # a name is given once
    return [
        name if name is not None and is_free(name, ()) else own_name(str(column.name()), taken)
        for column, name in passed
    ]


def _has_join(plan: _Java) -> bool:
    """Return whether a plan is a join of inputs, or a UNION ALL with one, below what is part of a text."""
    node = _levels(plan)[1]
    return _is_of_inputs(node) or (kind_of(node) == "Union" and any(map(_has_join, children_of(node))))


def _named(node: _Java) -> list[tuple[_Java, str]]:
    """Return the columns of a node, and their names."""
    return [(column, str(column.name())) for column in items_of(node.output())]


def _without_others(text: PlanText) -> PlanText:
    """Return a text whose SELECT names its columns: `*` has those of the input that nothing reads, too."""
    text.select([(column, column) for column, _ in text.named], [name for _, name in text.named])
    return text


def _is_of_inputs(plan: _Java) -> bool:
    return kind_of(plan) == "Join" and bool(plan.left().isStreaming()) and bool(plan.right().isStreaming())


def _is_column(value: _Java) -> bool:
    return kind_of(value) == "AttributeReference"


def _of(side: int, column: str) -> str:
    return f"{_ALIASES[side]}.{quoted(column)}"


def _read_by(levels: Sequence[_Java], top: _Java) -> set[int]:
    """Return the ids of the columns that are read of the node below."""
    found = set[int]()
    for level in levels:
        found |= {id_of(column) for column in items_of(level.references().toSeq())}
        if kind_of(level) == "Project":
            return found
    return found | set(ids_of(top.output()))
