"""Schemas as a test writes them: the same columns that Spark makes of the same text."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.testing.schemas import schema_of

PLAIN = """
    boolean tinyint byte smallint short int INTEGER bigint long float real double string binary date timestamp
    timestamp_ltz Timestamp_NTZ decimal decimal(5) dec(10,2) numeric(38,38)
"""
plain = st.sampled_from(PLAIN.split())
types = st.recursive(
    plain,
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        st.tuples(plain, inner).map(lambda pair: f"map< {pair[0]}, {pair[1]}>"),
        st.tuples(inner, inner).map(lambda pair: f"struct<a: {pair[0]}, `b c` {pair[1]} not null>"),
    ),
    max_leaves=4,
)
names = st.sampled_from(["k", "_1", "`été`", "`a b`", "`x``y`", "order"])


@pytest.mark.spark
def test_a_ddl_text_gives_the_columns_that_spark_makes_of_it(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    del spark  # what parses DDL

    @given(st.lists(st.tuples(names, types, st.sampled_from(["", " not null", " NOT NULL"])), min_size=1, max_size=3))
    def check(columns: list[tuple[str, str, str]]) -> None:
        text = ", ".join(f"{name} {data_type}{null}" for name, data_type, null in columns)
        theirs = StructType.fromDDL(text)
        assert isinstance(theirs, StructType)
        assert schema_of(text, where="schema") == to_arrow_schema(theirs, timezone="UTC"), text

    check()


def test_a_mapping_takes_python_types_ddl_types_and_arrow_types() -> None:
    given = {"a": int, "b": str, "c": float, "d": bool, "e": bytes, "f": datetime, "g": date, "h": Decimal}
    assert schema_of(given, where="schema") == pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.string()),
            ("c", pa.float64()),
            ("d", pa.bool_()),
            ("e", pa.binary()),
            ("f", pa.timestamp("us", "UTC")),
            ("g", pa.date32()),
            ("h", pa.decimal128(38, 18)),
        ]
    )
    mixed = schema_of({"a": "array<int>", "b": pa.uint8()}, where="schema")
    assert mixed == pa.schema([("a", pa.list_(pa.int32())), ("b", pa.uint8())])


def test_an_arrow_schema_is_taken_as_it_is() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False)], metadata={"about": "it"})
    assert schema_of(schema, where="schema") == schema.remove_metadata()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "found '' where the name of a column should be"),
        ("k", "the text ends where a type should be"),
        ("k string v bigint", "found 'v' where 'the end' should be"),
        ("k strng", "there is no type 'strng' here"),
        ("k string,", "found '' where the name of a column should be"),
        ("k array<int", "found '' where '>' should be"),
        ("k map<string>", "found '>' where ',' should be"),
        ("k decimal(39)", "a decimal has 1 to 38 digits, and no more of them after the point: decimal(39, 0)"),
        ("k decimal(3, 4)", "a decimal has 1 to 38 digits, and no more of them after the point: decimal(3, 4)"),
        ("k decimal(x)", "found 'x' where a number should be"),
        ("k string not", "NOT is to be followed by NULL"),
    ],
)
def test_a_text_that_is_no_ddl_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        schema_of(text, where="FunctionHarness: schema")
    assert str(caught.value) == (
        f"FunctionHarness: schema: {reason}. Write columns as `name type, name type` with Spark's types, such as "
        f"bigint, string, timestamp, decimal(10, 2) or array<int>. found={text}"
    )


def test_a_type_that_no_column_has_is_refused_with_its_column() -> None:
    with pytest.raises(InvalidJobError, match=r"^schema: a: this Python type is not the type of a column. Use one of"):
        schema_of({"a": list}, where="schema")
    with pytest.raises(InvalidJobError, match=r"^schema: a: there is no type 'arrays' here"):
        schema_of({"a": "arrays"}, where="schema")
