"""Columns that a step cannot store or order rows by, each with what to do."""

import pyarrow as pa

from mixedmode.plan.stored_types import unordered, unstorable


def test_each_column_that_cannot_be_stored_is_a_mistake() -> None:
    fields = [pa.field("a", pa.list_(pa.int8())), pa.field("b", pa.struct([("x", pa.duration("us"))]))]
    (problem,) = unstorable(fields, "steps[0].join", alias="orders")
    assert str(problem) == (
        "steps[0].join: the step stores the columns of its input, and cannot store this type. Leave the column out in "
        "a sql step before, or cast it there, as with CAST(x AS STRING). "
        "column=orders.b, type=struct<x: duration[us]>"
    )
    assert "column=b," in str(unstorable(fields, "steps[0].top")[0])


def test_each_column_without_an_order_is_a_mistake() -> None:
    (problem,) = unordered([("v", pa.int8()), ("a", pa.list_(pa.int8()))], "steps[0].top")
    assert str(problem) == (
        "steps[0].top: rows cannot be ordered by values of this type. Order them by a field or an element of it, or "
        "cast it, as with to_json. column=a, type=list<item: int8>"
    )
