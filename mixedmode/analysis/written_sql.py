"""The sql steps that are written for a GROUP BY or OVER: names, items of SELECT, and the text before it."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_aggregates import top_of
from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.catalyst_plans import analysed_plan
from mixedmode.analysis.catalyst_texts import TextLostError, columns_over, shape_of
from mixedmode.config import SqlStep
from mixedmode.config.calls import is_column, quoted

__all__ = ["free_name", "is_free", "item", "own_name", "selected", "types_of", "unused_name", "with_text"]

_Java = Any  # an object of the JVM
_NO_ALIAS = "__auto_generated_subquery_name"  # what Spark calls a query in parentheses that has no name
_COLUMN = "AttributeReference"
_NO_NAME = re.compile(r"\W+", re.ASCII)


def selected(
    session: SparkSession, step: SqlStep, parts: tuple[str, str], wanted: Sequence[tuple[_Java, str]], source: _Java
) -> SqlStep:
    """Return the sql of (value, name) over the FROM and WHERE of a text, word by word.

    parts: the text before the SELECT, and that from FROM on. Raise TextLostError if its plan is not `source`.
    """
    read = {id_of(one): one for value, _ in wanted for one in items_of(value.references().toSeq())}
    columns = [
        (one, str(one.name()) if _NO_ALIAS in str(one.qualifier().toString()) else None) for one in read.values()
    ]
    texts = columns_over(session, columns, [value for value, _ in wanted])
    # a row has a column, although count(*) reads none
    items = ", ".join(item(text, name) for text, (_, name) in zip(texts, wanted, strict=True)) or "true AS is_row"
    prefix, rest = parts
    sql = f"{prefix}SELECT {items} {rest.strip()}"
    below, wanted_below = top_of(analysed_plan(session, sql)).child(), shape_of(source)
    if shape_of(below) != wanted_below and not (_only_passes(below) and shape_of(below.child()) == wanted_below):
        raise TextLostError(rest.strip())
    return with_text(step, sql)


def _only_passes(plan: _Java) -> bool:
    """Return whether a plan passes columns of its input on, as above the join that a subquery in WHERE has become."""
    return kind_of(plan) == "Project" and all(kind_of(one) == _COLUMN for one in items_of(plan.projectList()))


def with_text(step: SqlStep, sql: str) -> SqlStep:
    """Return a sql step with another text."""
    return step.model_copy(update={"sql": sql})


def types_of(frame: DataFrame) -> dict[str, str]:
    """Return {column: its type}."""
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def is_free(name: str, taken: Collection[str]) -> bool:
    """Return whether a column may keep its name.  taken: other names, in lower case."""
    return is_column(name) and not name.startswith("_") and name.lower() not in taken


def own_name(name: str, taken: set[str]) -> str:
    """Return the name of a column if it is free, or one made of it. Add it to those that are taken, as `free_name`."""
    if not is_free(name, taken):
        return free_name(name, taken)
    taken.add(name.lower())
    return name


def free_name(text: str, taken: set[str]) -> str:
    """Return a name for a text, and add it to those that are taken, which are in lower case."""
    base = _NO_NAME.sub("_", text.replace(_NO_ALIAS, "")).strip("_")[:60] or "column"
    base = base if is_column(base) else f"column_{base}"
    name = next(one for one in _numbered(base) if one.lower() not in taken)
    taken.add(name.lower())
    return name


def unused_name(name: str, sql: str) -> str:
    """Return a name for a view or a column that is not in a text."""
    while name.lower() in sql.lower():
        name += "_"
    return name


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1


def item(text: str, name: str) -> str:
    """Return an item of SELECT."""
    shown = name if is_column(name) else quoted(name)
    return text if text.rpartition(".")[2] == shown else f"{text} AS {shown}"
