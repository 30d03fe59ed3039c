"""Aggregate functions of other engines that do not exist here, and the text to write instead: in a step, and in SQL."""

__all__ = ["instead_of"]

_BY_CHANCE = "its result would depend on the order in which records arrive"
_BY_ROWS = "it goes by the order of rows, which has no meaning here"
_BY_TIME = f"{_BY_ROWS}. Take first or last, which go by event time"
_BY_COLUMN = f"{_BY_ROWS}. Take min_by or max_by with the column that orders the rows"
_JOINED = "take collect_list(x, 100), and array_join in a sql step after this one"
_JOINED_IN_SQL = (
    "write array_join(slice(collect_list(x), 1, 100), ', '), or for distinct values in their order "
    "array_join(slice(sort_array(collect_set(x)), 1, 100), ', '). The state keeps at most 100 values of a key"
)
_TOO_LARGE = "A result that is too large stops the job, so cast the argument to a wider type where that may happen"
#: {function: what to write instead}
_INSTEAD = {
    "any_value": f"{_BY_CHANCE}. Take min or max, or max_by with a column that says which row is meant",
    "arbitrary": f"{_BY_CHANCE}. Take min or max, or max_by with a column that says which row is meant",
    "arg_max": "write max_by(x, y)",
    "arg_min": "write min_by(x, y)",
    "quantile_cont": "write percentile(x, 0.5), which interpolates likewise",
    "quantile_disc": "write percentile_disc(x, 0.5), which is one of the values likewise",
    "try_avg": f"write avg(x). {_TOO_LARGE}: avg(CAST(x AS DECIMAL(38, 6)))",
    "try_sum": f"write sum(x). {_TOO_LARGE}: sum(CAST(x AS DECIMAL(38, 0)))",
    "argmax": "write max_by(x, y)",
    "argmin": "write min_by(x, y)",
}
#: the same, where it depends on where the call stands: (in a step, in SQL)
_BY_PLACE = {
    "first_value": (_BY_TIME, _BY_COLUMN),
    "last_value": (_BY_TIME, _BY_COLUMN),
    **dict.fromkeys(("group_concat", "listagg", "string_agg"), (_JOINED, _JOINED_IN_SQL)),
}


def instead_of(name: str, *, is_sql: bool) -> str | None:
    """Return what to write instead of a function that does not exist here; None if nothing is like it."""
    places = _BY_PLACE.get(name.lower())
    return _INSTEAD.get(name.lower()) if places is None else places[is_sql]
