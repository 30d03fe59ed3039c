"""Columns of windows in SQL, which steps have as two columns: the start and the end.

Example: rows with a column `w` of windows are grouped by `w` so:

    before   SELECT w.start AS window_start, w.end AS window_end, n FROM t
    step     key-by: [window_start, window_end], aggregate: {most: max(n)}
    after    SELECT w, most FROM (SELECT *, named_struct('start', window_start, 'end', window_end) AS w FROM previous)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import id_of, items_of
from mixedmode.analysis.catalyst_plans import no_rows
from mixedmode.analysis.catalyst_texts import renamed, replaced, value_of
from mixedmode.analysis.written_sql import free_name
from mixedmode.config.calls import quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.config.windows import WINDOW_COLUMNS
from mixedmode.operators.window import WINDOW_BOUNDS

__all__ = ["LAST_OF_WINDOW", "WINDOW_END", "WINDOW_START", "WINDOW_TIME", "bounds_of", "window_values", "with_windows"]

_Java = Any  # an object of the JVM

WINDOW_TIME = "window_time"  #: the event time of the results of windows
LAST_OF_WINDOW = "end - INTERVAL '0.000001' SECOND"  #: its value, over the fields of a window
WINDOW_START, WINDOW_END = (field.name for field in WINDOW_BOUNDS)
_COLUMN = "w"


def bounds_of(windows: Mapping[int, str], names: Iterable[str], *, is_key: bool) -> dict[int, tuple[str, str]]:
    """Return {id: names for the start and the end} of columns of windows.

    windows: {id: name}. names: those of all columns. is_key: the windows of a single column are a key. Then their names
    are those by which a keyed step knows that its results are final with the windows, so no other column has them.
    """
    if is_key and len(windows) == 1:
        return dict.fromkeys(windows, (WINDOW_START, WINDOW_END))
    taken = {*map(str.lower, names), *WINDOW_COLUMNS}
    return {
        number: (free_name(f"{name}_start", taken), free_name(f"{name}_end", taken)) for number, name in windows.items()
    }


def window_values(session: SparkSession, window: _Java, texts: Sequence[str]) -> list[_Java]:
    """Return expressions over a column of windows.  texts: theirs over its fields, `start` and `end`."""
    column = renamed(session, window, _COLUMN)
    values = no_rows(session, [column]).selectExpr(*(f"{_COLUMN}.{text}" for text in texts))
    return [
        replaced(session, value_of(one), {id_of(window): window}) for one in items_of(analysed(values).projectList())
    ]


def with_windows(windows: Mapping[str, tuple[str, str]]) -> str:
    """Return the rows of a step with columns of windows, for FROM.  windows: {name: the columns of start and end}."""
    structs = (
        f"named_struct('start', {quoted(start)}, 'end', {quoted(end)}) AS {quoted(name)}"
        for name, (start, end) in windows.items()
    )
    if not windows:
        return PREVIOUS
    return f"(SELECT *, {', '.join(structs)} FROM {PREVIOUS})"  # noqa: S608 - the job's own SQL
