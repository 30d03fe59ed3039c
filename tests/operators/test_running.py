"""The rows of a map task, told apart by subtask."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import group_range
from mixedmode.operators import running
from mixedmode.operators.interface import KEY_GROUP_COLUMN
from mixedmode.operators.running import divided_by_subtask

MAX_PARALLELISM = 16
BLOCK_ROWS = 7


@given(st.lists(st.integers(0, MAX_PARALLELISM - 1), max_size=60), st.integers(1, MAX_PARALLELISM))
def test_each_row_is_its_subtasks_in_blocks_by_key_group(groups: list[int], parallelism: int) -> None:
    numbers = np.arange(len(groups))
    table = pa.table({KEY_GROUP_COLUMN: pa.array(groups, pa.uint16()), "number": numbers})
    sizes = {"parallelism": parallelism, "max_parallelism": MAX_PARALLELISM}
    found: list[list[int]] = [[] for _ in range(parallelism)]
    with patch.object(running, "_BLOCK_ROWS", BLOCK_ROWS), patch.object(running, "_PIECE_ROWS", 0):
        for subtask, piece in divided_by_subtask(table, table.column(KEY_GROUP_COLUMN).to_numpy(), **sizes):
            assert piece.num_rows
            found[subtask] += piece.column("number").to_pylist()
    for subtask, own_rows in enumerate(found):
        own = group_range(subtask, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
        rows = [number for number, group in enumerate(groups) if own.start <= group < own.end]
        expected = sorted(
            rows, key=lambda number: (number // BLOCK_ROWS, groups[number])
        )  # stable: keys keep their order
        assert own_rows == expected
