"""Pieces of rows: all rows in order, and none is larger than allowed unless one row is."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.job import Job, Sink, Source
from mixedmode.keys.arrow import bytes_of_values
from mixedmode.operators.join import layout
from mixedmode.operators.pieces import pieces_of
from mixedmode.testing import run_graph

TYPES: dict[pa.DataType, Any] = {
    pa.string(): "x" * 5,
    pa.binary(): b"x" * 7,
    pa.int64(): 1,
    pa.bool_(): True,
    pa.decimal128(20, 2): 1,
    pa.list_(pa.int64()): [1, 2, 3],
}


@given(
    lengths=st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=8),
    rows=st.lists(st.integers(-1, 7), max_size=60),
    bytes_max=st.integers(1, 100),
)
def test_pieces_are_all_rows_in_order_and_small(lengths: list[int | None], rows: list[int], bytes_max: int) -> None:
    values = pa.array([None if length is None else "x" * length for length in lengths], pa.string())
    numbers = np.array([min(row, len(lengths) - 1) for row in rows], np.int64)
    found = list(pieces_of(len(rows), [(values, numbers)], bytes_max))
    assert [row for piece in found for row in range(len(rows))[piece]] == list(range(len(rows)))
    sizes = [0 if row < 0 else lengths[row] or 0 for row in numbers.tolist()]
    for piece in found:
        assert sizes[piece]
        assert len(sizes[piece]) == 1 or sum(sizes[piece]) <= bytes_max


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_values_of_each_type_have_a_size(kind: pa.DataType) -> None:
    values = pa.array([None, TYPES[kind]], kind)
    assert len(list(pieces_of(100, [(values, np.ones(100, np.int64))], 50))) > 1
    assert list(pieces_of(100, [(values, np.ones(100, np.int64))])) == [slice(0, 100)]


def test_without_columns_all_rows_are_one_piece() -> None:
    assert list(pieces_of(3, [])) == [slice(0, 3)]
    assert list(pieces_of(0, [])) == []


def joined(kind: str) -> list[dict[str, Any]]:
    """Return the rows of a join of 30 rows with three texts, of which one is NULL."""
    schemas = {"l": "k bigint, n bigint, at timestamp", "r": "k bigint, text string, since timestamp"}
    sources = {
        name: Source.parquet(name, schema=schema, event_time=time)
        for (name, schema), time in zip(schemas.items(), ("at", "since"), strict=True)
    }
    job = Job("joined", sources=sources, mode="mixed", checkpoint_dir="checkpoints")
    left, right = job.source("l"), job.source("r")
    if kind == "as-of":
        rows = left.as_of_join(right, on="k", type="left")
    elif kind == "interval":
        rows = left.interval_join(right, on="k", within=("-1h", "1h"), type="full")
    else:
        rows = left.join(right, on="k", type="full").key_by("n").aggregate(rows="count(*)", text="max(text)")
    texts = [{"k": k, "text": text, "since": k} for k, text in enumerate(("a", None, "b"))]
    inputs = {
        "l": [{"k": n % 4, "n": n, "at": 10 + n} for n in range(30)],
        "r": [*texts, {"k": 9, "text": "c", "since": 9}],
    }
    graph = run_graph(job.output("out", rows, Sink.parquet("out")), inputs, live=[inputs])
    return graph.table("out")


@pytest.mark.parametrize("kind", ["as-of", "interval", "regular"])
def test_a_join_emits_the_same_rows_in_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = joined(kind)
    monkeypatch.setattr(layout, "pieces_of", partial(pieces_of, bytes_max=1))
    assert joined(kind) == whole
    assert len(whole) >= 30


PAIR = pa.struct([("a", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["abc", None, ""], pa.string(), [3, 0, 0]),
        (["abc", None], pa.large_string(), [3, 0]),
        ([b"ab", b"c"], pa.large_binary(), [2, 1]),
        ([1, None], pa.int64(), [8, 8]),
        ([None], pa.null(), [0]),
        ([{"a": "xyz", "n": 1}, None], PAIR, [11, 8]),
        ([[{"a": "xyz", "n": 1}, {"a": None, "n": 2}], [], None, [{"a": "q", "n": 3}]], pa.list_(PAIR), [19, 0, 0, 9]),
        ([[("k", "vv")], None, [("a", "b"), ("c", "d")]], pa.map_(pa.string(), pa.string()), [3, 0, 4]),
    ],
)
def test_values_of_every_kind_have_their_bytes_also_in_slices_and_chunks(
    values: list[Any], kind: pa.DataType, expected: list[int]
) -> None:
    column = pa.array(values, kind)
    assert bytes_of_values(column).tolist() == expected
    assert bytes_of_values(column.slice(1)).tolist() == expected[1:]
    assert bytes_of_values(pa.chunked_array([column.slice(1), column], kind)).tolist() == expected[1:] + expected
    assert bytes_of_values(pa.chunked_array([], kind)).tolist() == []
