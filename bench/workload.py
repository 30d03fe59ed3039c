"""What the benchmarks read: events of a key and a value in Parquet files, the same in every run.

The one idea: a file is a function of (seed, its number) and the counts it is asked for. Nothing of it is kept in the
repository, and every figure of one run is taken on the same bytes.

Timed events have a time as well. They are spread evenly over SPAN_US, and come in order but for DISORDER_US: an event
is never that much older than one that came before it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEY, VALUE, TIME = "k", "v", "ts"
SCHEMA_DDL = f"{KEY} long, {VALUE} double"
TIMED_SCHEMA_DDL = f"{SCHEMA_DDL}, {TIME} timestamp"
FILES = 8  # of a history; Spark's streaming query takes one of them per micro-batch
PARALLELISM = 2  # cores, and so subtasks and shuffle partitions

HISTORY_SEED, STATE_SEED, FEED_SEED, TIMED_SEED = 1, 2, 3, 4

START_US = 1_700_000_040_000_000  # 2023-11-14T22:14:00Z, the start of a minute
SPAN_US = 4 * 3600 * 1_000_000  # of a whole history: 240 windows of a minute
DISORDER_S, WINDOW_S = 10, 60
DISORDER_US, WINDOW_US = DISORDER_S * 1_000_000, WINDOW_S * 1_000_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the benchmarks are. The defaults are what the targets are stated for; the rest follows in proportion:
    2 M keys of state before the live epochs, which have 500,000 and 20,000 events; 10,000 keys in windows; for the
    process function 1 M events of 500,000 keys, and live epochs of 100,000.
    """

    events: int = 10_000_000
    keys: int = 1_000_000
    rounds: int = 3

    @property
    def is_full(self) -> bool:
        """Whether the targets mean anything at this size."""
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
    def window_keys(self) -> int:
        """Keys of the timed events: a key has about four in a window."""
        return max(1, self.keys // 100)

    @property
    def process_events(self) -> int:
        """Events in the backlog of the process function."""
        return max(FILES, self.events // 10)

    @property
    def process_keys(self) -> int:
        """Keys in the backlog of the process function."""
        return max(1, self.keys // 2)

    @property
    def process_epoch(self) -> int:
        """Events of a live epoch of the process function."""
        return max(1, self.events // 100)

    @classmethod
    def checked(cls, *, events: int, keys: int, rounds: int) -> Self:
        """A scale from the command line.  Raises ValueError, which names what is wrong."""
        if min(events, keys, rounds) < 1 or events < FILES:
            msg = f"--events must be at least {FILES}, --keys and --rounds at least 1: {events=}, {keys=}, {rounds=}"
            raise ValueError(msg)
        return cls(events, keys, rounds)


FULL = Scale()


def write_history(folder: Path, *, events: int, keys: int) -> Path:
    """`events` events in FILES files, their keys drawn evenly from `keys`. Returns the folder."""
    for number, size in enumerate(_sizes(events, FILES)):
        rng = np.random.default_rng([HISTORY_SEED, number])
        _write(folder, f"history-{number:04d}", event_table(rng.integers(0, keys, size), rng))
    return folder


def write_each_key_once(folder: Path, *, keys: int) -> Path:
    """One event for each of `keys` keys in FILES files, in no order. Returns the folder."""
    shuffled = np.random.default_rng([STATE_SEED, FILES]).permutation(keys)
    start = 0
    for number, size in enumerate(_sizes(keys, FILES)):
        rng = np.random.default_rng([STATE_SEED, number])
        _write(folder, f"state-{number:04d}", event_table(shuffled[start : start + size], rng))
        start += size
    return folder


def write_timed_history(folder: Path, *, events: int, keys: int) -> Path:
    """`events` timed events in FILES files, one after the other in time. Returns the folder."""
    return write_timed_feed(folder, _sizes(events, FILES), first=0, events=events, keys=keys)


def write_timed_feed(folder: Path, sizes: list[int], *, first: int, events: int, keys: int) -> Path:
    """Files of timed events that follow each other: the first event is number `first` of a history of `events`."""
    for size in sizes:
        rng = np.random.default_rng([TIMED_SEED, first])
        table = event_table(rng.integers(0, keys, size), rng)
        in_order = START_US + np.arange(first, first + size) * SPAN_US // events
        times = pa.array(in_order - rng.integers(0, DISORDER_US, size), pa.timestamp("us", "UTC"))
        _write(folder, f"timed-{first:010d}", table.append_column(TIME, times))
        first += size
    return folder


def write_feed(folder: Path, sizes: list[int], *, keys: int) -> Path:
    """One file of events per live epoch, named in the order of the epochs. Returns the folder."""
    for number, size in enumerate(sizes):
        rng = np.random.default_rng([FEED_SEED, number])
        _write(folder, f"feed-{number:04d}", event_table(rng.integers(0, keys, size), rng))
    return folder


def event_table(keys: "np.ndarray[Any, np.dtype[np.int64]]", rng: np.random.Generator) -> pa.Table:
    """Events with these keys and random values."""
    return pa.table({KEY: pa.array(keys), VALUE: pa.array(rng.random(len(keys)))})


def _write(folder: Path, name: str, events: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(events, folder / f"{name}.parquet", compression="snappy")


def _sizes(total: int, parts: int) -> list[int]:
    """`parts` nearly equal sizes that add up to `total`."""
    return [(part + 1) * total // parts - part * total // parts for part in range(parts)]
