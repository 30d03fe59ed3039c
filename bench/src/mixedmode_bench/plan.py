"""The plan of a run of the benchmark: which workloads at which sizes, by whom. Nothing is opened here.

Contestants are started anew for each workload, so that the first round of each of them is a cold one.
Only the sizes of `scaling` share their processes, since all that counts there is how the warm ones grow.
"""

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from mixedmode.errors import InvalidJobError
from mixedmode_bench.contestants import CONTESTANTS, MODES, PEERS, find_workload, unknown
from mixedmode_bench.workload import Size, Workload

SCALING, ALL = "scaling", "all"
DEFAULT_WORKLOADS = ("count-sum", "live")
SCALED = "count-sum"  # what scaling measures
SCALING_CONTESTANTS = ("mixed", "spark-batch", "duckdb")
SCALING_ROUNDS = 1
SCALING_KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
SCALING_EVENTS = (1_000_000, 10_000_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command. `peers` None: all that this machine has; peers that are named must be installed."""

    workloads: tuple[str, ...] = DEFAULT_WORKLOADS
    events: int | None = None
    keys: int | None = None
    modes: tuple[str, ...] = ("mixed", "batch", "streaming")
    peers: tuple[str, ...] | None = None
    rounds: int = 3
    cores: int = 2

    @property
    def contestants(self) -> tuple[str, ...]:
        """Their names, each once, in the order of tables; classes of the user's own come last."""
        asked = {*self.modes, *(PEERS if self.peers is None else self.peers)}
        return (*(name for name in CONTESTANTS if name in asked), *sorted(asked - CONTESTANTS.keys()))

    @property
    def required(self) -> frozenset[str]:
        """Those that may not be left out if they are missing."""
        return frozenset((*self.modes, *(self.peers or ())))

    @property
    def command(self) -> str:
        """The command line that asks for the same; folders are not part of it."""
        words, usual = ["mixedmode", "bench", *self.workloads], Options()
        for name in ("modes", "peers", "events", "keys", "rounds", "cores"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                words += [f"--{name}", (",".join(value) or "none") if isinstance(value, tuple) else str(value)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Point:
    """One workload at one size. `name` is what the result calls it; `is_full`: its targets mean something."""

    name: str
    workload: Workload
    where: str  # what find_workload knows it by
    size: Size
    is_full: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Points that share the processes of their contestants. The cold round is that of the first point."""

    points: tuple[Point, ...]
    rounds: int
    only: frozenset[str] | None = field(default=None)  # contestants; None: all


def checked(options: Options, known: Collection[str]) -> Options:
    """The same, with `all` taken apart.  Raises InvalidJobError, which names what is wrong.

    known: the names of all workloads.
    """
    for kind, names, choice in (("mode", options.modes, MODES), ("peer", options.peers or (), PEERS)):
        for name in names:
            if name not in choice and ":" not in name:
                raise InvalidJobError(unknown(kind, name, choice))
    wanted = (*known, SCALING) if ALL in options.workloads else options.workloads
    for name in wanted:
        if name not in known and name != SCALING and ":" not in name:
            raise InvalidJobError(unknown("workload", name, (*known, SCALING, ALL)))
    if not options.contestants:
        msg = "there is nobody to measure. Name a mode of ours with --modes, or a peer with --peers."
        raise InvalidJobError(msg)
    counts = {name: getattr(options, name) for name in ("events", "keys", "rounds", "cores")}
    if min(count for count in counts.values() if count is not None) < 1:
        given = ", ".join(f"{name}={count}" for name, count in counts.items() if count is not None)
        msg = f"events, keys, rounds and cores have to be at least 1. {given}"
        raise InvalidJobError(msg)
    return replace(options, workloads=tuple(dict.fromkeys(wanted)))


def groups(options: Options) -> list[Group]:
    """Return the groups to measure, in their order."""
    found = []
    for name in options.workloads:
        if name == SCALING:
            found.append(_scaling(options))
        else:
            workload = find_workload(name)
            size = resized(workload.size, options.events, options.keys)
            found.append(Group((Point(workload.name, workload, name, size, size == workload.size),), options.rounds))
    return found


def resized(size: Size, events: int | None, keys: int | None) -> Size:
    """With so many events, and keys in proportion unless they are given, too."""
    if events is None:
        return Size(size.events, keys or size.keys)
    return Size(events, keys or max(1, size.keys * events // size.events))


def _scaling(options: Options) -> Group:
    """More and more keys, with the events of the default size; and more and more events, with its keys."""
    workload = find_workload(SCALED)
    usual, cap = workload.size, options.events or max(SCALING_EVENTS)
    keys_cap = options.keys or max(SCALING_KEYS)
    by_keys = [Size(min(usual.events, cap), keys) for keys in SCALING_KEYS]
    by_events = [Size(events, min(usual.keys, keys_cap)) for events in SCALING_EVENTS]
    points = tuple(
        Point(SCALING, workload, SCALED, size, is_full=False)
        for size in dict.fromkeys((*by_keys, *by_events))
        if size.events <= cap and size.keys <= min(size.events, keys_cap)
    )
    if not points:
        msg = (
            f"no size of scaling is as small as that: it begins with {min(SCALING_EVENTS):,} events and "
            f"{min(SCALING_KEYS):,} keys. Raise --events or --keys. events={cap}, keys={keys_cap}"
        )
        raise InvalidJobError(msg)
    return Group(points, SCALING_ROUNDS, frozenset(SCALING_CONTESTANTS))
