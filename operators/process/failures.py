"""Failures of a function: an error that names operator, key, record and line, or a dead letter.

Errors of the function are distinguished from errors below it. Damaged state, a full disk or a newer run are not faults
of the function. So such errors pass through, whatever the step's on-error says.
"""

import json
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from mixedmode.errors import CorruptStateError, FencedError, InternalError, InvalidJobError, RetryableError
from mixedmode.operators.process.codec import StateMismatchError
from mixedmode.operators.process.rows import RowMismatchError
from mixedmode.secrets import hidden
from mixedmode.time import shown_time

OnError = Literal["fail", "skip", "dead-letter"]

DEAD_LETTER_TAG = "dead-letter"  #: the side output of on-error: dead-letter
SKIPPED_TAG = "skipped"  #: the records that on-error: skip leaves out: same columns; counted, not written
DEAD_LETTER_FIELDS = (
    pa.field("operator", pa.string()),
    pa.field("key", pa.string()),
    pa.field("record", pa.string()),
    pa.field("error", pa.string()),
    pa.field("time", pa.timestamp("us", tz="UTC")),
)

#: errors that are not the fault of the function
PASSED_THROUGH = (CorruptStateError, FencedError, InternalError, RetryableError)

_FOUND_LATER = (RowMismatchError, StateMismatchError)  # found after the call, so no line of the function can be named
_SHORT = 300
_HERE = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function's method: the method, the key, the record (None for a timer), its time."""

    method: str
    key: Any
    record: Mapping[str, Any] | None = None
    timestamp: int | None = None


def function_error(error: Exception, *, operator_id: str, file: str | None, call: Call) -> InvalidJobError:
    """Return the error that ends the epoch. `file` is the file that defines the function, as tracebacks name it."""
    values = {"operator": operator_id, "method": call.method, "key": short_json(call.key)}
    if call.record is not None:
        values["record"] = short_json(call.record)
    if call.timestamp is not None:
        values["time"] = shown_time(call.timestamp)
    if not isinstance(error, _FOUND_LATER):
        values["at"] = line_of(error, file)
    msg = (
        f"{_what(error)}. Nothing of this epoch is committed. Correct the function, or set the step's `on-error` to "
        f"skip or dead-letter, and start again. {', '.join(f'{name}={value}' for name, value in values.items())}"
    )
    return InvalidJobError(msg)


def lifecycle_error(error: Exception, *, operator_id: str, file: str | None, method: str) -> InvalidJobError:
    """Return the error for a failure of a method that is not called for a key."""
    msg = (
        f"the process function raised {shown_error(error)} in `{method}`, which is called for no single record, so "
        "`on-error` does not apply. Correct the function and start again. "
        f"operator={operator_id}, method={method}, at={line_of(error, file)}"
    )
    return InvalidJobError(msg)


def dead_letter(error: Exception, *, operator_id: str, file: str | None, call: Call) -> dict[str, Any]:
    """Return a row of DEAD_LETTER_FIELDS: key and record as JSON, the error with its line, the call's time."""
    where = "" if isinstance(error, _FOUND_LATER) else f" ({line_of(error, file)})"
    return {
        "operator": operator_id,
        "key": as_json(call.key),
        "record": None if call.record is None else as_json(call.record),
        "error": f"{_what(error)}{where}",
        "time": call.timestamp,
    }


def line_of(error: BaseException, file: str | None) -> str:
    """Return `file:line in function` for an error.

    The line is the innermost line of the user's file; if there is none, the innermost line outside operators/. A group
    of errors has the line of its first one. The error that Python makes of a StopIteration has only the line of that.
    """
    first = first_of(error)
    raised = [one for one in (first.__cause__, first) if one is not None]
    frames = [frame for one in raised for frame in traceback.extract_tb(one.__traceback__)]
    own = [frame for frame in frames if frame.filename == file]
    others = [frame for frame in frames if not frame.filename.startswith(_HERE)]
    found = own or others
    return f"{found[-1].filename}:{found[-1].lineno} in {found[-1].name}" if found else "unknown"


def _what(error: Exception) -> str:
    if isinstance(error, RowMismatchError):
        return f"what the process function emitted does not match the step's output: {error}"
    if isinstance(error, StateMismatchError):
        return f"what the process function left in its state cannot be stored: {error}"
    return f"the process function raised {shown_error(error)}"


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group of errors, such as a TaskGroup raises; any other error itself."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def shown_error(error: BaseException) -> str:
    """Return the class and the text of an error, and those of the first error of a group.

    The text is without values of the environment.
    """
    name, first = type(error).__name__, first_of(error)
    try:
        text = hidden(str(error)).encode(errors="backslashreplace").decode()  # half a surrogate pair cannot be stored
    except Exception as failure:  # noqa: BLE001  # a class of the user
        text = f"its text cannot be shown, because __str__ raised {type(failure).__name__}"
    shown = f"{name}: {text:.{_SHORT}}" if text else name
    return shown if first is error else f"{shown}, first {shown_error(first)}"


def as_json(value: Any) -> str:
    """Return a value as JSON. Bytes become hex; values that JSON does not support, such as NaN, become text."""
    try:
        return json.dumps(value, default=_as_text, ensure_ascii=False, allow_nan=False)
    except ValueError:  # for NaN and the infinities, which `default` is not asked for
        return json.dumps(_finite(value), default=_as_text, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    """Return a value with the texts NaN, Infinity and -Infinity in place of numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def short_json(value: Any) -> str:
    """Return a value as JSON, truncated if it is long."""
    text = as_json(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
