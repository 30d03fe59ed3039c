"""The error for a failing map function: it names operator, method, record and line."""

from collections.abc import Mapping
from typing import Any

from mixedmode.errors import InvalidJobError
from mixedmode.operators.map.items import ItemMismatchError
from mixedmode.operators.process.failures import line_of, short_json, shown_error
from mixedmode.operators.process.rows import RowMismatchError

__all__ = ["map_error"]


def map_error(
    error: Exception, *, operator_id: str, file: str | None, method: str, record: Mapping[str, Any] | None = None
) -> InvalidJobError:
    """Return the error that ends the epoch. `file` is the file that defines the function, as tracebacks name it."""
    values = {"operator": operator_id, "method": method}
    if record is not None:
        values["record"] = short_json(record)
    if isinstance(error, RowMismatchError):
        what = f"what the map function emitted does not match the step's output: {error}"
    elif isinstance(error, ItemMismatchError):
        what = f"the list of the map function cannot be stored: {error}"
    else:
        what = f"the map function raised {shown_error(error)}"
        values["at"] = line_of(error, file)
    msg = (
        f"{what}. Nothing of this epoch is committed. Correct the function and start again. "
        f"{', '.join(f'{name}={value}' for name, value in values.items())}"
    )
    return InvalidJobError(msg)
