"""A GROUP BY as the keyed step that computes the same, for the message that refuses the former.

Example: `SELECT date(at) AS day, sum(v) AS total FROM t GROUP BY date(at)` becomes
`key-by: [CAST(at AS DATE) AS day], aggregate: {total: sum(v)}`.
"""

import re
from typing import Any

import yaml

from mixedmode.analysis.catalyst_objects import items_of, kind_of

__all__ = ["keyed_step_of"]

_Java = Any  # an object of the JVM
_NO_NAME = re.compile(r"\W+")
#: columns that Spark adds for window(), session_window() and GROUPING SETS
_ADDED = frozenset({"window", "session_window", "spark_grouping_id"})


def keyed_step_of(aggregate: _Java) -> str:
    """Return the settings of a keyed step that returns the columns of an Aggregate; "" if it takes more than that."""
    keys = list(items_of(aggregate.groupingExpressions()))
    entries: dict[int, str] = {}  # {place in `keys`: as an entry of key-by}
    results: list[tuple[str, str]] = []
    for column in items_of(aggregate.aggregateExpressions()):
        name, value = str(column.name()), column.child() if kind_of(column) == "Alias" else column
        at = next((at for at, key in enumerate(keys) if value.semanticEquals(key)), None)
        if at is not None:
            entries[at] = name if _column_name(value) == name else f"{_text(value)} AS {name}"
        elif kind_of(value) == "AggregateExpression":
            results.append((_NO_NAME.sub("_", name).strip("_"), _text(value)))
        else:
            return ""
    aggregate_settings = {name: text for name, text in results if name}
    is_whole = len(aggregate_settings) == len(results) > 0 and len(entries) == len(keys) > 0
    if not is_whole or not _ADDED.isdisjoint(map(_column_name, keys)):
        return ""
    settings = {"key-by": list(entries.values()), "aggregate": aggregate_settings}
    text: str = yaml.safe_dump(settings, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.strip()[1:-1]


def _column_name(expression: _Java) -> str:
    """Return the name of a column; "" for another expression."""
    return str(expression.name()) if kind_of(expression) == "AttributeReference" else ""


def _text(expression: _Java) -> str:
    """Return an expression as SQL over the columns of the input, without the names of tables."""
    text = str(expression.sql())
    for column in items_of(expression.references().toSeq()):
        name = str(column.name())
        text = text.replace(str(column.sql()), f"`{name.replace('`', '``')}`" if _NO_NAME.search(name) else name)
    return text
