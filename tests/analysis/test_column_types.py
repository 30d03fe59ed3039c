"""The types that steps read and outputs write: refused with their place where Arrow or a comparison would be wrong."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    GeographyType,
    GeometryType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from mixedmode.analysis.column_types import input_fields, output_fields
from mixedmode.errors import InvalidJobError

Fields = Callable[[StructType, str], tuple[pa.Field, ...]]
LCASE = StringType("UTF8_LCASE")
NUMBER = IntegerType()
SAME_NAMES = StructType().add("x", NUMBER).add("x", NUMBER)
#: {type without values outside of Spark's SQL: what converts them}
ONLY_IN_SQL: dict[DataType, str] = {
    CalendarIntervalType(): "CAST(x AS STRING)",
    YearMonthIntervalType(): "CAST(x AS STRING)",
    VariantType(): "to_json(x)",
    GeometryType(0): "ST_AsBinary(x)",
    GeographyType(4326): "ST_AsBinary(x)",
}
#: a type by itself, and as a part of others
PLACES: dict[str, Callable[[DataType], DataType]] = {
    "itself": lambda inner: inner,
    "array": ArrayType,
    "value of a map": lambda inner: MapType(NUMBER, inner),
    "key of a map": lambda inner: MapType(inner, NUMBER),
    "struct": lambda inner: StructType().add("a", NUMBER).add("b", inner),
    "deep": lambda inner: ArrayType(StructType().add("a", MapType(NUMBER, inner))),
}
everywhere = pytest.mark.parametrize("around", PLACES.values(), ids=PLACES)
by_both = pytest.mark.parametrize("fields", [input_fields, output_fields])


def refusal(fields: Fields, data_type: DataType) -> str:
    with pytest.raises(InvalidJobError) as caught:
        fields(StructType().add("v", NUMBER).add("k", data_type), "steps[0]")
    return str(caught.value)


@everywhere
def test_a_step_reads_no_text_with_a_collation_wherever_it_is(around: Callable[[DataType], DataType]) -> None:
    assert refusal(input_fields, around(LCASE)) == (
        "steps[0]: k: a step compares text byte by byte, in keys, orders and its state, so texts that the collation "
        "takes for equal would differ. Compute the text to compare in a sql step before, as in CAST(lower(k) AS STRING "
        "COLLATE UTF8_BINARY), or keep the text as it is with CAST(k AS STRING COLLATE UTF8_BINARY). "
        f"collation=UTF8_LCASE, type={around(LCASE).simpleString()}"
    )
    assert input_fields(StructType().add("k", around(StringType())), "")


def test_an_output_writes_text_with_a_collation() -> None:
    assert output_fields(StructType().add("k", LCASE), "") == (pa.field("k", pa.string()),)


@by_both
@everywhere
def test_two_fields_of_one_name_are_refused_wherever_they_are(
    fields: Fields, around: Callable[[DataType], DataType]
) -> None:
    assert refusal(fields, around(SAME_NAMES)) == (
        "steps[0]: k: two fields of a struct have one name, and no row outside of Spark's SQL can have that. Give each "
        f"field a name of its own in a sql step. field=x, type={around(SAME_NAMES).simpleString()}"
    )


@by_both
@everywhere
@pytest.mark.parametrize("inner", ONLY_IN_SQL, ids=str)
def test_types_that_only_sql_has_are_refused_wherever_they_are(
    fields: Fields, around: Callable[[DataType], DataType], inner: DataType
) -> None:
    assert refusal(fields, around(inner)) == (
        "steps[0]: k: values of this type exist only within Spark's SQL. Convert the column in a sql step, as in "
        f"{ONLY_IN_SQL[inner]}, or leave it out. type={around(inner).simpleString()}"
    )


@by_both
def test_every_part_of_a_type_may_be_null_as_the_fields_of_a_struct_are_that_is_null(fields: Fields) -> None:
    never = StructType().add("a", NUMBER, nullable=False)
    schema = StructType().add("s", never).add("l", ArrayType(never, containsNull=False))
    schema = schema.add("m", MapType(NUMBER, never, valueContainsNull=False))
    inner = pa.struct([("a", pa.int32())])
    types = [inner, pa.list_(pa.field("element", inner)), pa.map_(pa.int32(), inner)]
    assert fields(schema, "") == tuple(map(pa.field, "slm", types))
