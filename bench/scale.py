"""The size of the benchmarks. The data are those of `mixedmode bench`, in bench/src/mixedmode_bench/events.py."""

from dataclasses import dataclass
from typing import Self

from mixedmode_bench.workload import Size

PARALLELISM = 2  # cores, and so subtasks and shuffle partitions


@dataclass(frozen=True, slots=True)
class Scale:
    """The defaults are what the targets are stated for; the rest follows in proportion: 2 M keys of state before the
    live epochs, which have 500,000 and 20,000 events; 10,000 keys in windows; for the process function 1 M events of
    500,000 keys, and live epochs of 100,000.

    workload_events: the most that is taken of a workload of `mixedmode bench`, which has targets for its full size.
    """

    events: int = 10_000_000
    keys: int = 1_000_000
    rounds: int = 3
    workload_events: int = 1_000_000

    @property
    def is_full(self) -> bool:
        """Return whether the targets are stated for this size."""
        return (self.events, self.keys) == (FULL.events, FULL.keys)

    @property
    def live_keys(self) -> int:
        """Keys of state before the first live epoch."""
        return 2 * self.keys

    @property
    def large_epoch(self) -> int:
        """Events of a large live epoch."""
        return max(1, self.events // 20)

    @property
    def small_epoch(self) -> int:
        """Events of a small live epoch."""
        return max(1, self.events // 500)

    @property
    def simulated_epochs(self) -> int:
        """Live epochs of the simulated life of a job."""
        return max(100, self.events // 1_000)

    @property
    def simulated_keys(self) -> int:
        """Keys of its steady state."""
        return max(1_000, self.keys // 50)

    @property
    def windows(self) -> Size:
        """Of the timed events: a key has about four in a window."""
        return Size(self.events, max(1, self.keys // 100))

    @property
    def process(self) -> Size:
        """Of the backlog of the process function."""
        return Size(max(_FILES, self.events // 10), max(1, self.keys // 2))

    @property
    def process_epoch(self) -> int:
        """Events of a live epoch of the process function."""
        return max(1, self.events // 100)

    @classmethod
    def checked(cls, *, events: int, keys: int, rounds: int, workload_events: int) -> Self:
        """A scale from the command line.  Raises ValueError, which names what is wrong."""
        if min(keys, rounds) < 1 or min(events, workload_events) < _FILES:
            msg = (
                f"--events and --workload-events must be at least {_FILES}, --keys and --rounds at least 1: "
                f"{events=}, {workload_events=}, {keys=}, {rounds=}"
            )
            raise ValueError(msg)
        return cls(events, keys, rounds, workload_events)


_FILES = 8  # of a table, none of which may be empty
FULL = Scale()
