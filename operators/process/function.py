"""What a user writes: a class with methods that are called record by record, or key by key, and timer by timer.

A function object serves one subtask in one epoch, so what must outlive that is state. The same class runs in the
backlog and live, and cannot tell them apart unless it asks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process.context import Context, Record

Rows = (
    Record | Iterable[Record] | None
)  #: what a method may give: a row, several, none. One that yields is an Iterator[Record]


@dataclass(frozen=True, slots=True)
class RecordAttributes:
    """What is said about the records that follow. Source: FLIP-325, FLIP-327."""

    is_backlog: bool


@dataclass(frozen=True, slots=True)
class OpenContext:
    """Where a function object is about to work: the step's operator id, and whether its records are backlog."""

    operator_id: str
    is_backlog: bool


class _Function:
    """What both kinds of function have.

    `attributes` is what a class says about itself; one that registers processing-time timers says
    `attributes = OperatorAttributes(uses_clock=True)`, so that its job has epochs also when no records come.
    """

    attributes: ClassVar[OperatorAttributes] = OperatorAttributes()

    def open(self, context: OpenContext) -> None:
        """Called once, before anything else: the place to load a model or a table. There is no state here."""

    def close(self) -> None:
        """Called once at the end, also after a failure."""

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        """Called before the records of the first epoch and of those at which backlog begins or ends."""

    def on_timer(self, timestamp: int, context: Context) -> Rows:
        """A timer of the current key has been reached: its time in microseconds since 1970.

        Event-time timers fire when the watermark reaches them, after the records of their key; `context.time_domain`
        tells them from processing-time timers.
        """
        del timestamp, context
        msg = f"a timer was registered, but {type(self).__name__} has no method on_timer. Write one"
        raise NotImplementedError(msg)


class KeyedProcessFunction(_Function):
    """Called record by record. See mixedmode/process.py for an example."""

    def process_element(self, record: Record, context: Context) -> Rows:
        """One record of the current key: {column: value}.

        Within an epoch the records of a key come by event time; those of equal time in no certain order. Give back rows
        of the step's `output`, by `yield` or `return`, or nothing.
        """
        del record, context
        msg = f"{type(self).__name__} has no method process_element. Write one"
        raise NotImplementedError(msg)


class KeyedBatchProcessFunction(_Function):
    """Called once per key and epoch with all of the key's records, in the order of process_element.

    `rows_as` says what they come as: `arrow` (a pyarrow.Table) or `pandas` (a DataFrame).
    """

    rows_as: ClassVar[Literal["arrow", "pandas"]] = "arrow"

    def process_rows(self, rows: Any, context: Context) -> Any:
        """Give back a table or frame with the columns of the step's `output`, or rows as process_element does."""
        del rows, context
        msg = f"{type(self).__name__} has no method process_rows. Write one"
        raise NotImplementedError(msg)
