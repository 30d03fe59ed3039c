"""The columns of a query with OVER: those that its keyed step reads, and the SELECT over the rows of the step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_over import OverQuery
from mixedmode.analysis.catalyst_texts import columns_over
from mixedmode.analysis.window_columns import window_values, with_windows
from mixedmode.analysis.written_sql import free_name, is_free, item
from mixedmode.config.windows import WINDOW_COLUMNS

__all__ = ["after_text", "column_names", "read_columns"]

_Java = Any  # an object of the JVM


def column_names(query: OverQuery, reserved: Collection[str]) -> dict[int, str]:
    """Return {id: name} of the columns that the step reads: their own, if it is free.  reserved: names of others."""
    taken = {*reserved, *(WINDOW_COLUMNS if query.windows else ())}
    names = {}
    for number, (column, value) in query.columns.items():
        own = str(column.name())
        if is_free(own, taken):
            taken.add(own.lower())
            names[number] = own
        else:
            names[number] = free_name(str(value.sql()) if own.startswith("_") else own, taken)
    return names


def read_columns(
    session: SparkSession, query: OverQuery, made_of: Mapping[int, tuple[str, ...]]
) -> list[tuple[_Java, str]]:
    """Return the columns for the step, and their names.  made_of: {id: the names of what a column becomes}."""
    wanted = list[tuple[_Java, str]]()
    for number, (_, value) in query.columns.items():
        own = made_of[number]
        values = [value] if len(own) == 1 else window_values(session, value, ["start", "end"])
        wanted += zip(values, own, strict=True)
    return wanted


def after_text(
    session: SparkSession,
    query: OverQuery,
    names: Mapping[int, str],
    results: Sequence[tuple[_Java, str]],
    bounds: Mapping[int, tuple[str, str]],
) -> str:
    """Return the sql over the rows of the step.

    names: {id: name} of the columns that the step reads. results: the columns that it adds, and their names. bounds:
    see `bounds_of`.
    """
    given = [(column, names[number]) for number, (column, _) in query.columns.items()]
    values = [one.value for one in query.shown]
    texts = columns_over(session, [*given, *results], [*values, *query.conditions])
    items = ", ".join(item(text, one.name) for text, one in zip(texts, query.shown, strict=False))
    conditions = " AND ".join(texts[len(values) :])
    where = f" WHERE {conditions}" if conditions else ""
    rows = with_windows({names[number]: own for number, own in bounds.items()})
    return f"SELECT {items} FROM {rows}{where}"  # noqa: S608 - the job's own SQL
