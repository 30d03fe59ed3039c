"""The columns of Spark's keys that are those of a step."""

import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.spark_state.keys import match_keys

TEXT, NUMBER = pa.field("user", pa.string()), pa.field("n", pa.int64())
NAMELESS = "_groupingexpression"
BOUNDS = pa.struct([(name, pa.timestamp("us", "UTC")) for name in ("start", "end")])
WINDOW = pa.field("window", BOUNDS)


def test_keys_are_found_by_their_names_whatever_their_order() -> None:
    assert match_keys([TEXT, NUMBER], [NUMBER, TEXT.with_name("USER")], "step").positions == (1, 0)


def test_a_key_that_is_an_expression_has_no_name_in_spark() -> None:
    found = match_keys([NUMBER, TEXT.with_name("upper")], [TEXT.with_name(NAMELESS), NUMBER], "step")
    assert found.positions == (1, 0)


def test_the_bounds_of_windows_are_no_key_column_here() -> None:
    found = match_keys([TEXT], [WINDOW, TEXT], "step", has_window=True)
    assert (found.positions, found.window) == ((1,), 0)


def test_a_key_may_be_renamed_by_the_sql_before_the_step() -> None:
    sql = "SELECT `user` AS u, n FROM records"
    assert match_keys([TEXT.with_name("u")], [TEXT], "step", sql=sql).positions == (0,)
    with pytest.raises(InvalidJobError, match="keys_here=u string, keys_in_spark=user string"):
        match_keys([TEXT.with_name("u")], [TEXT], "step", sql="SELECT city AS u, user FROM records")


@pytest.mark.parametrize(
    "spark",
    [
        [TEXT],
        [TEXT, NUMBER, TEXT.with_name("city")],
        [TEXT, pa.field("n", pa.int32())],
        [TEXT, NUMBER.with_name("m")],
        [TEXT, WINDOW],
        [TEXT, NUMBER, WINDOW],
    ],
)
def test_other_keys_are_refused_with_both_sides(spark: list[pa.Field]) -> None:
    with pytest.raises(InvalidJobError, match="keys_here=user string, n int64, keys_in_spark=user string"):
        match_keys([TEXT, NUMBER], spark, "step")
