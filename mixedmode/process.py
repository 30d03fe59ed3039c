"""Process functions: your own code per key, with state and timers. Write a class, name it in the job, done.

    from mixedmode.process import KeyedProcessFunction, MapState, Ttl, ValueState

    HOUR = 3_600_000_000  # times are microseconds since 1970

    class Clicks(KeyedProcessFunction):
        by_hour = MapState(int, int)                        # {end of the hour: clicks}; each key has its own
        page = ValueState(str, default="?", ttl=Ttl("7d"))  # the latest one

        def process_element(self, record, context):         # record: {column: value}
            hour = context.timestamp // HOUR * HOUR + HOUR
            self.by_hour[hour] = self.by_hour.get(hour, 0) + 1
            self.page.value = record["page"]
            context.timers.register_event_time_timer(hour)  # once per hour, however often

        def on_timer(self, timestamp, context):             # the watermark has reached the hour
            clicks = self.by_hour.pop(timestamp)
            yield {"user": context.current_key, "hour": timestamp, "clicks": clicks, "page": self.page.value}

In a job file (`clicks.py` lies next to it):

    steps:
      - key-by: user
        process: clicks:Clicks
        output: user string, hour timestamp, clicks bigint, page string

and in Python: `job.key_by("user").process(Clicks, output="user string, hour timestamp, clicks bigint, page string")`.

What holds, in backlog and live:
  * A call sees the state of one key, `context.current_key`, and nobody else's. State is what it holds when the key's
    turn ends; changing a list or a dataclass in place is enough.
  * Within an epoch, a key's records come in event-time order, then its timers that are due, in time order. The backlog
    is one epoch, and its timers fire, key by key, up to its greatest watermark. So when a timer fires, later records
    may have been seen already: keep what belongs to a time under that time, as `by_hour` does, and all modes agree.
  * There is one timer per key and time; registering it again changes nothing.
  * A method gives rows of the step's output: with `yield`, or by returning one row, a list of rows, or nothing.
    `context.output("tag", row)` gives one to a side output.
  * An object serves one subtask in one epoch. What must last longer is state; `open` is for models and tables.
  * A state type may be int, float, str, bytes, bool, datetime, date, time, timedelta, Decimal, UUID, an enum, `| None`,
    list, dict, tuple, set, a dataclass or a msgspec.Struct of these. Between versions of the program a new state, and a
    new field with a default, are fine; what could not be read is refused at the start.

A `MapFunction` is for a step without a key: rows in, rows out, with a list per subtask. See docs/map-functions.md.

To try a function without Spark, see `mixedmode.testing`.
"""

from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.map import MapContext, MapFunction
from mixedmode.operators.process import (
    AggregatingState,
    Context,
    KeyedBatchProcessFunction,
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

#: `context.current_watermark` before there is one
MIN_WATERMARK = MIN_TIME_US
#: `context.current_watermark` in on_timer once the input has ended
MAX_WATERMARK = MAX_TIME_US

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "AggregatingState",
    "Context",
    "KeyedBatchProcessFunction",
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
    "Rows",
    "Timers",
    "Ttl",
    "ValueState",
]
