"""The rows of a sql step, whose text may be several steps.

A query in parentheses with a GROUP BY, a DISTINCT, a UNION or OVER is a text of its own. The text around it reads its
rows:

    SELECT day, avg(n) AS mean FROM (SELECT k, date(at) AS day, count(*) AS n FROM t GROUP BY k, date(at)) GROUP BY day

    sql_2_1    SELECT k, date(at) AS day, count(*) AS n FROM t GROUP BY k, date(at)
    the rest   SELECT day, avg(n) AS mean FROM (SELECT * FROM sql_2_1) GROUP BY day

So no text has more than one of them, and each is taken apart by grouped_sql.py, distinct_sql.py, ranked_sql.py or
over_sql.py. The plan of the rest, over the query that was cut out, is compared with that of the text before. A join of
two inputs that is left then is taken apart by joined_sql.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import has_aggregate, top_of
from mixedmode.analysis.catalyst_plans import analysed_plan
from mixedmode.analysis.catalyst_ranks import Ranked, rank_limit
from mixedmode.analysis.catalyst_texts import have_same_rows
from mixedmode.analysis.grouped_sql import GroupedSql
from mixedmode.analysis.plain_sql import plain_sql
from mixedmode.analysis.query_text import InnerQuery, has_groups, inner_queries
from mixedmode.analysis.relations import Relation, Roots, check_columns
from mixedmode.analysis.sql_joins import JoinedRows, SqlJoin
from mixedmode.analysis.sql_steps import SqlReads, analysed_sql, parts_of
from mixedmode.analysis.written_sql import unused_name, with_text
from mixedmode.config import JoinStep, SqlStep
from mixedmode.config.graph import PREVIOUS
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.spark.errors import REFUSALS, spark_text
from mixedmode.spark.temporary_views import views

__all__ = ["SqlTexts"]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A query in parentheses.  limit: the greatest of its ranks that the text around it reads, see `rank_limit`."""

    inner: InnerQuery
    limit: int | None


@dataclass(frozen=True, slots=True)
class SqlTexts:
    """Makes the rows of the sql step at `where`.

    add, join: add the keyed step of a GROUP BY over rows, or a join of two, and return its own rows. found: see
    `analysed_sql`.
    """

    session: SparkSession
    roots: Roots
    add: Callable[[GroupedSql, Relation], Relation]
    join: Callable[[JoinStep, tuple[Relation, Relation]], Relation]
    where: str
    found: list[MixedmodeError]

    def rows(self, step: SqlStep, readable: SqlReads, name: str) -> tuple[Relation, Mapping[str, Relation]]:
        """Return the rows of a step, and the relations that its text reads, by their names in the text.

        name: that of the rows and of the last state; the states before it have numbers, too. Raise InvalidJobError for
        a mistake.
        """
        given, used, makes = readable.relations, dict[str, Relation](), name
        number = 0
        if step.may_be_keyed:
            with views(self.session, readable.marked):
                step = plain_sql(self.session, step)
        while (cut := self._inner(step, SqlReads(given, readable.tables))) is not None:
            number += 1
            view = unused_name(f"{name}_{number}".replace("-", "_"), step.sql)
            rest = cut.inner.rest(view)
            own = f"{name}-{number}" if has_groups(rest) else name
            text = with_text(step, cut.inner.sql)
            rows, read = self._text(text, SqlReads(given, readable.tables), own, cut.limit)
            check_columns(rows.frame, self.where)
            used |= read
            given = {**given, view: rows}
            self._check_rest(rest, SqlReads(given, readable.tables))
            step = with_text(step, rest)
            makes = name if own != name else f"{name}-result"
        rows, read = self._text(step, SqlReads(given, readable.tables), makes)
        return rows, {**used, **read}

    def _text(
        self, step: SqlStep, readable: SqlReads, name: str, limit: int | None = None, time: str | None = None
    ) -> tuple[Relation, Mapping[str, Relation]]:
        """Return the rows of a text without a GROUP BY inside another one, and the relations that it reads.

        limit: the greatest rank that the text around it reads; None if it has no ranks, or any may be read. time: the
        column of its rows by which windows go.
        """
        parts = parts_of(self.session, step, readable, name, self.where, limit=limit)
        if parts is None:
            return analysed_sql(self.session, step, readable, self.roots, name, self.where, self.found)
        if isinstance(parts, JoinedRows):
            return self._joined(parts, step, readable, name, time)
        given, used = self._text(parts.before, readable, f"{name}-input", time=parts.time)
        grouped = parts.over_changes() if self.roots.reads([given]).changelogs else parts
        rows = self.add(grouped, given)
        if grouped.after is not None:
            rows = self._over({PREVIOUS: rows}, step, grouped.after.sql, f"{name}-rows")
        grouped.check(rows.frame, self.where)
        return replace(rows, windows=grouped.windows), used

    def _joined(
        self, joined: JoinedRows, step: SqlStep, readable: SqlReads, name: str, time: str | None = None
    ) -> tuple[Relation, Mapping[str, Relation]]:
        """Return the rows of a join of two inputs, or of a side of one, and the relations that it reads.

        step: has the settings of each text. time: see `_text`.
        """
        if isinstance(joined.source, Mapping):
            return self._united(joined.source, joined.sql, step, readable, name)
        if isinstance(joined.source, str):
            rows = readable.relations[joined.source]
            used: Mapping[str, Relation] = {joined.source: rows}
        else:
            rows, used = self._pairs(joined.source, step, readable, name, time)
        if joined.sql is not None:
            rows = self._over({PREVIOUS: rows}, step, joined.sql, f"{name}-rows", readable.tables)
        return rows, used

    def _united(
        self, parts: Mapping[str, JoinedRows], sql: str | None, step: SqlStep, readable: SqlReads, name: str
    ) -> tuple[Relation, Mapping[str, Relation]]:
        """Return the rows of a UNION ALL, and the relations that it reads.  parts: by their names in `sql`."""
        assert sql is not None, parts
        relations, used = dict[str, Relation](), dict[str, Relation]()
        for part, rows in parts.items():
            relations[part], read = self._joined(rows, step, readable, f"{name}-{part.replace('_', '-')}")
            used |= read
        return self._over(relations, step, sql, f"{name}-rows", readable.tables), used

    def _pairs(
        self, join: SqlJoin, step: SqlStep, readable: SqlReads, name: str, time: str | None
    ) -> tuple[Relation, Mapping[str, Relation]]:
        """Return the rows of a join, and the relations that it reads.  step, time: see `_joined`."""
        names = [f"{name}-{place}" for place in ("left", "right")]
        (left, of_left), (right, of_right) = (
            self._joined(one, step, readable, own) for one, own in zip(join.sides, names, strict=True)
        )
        _, times = self.roots.upstream_of_pair((left, right), 0)
        timed = join.of_times(times, time)
        left, right = (
            self._over({PREVIOUS: rows}, step, sql, f"{own}-computed") if sql else rows
            for rows, sql, own in zip((left, right), timed.computed, names, strict=True)
        )
        return self.join(timed.step.model_copy(update={"name": name}), (left, right)), {**of_left, **of_right}

    def _over(
        self,
        rows: Mapping[str, Relation],
        step: SqlStep,
        sql: str,
        makes: str,
        tables: Mapping[str, DataFrame] | None = None,
    ) -> Relation:
        """Return what sql makes of rows.  rows: by their names in it. tables: the dimensions that it may read."""
        text, given = with_text(step, sql), SqlReads(rows, tables or {})
        return analysed_sql(self.session, text, given, self.roots, makes, self.where, self.found)[0]

    def _inner(self, step: SqlStep, readable: SqlReads) -> "_Cut | None":
        """Return the first query in parentheses that can be cut out; None if there is none."""
        found = inner_queries(step.sql) if step.may_be_keyed else []
        if not found:
            return None
        with views(self.session, readable.marked):
            return next((cut for one in found if (cut := self._cut(step, one)) is not None), None)

    def _cut(self, step: SqlStep, inner: InnerQuery) -> "_Cut | None":
        """Return a query that goes over records; None if the rest over it has another plan than the text."""
        view = unused_name("inner", step.sql)
        try:
            plan = analysed_plan(self.session, inner.sql)
            if not plan.isStreaming():
                return None
            whole = analysed_plan(self.session, step.sql)
            with views(self.session, {view: AnalysedQuery(None, plan).frame(self.session)}):
                rest = analysed_plan(self.session, inner.rest(view))
        except REFUSALS:
            return None  # the checks of the text say why
        if not have_same_rows(self.session, whole, rest):
            return None
        ranked = Ranked.of(self.session, top_of(plan))
        place = None if ranked is None else ranked.place
        return _Cut(inner, None if place is None else rank_limit(self.session, rest, view, place))

    def _check_rest(self, sql: str, readable: SqlReads) -> None:
        """Raise InvalidJobError if the text around a query goes by its windows, and has no windows of them."""
        try:
            with views(self.session, readable.named):
                analysed_plan(self.session, sql)
        except REFUSALS as error:
            if not self._has_windows_of_windows(sql, readable):
                msg = (
                    f"{self.where}: the windows of a query in parentheses are known as such in the windows of a GROUP "
                    "BY around it only, as in GROUP BY window(w, '1 day'). Elsewhere, read the fields of the column, "
                    f"such as w.end. cause={spark_text(error)}"
                )
                raise InvalidJobError(msg) from error

    def _has_windows_of_windows(self, sql: str, readable: SqlReads) -> bool:
        try:
            with views(self.session, readable.marked):
                plan = analysed_plan(self.session, sql)
        except REFUSALS:
            return False
        return has_aggregate(plan)
