"""Process functions whose state tests read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mixedmode.process import KeyedProcessFunction, ListState, MapState, Ttl, ValueState


@dataclass
class Profile:
    """A record with an optional field."""

    first: int
    nick: str | None = None


class Everything(KeyedProcessFunction):
    """Keeps a value, a record, a list, a map and a timer per key; `brief` expires after a second."""

    total = ValueState(int, default=0)
    profile = ValueState(Profile)
    seen = ListState(int)
    by_value = MapState(int, str)
    other = MapState(str, list[float])
    brief = ValueState(int, ttl=Ttl("1s"))

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        value = record["v"]
        self.total.value += value
        if self.profile.value is None:
            self.profile.value = Profile(value)
        self.seen.append(value)
        self.by_value[value] = str(value)
        self.other["x"] = [value / 2]
        if value == 1:
            self.brief.value = 7
        context.timers.register_event_time_timer(context.timestamp + 60_000_000)
        yield {"k": record["k"], "total": self.total.value}

    def on_timer(self, timestamp: int, context: Any) -> None:
        """Do nothing."""
