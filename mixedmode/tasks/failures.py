"""Errors on their way from a task to the driver.

An error that mixedmode raises on purpose is final: running the task again would raise it again, and Spark would bury
it in stack traces. So a task sends it as data, and the driver raises it as what it was. Everything else stays an
exception of the task, which Spark retries.
"""

import json
from collections.abc import Callable, Iterator

import pyarrow as pa

from mixedmode import errors
from mixedmode.errors import InternalError, MixedmodeError, RetryableError

_KINDS = {name: getattr(errors, name) for name in errors.__all__}


def encode_failure(error: MixedmodeError) -> bytes:
    """Kind and message."""
    return json.dumps({"kind": type(error).__name__, "message": str(error)}).encode()


def decode_failure(failure: bytes) -> MixedmodeError:
    """Inverse of `encode_failure`."""
    parts = json.loads(failure)
    kind: type[MixedmodeError] = _KINDS.get(parts["kind"], InternalError)
    return kind(parts["message"])


def report_failures(
    batches: Iterator[pa.RecordBatch], as_batch: Callable[[bytes], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches, and a last one that holds the error if one of our kinds is raised. RetryableErrors stay errors."""
    try:
        yield from batches
    except RetryableError:
        raise
    except MixedmodeError as error:
        yield as_batch(encode_failure(error))
