"""Streams: the rows of a source or of a step of a job in Python, from which any number of steps may read.

    orders = job.source("orders")
    totals = orders.key_by("customer").aggregate(total="sum(amount)")
    large = orders.sql("SELECT * FROM orders WHERE amount > 100", name="large")
    both = large.union(job.source("refunds").sql("SELECT customer, -amount AS amount FROM refunds"))

A stream is immutable, and knows only what it reads. A job has the steps of the streams that its outputs need; steps
without a name get one from their kind and position.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Literal, Self, Unpack

from mixedmode.config.arguments import of_type
from mixedmode.config.function_steps import CoGroupStep, CoProcessStep
from mixedmode.config.load import checked_section, resolve_step
from mixedmode.config.step_outputs import broadcasts_of, with_settings
from mixedmode.config.steps import STEP_KINDS, JoinStep, SqlStep, Step
from mixedmode.config.two_inputs import TwoInputStep
from mixedmode.connectors.calls import Duration
from mixedmode.errors import InvalidJobError
from mixedmode.job.arguments import argument
from mixedmode.job.broadcasts import Broadcast, BroadcastArguments, broadcast_of
from mixedmode.job.function_steps import CoGroupArguments, CoProcessArguments, co_group_step, co_process_step
from mixedmode.job.joins import (
    AsOfArguments,
    IntervalArguments,
    RegularArguments,
    as_of_step,
    interval_step,
    regular_step,
)
from mixedmode.job.keyed import AllRows, KeyedJob, WindowArguments, WindowedJob

__all__ = ["PlacedStream", "Stream", "placed_stream"]


@dataclass(frozen=True, slots=True, eq=False)
class Stream(AllRows):
    """The rows of a source, of a step over other streams, or of several streams together."""

    source: str | None
    step: Step | None
    inputs: tuple["Stream", ...]

    @classmethod
    def of_source(cls, name: str) -> Self:
        """Return the rows of a source."""
        return cls(name, None, ())

    def sql(
        self,
        sql: str,
        *,
        others: Sequence["Stream"] = (),
        name: str | None = None,
        clock: Literal["refused", "allowed"] = "refused",
    ) -> "Stream":
        """Return the rows of stateless Spark SQL over this stream.

        sql: a SELECT. It reads the stream by its name, that of the source or step; a stream alone also is `previous`.
        others: further streams with names that the SQL reads, such as for UNION ALL.
        name: the name of the step.
        clock: with `allowed`, the SQL may ask for the current time; the execution modes may then emit different rows.
        """
        step = checked_section(SqlStep, {"sql": sql, "name": name, "clock": clock}, place="Stream.sql", name=argument)
        of_type(others, list | tuple, "Stream.sql: others", "a list of streams")
        return Stream(None, step, (self, *(_stream(one, "Stream.sql: others") for one in others)))

    def key_by(self, *columns: str, name: str | None = None, parallelism: int | None = None) -> KeyedJob["Stream"]:
        """Group the rows by key columns, as Job.key_by does. The completed step is a stream."""
        return KeyedJob.checked(self, columns, name, parallelism)

    def window(self, *, name: str | None = None, **window: Unpack[WindowArguments]) -> WindowedJob["Stream"]:
        """Group all rows, without a key, by window, as Job.window does. The completed step is a stream."""
        return WindowedJob.checked(self, {"name": name}, window)

    def union(self, *others: "Stream") -> "Stream":
        """Return the rows of several streams together, for a keyed step, or for SQL, which reads them as `previous`.

        All need the same columns of the same types, in any order.
        """
        return Stream(None, None, (self, *(_stream(one, "Stream.union") for one in others)))

    def as_of_join(self, right: "Stream", *, on: str | Sequence[str], **arguments: Unpack[AsOfArguments]) -> "Stream":
        """Return each row of this stream with the last row of `right` of its key that is not later, in event time.

        on: columns that both streams have, or one of each, such as `left.symbol = right.ticker`.
        See AsOfArguments for the other arguments. docs/joins.md is the guide.
        """
        return self._joined(right, as_of_step(on, arguments), "as_of_join")

    def interval_join(
        self,
        right: "Stream",
        *,
        on: str | Sequence[str],
        within: tuple[Duration, Duration],
        **arguments: Unpack[IntervalArguments],
    ) -> "Stream":
        """Return the pairs of rows of this stream and of `right` with one key whose event times are near each other.

        on: columns that both streams have, or one of each, such as `left.symbol = right.ticker`.
        within: the least and the greatest time of the right minus that of this stream, such as `("-1h", "4h")`.
        See IntervalArguments for the other arguments. docs/joins.md is the guide.
        """
        return self._joined(right, interval_step(on, within, arguments), "interval_join")

    def join(self, right: "Stream", *, on: str | Sequence[str], **arguments: Unpack[RegularArguments]) -> "Stream":
        """Return the rows of this stream with the rows of `right` with the same key, whatever their times are.

        All rows of both streams stay in the state. The rows of an inner join of rows that are never retracted are never
        retracted either. Those of other joins may be: they need a keyed step downstream, or an output with a `key`.

        on: columns that both streams have, or one of each, such as `left.symbol = right.ticker`.
        See RegularArguments for the other arguments. docs/joins.md is the guide.
        """
        return self._joined(right, regular_step(on, arguments), "join")

    def co_process(
        self,
        right: "Stream",
        *,
        on: str | Sequence[str],
        function: str | type,
        output: str,
        **arguments: Unpack[CoProcessArguments],
    ) -> "Stream":
        """Return the rows of a function that sees the records of this stream and of `right` of each key, with state.

        on: columns that both streams have, or one of each, such as `left.order = right.order_id`.
        function: a KeyedCoProcessFunction, or its name as `package.module:Class`.
        output: columns of the rows that the function emits, as Spark DDL.
        See CoProcessArguments for the other arguments. docs/co-process.md is the guide.
        """
        step = co_process_step(on, function, output, arguments)
        return self._joined(right, step, "co_process", tuple((arguments.get("broadcast") or {}).values()))

    def co_group(
        self,
        right: "Stream",
        *,
        on: str | Sequence[str],
        function: str | type,
        output: str,
        **arguments: Unpack[CoGroupArguments],
    ) -> "Stream":
        """Return the rows of a function that is called with the rows of this stream and of `right` of a key and window.

        on: columns that both streams have, or one of each, such as `left.order = right.order_id`.
        function: a CoGroupFunction, or its name as `package.module:Class`.
        output: columns of the rows that the function emits, as Spark DDL. The result has the bounds of the window, the
            key, and these columns.
        See CoGroupArguments for the window and the other arguments. docs/co-process.md is the guide.
        """
        return self._joined(right, co_group_step(on, function, output, arguments), "co_group")

    def broadcast(self, *, key: str | Sequence[str], **arguments: Unpack[BroadcastArguments]) -> Broadcast["Stream"]:
        """Return the rows as versions by time, for a function that asks which of them are in force at a time.

        key: columns; a row replaces the one before it with the same values.
        See BroadcastArguments for the other arguments. docs/broadcast.md is the guide.
        """
        return broadcast_of(self, key, arguments)

    def with_step(self, step: Step, broadcast: Sequence[Broadcast["Stream"]] = ()) -> "Stream":
        """Return the rows of a step over this stream.  broadcast: its broadcast inputs, in the order of the step."""
        return Stream(None, resolve_step(step, FilePath()), (self, *(one.stream for one in broadcast)))

    def _joined(
        self,
        right: "Stream",
        step: JoinStep | CoProcessStep | CoGroupStep,
        method: str,
        broadcast: Sequence[Broadcast["Stream"]] = (),
    ) -> "Stream":
        """Return the rows of a step with two inputs. Raise InvalidJobError if an input is a union."""
        for name, stream in (("left", self), ("right", _stream(right, f"Stream.{method}: right"))):
            if stream.step is None and stream.source is None:
                msg = (
                    f"Stream.{method}: the step reads the rows of one source or step on each side, and the {name} is "
                    "a union. Make it one step, such as with sql and UNION ALL."
                )
                raise InvalidJobError(msg)
        return Stream(None, step, (self, right, *(one.stream for one in broadcast)))


def _stream(given: Stream, place: str) -> Stream:
    return of_type(given, Stream, place, "a stream, such as job.source('orders')")


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """A stream in a job: the name of its last step or source, the steps of the job, and the streams of these steps."""

    name: str
    steps: tuple[Step, ...]
    streams: tuple[tuple[Stream, str], ...]


def placed_stream(stream: Stream, steps: tuple[Step, ...], streams: tuple[tuple[Stream, str], ...]) -> PlacedStream:
    """Return a stream as a part of a job that has `steps`, of `streams`. Steps that the job has are not added again.

    Raise InvalidJobError for rows of several streams without a step over them, and for two steps of one name.
    """
    placing = _Placing(list(steps), list(streams))
    (name,) = placing.names([_stream(stream, "Job.output: stream")])
    if stream.step is None and stream.source is None:
        msg = "Job.output: rows of several streams need a step, such as a keyed one. Add it to the union."
        raise InvalidJobError(msg)
    return PlacedStream(name, tuple(placing.steps), tuple(placing.streams))


class _Placing:
    """The steps of a job, to which those of a stream are added."""

    def __init__(self, steps: list[Step], streams: list[tuple[Stream, str]]) -> None:
        self.steps = steps
        self.streams = streams

    def names(self, streams: Iterable[Stream]) -> list[str]:
        """Add the steps of streams. Return the names under which their rows are read."""
        found = list[str]()
        for stream in streams:
            known = next((name for one, name in self.streams if one is stream), None)
            if known is not None:
                found.append(known)
            elif stream.source is not None:
                found.append(stream.source)
            elif stream.step is None:
                found += self.names(stream.inputs)
            else:
                found.append(self._add(stream, stream.step))
        return found

    def _add(self, stream: Stream, step: Step) -> str:
        inputs = tuple(self.names(stream.inputs))
        name = step.name or self._free_name(step)
        self.steps.append(_reading(step, name, inputs))
        self.streams.append((stream, name))
        return name

    def _free_name(self, step: Step) -> str:
        kind = next(kind for kind, model in STEP_KINDS.items() if type(step) is model).replace("-", "_")
        taken = {one.name for one in self.steps}
        return next(name for number in range(1, len(taken) + 2) if (name := f"{kind}_{number}") not in taken)


def _reading(step: Step, name: str, inputs: Sequence[str]) -> Step:
    """Return a step with its name and the names of what it reads: its inputs, then its broadcast inputs."""
    specs = broadcasts_of(step)
    mains, others = inputs[: len(inputs) - len(specs)], inputs[len(inputs) - len(specs) :]
    if specs:
        named = zip(specs.items(), others, strict=True)
        cast = {of: spec.model_copy(update={"from_": read}) for (of, spec), read in named}
        step = with_settings(step, {"broadcast": cast})
    if not isinstance(step, TwoInputStep):
        return step.model_copy(update={"name": name, "from_": tuple(mains)})
    left, right = (f"{read} AS {given.alias}" for read, given in zip(mains, step.pair.inputs, strict=True))
    return with_settings(step.model_copy(update={"name": name}), {"left": left, "right": right})
