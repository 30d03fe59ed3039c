"""Managed memory: by example which parts each strategy has, by property that the parts are at most the whole."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import ExecutionStrategy
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.tasks.memory import (
    SLICE_PIECES_MAX,
    MemoryShares,
    decide_pieces,
    share_memory,
    slice_bytes,
    strategy_for,
)

SORTS, DOES_NOT = OperatorAttributes(), OperatorAttributes(internal_sorter_supported=False)


def test_in_backlog_the_sorter_has_nearly_everything_and_live_half() -> None:
    assert share_memory(800, SORTS, "sorted") == MemoryShares(
        700, key_bytes=50, cache_bytes=100, columns_bytes=400, scanned_columns_bytes=0, records_bytes=100
    )
    assert share_memory(800, SORTS, "streaming") == MemoryShares(
        400, key_bytes=50, cache_bytes=400, columns_bytes=400, scanned_columns_bytes=400, records_bytes=100
    )


def test_an_operator_that_does_not_take_sorted_input_is_as_live_in_backlog() -> None:
    assert strategy_for(DOES_NOT, "sorted") == "streaming"
    assert share_memory(800, DOES_NOT, "sorted") == share_memory(800, DOES_NOT, "streaming")


def test_a_map_task_folds_a_part_of_it_and_less_where_a_record_becomes_many_rows() -> None:
    assert slice_bytes(1000, SORTS) == 300
    assert slice_bytes(1000, OperatorAttributes(rows_per_record=4)) == 75
    assert slice_bytes(1, SORTS) == 1


def test_the_less_keys_repeat_the_more_pieces_a_slice_is_folded_in() -> None:
    assert [decide_pieces(part) for part in (0.0, 0.25, 0.26, 0.5, 0.51, 1.0)] == [1, 1, 2, 2, 3, SLICE_PIECES_MAX]


@given(
    managed_bytes=st.integers(2, 2**40), strategy=st.sampled_from(get_args(ExecutionStrategy)), supported=st.booleans()
)
def test_the_parts_are_positive_and_together_all_there_is(
    managed_bytes: int, strategy: ExecutionStrategy, supported: bool
) -> None:
    shares = share_memory(managed_bytes, OperatorAttributes(internal_sorter_supported=supported), strategy)
    assert min(shares.sort_bytes, shares.cache_bytes) > 0
    assert shares.sort_bytes + shares.cache_bytes == managed_bytes
    assert share_memory(managed_bytes, SORTS, "sorted").sort_bytes >= shares.sort_bytes
