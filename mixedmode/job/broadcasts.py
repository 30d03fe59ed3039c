"""Broadcast inputs of a function in Python: streams whose rows every subtask has.

rules = job.source("rules").broadcast(key="rule", deleted="gone")
job.source("orders").key_by("customer").process("checks:Check", output="...", broadcast={"rules": rules})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from mixedmode.config.arguments import of_type
from mixedmode.config.broadcasts import BroadcastSpec
from mixedmode.config.load import checked_section
from mixedmode.connectors.calls import Duration, given_arguments
from mixedmode.job.arguments import argument

S = TypeVar("S")

__all__ = [
    "Broadcast",
    "BroadcastArguments",
    "broadcast_of",
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


def specs_of(broadcast: Mapping[str, Broadcast[Any]] | None) -> dict[str, BroadcastSpec] | None:
    """Return {name: settings} of the broadcast inputs of a step; None if it has none."""
    wanted = "a dictionary, such as {'rules': rules.broadcast(key='rule')}"
    found = of_type({} if broadcast is None else broadcast, Mapping, "broadcast", wanted)
    for one in found.values():
        of_type(one, Broadcast, "a value of `broadcast`", "what Stream.broadcast(key=...) returns")
    return {name: one.spec for name, one in found.items()} or None
