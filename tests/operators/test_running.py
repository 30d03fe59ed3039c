"""The rows of a map task, told apart by subtask."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import group_range
from mixedmode.operators import running
from mixedmode.operators.interface import KEY_GROUP_COLUMN
from mixedmode.operators.running import pieces_by_subtask

MAX_PARALLELISM = 16
BLOCK_ROWS = 7


@given(st.lists(st.integers(0, MAX_PARALLELISM - 1), max_size=60), st.integers(1, MAX_PARALLELISM))
def test_each_row_is_its_subtasks_in_blocks_by_key_group(groups: list[int], parallelism: int) -> None:
    numbers = np.arange(len(groups))
    table = pa.table({KEY_GROUP_COLUMN: pa.array(groups, pa.uint16()), "number": numbers})
    with patch.object(running, "_BLOCK_ROWS", BLOCK_ROWS):
        pieces = list(pieces_by_subtask(table, parallelism=parallelism, max_parallelism=MAX_PARALLELISM))
    assert len(pieces) == parallelism
    for subtask, piece in enumerate(pieces):
        own = group_range(subtask, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
        rows = [number for number, group in enumerate(groups) if own.start <= group < own.end]
        expected = sorted(
            rows, key=lambda number: (number // BLOCK_ROWS, groups[number])
        )  # stable: keys keep their order
        assert piece.column("number").to_pylist() == expected
