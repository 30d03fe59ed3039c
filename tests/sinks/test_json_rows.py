"""Lines of JSON and CSV are read as they were written, for every type; what lines cannot hold is refused."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.connectors.files.sink import columns_problem
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.column_types import type_of
from mixedmode.sinks.csv_lines import csv_lines, has_csv_form
from mixedmode.sinks.files import FileFormat, SinkTask
from mixedmode.sinks.json_lines import json_lines
from mixedmode.sinks.read_files import read_lines
from tests.random_cases import random_cases

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
INT64 = st.integers(-(2**63), 2**63 - 1)
Arrays = Callable[[list[Any]], pa.Array]


def cast_to(kind: pa.DataType, stored: pa.DataType) -> Arrays:
    return lambda values: pa.array(values, stored).cast(kind)


def as_values(kind: pa.DataType) -> Arrays:
    return lambda values: pa.array(values, kind)


#: {type: (values as numbers or as they are, function to an array)}; times as numbers reach both ends
PLAIN: dict[pa.DataType, tuple[st.SearchStrategy[Any], Arrays]] = {
    pa.bool_(): (st.booleans(), as_values(pa.bool_())),
    pa.int8(): (st.integers(-128, 127), as_values(pa.int8())),
    pa.int64(): (INT64, as_values(pa.int64())),
    pa.float32(): (st.floats(width=32), as_values(pa.float32())),
    pa.float64(): (st.floats(), as_values(pa.float64())),
    pa.decimal128(38, 10): (
        st.decimals(-(10**27), 10**27, places=10, allow_nan=False),
        as_values(pa.decimal128(38, 10)),
    ),
    pa.string(): (st.text(), as_values(pa.string())),
    pa.binary(): (st.binary(), as_values(pa.binary())),
    pa.date32(): (st.integers(-719_162, 2_932_896), cast_to(pa.date32(), pa.int32())),
    pa.timestamp("us"): (st.integers(FIRST_US, LAST_US), cast_to(pa.timestamp("us"), pa.int64())),
    pa.timestamp("us", "UTC"): (st.integers(FIRST_US, LAST_US), cast_to(pa.timestamp("us", "UTC"), pa.int64())),
    pa.time64("ns"): (st.integers(0, 86_399_999_999).map(lambda us: us * 1000), cast_to(pa.time64("ns"), pa.int64())),
    pa.duration("us"): (INT64, cast_to(pa.duration("us"), pa.int64())),
    pa.null(): (st.none(), as_values(pa.null())),
}
NAMES = ["a", "b c", "a.b", 'q"', "é", "x:y", "list<int>"]


@st.composite
def arrays(draw: st.DrawFn, depth: int = 2, size: int = 4, *, is_key: bool = False) -> pa.Array:
    """An array of `size` values of any type that an output may have."""
    kinds = [kind for kind in PLAIN if not (is_key and pa.types.is_null(kind))]
    kind = draw(st.sampled_from([*kinds, *(["list", "struct", "map"] if depth and not is_key else [])]))
    if isinstance(kind, pa.DataType):
        values, array = PLAIN[kind]
        return array([draw(values if is_key else st.none() | values) for _ in range(size)])
    mask = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    if kind == "struct":
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
        return pa.StructArray.from_arrays([draw(arrays(depth - 1, size)) for _ in names], names, mask=mask)
    counts = [0 if is_null else draw(st.integers(0, 2)) for is_null in mask.to_pylist()]
    offsets = pa.array([sum(counts[:end]) for end in range(size + 1)], pa.int32())
    items = draw(arrays(depth - 1, sum(counts)))
    if kind == "list":
        return pa.ListArray.from_arrays(offsets, items, mask=mask)
    keys = distinct(draw(arrays(0, 2 * sum(counts), is_key=True)))
    if len(keys) < sum(counts):
        return pa.nulls(size, pa.map_(keys.type, items.type))
    return pa.MapArray.from_arrays(offsets, keys.slice(0, sum(counts)), items, mask=mask)


def distinct(keys: pa.Array) -> pa.Array:
    """The keys of a map, of which no two are equal, as Spark compares them."""
    seen = dict[str, int]()
    for number, key in enumerate(keys):
        seen.setdefault(repr(key.as_py() if not pa.types.is_floating(keys.type) else key.as_py() + 0.0), number)
    return keys.take(pa.array(list(seen.values()), pa.int64()))


def written(table: pa.Table, file_format: FileFormat) -> bytes:
    lines = [csv_lines(table, header=True)] if file_format == "csv" else json_lines(table)
    return b"".join(map(bytes, lines))


@given(column=arrays())
@settings(max_examples=random_cases(150))
def test_every_value_is_read_as_it_was_written(column: pa.Array) -> None:
    table = pa.table({"c": column, "i": range(len(column))})
    fields = [pa.field(field.name, type_of(str(field.type))) for field in table.schema]
    assert fields == list(table.schema), "by the names of the types"
    formats: list[FileFormat] = ["json", "csv"] if has_csv_form(column.type) else ["json"]
    for file_format in formats:
        assert columns_problem(SinkTask("out", file_format), fields, ()) is None
        found = read_lines(written(table, file_format), file_format, fields)
        assert found.schema == table.schema
        assert bits(found) == bits(table), file_format


def bits(table: pa.Table) -> str:
    """The values of a table, of which NaN equals NaN, and 0.0 is not -0.0."""
    return repr([[value.as_py() for value in column] for column in table.columns])


OUT_OF_YEARS = {
    pa.date32(): (-719_163, 2_932_897, 2**31 - 1, -(2**31)),
    pa.timestamp("us"): (FIRST_US - 1, LAST_US + 1, 2**63 - 1, -(2**63)),
    pa.timestamp("us", "UTC"): (FIRST_US - 1, LAST_US + 1, 2**63 - 1, -(2**63)),
}


@pytest.mark.parametrize("file_format", ["json", "csv"])
@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, some in OUT_OF_YEARS.items() for value in some])
def test_times_that_lines_cannot_hold_are_refused(file_format: FileFormat, kind: pa.DataType, value: int) -> None:
    times = pa.array([None, 0, value], pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    for column in (times, *(nested(times) if file_format == "json" else ())):
        with pytest.raises(InvalidJobError) as caught:
            written(pa.table({"at": column}), file_format)
        assert str(caught.value) == (
            "a column of the output has a date or a time before the year 1 or after 9999, which lines of JSON and CSV "
            "cannot hold. Filter such rows out in a sql step, cast the column to bigint, or write Parquet. column=at"
        )


@pytest.mark.parametrize("file_format", ["json", "csv"])
@pytest.mark.parametrize("text", [b"\xff", b"\xc0\xaf", b"a\xc3"])
def test_text_that_is_not_utf_8_is_refused(file_format: FileFormat, text: bytes) -> None:
    valid = pa.array([b"", b"a", text])
    texts = pa.StringArray.from_buffers(3, *valid.buffers()[1:])
    for column in (texts, *(nested(texts) if file_format == "json" else ())):
        with pytest.raises(InvalidJobError) as caught:
            written(pa.table({"s": column}), file_format)
        assert str(caught.value) == (
            "a column of the output has text that is not UTF-8, which lines of JSON and CSV cannot hold. Write "
            "make_valid_utf8(...) or base64(...) of it in a sql step, or write Parquet. column=s"
        )


def nested(values: pa.Array) -> list[pa.Array]:
    """The values inside of others, as the last of them; slices begin after the first."""
    offsets = pa.array([0, 0, 2, 3], pa.int32())
    keys = pa.array(["x", "y", "z"])
    lists = pa.ListArray.from_arrays(offsets, values)
    maps = pa.MapArray.from_arrays(offsets, keys, values)
    return [lists, lists.slice(2), maps, maps.slice(2), pa.StructArray.from_arrays([values], ["a"]).slice(2)]


def test_values_beside_a_slice_do_not_count() -> None:
    times = pa.array([0, 0, LAST_US + 1]).cast(pa.timestamp("us"))
    for column in nested(times)[::2]:
        if len(column) > 1:
            assert written(pa.table({"at": column.slice(0, 2)}), "json")


def test_a_name_that_hides_where_its_type_begins_is_no_json() -> None:
    field = pa.field("c", pa.list_(pa.struct([pa.field("a: string, b", pa.string())])))
    assert type_of(str(field.type)) != field.type
    assert columns_problem(SinkTask("out", "json"), [field], ()) == (
        "the output cannot be JSON: a field of a struct has a colon and a space in its name. Give it another name in a "
        f"sql step, or write Parquet. column=c, type={field.type}"
    )


@pytest.mark.parametrize(
    "text", ["struct<a: rare>", "list<a: int8, b: int8>", "map<int8>", "int8, int8", "decimal256(50, 2)"]
)
def test_other_texts_are_no_type(text: str) -> None:
    assert type_of(text) is None


@pytest.mark.parametrize("key", [pa.struct([("a", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.int64(), pa.int64())])
@pytest.mark.parametrize("around", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("m", kind)])])
def test_maps_whose_keys_have_parts_are_no_json(key: pa.DataType, around: Callable[[pa.DataType], pa.DataType]) -> None:
    field = pa.field("m", around(pa.map_(key, pa.int64())))
    assert columns_problem(SinkTask("out", "json"), [field], ()) == (
        "the output cannot be JSON: a key of a map is a text in JSON, and a struct, array or map is none. Make the map "
        "a list of its entries with map_entries(...) in a sql step, or write Parquet. "
        f"column=m, type={field.type}"
    )
    assert columns_problem(SinkTask("out", "parquet"), [field], ()) is None


def test_keys_of_a_map_that_are_booleans_are_those_of_json() -> None:
    column = pa.array([[(True, 1), (False, 2)]], pa.map_(pa.bool_(), pa.int64()))
    assert written(pa.table({"m": column}), "json") == b'{"m": {"true": 1, "false": 2}}\n'


@pytest.mark.parametrize("around", [lambda kind: kind, pa.list_, lambda kind: pa.map_(pa.int64(), kind)])
def test_a_struct_without_fields_is_no_parquet(around: Callable[[pa.DataType], pa.DataType]) -> None:
    field = pa.field("s", around(pa.struct([])))
    assert columns_problem(SinkTask("out", "parquet"), [field], ()) == (
        "the output cannot be Parquet: it has no struct without fields. Write JSON, or leave the column out in a sql "
        f"step. column=s, type={field.type}"
    )
    assert columns_problem(SinkTask("out", "json"), [field], ()) is None
    column = pa.array([None], field.type)
    assert read_lines(written(pa.table({"s": column}), "json"), "json", [field]).column("s").to_pylist() == [None]
