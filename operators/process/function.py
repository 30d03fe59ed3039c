"""Base classes of process functions. Their methods are called per record or per key, and per timer.

A function object serves one subtask in one epoch. Data that must outlive the epoch belongs into state. The same class
runs in the backlog and live; `Context.is_backlog` tells them apart.
"""

from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mixedmode.operators.classes import ClassKind
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process.context import Context, Record
from mixedmode.operators.process.states import State

Rows = (
    Record | Iterable[Record] | None
)  #: the rows that a method emits: one, several or none. A method that yields returns an Iterator[Record]


@dataclass(frozen=True, slots=True)
class RecordAttributes:
    """Attributes of the records that follow. Source: FLIP-325, FLIP-327."""

    is_backlog: bool


@dataclass(frozen=True, slots=True)
class OpenContext:
    """The environment of a function object: the step's operator id, and whether its records are backlog."""

    operator_id: str
    is_backlog: bool


class _Function:
    """The common methods of both kinds of function.

    `attributes` declares properties of a class. A class that registers processing-time timers declares
    `attributes = OperatorAttributes(uses_clock=True)`, so that its job has epochs even when no records arrive.
    """

    attributes: ClassVar[OperatorAttributes] = OperatorAttributes()

    def open(self, context: OpenContext) -> None:
        """Prepare the function, for example load a model or a table. Called once, first. State is not available."""

    def close(self) -> None:
        """Release resources. Called once at the end, also after a failure."""

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        """Learn the attributes of the records. Called before the first epoch, and when the backlog begins or ends."""

    def on_timer(self, timestamp: int, context: Context) -> Rows:
        """Handle a timer of the current key that fires at `timestamp`, in microseconds since 1970 (UTC).

        Event-time timers fire when the watermark reaches them, after the records of their key.
        `context.time_domain` distinguishes them from processing-time timers.
        """
        del timestamp, context
        msg = f"a timer was registered, but {type(self).__name__} has no method on_timer. Write one"
        raise NotImplementedError(msg)


class KeyedProcessFunction(_Function):
    """Called record by record. See mixedmode/process.py for an example."""

    def process_element(self, record: Record, context: Context) -> Rows:
        """Process one record of the current key, {column: value}, and emit rows of the step's `output`.

        Emit rows by `yield` or `return`; return None for no rows. Within an epoch, the records of a key come in
        event-time order. The order of records with equal time is undefined.
        """
        del record, context
        msg = f"{type(self).__name__} has no method process_element. Write one"
        raise NotImplementedError(msg)


class KeyedCoProcessFunction(_Function):
    """Called record by record with the records of two inputs. See docs/co-process.md for an example."""

    def process_left(self, record: Record, context: Context) -> Rows:
        """Process one record of the left of the current key, as KeyedProcessFunction.process_element does.

        Within an epoch, the records of both inputs of a key come together in event-time order; of equal times, those of
        the left come first. The order of records of one input with equal time is undefined.
        """
        del record, context
        msg = f"{type(self).__name__} has no method process_left. Write one"
        raise NotImplementedError(msg)

    def process_right(self, record: Record, context: Context) -> Rows:
        """Process one record of the right of the current key; see process_left."""
        del record, context
        msg = f"{type(self).__name__} has no method process_right. Write one"
        raise NotImplementedError(msg)


class KeyedBatchProcessFunction(_Function):
    """Called once per key and epoch with all of the key's records, in the order of process_element.

    `rows_as` is the form of the records: `arrow` (a pyarrow.Table) or `pandas` (a DataFrame).
    """

    rows_as: ClassVar[Literal["arrow", "pandas"]] = "arrow"

    def process_rows(self, rows: Any, context: Context) -> Any:
        """Return a table or frame with the columns of the step's `output`, or emit rows as process_element does."""
        del rows, context
        msg = f"{type(self).__name__} has no method process_rows. Write one"
        raise NotImplementedError(msg)


class AdaptedFunction(KeyedProcessFunction, ABC):
    """A function that calls an object of another program's class, which declares its states by itself."""

    @abstractmethod
    def declared(self) -> Mapping[str, State]:
        """Return the states by name, as ProcessOperator.states has them of the attributes of other functions."""

    @abstractmethod
    def bind(self, name: str, handle: State) -> None:
        """Use this handle as the state `name` from now on."""

    @abstractmethod
    def take_timer(self, timestamp: int) -> None:
        """Note that a timer of the current key is used up. Called before `on_timer`, and kept if that fails."""


class SparkProcessor(metaclass=ABCMeta):  # noqa: B024 - it is asked for by issubclass only
    """Stand-in for Spark's class StatefulProcessor: all classes that derive from that are of this class, too.

    So a class can be recognised without an import of pyspark.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if cls is not SparkProcessor:
            return NotImplemented
        return any((one.__module__, one.__qualname__) == _STATEFUL_PROCESSOR for one in other.__mro__)


_STATEFUL_PROCESSOR = ("pyspark.sql.streaming.stateful_processor", "StatefulProcessor")

_ADAPTED: Any = SparkProcessor  # operators/spark_processor makes a function of it

AnyFunction = KeyedProcessFunction | KeyedBatchProcessFunction | KeyedCoProcessFunction

PROCESS_FUNCTION: ClassKind[AnyFunction] = ClassKind(
    noun="process function",
    key="process",
    bases=(KeyedProcessFunction, KeyedBatchProcessFunction, _ADAPTED),
    derives_from="mixedmode.process.KeyedProcessFunction or KeyedBatchProcessFunction, or Spark's StatefulProcessor",
)
CO_PROCESS_FUNCTION: ClassKind[AnyFunction] = ClassKind(
    noun="co-process function",
    key="class",
    bases=(KeyedCoProcessFunction,),
    derives_from="mixedmode.process.KeyedCoProcessFunction",
)
