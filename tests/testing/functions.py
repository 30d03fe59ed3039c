"""Process functions that the tests of the harness try."""

from collections.abc import Iterator
from typing import Any

from mixedmode.process import KeyedProcessFunction, MapState, OperatorAttributes, RecordAttributes, Ttl, ValueState
from mixedmode.testing import FunctionHarness


class Totals(KeyedProcessFunction):
    """A running total per key; `step` is added to each record. Negative values are an error."""

    total = ValueState(int, default=0)

    def __init__(self, step: int = 0) -> None:
        self.step = step

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        self.total.value += record["v"] + self.step
        if record["v"] < 0:
            raise ValueError(record["v"])
        if record["v"] >= 100:
            context.output("large", {"k": record["k"], "v": record["v"]})
        yield {"k": record["k"], "total": self.total.value}


class Alarm(KeyedProcessFunction):
    """Registers a timer at the time in `at`: by event time, or by processing time if `by_clock`."""

    attributes = OperatorAttributes(uses_clock=True)

    seen = MapState(int, int)

    def process_element(self, record: Any, context: Any) -> None:
        if record["by_clock"]:
            context.timers.register_processing_time_timer(record["at"])
        else:
            context.timers.register_event_time_timer(record["at"])

    def on_timer(self, timestamp: int, context: Any) -> dict[str, Any]:
        return {"k": context.current_key, "at": timestamp, "domain": context.time_domain}


class Attributes(KeyedProcessFunction):
    """Says whether it is in backlog; forgets a key's first record after a while."""

    first = ValueState(int, ttl=Ttl("10s"))

    def process_record_attributes(self, attributes: RecordAttributes) -> None:
        self.said = attributes.is_backlog

    def process_element(self, record: Any, context: Any) -> dict[str, Any]:
        before = self.first.value
        if before is None:
            self.first.value = record["v"]
        said = getattr(self, "said", None)
        return {"k": record["k"], "first": before, "said": said, "is_backlog": context.is_backlog}


def totals(**more: Any) -> FunctionHarness:
    return FunctionHarness(
        Totals,
        key_by="k",
        schema="k string, v bigint",
        output="k string, total bigint",
        outputs={"large": "k string, v bigint"},
        **more,
    )


def alarms(**more: Any) -> FunctionHarness:
    return FunctionHarness(
        Alarm,
        key_by="k",
        schema="k string, at bigint, by_clock boolean, t timestamp",
        output="k string, at bigint, domain string",
        event_time="t",
        **more,
    )


def attributes(**more: Any) -> FunctionHarness:
    return FunctionHarness(
        Attributes,
        key_by="k",
        schema="k string, v bigint",
        output="k string, first bigint, said boolean, is_backlog boolean",
        **more,
    )
