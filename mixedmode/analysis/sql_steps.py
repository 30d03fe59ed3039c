"""Analyses a sql step: Spark resolves its text over stand-ins of what it may read, and its plan is checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import read_query
from mixedmode.analysis.problems import collecting
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
from mixedmode.config import SqlStep
from mixedmode.errors import MixedmodeError
from mixedmode.plan.reads import SqlText
from mixedmode.spark.errors import REFUSALS, refused
from mixedmode.spark.frames import views

__all__ = ["SqlReads", "analysed_sql"]


@dataclass(frozen=True, slots=True)
class SqlReads:
    """The inputs of a sql step, by the names in its text: `relations`, and stand-ins of the dimensions (`tables`)."""

    relations: Mapping[str, Relation]
    tables: Mapping[str, DataFrame]


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
    frames = {name: relation.frame for name, relation in readable.relations.items()}
    try:
        with views(session, _named_in(step.sql, {**readable.tables, **frames})):
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
    root = next(iter(used.values())).root if len(read.relations) == 1 else None
    return Relation(makes, result, (*read.sql, text), read.sources, read.stages, root), used


def _named_in(sql: str, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the frames that a text may name; to register a view takes Spark a few milliseconds.

    IDENTIFIER('ord' || 'ers') names one that is not in the text.
    """
    text = sql.lower()
    return {name: frame for name, frame in frames.items() if name.lower() in text or "identifier" in text}
