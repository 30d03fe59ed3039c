"""Failures of calls: an error that names the request, or a dead letter for each row of a request that failed."""

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.operators.async_map.calls import AnswersMismatchError
from mixedmode.operators.async_map.function import Request
from mixedmode.operators.process.failures import first_of, line_of, short_json, shown_error
from mixedmode.operators.process.rows import RowMismatchError

__all__ = ["call_error", "lifecycle_error", "reason_of"]

_MISMATCHES = (AnswersMismatchError, RowMismatchError)


def reason_of(error: Exception, file: str | None) -> str:
    """Return why a request failed, for a dead letter.  file: the one that defines the function."""
    return f"{_what(error)} ({line_of(error, file)})" if _has_line(error) else _what(error)


def call_error(
    error: Exception, request: Request, requests_failed: int, *, operator_id: str, label: str, file: str | None
) -> InvalidJobError | RetryableError:
    """Return the error that ends the epoch: a RetryableError if the service could not be reached.

    label: `module:Class`.
    """
    values = {
        "operator": operator_id,
        "request": short_json(request),
        "idempotency_key": request.idempotency_key,
        "requests_failed": requests_failed,
    }
    if _has_line(error):
        values["at"] = line_of(error, file)
    kind = _kind(error)
    advice = "Correct the cause" if kind is InvalidJobError else "Make the service available"
    shown = ", ".join(f"{name}={value}" for name, value in values.items())
    msg = (
        f"{_what(error)}. Nothing of this epoch is committed, and its requests are sent again with the same keys. "
        f"{advice}, or set the step's `on-error` to skip or dead-letter, and start again. {shown}, class={label}, "
        "method=call"
    )
    return kind(msg.replace("\n", " "))


def lifecycle_error(
    error: Exception, *, operator_id: str, label: str, file: str | None, method: str
) -> InvalidJobError | RetryableError:
    """Return the error for a failure of a method that is not called with requests."""
    kind = _kind(error)
    advice = "Correct the class" if kind is InvalidJobError else "Make the service available, or correct the class,"
    msg = (
        f"the class of an async-map step raised {shown_error(error)} in `{method}`, which is called with no request, "
        f"so `on-error` does not apply. {advice} and start again. operator={operator_id}, "
        f"at={line_of(error, file)}, class={label}, method={method}"
    )
    return kind(msg.replace("\n", " "))


def _has_line(error: Exception) -> bool:
    """Return whether a line of code raised the error. An exception that was returned as an answer has none."""
    return error.__traceback__ is not None and not isinstance(error, _MISMATCHES)


def _kind(error: Exception) -> type[InvalidJobError | RetryableError]:
    """Return RetryableError if the service could not be reached. A TimeoutError is an OSError, too."""
    return RetryableError if isinstance(first_of(error), OSError) else InvalidJobError


def _what(error: Exception) -> str:
    if isinstance(error, AnswersMismatchError):
        return f"what `call` returned are no answers: {error}"
    if isinstance(error, RowMismatchError):
        return f"an answer does not match the step's output: {error}"
    return f"a call of the service failed: {shown_error(error)}"
