"""Windows: how the records of a keyed step are cut into pieces of time, or of a number of records.

A window is the half-open interval [start, end) of event time. Its kind is the one key that a `window` section has; the
kind's main setting may stand alone (`tumbling: 1h` is `tumbling: {size: 1h}`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mixedmode.config.document import Path
from mixedmode.config.fields import Count, DurationMs, Section, SpanMs, TimeZone, key_of, refusal
from mixedmode.durations import format_duration_ms

#: columns that the windows of a step add to its result
WINDOW_COLUMNS = ("window_start", "window_end", "window_number")
#: a record is counted in each of its windows, so a small slide in a large window multiplies the work
WINDOWS_PER_RECORD_MAX = 10_000
_DAY_MS = 86_400_000


class _MainSetting(Section):
    """A section whose main setting may stand in its place, and does when it is all there is."""

    main: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _main_alone(cls, data: Any) -> Any:
        if isinstance(data, Mapping | Section | None):
            return data
        return {key_of(cls.main): data}

    @model_serializer(mode="wrap")
    def _as_main(self, handler: SerializerFunctionWrapHandler) -> Any:
        given = handler(self)
        return given[key_of(self.main)] if list(given) == [key_of(self.main)] else given


class _RepeatedWindows(_MainSetting):
    """Windows of one length that begin at multiples of some duration; each kind adds to `_findings`."""

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
        windows = -(-self.size_ms // getattr(self, field_name))
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
    """Windows side by side: each record is in one."""


class SlidingSpec(_RepeatedWindows):
    """Windows of one size, a new one every slide: a record is in each that covers it. Spark and Flink also: hopping."""

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
    """Windows that begin together and end a step after each other, up to size; then the next ones begin."""

    step_ms: SpanMs = Field(description="time from the end of one window to the end of the next")

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        if self.size_ms % self.step_ms:
            yield ("step",), f" must divide size, so that the last window is whole. {self._spans('step_ms')}"
        yield from self._count_findings("step_ms")


class SessionSpec(_MainSetting):
    """Windows that end when a key has had no record for a while: their length follows the records."""

    main: ClassVar[str] = "gap_ms"

    gap_ms: SpanMs = Field(description="a session ends when no record comes for this long")


class GlobalSpec(Section):
    """All records of a key, given and begun anew at every count-th one, whenever they happened."""

    count: Count = Field(description="how many records of a key make one result")


class WindowSpec(Section):
    """The windows of a keyed step: exactly one kind."""

    tumbling: TumblingSpec | None = Field(default=None, description="side by side, such as 1h")
    sliding: SlidingSpec | None = Field(default=None, description="overlapping, such as size: 1h, slide: 10m")
    session: SessionSpec | None = Field(default=None, description="until a gap in the records, such as 30m")
    cumulating: CumulatingSpec | None = Field(
        default=None, description="from one beginning, ever longer, such as size: 1d, step: 1h"
    )
    global_: GlobalSpec | None = Field(default=None, description="by a number of records, such as count: 100")

    @property
    def kind(self) -> TumblingSpec | SlidingSpec | SessionSpec | CumulatingSpec | GlobalSpec:
        """The one that is given."""
        kind = self.tumbling or self.sliding or self.session or self.cumulating or self.global_
        assert kind is not None, "the validator has seen to it"
        return kind

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        given = [key_of(name) for name, kind in self if kind is not None]
        if not given:
            kinds = ", ".join(key_of(name) for name in WindowSpec.model_fields)
            raise refusal(((), f" names no kind of window. Give it one of {kinds}."))
        if len(given) > 1:
            raise refusal(((), f" names several kinds of window. Keep one. found={', '.join(given)}"))
        return self
