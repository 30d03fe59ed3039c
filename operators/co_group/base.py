"""The properties that the operators of a `co-group` step share."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.operators.classes import ClassSource
from mixedmode.operators.co_group.function import CoGroupFunction
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.process.failures import DEAD_LETTER_FIELDS, DEAD_LETTER_TAG, OnError
from mixedmode.operators.window.output import WINDOW_BOUNDS

__all__ = ["CoGroupBase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoGroupBase(JoinBase):
    """Calls `function` for each key and window.

    time_columns: the event-time column of each input, by index. function_fields: the columns of the function's rows.
    on_error: what happens to the rows of a key and window for which the function fails.
    """

    operator_id: str
    time_columns: tuple[int, int]
    function: ClassSource[CoGroupFunction]
    function_fields: tuple[pa.Field, ...]
    on_error: OnError = "fail"

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The bounds of the window, the key, and the columns of the function's rows."""
        return (*WINDOW_BOUNDS, *self.layout.key_schema.fields, *self.function_fields)

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The rows for which the function failed, if `on_error` is `dead-letter`."""
        return {DEAD_LETTER_TAG: DEAD_LETTER_FIELDS} if self.on_error == "dead-letter" else {}
