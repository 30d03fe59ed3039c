"""Of a table, the driver gets as much as shows that it is too large, and no more."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from mixedmode.tasks.first_bytes import FirstBytes


@pytest.mark.parametrize(("bytes_max", "passed"), [(0, 1), (79, 1), (80, 2), (239, 3), (240, 4), (320, 4), (10**6, 4)])
def test_batches_pass_until_they_have_more_bytes(bytes_max: int, passed: int) -> None:
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            asked.append(number)
            yield pa.record_batch({"n": pa.array([number] * 10, pa.int64())})  # of 80 bytes

    found = list(FirstBytes(bytes_max)(batches()))
    assert [batch.column(0)[0].as_py() for batch in found] == asked == list(range(passed))
