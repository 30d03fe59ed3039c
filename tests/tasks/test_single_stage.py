"""When an epoch runs in one stage: pure. That it answers as two stages do is in test_direct.py."""

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.connectors.files.parquet_files import SLICE_BYTES
from mixedmode.tasks.single_stage import is_single_stage


@given(st.integers(0, 4 * SLICE_BYTES), st.integers(1, 64))
def test_all_subtasks_together_read_no_more_than_one_map_task(input_bytes: int, parallelism: int) -> None:
    assert is_single_stage(input_bytes, parallelism=parallelism) == (input_bytes <= SLICE_BYTES / parallelism)


def test_an_epoch_without_input_needs_no_map_tasks() -> None:
    assert is_single_stage(0, parallelism=32768)
