"""The process function that calls a class of Spark: for each record, and for each timer.

`init` of the class is called when an adapter is made; its errors are those of the job. Its other methods are called as
Spark calls them: handleInputRows by position, with the key as a tuple and an iterator over one row, and
handleExpiredTimer by name. The row of a call and the rows that it emits are made in rows.py.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process.context import Context, Record
from mixedmode.operators.process.function import AdaptedFunction, AnyFunction
from mixedmode.operators.process.states import State
from mixedmode.operators.spark_processor.handle import Handle
from mixedmode.operators.spark_processor.rows import RowForm, form_of
from mixedmode.operators.spark_processor.settings import ProcessorStep, TimeMode
from mixedmode.operators.spark_processor.states import Variable
from mixedmode.time import MIN_TIME_US

__all__ = ["ProcessorAdapter", "adapter_class"]


class ProcessorAdapter(AdaptedFunction):
    """Calls an object of a class of Spark.  step: has a time mode.  label: of the class."""

    def __init__(self, processor: StatefulProcessor, step: ProcessorStep, label: str) -> None:
        assert step.time_mode is not None, label
        self._processor = processor
        self._time_mode: TimeMode = step.time_mode
        self._form: RowForm = form_of(step)
        self._handle = Handle(self._time_mode, label)
        self._times = TimerValues(-1, -1)
        self._times_of = (-1, -1)  #: the clock and the watermark of `_times`, in microseconds
        _init(processor, self._handle, label)

    @override
    def declared(self) -> Mapping[str, State]:
        return self._handle.states

    @override
    def bind(self, name: str, handle: State) -> None:
        self._handle.bind(name, handle)

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The state variables of the class, by the names that it gave."""
        return self._handle.variables

    @property
    def time_mode(self) -> TimeMode:
        """The time mode of the step."""
        return self._time_mode

    @override
    def take_timer(self, timestamp: int) -> None:
        self._handle.timers.take(timestamp // 1000)

    @override
    def close(self) -> None:
        self._processor.close()

    @override
    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        self._handle.timers.begin(context)
        key, rows = self._form.input_of(record, context.current_key)
        result = self._processor.handleInputRows(key, iter([rows]), self._timer_values(context))
        yield from self._form.output_of(_iterated(result, "handleInputRows"))

    @override
    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        expiry_ms = timestamp // 1000
        self._handle.timers.begin(context, firing_ms=expiry_ms)
        result = self._processor.handleExpiredTimer(
            key=self._form.timer_key_of(context.current_key),
            timerValues=self._timer_values(context),
            expiredTimerInfo=ExpiredTimerInfo(expiry_ms),
        )
        yield from self._form.output_of(_iterated(result, "handleExpiredTimer"))

    def _timer_values(self, context: Context) -> TimerValues:
        """Return the clock and the watermark of the call. Spark's watermark is 0 at the start; without a mode, -1."""
        found = (context.processing_time, context.current_watermark)
        if self._time_mode != "None" and found != self._times_of:
            clock_us, watermark_us = self._times_of = found
            watermark_ms = 0 if watermark_us == MIN_TIME_US else max(watermark_us // 1000, 0)
            self._times = TimerValues(clock_us // 1000, watermark_ms)
        return self._times


@functools.cache
def adapter_class(processor: type, time_mode: TimeMode | None, label: str) -> type[AnyFunction]:
    """Return the adapter of a class of Spark, with the name and the file of the class, for messages.

    Raise InvalidJobError if the step lacks the time mode, or if the class has a method that nothing would call.
    """
    if time_mode is None:
        msg = (
            "this is a class of Spark, a StatefulProcessor, and which timers it registers is not in the class. Set "
            "the step's time-mode to the timeMode of its transformWithState: None, EventTime or ProcessingTime. "
            f"process={label}"
        )
        raise InvalidJobError(msg)
    if getattr(processor, "handleInitialState", None) is not StatefulProcessor.handleInitialState:
        msg = (
            "a job has no initial state, so handleInitialState of this class would never be called. Put the initial "
            "rows before the input as records, and remove the method, or derive a class that sets "
            f"`handleInitialState = StatefulProcessor.handleInitialState`. process={label}"
        )
        raise InvalidJobError(msg)
    attributes = OperatorAttributes(uses_clock=time_mode == "ProcessingTime")
    members = {"__module__": processor.__module__, "attributes": attributes}
    return type(processor.__name__, (ProcessorAdapter,), members)


def _init(processor: StatefulProcessor, handle: Handle, label: str) -> None:
    given: Any = handle
    try:
        processor.init(given)
    except InvalidJobError:
        raise
    except Exception as error:
        msg = (
            f"`init` of the class raised {type(error).__name__}: {error}. It is called when the job is checked, and in "
            f"each task. Correct it. process={label}"
        )
        raise InvalidJobError(msg) from error
    handle.close()


def _iterated(result: Any, method: str) -> Iterable[Any]:
    if not isinstance(result, Iterable):
        msg = f"{method} returns an iterator of rows, as in Spark; iter([]) is none. It returned {result!r:.100}"
        raise TypeError(msg)
    return result
