"""When an epoch runs in one stage: pure. That it answers as two stages do is in test_direct.py."""

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.tasks.single_stage import INPUT_BYTES_MAX, is_single_stage


@given(st.integers(0, 4 * INPUT_BYTES_MAX), st.integers(1, 64))
def test_all_subtasks_together_read_no_more_than_the_limit(input_bytes: int, parallelism: int) -> None:
    assert is_single_stage(input_bytes, parallelism=parallelism) == (input_bytes <= INPUT_BYTES_MAX / parallelism)


def test_an_epoch_without_input_needs_no_map_tasks() -> None:
    assert is_single_stage(0, parallelism=32768)
