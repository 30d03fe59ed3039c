"""Text that is not UTF-8, without Spark: what depends on characters is left to Spark, or refused where it cannot be."""

import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.expressions import Call, Column, Literal, Query, evaluate, evaluate_here

TEXT = Column("t", pa.string())
LENGTH = Query((TEXT, Call("Length", (0,), pa.int32())), (), (("n", 1),))
LIKE = Query((TEXT, Literal("a_%", pa.string()), Call("Like", (0, 1), pa.bool_(), ("\\",))), (), (("n", 2),))


def batch(*values: bytes | None) -> pa.RecordBatch:
    column = pa.array(values, pa.binary())
    return pa.record_batch(
        [pa.StringArray.from_buffers(len(column), *column.buffers()[1:], column.buffers()[0])], ["t"]
    )


@pytest.mark.parametrize(("query", "kind"), [(LENGTH, "Length"), (LIKE, "Like")])
@pytest.mark.parametrize("value", [b"\xff", b"\xc0\xaf", b"a\xc3"])
def test_text_that_is_not_utf_8_is_left_to_spark_or_refused(query: Query, kind: str, value: bytes) -> None:
    with pytest.raises(LeftToSparkError, match=f"text that is not UTF-8, in {kind}"):
        list(evaluate([query], [batch(b"a", None, value)]))
    with pytest.raises(InvalidJobError) as caught:
        list(evaluate_here([query], [batch(b"a", None, value)]))
    assert str(caught.value) == (
        "an expression over the rows of a step, or the condition of a join, has a value that only Spark computes, and "
        "nothing was committed. Make text valid with make_valid_utf8(...) in a sql step over the source. "
        f"cause=text that is not UTF-8, in {kind}"
    )


def test_other_text_is_computed() -> None:
    given = batch("ä".encode(), None, b"abc", b"")
    assert [*evaluate_here([LENGTH, LIKE], [given])] == [
        pa.record_batch([pa.array([1, None, 3, 0], pa.int32())], ["n"]),
        pa.record_batch([pa.array([False, None, True, False])], ["n"]),
    ]
