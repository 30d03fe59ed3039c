"""The settings for all epochs of a harness, and the accepted forms of times and durations."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, TypedDict

from mixedmode.config.values import parse_bytes
from mixedmode.connectors.calls import Duration, Size
from mixedmode.durations import parse_duration_ms
from mixedmode.errors import InvalidJobError
from mixedmode.keys.groups import check_parallelism
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

#: microseconds since 1970, or a datetime (one without a zone is UTC)
Instant = int | datetime

_DEFAULTS: dict[str, Any] = {
    "parallelism": 1,
    "max_parallelism": 128,  # as in a job that does not set it
    "out_of_orderness": None,
    "clock": 0,
    "backlog": False,
    "end_of_key_watermark": "greatest",
    "backlog_emit": "final",
    "sort_memory": "64MB",
    "slices": 1,
}

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


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked HarnessArguments. `out_of_orderness_us` is None if the watermark does not follow the records."""

    parallelism: int
    max_parallelism: int
    out_of_orderness_us: int | None
    clock_ms: int
    is_backlog: bool
    end_of_key_watermark: str
    backlog_emit: str
    sort_memory_bytes: int
    slices: int

    @classmethod
    def of(cls, given: HarnessArguments, *, where: str) -> Self:
        """Return the checked settings.

        Raises InvalidJobError that names the wrong argument, and TypeError for an unknown argument.
        """
        values: dict[str, Any] = {**_DEFAULTS, **given}
        unknown = next((name for name in values if name not in HarnessArguments.__annotations__), None)
        if unknown is not None:
            msg = f"{where}() got an unexpected keyword argument {unknown!r}"
            raise TypeError(msg)  # as Python does where the signature lists the arguments
        bound = values["out_of_orderness"]
        bound_ms = None if bound is None else duration_ms(bound, where=f"{where}: out_of_orderness")
        end, emit = values["end_of_key_watermark"], values["backlog_emit"]
        settings = cls(
            parallelism=values["parallelism"],
            max_parallelism=values["max_parallelism"],
            out_of_orderness_us=None if bound_ms is None else 1000 * bound_ms,
            clock_ms=instant_us(values["clock"], where=f"{where}: clock") // 1000,
            is_backlog=values["backlog"],
            end_of_key_watermark=one_of(end, ("greatest", "max"), where=f"{where}: end_of_key_watermark"),
            backlog_emit=one_of(emit, ("final", "all"), where=f"{where}: backlog_emit"),
            sort_memory_bytes=max(1, _placed(parse_bytes, values["sort_memory"], f"{where}: sort_memory")),
            slices=values["slices"],
        )
        check_parallelism(settings.parallelism, settings.max_parallelism)
        if settings.slices < 1:
            msg = f"{where}: without a map task no record arrives. Set slices to 1 or more. slices={settings.slices}"
            raise InvalidJobError(msg)
        return settings


def instant_us(time: Instant, *, where: str) -> int:
    """Return microseconds since 1970.

    Raises InvalidJobError, beginning with `where`, for anything but a time in 64 bits.
    """
    if isinstance(time, datetime):
        return ((time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if type(time) is not int or not MIN_TIME_US <= time <= MAX_TIME_US:
        msg = f"{where}: this is no time. Give microseconds since 1970 as an int, or a datetime. found={time!r}"
        raise InvalidJobError(msg)
    return time


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
