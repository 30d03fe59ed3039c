"""The results of a benchmark, as values and as a JSON document; everything that is shown is made of them.

Format 1. Times in seconds, memory and files in bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from mixedmode_bench.contestant import Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one contestant. `round` 0 is the cold one: the first thing that its process does.

    peak_bytes: by role of the process ("driver", "JVM", "Python worker"), the most that one of them ever had resident
    in this run; with several of a role, the sum of their peaks. written_bytes: to disks, by all of its
    processes; None where the system does not tell.
    """

    round: int
    outcome: Outcome
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """All runs of one contestant on one workload. `events` is what it ran over, if less than the others."""

    contestant: str
    title: str
    is_ours: bool
    events: int
    runs: tuple[Run, ...]


class _Targeted:
    """A value of each warm round. Their median is compared with the target, if there is one."""

    __slots__ = ()
    by_round: tuple[float, ...]
    at_least: float | None
    at_most: float | None

    @property
    def value(self) -> float:
        """The median over the rounds."""
        return median(self.by_round)

    @property
    def is_met(self) -> bool | None:
        """None without a target."""
        return is_met(self.value, self.at_least, self.at_most)


@dataclass(frozen=True, slots=True)
class Ratio(_Targeted):
    """Time per event of `slower` divided by that of `faster`, in each warm round. `at_least`: the target, if any.

    Where a target is an upper bound of ours against something faster, ours is `slower` and `at_most` is given.
    of: the part of the run that is compared, such as "large epochs"; "" for all of it.
    """

    slower: str
    faster: str
    by_round: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None
    of: str = ""


@dataclass(frozen=True, slots=True)
class Figure(_Targeted):
    """The figure that one contestant reached in each warm round, where it has a target of its own.

    unit: "events/s", "s", or "x", which is a multiple of what `name` says.
    """

    name: str
    contestant: str
    unit: str
    by_round: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One workload at one size. `is_full`: it is the size that the targets are stated for; else they mean nothing."""

    workload: str
    title: str
    events: int
    keys: int
    input_bytes: int
    entries: tuple[Entry, ...]
    ratios: tuple[Ratio, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # contestant -> why
    figures: tuple[Figure, ...] = ()
    is_full: bool = True


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a benchmark, with the versions of all programs."""

    cores: int
    memory_bytes: int
    processor: str
    system: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole run of the benchmark. `command` reproduces it; `started` is ISO 8601, UTC."""

    command: str
    started: str
    rounds: int
    machine: Machine
    measured: tuple[Measured, ...]
    format: int = 1


def is_met(value: float, at_least: float | None, at_most: float | None) -> bool | None:
    """Return whether a value meets a target. None without a target."""
    if at_least is None and at_most is None:
        return None
    return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
