"""A sql step with a GROUP BY as what it means: a sql step, a keyed step, and a sql step over its results.

Example: `SELECT date(at) AS day, sum(v) / count(*) AS mean FROM t WHERE v > 0 GROUP BY date(at)` becomes

    before   SELECT CAST(at AS DATE) AS day, v FROM t WHERE v > 0
    step     key-by: [day], aggregate: {sum_v: sum(v), count_1: count(*)}
    after    SELECT day, sum_v / count_1 AS mean FROM previous
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import (
    GROUPING_ID,
    Aggregated,
    has_windows,
    makes_windows,
    top_of,
    windows_of,
)
from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import TextLostError, columns_over, replaced
from mixedmode.analysis.catalyst_windows import window_settings
from mixedmode.analysis.grouping_sets import before_sets
from mixedmode.analysis.kept_values import kept_values
from mixedmode.analysis.query_text import before_group_by
from mixedmode.analysis.window_columns import (
    LAST_OF_WINDOW,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    bounds_of,
    window_values,
    with_windows,
)
from mixedmode.analysis.written_calls import as_written
from mixedmode.analysis.written_sql import free_name, is_free, item, selected, types_of, with_text
from mixedmode.config import DeduplicateStep, KeyedAggregateStep, OverStep, SqlStep, TopStep
from mixedmode.config.calls import COLLECTING, AggregateCall, quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.config.windows import WINDOW_COLUMNS
from mixedmode.errors import InvalidJobError

__all__ = ["NUMBERED", "GroupedSql", "aggregate_step", "distinct_step", "grouped_sql"]

_Java = Any  # an object of the JVM
_COLUMN_ID = re.compile(r"#\d+L?")  # in Spark's text of a column
_WINDOW = "window"
_WRITE = "Write a sql step with its FROM and WHERE, then a step with key-by and aggregate."
#: what to do about a ROW_NUMBER that an `over` step does not have
NUMBERED = (
    "ROW_NUMBER in another order than that of the event time runs as a step with top, which keeps the first rows of "
    "each key. Say how many rows are kept: put the query into parentheses, and write WHERE n <= 3 around it, where n "
    "is the column of the ROW_NUMBER; or write QUALIFY n <= 3."
)


@dataclass(frozen=True, slots=True)
class GroupedSql:
    """The steps that a sql step with a GROUP BY, a DISTINCT or OVER means.

    before: returns the columns that `step` reads. after: makes rows of the results of `step`; None if these are the
    rows already. types: {column: its type} of the rows. time: the column that windows or OVER go by, if there are any.
    windows: the column of the rows that has these windows, if one has.
    """

    before: SqlStep
    step: KeyedAggregateStep | DeduplicateStep | TopStep | OverStep
    after: SqlStep | None
    types: Mapping[str, str]
    time: str | None = None
    windows: str | None = None

    def over_changes(self) -> Self:
        """Return the steps for an input that may retract rows: a key is in the result as long as it has a row."""
        if not isinstance(self.step, DeduplicateStep):
            return self
        keys = self.step.key_columns
        step = aggregate_step({"key-by": list(keys)}, {}, keys, self.step.name)
        after = f"SELECT {', '.join(map(quoted, keys))} FROM {PREVIOUS}"  # noqa: S608 - the job's own SQL
        return replace(self, step=step, after=self.after or with_text(self.before, after))

    def check_time(self, event_time: str | None, where: str, *, is_of_results: bool) -> None:
        """Raise InvalidJobError, beginning with `where`, if windows or OVER go by another column than the event time.

        event_time: that of the input of the step; None if it has none. is_of_results: the input is made of the results
        of a keyed step.
        """
        if self.time is None or (event_time is not None and event_time.lower() == self.time.lower()):
            return
        calls = self.step.over.columns.values() if isinstance(self.step, OverStep) else ()
        if calls and all(call.function == "row_number" for call in calls):
            msg = f"{where}: {NUMBERED} found={self.time}"
        elif calls:
            msg = (
                f"{where}: OVER goes by event time. Its ORDER BY begins with the event time of the input, under its "
                "own name, or with the end of a window, as in ORDER BY w.end. Rows that change, such as those of a "
                "GROUP BY without windows, have no event time. For the first rows by another order, write ROW_NUMBER "
                f"and say how many are kept, as in QUALIFY n <= 3. found={self.time}"
            )
        elif is_of_results:
            msg = (
                f"{where}: windows go by event time, and this column of the results of a keyed step is none. Pairs of "
                "a join have the event time of a side if its conditions bound the distance of the two times, below and "
                "above. Results of windows have these windows: write window(w, '1 day') over a query with window(...) "
                f"AS w. found={self.time}"
            )
        else:
            msg = (
                f"{where}: windows go by the event time of a source, and this one goes by another column, or the sql "
                f"steps before have not kept that one. Set `event-time` on the source to it. found={self.time}"
            )
        raise InvalidJobError(msg)

    def check(self, frame: DataFrame, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the steps return other columns than the text."""
        found = types_of(frame)
        if [*found.items()] != [*self.types.items()]:
            msg = (
                f"{where}: this runs as a keyed step, whose columns have other types here than in Spark's batch. "
                f"{_WRITE} found={found}, expected={self.types}"
            )
            raise InvalidJobError(msg)


def grouped_sql(
    session: SparkSession, query: AnalysedQuery, step: SqlStep, *, name: str, where: str
) -> GroupedSql | None:
    """Return the steps for a query whose top is a GROUP BY over an input; None for another one.

    step: has the text of the query. name: that of the keyed step. Raise InvalidJobError for a call or a window that a
    keyed step does not have, and for an expression whose text Spark does not read as the expression.
    """
    aggregated = Aggregated.of(session, top_of(query.plan))
    parts = None if aggregated is None else before_group_by(step.sql)
    if aggregated is None or parts is None:
        return None
    try:
        return _Grouping(session, step, aggregated, where).steps(query, name, parts)
    except TextLostError as error:
        msg = f"{where}: the keyed step for this GROUP BY cannot be written out. {_WRITE} found={error}"
        raise InvalidJobError(msg) from error


def distinct_step(columns: Sequence[str], name: str) -> DeduplicateStep:
    """Return a step that keeps each row once. Raise ValidationError for names that no key has."""
    step = DeduplicateStep.model_validate({"key-by": columns, "deduplicate": {"keep": "any"}})
    return step.model_copy(update={"name": name})


def aggregate_step(
    settings: Mapping[str, object], calls: Mapping[str, AggregateCall], keys: Collection[str], name: str | None
) -> KeyedAggregateStep:
    """Return a step with these calls. A step has a result, so it counts the rows where there are none."""
    counted = {free_name("count", {*map(str.lower, keys), *WINDOW_COLUMNS}): "count(*)"}
    step = KeyedAggregateStep.model_validate({**settings, "aggregate": calls or counted})
    return step.model_copy(update={"name": name})


class _Grouping:
    """Writes the steps of one aggregate."""

    def __init__(self, session: SparkSession, step: SqlStep, aggregated: Aggregated, where: str) -> None:
        self._session = session
        self._given = step
        self._aggregated = aggregated
        self._where = where
        self._check_sets()
        self._windowed = windows_of(aggregated)
        self._window = None if self._windowed is None else window_settings(session, step.sql, where)
        self._keys = {n: key for n, key in aggregated.keys.items() if self._windowed is None or n != self._windowed.key}
        self._check_keys()
        self._names = self._chosen_names()
        names = {number: self._names[number] for number, key in self._keys.items() if _is_struct(key)}
        self._bounds = bounds_of(names, self._names.values(), is_key=self._windowed is None)
        self._columns = self._read_columns()

    def steps(self, query: AnalysedQuery, name: str, parts: tuple[str, str]) -> GroupedSql:
        """Return the steps.  parts: the text before the SELECT, and that from FROM to GROUP BY."""
        types = types_of(query.frame(self._session))
        of_windows = [*self._bounds] if self._windowed is None else [self._windowed.key]
        shown = (one.name for one in self._aggregated.shown if self._aggregated.root_of(one.value) in of_windows)
        time = None if self._windowed is None else self._time
        return GroupedSql(self._before(parts), self._step(name), self._after(), types, time, next(shown, None))

    @property
    def _time(self) -> str:
        """The name of the column that windows go by."""
        assert self._windowed is not None
        return str(self._windowed.time.name()) if self._windowed.inner is None else WINDOW_TIME

    def _check_sets(self) -> None:
        """Raise InvalidJobError for windows beside ROLLUP, CUBE or GROUPING SETS."""
        if self._aggregated.has_sets and any(map(_is_struct, self._aggregated.keys.values())):
            msg = (
                f"{self._where}: ROLLUP, CUBE and GROUPING SETS are of plain values here, and have no windows beside "
                "them. Put the GROUP BY with the window into parentheses, and write GROUP BY ROLLUP(hour, k) around "
                "it, where hour is window.start."
            )
            raise InvalidJobError(msg)

    def _check_keys(self) -> None:
        """Raise InvalidJobError for a key with fields, but for the windows of another GROUP BY, and for one that is
        computed of the windows of this one.
        """
        for key in self._keys.values():
            if kind_of(key) != "AttributeReference" and makes_windows(self._aggregated.child, key):
                msg = (
                    f"{self._where}: a window is a key as it is, or by its start or end if all have one length. Put "
                    "the GROUP BY with the window itself into parentheses, and group its rows in the query around it. "
                    f"found={_COLUMN_ID.sub('', _shown(key))}"
                )
                raise InvalidJobError(msg)
            if _is_struct(key) and not has_windows(self._aggregated.child, key):
                msg = (
                    f"{self._where}: a value with fields cannot be a key here. Group by its fields, as in GROUP BY "
                    f"place.city, place.street. found={_shown(key)}"
                )
                raise InvalidJobError(msg)

    def _chosen_names(self) -> dict[int, str]:
        """Return {id: name} of the keys and calls: that of a result which is one of them, or one made of its text."""
        aggregated = self._aggregated
        has_bounds = self._windowed is not None or any(_is_struct(key) for key in self._keys.values())
        taken = set(WINDOW_COLUMNS) if has_bounds else set[str]()
        if aggregated.has_sets:  # a key is NULL in some rows, so it may not be taken for the event time
            columns = items_of(aggregated.child.output())
            taken |= {str(one.name()).lower() for one in columns if kind_of(one.dataType()).startswith("Timestamp")}
        names = {}
        if self._windowed is not None:
            names[self._windowed.key] = _WINDOW
            taken |= {_WINDOW, self._time.lower()}
        for shown in aggregated.shown:
            root = aggregated.root_of(shown.value)
            if root is not None and root not in names and is_free(shown.name, taken):
                names[root] = shown.name
                taken.add(shown.name.lower())
        for number, expression in {**self._keys, **aggregated.calls}.items():
            if number not in names:
                text = str(expression.toString()).replace(GROUPING_ID, "grouping_id")
                names[number] = free_name(_COLUMN_ID.sub("", text), taken)
        return names

    def _read_columns(self) -> dict[int, tuple[_Java, str]]:
        """Return {id: (column, its name for the step)} of the columns of the input that calls and windows read."""
        taken = {name.lower() for number in self._keys for name in self._key_names(number)}
        found = {}
        if self._windowed is not None:
            found[id_of(self._windowed.time)] = (self._windowed.time, self._time)
            taken.add(self._time.lower())
        plain = {id_of(key): self._names[n] for n, key in self._keys.items() if kind_of(key) == "AttributeReference"}
        for call in self._aggregated.calls.values():
            for column in items_of(call.references().toSeq()):
                number = id_of(column)
                if number not in found:
                    found[number] = (column, plain.get(number) or free_name(str(column.name()), taken))
        return found

    def _key_names(self, number: int) -> Sequence[str]:
        """Return the names of the columns that a key is: its own, or those of the start and the end of windows."""
        return self._bounds.get(number) or (self._names[number],)

    def _key_values(self, number: int) -> Sequence[_Java]:
        key = self._keys[number]
        return window_values(self._session, key, ["start", "end"]) if number in self._bounds else (key,)

    def _before(self, parts: tuple[str, str]) -> SqlStep:
        """Return the sql of the keys and columns. Its FROM and WHERE are those of the text, word by word."""
        keys = [column for n in self._keys for column in zip(self._key_values(n), self._key_names(n), strict=True)]
        wanted = keys + [column for column in self._columns.values() if column[1] not in {name for _, name in keys}]
        child = self._aggregated.child
        if self._aggregated.has_sets:
            return before_sets(self._session, self._given, parts, child, keys, wanted[len(keys) :])
        if self._windowed is not None:
            child = self._windowed.child
            if self._windowed.inner is not None:
                (value,) = window_values(self._session, self._windowed.inner, [LAST_OF_WINDOW])
                time = {id_of(self._windowed.time): value}
                wanted = [(replaced(self._session, column, time), name) for column, name in wanted]
        return selected(self._session, self._given, parts, wanted, child)

    def _step(self, name: str) -> KeyedAggregateStep | DeduplicateStep:
        keys = [name for number in self._keys for name in self._key_names(number)]
        texts = columns_over(self._session, [*self._columns.values()], [*self._aggregated.calls.values()])
        calls = {self._names[n]: self._call(n, text) for n, text in zip(self._aggregated.calls, texts, strict=True)}
        settings: dict[str, object] = {"key-by": keys} if keys else {}
        try:
            if not calls and self._window is None and not self._bounds:
                return distinct_step(keys, name)
            settings |= {} if self._window is None else {"window": self._window}
            return aggregate_step(settings, calls, keys, name)
        except ValidationError as error:
            found = ", ".join([*keys, *map(str, calls.values())])
            raise TextLostError(found) from error

    def _call(self, number: int, text: str) -> AggregateCall:
        """Return the call with this id, which has this text. Raise InvalidJobError if a keyed step has no such call."""
        function = text.partition("(")[0]
        kept = None
        if function in COLLECTING:
            read = (*(shown.value for shown in self._aggregated.shown), *self._aggregated.conditions)
            kept = kept_values(read, number, is_set=function == "collect_set")
            if kept is None:
                msg = (
                    f"{self._where}: all values of a key have no end on an input that goes on, and the state would "
                    f"grow until the job fails. Say how many are kept: slice({function}(x), 1, 100). found={text}"
                )
                raise InvalidJobError(msg)
        try:
            call = AggregateCall.parse(as_written(text), kept=kept, is_sql=True)
        except InvalidJobError as error:
            msg = f"{self._where}: a GROUP BY runs as a keyed step, in which {error}"
            raise InvalidJobError(msg) from error
        if call.function in ("first", "last"):
            msg = (
                f"{self._where}: {call.function} goes by the order of rows here, which has no meaning. Use min_by or "
                "max_by with the column that orders the rows; or a step with key-by and aggregate, in which "
                f"{call.function} goes by event time. found={text}"
            )
            raise InvalidJobError(msg)
        return call

    def _after(self) -> SqlStep | None:
        """Return the sql over the results; None if the rows of the step are what the SELECT returns."""
        aggregated, names = self._aggregated, self._names
        roots = [aggregated.root_of(shown.value) for shown in aggregated.shown]
        is_same = [names.get(-1 if root is None else root) for root in roots] == [one.name for one in aggregated.shown]
        is_whole = self._windowed is None and not self._bounds and roots == [*self._keys, *aggregated.calls]
        if is_same and is_whole and not aggregated.conditions:
            return None
        given = [(column, names[number]) for number, column in aggregated.columns.items()]
        values = [shown.value for shown in aggregated.shown]
        made_of = {**aggregated.keys, **aggregated.calls}
        texts = columns_over(self._session, given, [*values, *aggregated.conditions], made_of=made_of)
        items = ", ".join(item(text, one.name) for text, one in zip(texts, aggregated.shown, strict=False))
        conditions = " AND ".join(texts[len(values) :])
        windows = {names[number]: bounds for number, bounds in self._bounds.items()}
        if self._windowed is not None:
            windows[_WINDOW] = (WINDOW_START, WINDOW_END)
        source = with_windows(windows)
        where = f" WHERE {conditions}" if conditions else ""
        return with_text(self._given, f"SELECT {items} FROM {source}{where}")  # noqa: S608 - the job's own SQL


def _is_struct(key: _Java) -> bool:
    return kind_of(key.dataType()) == "StructType"


def _shown(key: _Java) -> str:
    return str(key.name() if kind_of(key) == "AttributeReference" else key.sql())
