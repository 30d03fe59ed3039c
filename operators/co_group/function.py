"""The base class of functions over the rows of a key and window of two inputs."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mixedmode.operators.classes import ClassKind

__all__ = ["CO_GROUP_FUNCTION", "CoGroupContext", "CoGroupFunction"]


@dataclass(frozen=True, slots=True)
class CoGroupContext:
    """The key and the window of a call: [window_start, window_end), in microseconds since 1970 (UTC).

    current_key: the value of the key column; a tuple if there are several key columns.
    """

    current_key: Any
    window_start: int
    window_end: int


class CoGroupFunction:
    """Called once for each key and window that has a row, when the window is final. It keeps no state.

    A function object serves one subtask in one epoch.
    """

    def open(self) -> None:
        """Prepare the function, for example load a model. Called once, first."""

    def close(self) -> None:
        """Release resources. Called once at the end, also after a failure."""

    def co_group(self, left: pa.Table, right: pa.Table, context: CoGroupContext) -> Any:
        """Return what the step emits for a key and window: a table or frame with the columns of `output`, or rows.

        left, right: the rows of each input, with all of its columns, in the order of event time, then of the whole row.
        One of the two may be empty. Rows are {column: value} each; None for no rows.
        """
        del left, right, context
        msg = f"{type(self).__name__} has no method co_group. Write one"
        raise NotImplementedError(msg)


CO_GROUP_FUNCTION = ClassKind(
    noun="co-group function",
    key="class",
    bases=(CoGroupFunction,),
    derives_from="mixedmode.process.CoGroupFunction",
)
