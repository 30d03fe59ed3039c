"""Rows dealt out to subtasks: each to one, in order, as many each."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.map.dealing import dealt

ROWS = st.integers(0, 40)
PARALLELISM = st.integers(1, 9)


@given(ROWS, PARALLELISM, st.integers(0, 20))
def test_every_row_goes_to_one_subtask_and_keeps_its_place(rows: int, parallelism: int, turn: int) -> None:
    """I1 and I2."""
    table = pa.table({"n": list(range(rows))}, schema=pa.schema([("n", pa.int64())]))
    pieces = list(dealt(table, parallelism=parallelism, turn=turn))
    subtasks = [subtask for subtask, _ in pieces]
    assert len(set(subtasks)) == len(subtasks)
    assert set(subtasks) <= set(range(parallelism))
    numbers = [piece["n"].to_pylist() for _, piece in pieces]
    assert [number for piece in numbers for number in piece] == list(range(rows))
    low, high = rows // parallelism, -(-rows // parallelism)
    assert all(low <= len(piece) <= high for piece in numbers)
    assert len(pieces) == min(rows, parallelism), "an empty piece is none"


@given(PARALLELISM, st.integers(0, 20))
def test_single_rows_go_round(parallelism: int, turn: int) -> None:
    """I3."""
    table = pa.table({"n": [1]})
    owners = [next(dealt(table, parallelism=parallelism, turn=turn + i))[0] for i in range(parallelism)]
    assert sorted(owners) == list(range(parallelism))
