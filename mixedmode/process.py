"""Process functions: custom code per key, with state and timers. Write a class, and name it in the job.

    from mixedmode.process import KeyedProcessFunction, MapState, Ttl, ValueState

    HOUR = 3_600_000_000  # times are microseconds since 1970

    class Clicks(KeyedProcessFunction):
        by_hour = MapState(int, int)                        # {end of the hour: clicks}; one map per key
        page = ValueState(str, default="?", ttl=Ttl("7d"))  # the latest page

        def process_element(self, record, context):         # record: {column: value}
            hour = context.timestamp // HOUR * HOUR + HOUR
            self.by_hour[hour] = self.by_hour.get(hour, 0) + 1
            self.page.value = record["page"]
            context.timers.register_event_time_timer(hour)  # one timer per hour, however often it is registered

        def on_timer(self, timestamp, context):             # the watermark has reached the hour
            clicks = self.by_hour.pop(timestamp)
            yield {"user": context.current_key, "hour": timestamp, "clicks": clicks, "page": self.page.value}

In a job file (`clicks.py` lies next to it):

    steps:
      - key-by: user
        process: clicks:Clicks
        output: user string, hour timestamp, clicks bigint, page string

and in Python: `job.key_by("user").process(Clicks, output="user string, hour timestamp, clicks bigint, page string")`.

Guarantees, in backlog and in live mode:
  * A call sees the state of one key only, `context.current_key`. State is saved with the contents that it has when the
    key's turn ends, so it is enough to change a list or a dataclass in place.
  * Within an epoch, the records of a key arrive in event-time order; then the timers of the key that are due fire, in
    time order. The backlog is one epoch, and its timers fire, key by key, up to the greatest watermark of the backlog.
    So when a timer fires, the function may already have seen later records. To get the same result in all modes, store
    data that belongs to a time under that time, as `by_hour` does.
  * There is one timer per key and time. Registering it again has no effect.
  * A method emits rows of the step's output: with `yield`, or by returning one row, a list of rows, or nothing.
    `context.output("tag", row)` emits a row to a side output.
  * An instance serves one subtask in one epoch. Keep data that must live longer in state; load models and tables in
    `open`.
  * A state type may be int, float, str, bytes, bool, datetime, date, time, timedelta, Decimal, UUID, an enum, `| None`,
    list, dict, tuple, set, a dataclass or a msgspec.Struct of these. A new version of the program may add a state, or
    a field with a default. The job refuses to start if a change would make stored state unreadable.

A `KeyedCoProcessFunction` is for a step with two inputs on one key, and a `CoGroupFunction` for both
inputs of a key and window as tables (docs/co-process.md).

A `MapFunction` is for a step without a key: it maps rows to rows, and keeps a list per subtask
(docs/map-functions.md). An `AsyncMapFunction` asks a service for an answer to each row (docs/async-map.md).

`mixedmode.testing` runs a function without Spark.
"""

from mixedmode.operators.async_map import AsyncMapFunction, RefusedRequestError, Request
from mixedmode.operators.co_group import CoGroupContext, CoGroupFunction
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.map import MapContext, MapFunction
from mixedmode.operators.process import (
    AggregatingState,
    BroadcastRows,
    Context,
    KeyedBatchProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListState,
    MapState,
    OpenContext,
    Record,
    RecordAttributes,
    ReducingState,
    Rows,
    Timers,
    Ttl,
    ValueState,
)
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

#: the value of `context.current_watermark` while there is no watermark yet
MIN_WATERMARK = MIN_TIME_US
#: the value of `context.current_watermark` in `on_timer` after the input has ended
MAX_WATERMARK = MAX_TIME_US

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "AggregatingState",
    "AsyncMapFunction",
    "BroadcastRows",
    "CoGroupContext",
    "CoGroupFunction",
    "Context",
    "KeyedBatchProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListState",
    "MapContext",
    "MapFunction",
    "MapState",
    "OpenContext",
    "OperatorAttributes",
    "Record",
    "RecordAttributes",
    "ReducingState",
    "RefusedRequestError",
    "Request",
    "Rows",
    "Timers",
    "Ttl",
    "ValueState",
]
