"""Writes the sql before a GROUP BY with ROLLUP, CUBE or GROUPING SETS: it has each record once for each set of keys.

Example: below `SELECT k, sum(v) FROM t GROUP BY ROLLUP(k)` is

    SELECT k, grouping_id, v FROM (SELECT k AS of_k, v FROM t) LATERAL VIEW inline(array(
      named_struct('k', of_k, 'grouping_id', 0), named_struct('k', NULL, 'grouping_id', 1)
    )) AS k, grouping_id

So grouping_id is a key, too, and a NULL in a column is not the NULL of a set without it.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import TextLostError, columns_over, value_of
from mixedmode.analysis.written_sql import free_name, selected, with_text
from mixedmode.config import SqlStep
from mixedmode.config.calls import quoted

__all__ = ["before_sets"]

_Java = Any  # an object of the JVM


def before_sets(
    session: SparkSession,
    step: SqlStep,
    parts: tuple[str, str],
    expand: _Java,
    keys: Sequence[tuple[_Java, str]],
    columns: Sequence[tuple[_Java, str]],
) -> SqlStep:
    """Return the sql of keys and columns over the FROM and WHERE of a text.

    step, parts: see `selected`. expand: the node that makes several rows of a record. keys: the columns that it adds,
    and their names. columns: others, and theirs. Raise TextLostError if Spark reads a text as something else.
    """
    values = _values(expand, keys)
    project = expand.child()  # it computes what ROLLUP has
    if kind_of(project) != "Project":
        raise TextLostError(kind_of(project))
    made = {id_of(one): value_of(one) for one in items_of(project.projectList())}
    taken = {name.lower() for _, name in (*keys, *columns)}
    read = {id_of(one): one for row in values for one in row if kind_of(one) == "AttributeReference"}
    given = [(one, free_name(f"of_{name}", taken)) for one, (_, name) in zip(read.values(), keys, strict=False)]
    wanted = [*((made[id_of(one)], name) for one, name in given), *columns]
    below = selected(session, step, parts, wanted, project.child())
    texts = iter(columns_over(session, given, [value for row in values for value in row]))
    rows = [", ".join(f"'{name}', {next(texts)}" for _, name in keys) for _ in values]
    structs = ", ".join(f"named_struct({row})" for row in rows)
    names = ", ".join(quoted(name) for _, name in keys)
    others = "".join(f", {quoted(name)}" for _, name in columns)
    view = f"LATERAL VIEW inline(array({structs})) sets AS {names}"
    return with_text(step, f"SELECT {names}{others} FROM (\n{below.sql}\n) {view}")  # noqa: S608 - the job's own SQL


def _values(expand: _Java, keys: Sequence[tuple[_Java, str]]) -> list[list[_Java]]:
    """Return the value of each key in each row that is made of a record."""
    places = ids_of(expand.output())
    at = [places.index(id_of(key)) for key, _ in keys]
    return [[row.apply(place) for place in at] for row in items_of(expand.projections())]
