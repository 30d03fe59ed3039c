"""Broadcast inputs of a function in Python: streams whose rows every subtask has.

rules = job.source("rules").broadcast(key="rule", deleted="gone")
job.source("orders").key_by("customer").process("checks:Check", output="...", broadcast={"rules": rules})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar

from mixedmode.config.arguments import of_type
from mixedmode.config.broadcasts import BroadcastSpec
from mixedmode.config.load import checked_section
from mixedmode.config.sinks import SinkSpec
from mixedmode.connectors.calls import Duration, given_arguments
from mixedmode.job.arguments import argument

S = TypeVar("S")

__all__ = [
    "Broadcast",
    "BroadcastArguments",
    "ProcessArguments",
    "broadcast_of",
    "process_settings",
    "specs_of",
]


class BroadcastArguments(TypedDict, total=False):
    """Arguments of `Stream.broadcast`.

    tie_break: columns that order rows of one key and time; the greatest counts. By default, there is one such row.
    tolerance: the greatest age of a row. By default, any.
    deleted: a boolean column; a row where it is true ends the one before it.
    history: how long before the time of a record the function may ask for rows. By default, only for that time.
    """

    tie_break: str | Sequence[str]
    tolerance: Duration
    deleted: str
    history: Duration


class ProcessArguments(TypedDict, total=False):
    """Arguments of a process function that asks for rows of other streams, or that is a class of Spark.

    broadcast: {name: stream.broadcast(...)} of inputs whose rows every subtask has; the function asks for them by name.
    late: with `broadcast`, the sink for records that come before the watermark; by default they are only counted.
    time_mode: of a StatefulProcessor of Spark, the timeMode of its transformWithState.
    rows_as: of a StatefulProcessor, `pandas` if it is written for transformWithStateInPandas; by default `row`.
    """

    broadcast: "Mapping[str, Broadcast[Any]]"
    late: SinkSpec
    time_mode: Literal["None", "EventTime", "ProcessingTime"]
    rows_as: Literal["row", "pandas"]


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast(Generic[S]):
    """A stream whose rows are versions by time, for a function: see Stream.broadcast."""

    stream: S
    spec: BroadcastSpec


def broadcast_of(stream: S, key: str | Sequence[str], arguments: BroadcastArguments) -> Broadcast[S]:
    """Return a stream as a broadcast input whose name is not known yet. Raise InvalidJobError for a wrong argument."""
    known = given_arguments(arguments, BroadcastArguments, "broadcast")
    given = {name.replace("_", "-"): value for name, value in known.items()}
    values: dict[str, Any] = {"from": "input", "key": key, **given}
    return Broadcast(stream, checked_section(BroadcastSpec, values, place="Stream.broadcast", name=argument))


def process_settings(arguments: ProcessArguments) -> dict[str, Any]:
    """Return the settings of a step for these arguments. Raise TypeError for an unknown one."""
    given = given_arguments(arguments, ProcessArguments, "process")
    return {
        "broadcast": specs_of(given.get("broadcast")),
        "late": given.get("late"),
        "time-mode": given.get("time_mode"),
        "rows-as": given.get("rows_as"),
    }


def specs_of(broadcast: Mapping[str, Broadcast[Any]] | None) -> dict[str, BroadcastSpec] | None:
    """Return {name: settings} of the broadcast inputs of a step; None if it has none."""
    wanted = "a dictionary, such as {'rules': rules.broadcast(key='rule')}"
    found = of_type({} if broadcast is None else broadcast, Mapping, "broadcast", wanted)
    for one in found.values():
        of_type(one, Broadcast, "a value of `broadcast`", "what Stream.broadcast(key=...) returns")
    return {name: one.spec for name, one in found.items()} or None
