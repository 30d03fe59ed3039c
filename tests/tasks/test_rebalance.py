"""The exchange before a map stage: whatever the batches of a task, its rows arrive whole and in order."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import gathered
from mixedmode.tasks.rebalance import deal


@given(
    st.lists(st.integers(0, 50), max_size=6),
    st.integers(1, 5),
    st.integers(0, 7),
    st.sampled_from([64, 400, 8 * 1024 * 1024]),
)
def test_the_rows_of_a_task_go_to_one_subtask_each_in_order(
    sizes: list[int], parallelism: int, task: int, slice_bytes: int
) -> None:
    """I1 and I2, for any size of batches and slices."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    batches = [
        pa.record_batch({"n": pa.array(range(start, start + size), pa.int64())})
        for start, size in zip(starts, sizes, strict=True)
    ]
    tables = gathered(iter(batches), slice_bytes * parallelism)
    dealt_out = deal(tables, task=task, parallelism=parallelism, turn=task)
    blocks = [batch.to_pylist()[0] for batch in dealt_out]
    assert {block["task"] for block in blocks} <= {task}
    assert [block["number"] for block in blocks] == list(range(len(blocks)))
    arrived = []
    for subtask in range(parallelism):
        own = [decode_block(block["block"])["n"].to_pylist() for block in blocks if block["subtask"] == subtask]
        rows = [number for piece in own for number in piece]
        assert rows == sorted(rows)
        arrived += rows
    assert sorted(arrived) == list(range(sum(sizes)))
