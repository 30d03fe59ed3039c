"""Analyses a sql step: Spark resolves its text over stand-ins of what it may read, and its plan is checked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import column_ids, read_query
from mixedmode.analysis.catalyst_aggregates import marked
from mixedmode.analysis.distinct_sql import distinct_sql
from mixedmode.analysis.grouped_sql import GroupedSql, grouped_sql
from mixedmode.analysis.joined_sql import joined_sql
from mixedmode.analysis.keyed_steps import check_alike
from mixedmode.analysis.over_sql import over_sql
from mixedmode.analysis.plan import Node, nodes_of
from mixedmode.analysis.problems import collecting
from mixedmode.analysis.ranked_sql import ranked_sql
from mixedmode.analysis.relations import Relation, Roots
from mixedmode.analysis.sql_checks import (
    check_joins_added_rows,
    check_literals,
    check_query,
    check_repeatable,
    check_stateless,
    dimensions_of,
    inputs_of,
)
from mixedmode.analysis.sql_joins import JoinedRows
from mixedmode.config import SqlStep
from mixedmode.config.calls import quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.plan.reads import SqlText
from mixedmode.spark.errors import REFUSALS, refused
from mixedmode.spark.temporary_views import views

__all__ = [
    "SqlReads",
    "analysed_sql",
    "by_their_names",
    "parts_of",
    "reads_as_one",
    "union_text",
    "unread_inputs",
]

_FROM_PREVIOUS = re.compile(rf"\b(?:from|join)\s+`?{PREVIOUS}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlReads:
    """The inputs of a sql step, by the names in its text: `relations`, and stand-ins of the dimensions (`tables`)."""

    relations: Mapping[str, Relation]
    tables: Mapping[str, DataFrame]

    @property
    def frames(self) -> dict[str, DataFrame]:
        """The rows of the relations, by their names in the text."""
        return {name: relation.frame for name, relation in self.relations.items()}

    @property
    def named(self) -> dict[str, DataFrame]:
        """The rows of the relations and the dimensions, by their names in the text."""
        return {**self.tables, **self.frames}

    @property
    def marked(self) -> dict[str, DataFrame]:
        """The same, in which Spark knows columns of windows as such, so it analyses windows of them."""
        windows = {name: relation.windows for name, relation in self.relations.items()}
        frames = self.named
        return frames | {name: marked(frames[name], column) for name, column in windows.items() if column}


def analysed_sql(
    session: SparkSession,
    step: SqlStep,
    readable: SqlReads,
    roots: Roots,
    makes: str,
    where: str,
    found: list[MixedmodeError],
) -> tuple[Relation, Mapping[str, Relation]]:
    """Return the rows of a sql step, and the relations that its text reads, by their names in the text.

    makes: the name of its rows. Append to `found` what the rows of another step do not depend on. Raise InvalidJobError
    for any other mistake.
    """
    frames = readable.frames
    try:
        with views(session, readable.named):
            query = read_query(session, step.sql, inputs=frames, dimensions=readable.tables)
            plan = check_query(query.node, where=where)
            result = query.frame(session)
    except REFUSALS as error:
        raise refused(where, error, readable=(*frames, *readable.tables)) from error
    named, joined = inputs_of(plan), dimensions_of(plan)
    used = {name: relation for name, relation in readable.relations.items() if name.lower() in named}
    tables = tuple(name for name in readable.tables if name.lower() in joined)
    read = roots.reads(list({relation.name: relation for relation in used.values()}.values()))
    with collecting(found):
        check_literals(step.sql, where=where)
        check_stateless(plan, where=where)
        check_repeatable(plan, where=where, is_keyed=bool(read.changelogs), allows_clock=step.clock == "allowed")
        check_joins_added_rows(tables, read.changelogs, where=where)
    text = SqlText(step.sql, {name: relation.name for name, relation in used.items()}, makes, tables)
    only = next(iter(used.values())) if len(read.relations) == 1 else None
    rows = Relation(makes, result, (*read.sql, text), read.sources, read.stages)
    if only is not None:
        windows = _windows_in(result, plan, only)
        rows = replace(rows, root=only.root, root_keys=only.root_keys, windows=windows)
    return rows, used


def _windows_in(rows: DataFrame, plan: Node, given: Relation) -> str | None:
    """Return the column of rows that has the windows of the rows that they are made of, if one has.  plan: of rows."""
    if given.windows is None or any(node.kind == "Union" for node in nodes_of(plan)):
        return None
    number = column_ids(given.frame)[given.windows.lower()]
    return next((name for name, own in column_ids(rows).items() if own == number), None)


def parts_of(
    session: SparkSession, step: SqlStep, readable: SqlReads, name: str, where: str, *, limit: int | None = None
) -> GroupedSql | JoinedRows | None:
    """Return the steps that a sql step with a GROUP BY, a DISTINCT, OVER or a join of two inputs means.

    None if it has none, or is refused. name: that of the keyed step of a GROUP BY. limit: see `ranked_sql`. Raise
    InvalidJobError for one that no keyed step is.
    """
    if not step.may_be_keyed:
        return None
    frames = readable.frames
    try:
        with views(session, readable.marked):
            query = read_query(session, step.sql, inputs=frames, dimensions=readable.tables)
            if query.node is None:
                return None
            return (
                ranked_sql(session, query, step, name=name, where=where, limit=limit)
                or over_sql(session, query, step, name=name, where=where)
                or grouped_sql(session, query, step, name=name, where=where)
                or distinct_sql(session, query, step, name=name, where=where)
                or joined_sql(session, query, frames, readable.tables, where)
            )
    except REFUSALS:
        return None  # analysed_sql says why


def by_their_names(step: SqlStep, index: int, before: str | None, inputs: Sequence[Relation]) -> dict[str, Relation]:
    """Return {name in the text: relation}. The only input of a step has the name `previous`, too.

    The first step reads sources by their names.  before: the name of the step before.
    """
    if step.from_:
        found = dict(zip(step.from_, inputs, strict=True))
        return found if len(found) > 1 else {PREVIOUS: inputs[0], **found}
    if index == 0:
        return {relation.name: relation for relation in inputs}
    return dict.fromkeys([PREVIOUS, *([before] if before else [])], inputs[0])


def reads_as_one(step: SqlStep) -> bool:
    """Return True if a step with several inputs reads their rows as one, under the name `previous`."""
    return len(step.from_) > 1 and _FROM_PREVIOUS.search(step.sql) is not None


def union_text(step: SqlStep, inputs: Sequence[Relation], where: str) -> str:
    """Return SQL for the rows of all inputs of a step, whose columns are found by their names.

    where: the place of `from`. Raise InvalidJobError unless all have the same columns.
    """
    for other in inputs[1:]:
        check_alike(inputs[0].types, other.types, (inputs[0].name, other.name), where)
    columns = ", ".join(map(quoted, inputs[0].frame.columns))
    return " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in step.from_)  # noqa: S608 - the job's own SQL


def unread_inputs(
    step: SqlStep, inputs: Sequence[Relation], used: Mapping[str, Relation], where: str
) -> Iterator[MixedmodeError]:
    """Yield an error for each input that a step names and its text does not read.

    inputs: those in `from`. used: what the text reads. where: the place of `from`.
    """
    read = {relation.name for relation in used.values()}
    for name, relation in zip(step.from_, inputs if step.from_ else (), strict=True):
        if relation.name not in read:
            msg = f"{where}: the sql does not read this input. Read it, or remove it from `from`. found={name}"
            yield InvalidJobError(msg)
