"""The parts of a keyed step in Python: keys, then optional windows and an aggregate, or another kind of step.

job.key_by("origin").aggregate(flights="count(*)")
job.key_by("origin").window(sliding="1h", slide="10m", allowed_lateness="5m").aggregate(flights="count(*)")
job.window(tumbling="1d", time_zone="Europe/Berlin").aggregate(flights="count(*)")
job.key_by("origin").process("delays:WorstOfDay", output="origin string, worst long", args={"above": 15})
job.key_by("ip").async_map("geo:Locate", output="country string", remember="30d")
job.key_by("auction").top(10, order_by=["price desc", "bidder"])
job.key_by("bidder", "auction").deduplicate(keep="first", tie_break="seq")
job.key_by("id").apply_changes(sequence_by="lsn", delete_when="op = 'd'", except_columns=["op", "lsn"])
job.key_by("auction").over(before="lag(price)", mean="avg(price) rows between 9 preceding and current row")
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Generic, Literal, Protocol, Self, TypedDict, TypeVar, Unpack

from mixedmode.config.calls import AggregateCall
from mixedmode.config.load import checked_section, resolve_step
from mixedmode.config.over_calls import OverCall
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import DeduplicateStep, KeyedAggregateStep, KeyedInput, OverStep, ProcessStep, Step, TopStep
from mixedmode.connectors.calls import Duration, FileName, PlainValue, given_arguments, nested
from mixedmode.errors import InvalidJobError
from mixedmode.job.apply_changes import ApplyChangesArguments, apply_changes_step
from mixedmode.job.arguments import argument
from mixedmode.job.async_maps import AsyncMapArguments, async_map_step
from mixedmode.job.broadcasts import Broadcast
from mixedmode.job.process_arguments import ProcessArguments, process_settings
from mixedmode.operators.classes import class_reference


class TakesSteps(Protocol):
    """A job to which a finished step is added: Job, in api.py."""

    def with_step(self, step: Step, broadcast: Sequence[Broadcast[Any]] = ()) -> Self:
        """Return the same job with one more step.  broadcast: the broadcast inputs of the step, in its order."""


J = TypeVar("J", bound=TakesSteps)

#: {argument that selects a kind of window: (the kind in the job file, the setting that the value is for)}
_KINDS: dict[str, tuple[str, str]] = {
    "tumbling": ("tumbling", "size"),
    "sliding": ("sliding", "size"),
    "session": ("session", "gap"),
    "cumulating": ("cumulating", "size"),
    "count": ("global", "count"),
}


class EventWindowArguments(TypedDict, total=False):
    """Arguments of windows of event time.

    tumbling: the size of a window; windows do not overlap.
    sliding: the size of a window; `slide` is required, too.
    cumulating: the greatest size of a window; `step` is required, too.
    session: the gap, a time without a record of the key, that ends a window.

    slide: the time from the start of one sliding window to the start of the next.
    step: the time from the end of one cumulating window to the end of the next.
    offset: how much later than at multiples of their size since 1970 windows begin.
    time_zone: the time zone in which windows of whole days begin at midnight; by default UTC.
    """

    tumbling: Duration
    sliding: Duration
    cumulating: Duration
    session: Duration
    slide: Duration
    step: Duration
    offset: Duration
    time_zone: str


class WindowArguments(EventWindowArguments, total=False):
    """Arguments of `.window(...)`, with those of EventWindowArguments.

    Exactly one of `tumbling`, `sliding`, `cumulating`, `session` and `count` is required; it selects the kind of
    window.

    count: the number of records of a key in a window.
    allowed_lateness: how long after its end a window still accepts records and emits an updated row.
    time: "event", the default, or "processing": a record is in the windows of the time at which its epoch begins.
    early_results_every: how often an open window emits its result so far; by default never.
    late: a sink for records that are late for all their windows; by default such records are only counted.

    `offset`, `time_zone` and `time` are for tumbling, sliding and cumulating windows only. `allowed_lateness`,
    `early_results_every` and `late` are not for `count`, whose windows do not end with time.
    """

    count: int
    time: Literal["event", "processing"]
    allowed_lateness: Duration
    early_results_every: Duration
    late: SinkSpec


@dataclass(frozen=True, slots=True)
class _Grouped(Generic[J]):
    """A job, and the settings of its next step so far: name, keys, windows."""

    job: J
    settings: Mapping[str, Any]

    def aggregate(
        self,
        outputs: Mapping[str, str | AggregateCall] | None = None,
        /,
        *,
        having: str | None = None,
        **more: str | AggregateCall,
    ) -> J:
        """Complete the step: one row per key, per window, or per key and window: `aggregate(flights="count(*)")`.

        outputs: {output column: call}, for column names that are not Python identifiers. See docs/aggregates.md for the
        calls.
        having: a condition in SQL over the columns of the result. Only rows that meet it are emitted.
        """
        return _aggregated(self.job, self.settings, outputs, more, having)


class WindowedJob(_Grouped[J]):
    """A job whose next step has its windows, and its keys if any, and still needs its outputs: call `aggregate`."""

    __slots__ = ()

    @classmethod
    def checked(cls, job: J, settings: Mapping[str, Any], window: WindowArguments) -> Self:
        """Return `settings`, those of the step so far, with the window's settings added.

        Raises InvalidJobError that names the wrong argument.
        """
        values = {**settings, **window_settings(window)}
        checked_section(KeyedInput, values, place="Job.window", name=argument)
        return cls(job, values)


class AllRows:
    """The methods of jobs and streams for steps over all rows."""

    __slots__ = ()

    def aggregate(  # noqa: PYI019 - a class with this base takes steps
        self: J,
        outputs: Mapping[str, str | AggregateCall] | None = None,
        /,
        *,
        name: str | None = None,
        having: str | None = None,
        **more: str | AggregateCall,
    ) -> J:
        """Add a step with one row over all rows, such as `aggregate(flights="count(*)")`.

        outputs: {output column: call}, for column names that are not Python identifiers. See docs/aggregates.md for the
        calls.
        name: the name of the step.
        having: a condition in SQL over the columns of the result. The row is emitted only while it meets the condition.
        """
        return _aggregated(self, {"name": name}, outputs, more, having)

    def top(self: J, n: int, *, order_by: str | Sequence[str], name: str | None = None) -> J:  # noqa: PYI019 - as above
        """Add a step with the best `n` of all rows, with their rank, such as `top(10, order_by="price desc")`.

        order_by: see KeyedJob.top. name: the name of the step.
        """
        return _best(self, {"name": name}, n, order_by)

    def over(  # noqa: PYI019 - as above
        self: J,
        columns: Mapping[str, str | OverCall] | None = None,
        /,
        *,
        tie_break: str | Sequence[str] | None = None,
        name: str | None = None,
        **more: str | OverCall,
    ) -> J:
        """Add columns to each row, computed of all rows before it by event time: `over(n="row_number()")`.

        See KeyedJob.over. name: the name of the step.
        """
        return _over(self, {"name": name}, columns, more, tie_break)


class KeyedJob(_Grouped[J]):
    """A job whose next step has its keys and still needs its outputs: call one of its methods."""

    __slots__ = ()

    @classmethod
    def checked(cls, job: J, columns: Sequence[object], name: str | None, parallelism: int | None) -> Self:
        """Return a step with these keys. Raises InvalidJobError for a column that is no text, such as a list."""
        wrong = next((column for column in columns if not isinstance(column, str)), None)
        if wrong is not None:
            msg = f"key_by: each column is an argument of its own, and text, as in key_by('a', 'b'). found={wrong!r}"
            raise InvalidJobError(msg)
        return cls(job, {"name": name, "key-by": columns, "parallelism": parallelism})

    def window(self, **window: Unpack[WindowArguments]) -> WindowedJob[J]:
        """Group the rows of each key by window.

        Call `.aggregate(...)` on the result to complete the step. See WindowArguments.
        """
        return WindowedJob.checked(self.job, self.settings, window)

    def process(
        self,
        function: str | type,
        *,
        output: str,
        event_time: str | None = None,
        args: Mapping[str, PlainValue] | None = None,
        outputs: Mapping[str, SinkSpec] | None = None,
        on_error: Literal["fail", "skip", "dead-letter"] | None = None,
        dead_letter: SinkSpec | None = None,
        folder: FileName | None = None,
        **more: Unpack[ProcessArguments],
    ) -> J:
        """Complete the step with a process function, which sees the records of each key and has state and timers.

        function: a class, or its name as `package.module:Class`.
        output: columns of the rows that the function emits, as Spark DDL.
        event_time: the column of `output` with the event time of these rows, for windows in later steps.
        args: arguments for the class, by name.
        outputs: {tag: side_output(...)} for the rows of each side output.
        on_error: what to do with a record on which the function raised. `fail` stops the job. `skip` counts the record
            and leaves it out. `dead-letter` writes it to the sink `dead_letter`.
        dead_letter: the sink for these records; only with `on_error="dead-letter"`.
        folder: the folder that the module is imported from.
            By default, a class has the folder that it came from, and a name has the current folder.

        See ProcessArguments for inputs whose rows every subtask has, and for classes of Spark.
        docs/process-functions.md is the guide.
        """
        reference, home = class_reference(function, place="Job.process")
        settings = {
            "process": reference,
            "folder": home if folder is None else folder,
            "args": args,
            "output": output,
            "event-time": event_time,
            "outputs": outputs,
            "on-error": on_error,
            "dead-letter": dead_letter,
            **process_settings(more),
        }
        values = {**self.settings, **nested({(key,): value for key, value in settings.items()})}
        step = checked_section(ProcessStep, values, place="Job.process", name=argument)
        return self.job.with_step(resolve_step(step, FilePath()), tuple((more.get("broadcast") or {}).values()))

    def async_map(
        self,
        function: str | type,
        *,
        output: str,
        args: Mapping[str, PlainValue] | None = None,
        folder: FileName | None = None,
        **settings: Unpack[AsyncMapArguments],
    ) -> J:
        """Complete the step with a class that asks a service for an answer to each row; its request is the key.

        function: a class, or its name as `package.module:Class`.
        output: columns of an answer, as Spark DDL. Rows get them.
        args: arguments for the class, by name.
        folder: the folder that the module is imported from.
            By default, a class has the folder that it came from, and a name has the current folder.

        See AsyncMapArguments for the settings; docs/async-map.md is the guide.
        """
        reference, home = class_reference(function, place="Job.async_map")
        given = {"async-map": reference, "folder": home if folder is None else folder, "args": args, "output": output}
        step = async_map_step({**self.settings, **nested({(key,): value for key, value in given.items()})}, settings)
        return self.job.with_step(resolve_step(step, FilePath()))

    def top(self, n: int, *, order_by: str | Sequence[str]) -> J:
        """Complete the step: the best `n` rows of each key, with their rank, such as `top(10, order_by="price desc")`.

        order_by: columns or SQL expressions, each with `asc` or `desc` and `nulls first` or `nulls last` after it.
            Rows that are equal in them are ordered by the whole row. docs/ranking.md is the guide.
        """
        return _best(self.job, self.settings, n, order_by)

    def deduplicate(
        self,
        *,
        keep: Literal["first", "last", "any"],
        tie_break: str | Sequence[str] | None = None,
        within: Duration | None = None,
    ) -> J:
        """Complete the step: one row of each key, such as `deduplicate(keep="first")`.

        keep: `first` is the first row by event time, emitted once no earlier one can come. `last` is the newest row,
            which newer rows update. `any` is the first row that arrives.
        tie_break: columns that order rows of one event time.
        within: how long after its row, in event time, a key is forgotten. By default, it never is.

        docs/ranking.md is the guide.
        """
        given = {"keep": keep, "tie-break": tie_break, "within": within}
        values = {**self.settings, "deduplicate": {key: value for key, value in given.items() if value is not None}}
        return self.job.with_step(checked_section(DeduplicateStep, values, place="Job.deduplicate", name=argument))

    def over(
        self,
        columns: Mapping[str, str | OverCall] | None = None,
        /,
        *,
        tie_break: str | Sequence[str] | None = None,
        **more: str | OverCall,
    ) -> J:
        """Complete the step: add columns to each row, computed of the rows of its key before it, by event time.

        Such as `over(before="lag(price)", mean="avg(price) rows between 9 preceding and current row")`.

        columns: {column: call}, for column names that are not Python identifiers.
        tie_break: columns that order rows of one event time. docs/running-values.md is the guide.
        """
        return _over(self.job, self.settings, columns, more, tie_break)

    def apply_changes(self, *, sequence_by: str | Sequence[str], **arguments: Unpack[ApplyChangesArguments]) -> J:
        """Complete the step: the rows of a table, from the records of its changes; the key is that of the table.

        sequence_by: one or several columns or SQL expressions. Of the records of a key, the one with the greatest
            values counts.

        See ApplyChangesArguments for the others; docs/change-data.md is the guide.
        """
        return self.job.with_step(apply_changes_step(self.settings, sequence_by, arguments))


def _best(job: J, settings: Mapping[str, Any], n: int, order_by: str | Sequence[str]) -> J:
    values = {**settings, "top": {"n": n, "order-by": order_by}}
    return job.with_step(checked_section(TopStep, values, place="Job.top", name=argument))


def _over(
    job: J,
    settings: Mapping[str, Any],
    columns: Mapping[str, str | OverCall] | None,
    more: Mapping[str, str | OverCall],
    tie_break: str | Sequence[str] | None,
) -> J:
    own = {"columns": _named_calls("over", columns, more)} | ({} if tie_break is None else {"tie-break": tie_break})
    return job.with_step(checked_section(OverStep, {**settings, "over": own}, place="Job.over", name=argument))


def _aggregated(
    job: J,
    settings: Mapping[str, Any],
    outputs: Mapping[str, str | AggregateCall] | None,
    more: Mapping[str, str | AggregateCall],
    having: str | None,
) -> J:
    values = {**settings, "aggregate": _named_calls("aggregate", outputs, more), "having": having}
    return job.with_step(checked_section(KeyedAggregateStep, values, place="Job.aggregate", name=argument))


def _named_calls(method: str, given: object, more: Mapping[str, object]) -> dict[str, object]:
    """Return {column: call} of both. Raise InvalidJobError for calls without names, and for a column in both."""
    named = {} if given is None else given
    if not isinstance(named, Mapping):
        msg = f'Job.{method}: each call needs the name of its column, as in {method}(n="count(*)"). found={given}'
        raise InvalidJobError(msg)
    twice = sorted(more.keys() & named.keys())
    if twice:
        msg = f"Job.{method}: a column is given twice. Keep one of the two. columns={', '.join(twice)}"
        raise InvalidJobError(msg)
    return {**named, **more}


def window_settings(window: WindowArguments, place: str = "Job.window") -> dict[str, Any]:
    """Return the settings of a step that the arguments stand for. Raises TypeError for an unknown argument.

    place: the call, for messages.
    """
    given = given_arguments(window, WindowArguments, "window")
    kinds = [name for name in _KINDS if name in given]
    if len(kinds) != 1:
        found = f" found={', '.join(kinds)}" if kinds else ""
        msg = f"{place}: a window is of one kind. Give one of {', '.join(_KINDS)}.{found}"
        raise InvalidJobError(msg)
    kind, main = _KINDS[kinds[0]]
    paths: dict[str, tuple[str, ...]] = {kinds[0]: ("window", kind, main), "time": ("window", "time")}
    paths |= {name: ("window", kind, name.replace("_", "-")) for name in ("slide", "step", "offset", "time_zone")}
    return nested({paths.get(name, (name.replace("_", "-"),)): value for name, value in given.items()})
