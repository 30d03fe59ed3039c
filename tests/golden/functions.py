"""The functions of the golden savepoints, as they were and as a later version of the program may have them.

Those of a savepoint that is kept must not change: what they stored is what later versions have to read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mixedmode.process import Context, KeyedProcessFunction, MapFunction, MapState, Record, ValueState

HOUR = 3_600_000_000


class Counted(MapFunction):
    """Lets all rows pass, and keeps how many they were: a list of one number per epoch and subtask."""

    redistribution = "split"
    item_type = int

    def restore(self, items: list[int]) -> None:
        self.counts = [*items, 0]

    def map_record(self, record: Record) -> Record:
        self.counts[-1] += 1
        return record

    def snapshot(self) -> list[int]:
        return self.counts


@dataclass
class Profile:
    """The known data of a user."""

    home: str
    visits: int = 0


class Visits(KeyedProcessFunction):
    """Counts a user's visits by the hour, and says how many they were when the hour is over; with the first shop."""

    profile = ValueState(Profile | None)
    by_hour = MapState(int, int)

    def process_element(self, record: Record, context: Context) -> None:
        assert context.timestamp is not None
        self.profile.value = self.profile.value or Profile(record["shop"])
        self.profile.value.visits += 1
        end = context.timestamp // HOUR * HOUR + HOUR
        self.by_hour[end] = self.by_hour.get(end, 0) + 1
        context.timers.register_event_time_timer(end)

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        assert self.profile.value is not None
        yield {"home": self.profile.value.home, "hour": timestamp // HOUR, "n": self.by_hour.pop(timestamp)}


@dataclass
class ProfileWithNote:
    """As Profile, and one field more."""

    home: str
    visits: int = 0
    note: str = ""


class VisitsWithNote(Visits):
    """A later version: its state has gained a field, and users who have come since are noted in what it gives."""

    profile = ValueState(ProfileWithNote | None)

    def process_element(self, record: Record, context: Context) -> None:
        assert context.timestamp is not None
        self.profile.value = self.profile.value or ProfileWithNote(record["shop"])
        self.profile.value.note = "again"
        super().process_element(record, context)

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        (row,) = super().on_timer(timestamp, context)
        yield {**row, "home": f"{row['home']}{self.profile.value.note}"}
