"""The errors of a task that the driver raises."""

import sys
import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.operators.process.failures import shown_error
from mixedmode.secrets import resolve
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
    assert "test_failures.py:19 in batches" in str(error)


@pytest.mark.parametrize("kind", [InvalidJobError, RetryableError])
def test_an_error_of_a_task_shows_no_value_of_the_environment(
    kind: type[MixedmodeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2-of-tasks")
    token = resolve("${env:SERVICE_TOKEN}")

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[b""]], ["failure"])
        cause = ConnectionError(token)
        msg = f"the service refuses {shown_error(cause)}, {token}"
        raise kind(msg) from cause

    found: list[pa.RecordBatch] = []
    try:
        found += report_failures(batches(), lambda failure: pa.record_batch([[failure]], ["failure"]))
        shown = str(decode_failure(found[-1]["failure"][0].as_py()))
    except RetryableError as error:
        shown = "".join(traceback.format_exception(error))  # as Spark logs it
    assert token not in shown
    assert "the service refuses ConnectionError: ${env:SERVICE_TOKEN}, ${env:SERVICE_TOKEN}" in shown
