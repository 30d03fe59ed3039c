"""The map side of a whole machine in one task: it combines the rows of a key before they leave the machine.

Each core reads a part of the input, its lane. The more lanes, the fewer rows of a key are in one, so lanes that fold
alone make nearly as many rows as there are records. So all lanes read a slice each, and divide its rows by key, into
as many shares as there are lanes; then each share, with its rows of all lanes, is folded at once.

    Example: 10 M records over 1 M keys in 16 lanes make 7.4 M rows if each lane folds alone, and 1 M rows in shares.

Lanes are threads, because processes would have to copy the rows that they exchange. Where dividing would save too few
rows, each lane folds its own slice.

Invariants (tests/tasks/test_machine_side.py):
  I1  the blocks have the same keys and combined values as the blocks of a map task for each lane
  I2  of slices that are divided, each key is in one row
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.keys import BUCKETS, SAMPLED_KEYS, Division, division_of, group_codes, sampled_rows
from mixedmode.keys.arrow import I64
from mixedmode.keys.values import payload_words
from mixedmode.profile import Profile, add_seconds
from mixedmode.sort import take_rows
from mixedmode.tasks.exchange import MapSide, failure_batch
from mixedmode.tasks.failures import report_failures
from mixedmode.tasks.memory import SLICE_PIECES_MAX
from mixedmode.tasks.notes import Note
from mixedmode.tasks.progress import Progress

LANES_MIN = 4  # with fewer, a lane sees enough rows of each key
_SAVED_MIN = 1 / 8  # of all rows: dividing a row costs about an eighth of what a row of the exchange costs
_BLOCK_ROWS = 2**18  # rows divided at once: their columns stay in a CPU's cache, and the calls cost little

T = TypeVar("T")
U = TypeVar("U")


class Workers(Protocol):
    """The way in which the lanes of a machine run."""

    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        """Yield the result for each item, in their order."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs so many lanes at the same time."""

    count: int

    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        """Yield the result for each item, in their order."""
        with ThreadPoolExecutor(self.count) as pool:
            yield from pool.map(function, items)


class InTurn:
    """Runs one lane after the other, in the thread of the caller."""

    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        """Yield the result for each item, in their order."""
        return map(function, items)


def combines_on_machine(map_side: MapSide, lanes: int) -> bool:
    """Return whether one task with so many lanes replaces as many map tasks. Pure.

    Keys and arguments have a fixed width: dividing text copies it, and takes more memory than a lane has.
    """
    stage = map_side.stage
    types = [*(field.type for field in stage.key_fields), *stage.argument_types]
    folds = stage.operator.combine is not None and stage.operator.traits.folds_in_threads
    is_fixed = bool(stage.key_fields) and all(payload_words(one) is not None for one in types)
    return lanes >= LANES_MIN and folds and is_fixed and not stage.sides


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of a lane: its rows, the progress in them, the key columns of a sample, and the seconds of reading."""

    rows: pa.Table
    seen: Progress
    sample: list[pa.Array]
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Divided:
    """The rows of a slice in blocks, each in the order of the buckets, and with the first row of each bucket (257,)."""

    blocks: list[tuple[pa.Table, I64]]
    seconds: Mapping[str, float]

    def share(self, first: int, end: int) -> Iterator[pa.Table]:
        """Yield the rows of the buckets in [first, end)."""
        for rows, starts in self.blocks:
            if starts[first] < starts[end]:
                yield rows.slice(starts[first], starts[end] - starts[first])


@dataclass(frozen=True, slots=True)
class _Folded:
    """The blocks of a share, and what `MapSide.fold` tells of its `rows` rows."""

    blocks: list[pa.RecordBatch]
    rows: int
    progress: Progress
    seconds: Mapping[str, float]


class _NoteOfShare(Note):
    """The note of a share: what is folded counts in the note of the task, which knows what is sent."""

    def __init__(self, whole: Note) -> None:
        super().__init__(None)
        self._whole = whole

    @override
    def folded(self, records: int, rows: int) -> None:
        self._whole.folded(records, rows)


@dataclass(frozen=True, slots=True)
class MachineSide:
    """The map side of a machine. `map_side`: that of a lane alone. `workers`: run the lanes."""

    map_side: MapSide
    workers: Workers

    def blocks(self, lanes: Sequence[Iterator[pa.RecordBatch]], note: Note) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of the task, which reads these lanes and keeps this note."""
        return report_failures(self._blocks(lanes, note), failure_batch)

    def _blocks(self, lanes: Sequence[Iterator[pa.RecordBatch]], note: Note) -> Iterator[pa.RecordBatch]:
        progress, seconds = Progress(), dict[str, float]()
        reading = [self.map_side.slices(lane, note) for lane in lanes]
        while reading:
            read = list(self.workers.map(partial(self._read, note=note), reading))
            reading = [lane for lane, found in zip(reading, read, strict=True) if found is not None]
            slices = [found for found in read if found is not None]
            del read
            for one in slices:
                progress, seconds = progress.merged(one.seen), add_seconds(seconds, one.seconds)
            shares, dividing = self._shares(slices)  # which empties the list
            seconds = add_seconds(seconds, dividing)
            for folded in self.workers.map(partial(self._fold, note=note), shares):
                yield from folded.blocks
                progress, seconds = progress.merged(folded.progress), add_seconds(seconds, folded.seconds)
                note.sent(folded.rows)
        yield from self.map_side.ending(progress, seconds)

    def _read(self, lane: Iterator[pa.Table], *, note: Note) -> _Slice | None:
        """Read the next slice of a lane. Return None at its end."""
        profile = Profile()
        with profile.stage("read input"):
            table = next(lane, None)
        if table is None:
            return None
        with profile.stage("fold"):
            rows, seen = self.map_side.watch.split(table)
            note.unfolded(table.num_rows - rows.num_rows)
            keys = self.map_side.keys(rows)
            sampled = pa.array(sampled_rows(keys))
            sample = [key.take(sampled) for key in keys]
        return _Slice(rows, seen, sample, profile.seconds)

    def _shares(self, slices: list[_Slice]) -> tuple[list[list[pa.Table]], Mapping[str, float]]:
        """Return the rows to fold together, of each slice or of each share, and seconds of work. Empty the list."""
        distinct = _distinct_if_dividing_pays(slices)
        tables = [one.rows for one in slices if one.rows.num_rows]
        slices.clear()
        if distinct is None:
            return [[table] for table in tables], {}
        division = division_of([self.map_side.keys(table) for table in tables], distinct)
        divided = list(self.workers.map(partial(self._divide, division=division), tables))
        # a share of at most this size is folded as a whole
        shares = len(tables) * max(1, -(-sum(t.nbytes for t in tables) // len(tables) // self._whole_bytes))
        folded = [[rows for one in divided for rows in one.share(*bounds)] for bounds in _bounds(divided, shares)]
        return folded, add_seconds(*(one.seconds for one in divided))

    @property
    def _whole_bytes(self) -> int:
        return max(1, self.map_side.slice_bytes // SLICE_PIECES_MAX)

    def _divide(self, rows: pa.Table, *, division: Division) -> _Divided:
        """Return the rows in the order of their buckets."""
        profile, blocks = Profile(), []
        with profile.stage("divide"):
            keys = self.map_side.keys(rows)
            for lo in range(0, rows.num_rows, _BLOCK_ROWS):
                buckets = division.buckets([key.slice(lo, _BLOCK_ROWS) for key in keys])
                order = np.argsort(buckets, kind="stable")  # a radix sort, for numbers of 8 bits
                starts = np.append(0, np.cumsum(np.bincount(buckets, minlength=BUCKETS)))
                blocks.append((take_rows(rows.slice(lo, _BLOCK_ROWS), order), starts))
        return _Divided(blocks, profile.seconds)

    def _fold(self, tables: Sequence[pa.Table], *, note: Note) -> _Folded:
        """Fold the rows of a share."""
        profile, blocks = Profile(), list[pa.RecordBatch]()
        with profile.stage("fold"):
            rows = pa.concat_tables(tables).combine_chunks()
        folding = self.map_side.fold(rows, profile, _NoteOfShare(note))
        while True:
            try:
                blocks.append(next(folding))
            except StopIteration as end:
                return _Folded(blocks, rows.num_rows, end.value, profile.seconds)


def _distinct_if_dividing_pays(slices: Sequence[_Slice]) -> float | None:
    """Return about the number of distinct keys of all slices; None if folding each slice makes few rows more."""
    rows = sum(one.rows.num_rows for one in slices)
    if rows == 0 or any(one.rows.schema != slices[0].rows.schema for one in slices):
        return None
    of_slices = sum(len(group_codes(one.sample).first_row) for one in slices)
    of_all = [pa.concat_arrays(columns) for columns in zip(*(one.sample for one in slices), strict=True)]
    distinct = len(group_codes(of_all).first_row)
    return distinct * SAMPLED_KEYS if (of_slices - distinct) * SAMPLED_KEYS >= rows * _SAVED_MIN else None


def _bounds(divided: Sequence[_Divided], shares: int) -> Iterator[tuple[int, int]]:
    """Yield [first bucket, end) of at most so many shares, which have about equally many rows; none is empty."""
    rows = np.sum([np.diff(starts) for one in divided for _, starts in one.blocks], axis=0)
    below = np.cumsum(rows)
    ends = np.searchsorted(below, np.arange(1, shares + 1) * below[-1] / shares) + 1
    for first, end in pairwise([0, *np.unique(np.minimum(ends, BUCKETS)).tolist()]):
        if rows[first:end].any():
            yield first, end
