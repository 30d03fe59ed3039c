"""Sends errors from a task to the driver.

An error that mixedmode raises on purpose is final: a repeat of the task would raise it again, and Spark would hide it
among stack traces. So the task sends the error as data, and the driver raises the same error. Every other error, and
RetryableError, stays an exception of the task, and Spark runs the task again.
"""

import json
import logging
import traceback
from collections.abc import Callable, Iterator

import pyarrow as pa

from mixedmode import errors
from mixedmode.errors import InternalError, InvalidJobError, LeftToSparkError, MixedmodeError, RetryableError
from mixedmode.operators.process.failures import line_of, shown_error
from mixedmode.secrets import has_secrets, hidden

_logger = logging.getLogger(__name__)
_KINDS = {**{name: getattr(errors, name) for name in errors.__all__}, LeftToSparkError.__name__: LeftToSparkError}


def encode_failure(error: MixedmodeError) -> bytes:
    """Encode kind and message of an error as JSON, without values of the environment."""
    return json.dumps({"kind": type(error).__name__, "message": hidden(str(error))}).encode()


def decode_failure(failure: bytes) -> MixedmodeError:
    """Decode the error that `encode_failure` encoded; an unknown kind becomes InternalError."""
    parts = json.loads(failure)
    kind: type[MixedmodeError] = _KINDS.get(parts["kind"], InternalError)
    return kind(parts["message"])


def report_failures(
    batches: Iterator[pa.RecordBatch], as_batch: Callable[[bytes], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; if they raise a MixedmodeError, a last batch with it. Raise RetryableError again.

    Spark logs what is raised, with its causes, so they have no values of the environment.
    A SystemExit, which would end Spark's worker without a word, is an error of the code that raised it.
    """
    try:
        yield from batches
    except RetryableError as error:
        if has_secrets("".join(traceback.format_exception(error))):
            raise RetryableError(hidden(str(error))) from None
        raise
    except MixedmodeError as error:
        _logger.debug("a task ends with an error, which the driver raises without this traceback", exc_info=True)
        yield as_batch(encode_failure(error))
    except SystemExit as error:
        msg = (
            "a function of the job ended its process, and nothing of this epoch is committed. Raise an exception that "
            f"is no SystemExit, and start again. raised={shown_error(error)}, at={line_of(error, None)}"
        )
        yield as_batch(encode_failure(InvalidJobError(msg)))
