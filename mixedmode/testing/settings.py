"""The settings for all epochs of a harness, and the accepted forms of times and durations."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, Self, TypedDict

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.execution import MAX_PARALLELISM_LIMIT
from mixedmode.config.fields import Count, DurationMs, Flag, PositiveBytes, Section, parsed_by
from mixedmode.config.load import checked_section
from mixedmode.connectors.calls import Duration, Size, argument_at, given_arguments
from mixedmode.durations import parse_duration_ms
from mixedmode.errors import InvalidJobError
from mixedmode.operators.spark_processor import RowsAs, TimeMode
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

#: microseconds since 1970, or a datetime (one without a zone is UTC)
Instant = int | datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class HarnessArguments(TypedDict, total=False):
    """Arguments of every harness. Those that a job has, too, have the same names and spellings there.

    parallelism (default 1): the number of subtasks that share the keys.
    max_parallelism (128): the number of key groups.
    out_of_orderness (not set): how far the watermark stays behind the greatest event time. If it is not set, only
        `advance_watermark` and the argument `watermark` of `feed` move the watermark.
    clock (0): processing time of the first epoch, in microseconds since 1970 or a datetime.
    backlog (False): records are collected until `flip()`.
    end_of_key_watermark ("greatest"), backlog_emit ("final"): as in a job.
    sort_memory ("64MB"): rows beyond this size are sorted on disk.
    slices (1): the number of tasks that share the map side.
    """

    parallelism: int
    max_parallelism: int
    out_of_orderness: Duration
    clock: Instant
    backlog: bool
    end_of_key_watermark: Literal["greatest", "max"]
    backlog_emit: Literal["final", "all"]
    sort_memory: Size
    slices: int


class FunctionArguments(HarnessArguments, total=False):
    """Arguments of FunctionHarness for a StatefulProcessor of Spark, as in a job."""

    time_mode: TimeMode
    rows_as: RowsAs


def parse_instant_us(time: object) -> int:
    """Return microseconds since 1970. Raise InvalidJobError for anything but a time in 64 bits."""
    if isinstance(time, datetime):
        return ((time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if type(time) is not int or not MIN_TIME_US <= time <= MAX_TIME_US:
        msg = f"this is no time. Give microseconds since 1970 as an int, or a datetime. found={time!r}"
        raise InvalidJobError(msg)
    return time


class Settings(Section):
    """Checked HarnessArguments. `out_of_orderness_ms` is None if the watermark does not follow the records."""

    parallelism: Count = 1
    max_parallelism: Annotated[Count, Field(le=MAX_PARALLELISM_LIMIT)] = 128  # as in a job that does not set it
    out_of_orderness_ms: DurationMs | None = None
    clock: Annotated[int, parsed_by(parse_instant_us)] = 0
    backlog: Flag = False
    end_of_key_watermark: Literal["greatest", "max"] = "greatest"
    backlog_emit: Literal["final", "all"] = "final"
    sort_memory_bytes: PositiveBytes = 64 * 2**20
    slices: Count = 1

    @classmethod
    def of(cls, given: HarnessArguments, *, where: str) -> Self:
        """Return the checked settings.

        Raises InvalidJobError with all wrong arguments, and TypeError for an unknown argument.
        """
        arguments = given_arguments(given, HarnessArguments, where)
        values = {name.replace("_", "-"): value for name, value in arguments.items()}
        return checked_section(cls, values, place=where, name=lambda path: argument_at(path, {}))

    def at(self, parallelism: int | None, *, where: str) -> Self:
        """Return the settings with another parallelism, if it is not None. Raises InvalidJobError for a wrong one."""
        if parallelism is None:
            return self
        found = self.of({"parallelism": parallelism, "max_parallelism": self.max_parallelism}, where=where)
        return self.model_copy(update={"parallelism": found.parallelism})

    @property
    def out_of_orderness_us(self) -> int | None:
        """The same in microseconds, as event times are."""
        return None if self.out_of_orderness_ms is None else 1000 * self.out_of_orderness_ms

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.parallelism > self.max_parallelism:
            text = (
                " is more than the number of key groups, so some subtasks would never receive data. Lower it, or raise "
                f"max_parallelism. found={self.parallelism}, max_parallelism={self.max_parallelism}"
            )
            yield ("parallelism",), text


def instant_us(time: Instant, *, where: str) -> int:
    """Return microseconds since 1970.

    Raises InvalidJobError, beginning with `where`, for anything but a time in 64 bits.
    """
    return _placed(parse_instant_us, time, where)


def duration_ms(duration: Duration, *, where: str) -> int:
    """Return the milliseconds of a duration as in a job. Raises InvalidJobError, beginning with `where`."""
    return _placed(parse_duration_ms, duration, where)


def one_of(found: str, known: tuple[str, ...], *, where: str) -> str:
    """Return `found`, which must be one of `known`. Raises InvalidJobError, beginning with `where`."""
    if found not in known:
        msg = f"{where} must be one of {', '.join(known)}. found={found}"
        raise InvalidJobError(msg)
    return found


def _placed(parse: Callable[[object], int], value: object, where: str) -> int:
    try:
        return parse(value)
    except InvalidJobError as error:
        msg = f"{where}: {error}"
        raise InvalidJobError(msg) from error
