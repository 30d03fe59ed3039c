"""Chooses the row groups of a Parquet file that a task reads, and the columns of each.

A row group is read if one of its rows may pass a query, with the columns that such queries use.

The statistics of a row group say which values its columns may have. They are used for whole numbers, dates, timestamps
and bytes, and only where the file has the type that is read: else a value may change. Floats are left out, since NaN
is not in their statistics. Arrow ignores statistics of writers that are known to be wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from mixedmode.expressions import Bounds, Query, may_pass
from mixedmode.plan.job_plan import ReadColumn

__all__ = ["Span", "spans_of"]


@dataclass(frozen=True, slots=True)
class Span:
    """Row groups, one after the other, that are read in the same way.

    `queries`: those that a row may pass; none: nothing is read. `columns`: what they use; at least one, for its length.
    """

    groups: tuple[int, ...]
    rows: int
    queries: tuple[Query, ...]
    columns: tuple[ReadColumn, ...]


def spans_of(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[ReadColumn], queries: Sequence[Query]
) -> Iterator[Span]:
    """Yield the spans of row groups, in their order."""
    places = _places(file, columns) if any(query.filters for query in queries) else {}

    def passing(group: int) -> tuple[int, ...]:
        bounds = {name: _bounds(file.metadata.row_group(group), place) for name, place in places.items()}
        return tuple(number for number, query in enumerate(queries) if not query.filters or may_pass(query, bounds))

    for numbers, some in groupby(groups, passing):
        members = tuple(some)
        rows = sum(file.metadata.row_group(group).num_rows for group in members)
        passed = tuple(queries[number] for number in numbers)
        used = {column.name for query in passed for column in query.reads}
        needed = tuple(column for column in columns if column.name in used) or tuple(columns[:1])
        yield Span(members, rows, passed, needed)


def _places(file: pq.ParquetFile, columns: Sequence[ReadColumn]) -> Mapping[str, int]:
    """Return {name of a column that is read: number of the column in the file} where statistics can be used."""
    found: dict[str, int] = {}
    stored = {field.name.lower(): field.type for field in file.schema_arrow}
    numbers = {}
    for number in range(len(file.schema)):
        leaf = file.schema.column(number)
        if leaf.path == leaf.name and not leaf.max_repetition_level:  # else it is a part of a column
            numbers[leaf.name.lower()] = number
    for column in columns:
        name = column.source.lower()
        if name in numbers and _has_its_values(stored[name], column.data_type):
            found[column.name] = numbers[name]
    return found


def _has_its_values(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether the statistics of a stored type are values of the wanted type."""
    if types.is_dictionary(stored):
        stored = stored.value_type
    if types.is_signed_integer(stored):
        return bool(types.is_signed_integer(wanted) and stored.bit_width <= wanted.bit_width)
    if types.is_timestamp(stored):
        return bool(types.is_timestamp(wanted) and stored.unit == "us")
    text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(one(stored) for one in text):
        return bool(types.is_string(wanted) or types.is_binary(wanted))
    return bool(types.is_date32(stored) and types.is_date32(wanted))


def _bounds(group: pq.RowGroupMetaData, place: int) -> Bounds:
    found = group.column(place).statistics
    if found is None:
        return Bounds()
    nulls = found.null_count if found.has_null_count else None
    is_known = found.has_min_max and found.physical_type != "INT96"
    return Bounds(
        found.min_raw if is_known else None,
        found.max_raw if is_known else None,
        has_null=nulls != 0,
        has_value=nulls != group.num_rows,
    )
