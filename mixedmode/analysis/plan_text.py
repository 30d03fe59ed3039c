"""Writes nodes of an analysed plan as SQL, from the source upwards, and checks what Spark reads in it.

Example: a filter, an aggregate and a filter over it become

    SELECT user, n FROM (SELECT user, count(1) AS n FROM records WHERE (amount > 1) GROUP BY user) WHERE (n > 2)
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_objects import columns_of, companion, id_of, items_of, kind_of, sequence_of
from mixedmode.analysis.catalyst_plans import analysed_plan, no_rows
from mixedmode.analysis.catalyst_texts import TextLostError, renamed, text_over, value_of
from mixedmode.analysis.same_plans import SamePlans, TextInput
from mixedmode.analysis.written_sql import item, own_name
from mixedmode.spark.errors import REFUSALS
from mixedmode.spark.temporary_views import views

__all__ = ["PlanText", "WindowCall"]

_Java = Any  # an object of the JVM


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A call of window() or session_window().  key: the id of the column that it is in the plan. time: the column that
    it goes by. is_inner: that has windows, which are meant by their window_time.
    """

    key: int
    function: str
    time: _Java
    durations: Sequence[_Java]
    is_inner: bool = False


class PlanText:
    """The text of one sql step, as far as it is written.

    inputs: what it reads. named: the columns so far, and their names in the text. kinds: "Aggregate", "Join",
    "Table" (a join with one) and "Union", as far as it has them. timed: the ids of columns that are event times. times:
    in lower case, the names that event times have or had: steps find event times by name, so no other column has one.
    windows: the ids of columns that are windows of event time.
    """

    def __init__(
        self,
        session: SparkSession,
        inputs: Sequence[TextInput],
        rows: str,
        columns: Sequence[tuple[_Java, str]],
        *,
        kinds: Collection[str] = (),
        timed: Collection[int] = (),
        times: Collection[str] = (),
    ) -> None:
        """Begin with rows.  rows: what FROM has. columns: those of the rows, and their names."""
        self.inputs = tuple(inputs)
        self.named = list(columns)
        self.kinds = set(kinds)
        self.timed = frozenset(timed)
        self.times = frozenset(times)
        self.windows = frozenset[int]()
        self._session = session
        self._from = rows
        self._where: str | None = None
        self._items: list[tuple[str, str]] | None = None  # (text, name)
        self._group: list[str] | None = None
        self._laterals = 0

    @classmethod
    def over(
        cls, session: SparkSession, read: TextInput, *, timed: Collection[int] = (), times: Collection[str] = ()
    ) -> Self:
        """Return the text of the rows of an input."""
        return cls(session, [read], read.name, read.columns, timed=timed, times=times)

    @property
    def is_bare(self) -> bool:
        """True if the text returns its only input as it is."""
        return self.table == self.inputs[0].name

    @property
    def table(self) -> str:
        """The text as a table in FROM."""
        is_name = self._where is None and self._items is None and self._from == self.inputs[0].name
        return self._from if is_name else f"({self.written()})"

    @property
    def _names(self) -> list[str]:
        return [name for _, name in self.named]

    def add(self, node: _Java, *, names: Sequence[str] | None = None, window: WindowCall | None = None) -> None:
        """Add a node over the columns so far; one that changes no row adds nothing.

        names: those of its columns; None: any that are free. window: the windows of an aggregate.
        """
        kind = kind_of(node)
        if kind == "Filter":
            self._keep(node.condition())
        elif kind == "Generate":
            self._explode(node.generator(), list(items_of(node.generatorOutput())), is_outer=bool(node.outer()))
        elif kind == "Project":
            self.select([(one.toAttribute(), value_of(one)) for one in items_of(node.projectList())], names)
        elif kind == "Aggregate":
            items = [(one.toAttribute(), value_of(one)) for one in items_of(node.aggregateExpressions())]
            self._aggregate(list(items_of(node.groupingExpressions())), items, window, names)

    def _keep(self, condition: _Java) -> None:
        """Keep the rows that meet a condition."""
        if self._items is not None or self._where is not None:
            self._nest()
        self._where = self._text(condition)

    def select(self, items: Sequence[tuple[_Java, _Java]], names: Sequence[str] | None = None) -> None:
        """Return columns, unless they are those so far.  items: each, and its value over these. names: theirs."""
        same = [(str(column.toString()),) * 2 for column, _ in self.named]
        if names is None and [tuple(str(one.toString()) for one in each) for each in items] == same:
            return
        if self._items is not None and not self._has_only(items):
            self._nest()
        self._show(items, names, {})

    def _explode(self, generator: _Java, outputs: Sequence[_Java], *, is_outer: bool) -> None:
        """Add the columns of a generator, such as explode; a row becomes several.  is_outer: or one, with NULL."""
        if self._items is not None or self._where is not None:
            self._nest()
        taken = {*self.times, *(name.lower() for name in self._names)}
        names = [own_name(str(one.name()), taken) for one in outputs]
        self._laterals += 1
        outer = "OUTER " if is_outer else ""
        call = f"{outer}{self._text(generator)}"
        self._from = f"{self._from} LATERAL VIEW {call} made_{self._laterals} AS {', '.join(names)}"
        self.named += zip(outputs, names, strict=True)

    def _aggregate(
        self,
        keys: Sequence[_Java],
        items: Sequence[tuple[_Java, _Java]],
        window: WindowCall | None,
        names: Sequence[str] | None,
    ) -> None:
        """Return one row of each group.  items: each column, and its value over keys and aggregates. names: theirs."""
        if self._items is not None:
            self._nest()
        calls = {} if window is None else {window.key: self._call(window)}
        self._group = [self._text(key, calls) for key in keys]
        self.kinds.add("Aggregate")
        self.windows = frozenset(calls)
        self._show(items, names, calls)
        self.timed = frozenset()

    def arrange(self, columns: Sequence[tuple[_Java, str]]) -> None:
        """Return these of the columns, in this order and with these names, if that is not so already."""
        wanted, found = ([(id_of(column), name) for column, name in one] for one in (columns, self.named))
        if wanted != found:
            self.select([(column, column) for column, _ in columns], [name for _, name in columns])

    def name_for_keys(self) -> None:
        """Give the columns names that a key may have, if one has another."""
        taken = set[str]()
        self.arrange([(column, own_name(name, taken)) for column, name in self.named])

    def sql(self, top: _Java) -> str:
        """Return the text, which returns the rows of the node `top` of the plan.

        Raise TextLostError if Spark reads another plan in it.
        """
        sql = self.written()
        with views(self._session, self._no_rows()):
            try:
                written = analysed_plan(self._session, sql)
            except REFUSALS as error:
                raise TextLostError(sql) from error
        if [name for name, _ in columns_of(written.output())] != self._names:
            raise TextLostError(", ".join(self._names))
        SamePlans(self._session, self.inputs).check(written, top)
        return sql

    def _no_rows(self) -> dict[str, DataFrame]:
        """Return {name: frame without rows} of the inputs; one that is read several times has all of its columns."""
        columns: dict[str, dict[str, _Java]] = {}
        for read in self.inputs:
            for column, name in read.columns:
                columns.setdefault(read.name, {}).setdefault(name, renamed(self._session, column, name))
        return {name: no_rows(self._session, list(own.values())) for name, own in columns.items()}

    def _has_only(self, items: Sequence[tuple[_Java, _Java]]) -> bool:
        """Return whether each value is a column so far. The plan of a GROUP BY has its columns, in their order."""
        known = {id_of(column) for column, _ in self.named}
        is_known = (kind_of(value) == "AttributeReference" and id_of(value) in known for _, value in items)
        return self._group is None and all(is_known)

    def _show(
        self, items: Sequence[tuple[_Java, _Java]], names: Sequence[str] | None, calls: Mapping[int, _Java]
    ) -> None:
        names = names or self._own_names(items)
        if self._items is None:
            texts = [self._text(value, calls) for _, value in items]
        else:
            known = {id_of(column): text for (column, _), (text, _) in zip(self.named, self._items, strict=True)}
            texts = [known[id_of(value)] for _, value in items]
        self._items = list(zip(texts, names, strict=True))
        self.named = [(column, name) for (column, _), name in zip(items, names, strict=True)]
        self.timed, self.windows = (
            frozenset(id_of(column) for column, value in items if _is_in(value, ids))
            for ids in (self.timed, self.windows)
        )

    def _is_time(self, value: _Java) -> bool:
        return _is_in(value, self.timed)

    def _own_names(self, items: Sequence[tuple[_Java, _Java]]) -> list[str]:
        """Return names for columns. An event time keeps its own.  items: each column, and its value."""
        now = {id_of(column): name for column, name in self.named}
        kept = {now[id_of(value)]: number for number, (_, value) in enumerate(items) if self._is_time(value)}
        names = {number: name for name, number in kept.items()}
        taken = {*self.times, *(name.lower() for name in kept)}
        return [names.get(number) or own_name(str(column.name()), taken) for number, (column, _) in enumerate(items)]

    def _nest(self) -> None:
        """Make a subquery of the text so far."""
        self._from = f"({self.written()})"
        self._where = self._items = self._group = None

    def written(self) -> str:
        """Return the text, before it is compared."""
        items = "*" if self._items is None else ", ".join(item(*one) for one in self._items)
        where = "" if self._where is None else f" WHERE {self._where}"
        group = f" GROUP BY {', '.join(self._group)}" if self._group else ""
        return f"SELECT {items} FROM {self._from}{where}{group}"  # noqa: S608 - the job's own SQL

    def _text(self, expression: _Java, calls: Mapping[int, _Java] | None = None) -> str:
        return text_over(self._session, expression, {**self._named(), **(calls or {})})

    def _named(self) -> dict[int, _Java]:
        return {id_of(column): renamed(self._session, column, name) for column, name in self.named}

    def _call(self, window: WindowCall) -> _Java:
        time = self._named()[id_of(window.time)]
        function = companion(self._session, "analysis.UnresolvedFunction")
        if window.is_inner:
            time = function.apply("window_time", sequence_of(self._session, [time]), False)
        literals = [companion(self._session, "expressions.Literal").apply(one) for one in window.durations]
        return function.apply(window.function, sequence_of(self._session, [time, *literals]), False)


def _is_in(value: _Java, ids: Collection[int]) -> bool:
    return kind_of(value) == "AttributeReference" and id_of(value) in ids
