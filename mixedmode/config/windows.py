"""Windows: the division of a keyed step's records by time, or by number of records.

A window is the half-open interval [start, end) of event time: with `tumbling: 1h`, the record of 10:00 is in
[10:00, 11:00) and not in [09:00, 10:00). The single key of a `window` section selects the kind. The kind's main setting
may stand alone (`tumbling: 1h` is `tumbling: {size: 1h}`).
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from mixedmode.config.document import Path
from mixedmode.config.fields import Count, DurationMs, MainSetting, Section, SpanMs, TimeZone, key_of, refusal
from mixedmode.durations import format_duration_ms

#: columns that windows add to the result of a step
WINDOW_COLUMNS = ("window_start", "window_end", "window_number", "window_time")
#: limit on the windows of one record, since a small slide in a large window multiplies the work
WINDOWS_PER_RECORD_MAX = 10_000
_DAY_MS = 86_400_000


class _RepeatedWindows(MainSetting):
    """Windows of one length that begin at multiples of a duration. Each kind adds to `_findings`."""

    main: ClassVar[str] = "size_ms"

    size_ms: SpanMs = Field(description="length of a window")
    offset_ms: DurationMs = Field(
        default=0, description="by how much windows begin later than at multiples of their size since 1970"
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="windows of whole days begin at midnight here, such as Europe/Berlin; not given: UTC",
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.offset_ms >= self.size_ms:
            yield ("offset",), f" must be less than size, after which windows repeat. {self._spans('offset_ms')}"
        lengths = {name: value for name, value in self if name in {"size_ms", "slide_ms", "step_ms"}}
        if self.time_zone is not None and any(length_ms % _DAY_MS for length_ms in lengths.values()):
            text = (
                " is for windows of whole days, whose length differs from place to place and from day to day. "
                f"Remove it, or count in days. {self._spans(*lengths)}"
            )
            yield ("time-zone",), text

    def _count_findings(self, field_name: str) -> Iterator[tuple[Path, str]]:
        windows = -(-self.size_ms // getattr(self, field_name))  # rounded up: a size of 60m with a slide of 25m is 3
        if windows > WINDOWS_PER_RECORD_MAX:
            text = (
                f" puts every record into {windows} windows, and at most {WINDOWS_PER_RECORD_MAX} are possible. "
                f"Make it longer. {self._spans(field_name)}"
            )
            yield (key_of(field_name),), text

    def _spans(self, *names: str) -> str:
        spans = {key_of(name): format_duration_ms(getattr(self, name)) for name in ("size_ms", *names)}
        return ", ".join(f"{key}={span}" for key, span in spans.items())


class TumblingSpec(_RepeatedWindows):
    """Windows of one size that do not overlap: each record is in one."""


class SlidingSpec(_RepeatedWindows):
    """Windows of one size, of which one begins every slide. A record is in each window that covers it.

    Spark and Flink also call them hopping windows.
    """

    slide_ms: SpanMs = Field(description="time from the start of one window to the start of the next")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        if self.slide_ms > self.size_ms:
            text = (
                " is more than size, so records between two windows would be lost. Make it at most size. "
                f"{self._spans('slide_ms')}"
            )
            yield ("slide",), text
        yield from self._count_findings("slide_ms")


class CumulatingSpec(_RepeatedWindows):
    """Windows with a common start that end one step after each other, up to size; then the next group begins.

    Example with size 3h and step 1h: [0h, 1h), [0h, 2h), [0h, 3h), [3h, 4h), ...
    """

    step_ms: SpanMs = Field(description="time from the end of one window to the end of the next")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        if self.size_ms % self.step_ms:
            yield ("step",), f" must divide size, so that the last window is whole. {self._spans('step_ms')}"
        yield from self._count_findings("step_ms")


class SessionSpec(MainSetting):
    """Windows that end when a key has had no record for the gap. Their length depends on the records."""

    main: ClassVar[str] = "gap_ms"

    gap_ms: SpanMs = Field(description="a session ends when no record comes for this long")


class GlobalSpec(Section):
    """Windows of `count` records of a key, regardless of time. Each emits its row at its last record."""

    count: Count = Field(description="how many records of a key make one result")


class WindowSpec(Section):
    """The windows of a keyed step: exactly one kind, and whose time divides the records."""

    tumbling: TumblingSpec | None = Field(default=None, description="side by side, such as 1h")
    sliding: SlidingSpec | None = Field(default=None, description="overlapping, such as size: 1h, slide: 10m")
    session: SessionSpec | None = Field(default=None, description="until a gap in the records, such as 30m")
    cumulating: CumulatingSpec | None = Field(
        default=None, description="from one beginning, ever longer, such as size: 1d, step: 1h"
    )
    global_: GlobalSpec | None = Field(default=None, description="by a number of records, such as count: 100")
    time: Literal["event", "processing"] = Field(
        default="event",
        description="event: windows of event time; processing: a record is in the windows of the time at which its "
        "epoch begins",
    )

    @property
    def is_by_clock(self) -> bool:
        """True if processing time divides the records."""
        return self.time == "processing"

    @property
    def kind(self) -> TumblingSpec | SlidingSpec | SessionSpec | CumulatingSpec | GlobalSpec:
        """The kind that is set."""
        kind = self.tumbling or self.sliding or self.session or self.cumulating or self.global_
        assert kind is not None, "the validator has seen to it"
        return kind

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        given = _checked_kinds(self, [name for name in WindowSpec.model_fields if name != "time"])
        if self.is_by_clock and (self.session or self.global_):
            text = (
                ": windows of processing time are tumbling, sliding or cumulating. Use one of these, or remove it. "
                f"found={given[0]}"
            )
            raise refusal((("time",), text))
        return self


class EventWindowSpec(Section):
    """Windows of event time that end with time: exactly one kind."""

    tumbling: TumblingSpec | None = Field(default=None, description="side by side, such as 1h")
    sliding: SlidingSpec | None = Field(default=None, description="overlapping, such as size: 1h, slide: 10m")
    session: SessionSpec | None = Field(default=None, description="until a gap in the rows of both inputs, such as 30m")
    cumulating: CumulatingSpec | None = Field(
        default=None, description="from one beginning, ever longer, such as size: 1d, step: 1h"
    )

    @property
    def kind(self) -> TumblingSpec | SlidingSpec | SessionSpec | CumulatingSpec:
        """The kind that is set."""
        kind = self.tumbling or self.sliding or self.session or self.cumulating
        assert kind is not None, "the validator has seen to it"
        return kind

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        _checked_kinds(self, list(EventWindowSpec.model_fields))
        return self


def _checked_kinds(window: Section, kinds: Sequence[str]) -> list[str]:
    """Return the keys of the kinds that are set. Raise a refusal unless there is one."""
    given = [key_of(name) for name in kinds if getattr(window, name) is not None]
    if not given:
        known = ", ".join(map(key_of, kinds))
        raise refusal(((), f" names no kind of window. Give it one of {known}."))
    if len(given) > 1:
        raise refusal(((), f" names several kinds of window. Keep one. found={', '.join(given)}"))
    return given
