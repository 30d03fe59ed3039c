"""The errors of a task that the driver raises."""

import sys
from collections.abc import Iterator

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.tasks.failures import decode_failure, report_failures


def test_a_function_that_ends_its_process_is_an_error_with_its_line() -> None:
    def batches(are_there: bool) -> Iterator[pa.RecordBatch]:
        if not are_there:
            sys.exit("no licence")
        yield pa.record_batch({})

    (batch,) = report_failures(batches(are_there=False), lambda failure: pa.record_batch([[failure]], ["failure"]))
    error = decode_failure(batch["failure"][0].as_py())
    assert isinstance(error, InvalidJobError)
    assert "raised=SystemExit: no licence, at=" in str(error)
    assert "test_failures.py:15 in batches" in str(error)
