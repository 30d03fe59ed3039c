"""Measures the progress of the sources in tasks: event times of an epoch's records, by source and partition.

The watermark follows the records of the sources, not the rows that SQL and functions make of them. If
each row of the first step is one record, with its event time and partition unchanged, the rows show the progress. So
do the rows of a join of two sources, whose side says which source a record is of.
Otherwise the same Spark job reads the sources once more, only for these columns. Those rows have the number of their
source in SOURCE_COLUMN, and the rows of the step have NULL there.

Invariants (tests/tasks/test_watching.py):
  I1  every row belongs either to the step or to a source, and rows of the step keep their order
  I2  the progress does not depend on how the records are cut into batches
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import group_codes
from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.timing import Timing
from mixedmode.time import Seen, Split, merge_seen, within_reach

__all__ = ["NO_PARTITION", "PARTITION_COLUMN", "SOURCE_COLUMN", "Watch", "Watched"]

SOURCE_COLUMN = "_source"  # number of the source, in rows that only show its progress
PARTITION_COLUMN = "_partition"
#: the partition of records whose partition column is NULL or empty; "" is a source without partitions
NO_PARTITION = "\0"


class Watched(StrEnum):
    """The rows in which a task finds the event times that move the watermark."""

    ROWS = "rows"  # each row of the step is a record of the one source, or of the source of its side
    APART = "apart"  # separate rows, which the step does not get
    BEFORE = "before"  # an earlier stage of the epoch has seen them


@dataclass(frozen=True, slots=True)
class Watch:
    """Measures the progress of the sources in a task. `sources`: names, in the order of their numbers.

    `counts_records`: the records of the sources count as those of the epoch; else, the input of the first step does.
    `sides`: the source of each side of the step, if its rows show their source by their side. `partitioned`: the
    sources with a partition column.
    """

    kind: Watched
    sources: tuple[str, ...]
    timing: Timing
    counts_records: bool = False
    sides: tuple[str, ...] = ()
    partitioned: Collection[str] = ()

    def split(self, rows: pa.Table) -> tuple[pa.Table, Progress]:
        """Return (the rows of the step, the progress in `rows`). The rows of the step are not counted."""
        match self.kind:
            case Watched.BEFORE:
                return rows, Progress()
            case Watched.ROWS:
                return rows, self._seen(rows)
            case Watched.APART:
                is_record = pc.is_valid(rows.column(SOURCE_COLUMN))
                records = pc.sum(is_record).as_py() or 0
                if records == 0:
                    return rows, Progress()
                if records == rows.num_rows:  # a Spark task reads one or the other
                    return rows.slice(0, 0), self._seen(rows)
                return rows.filter(pc.invert(is_record)), self._seen(rows.filter(is_record))

    def _seen(self, rows: pa.Table) -> Progress:
        """Return the progress of the splits. A record too far ahead of the clock is counted, but moves no watermark."""
        splits, codes = self._splits(rows)
        records = [rows.num_rows] if codes is None else np.bincount(codes, minlength=len(splits)).tolist()
        newest: list[int | None] = [None] * len(splits)
        ahead = 0
        if TIME_COLUMN in rows.column_names:
            for number, (source, _) in enumerate(splits):
                strategy = self.timing.strategies.get(source)
                if strategy is not None:
                    own = _times_us(rows, codes, number)
                    reach = within_reach(own, self.timing.clock_ms, strategy.max_ahead_ms)
                    ahead += len(own) - int(reach.sum())
                    newest[number] = int(own[reach].max()) if reach.any() else None
        splits_seen = dict[Split, Seen]()
        for split, count, newest_us in zip(splits, records, newest, strict=True):
            seen = Seen(count, newest_us)
            splits_seen[split] = merge_seen(splits_seen[split], seen) if split in splits_seen else seen
        return Progress(rows.num_rows if self.counts_records else 0, ahead=ahead, splits=splits_seen)

    def _splits(self, rows: pa.Table) -> tuple[Sequence[Split], npt.NDArray[np.int32] | None]:
        """Return the splits in a slice, and each record's split number (n,); None if there is at most one split.

        A split may be there twice: NULL and the empty text are one partition.
        """
        names, number = (self.sides, SIDE_COLUMN) if self.sides else (self.sources, SOURCE_COLUMN)
        wanted = [number] * (bool(self.sides) or (self.kind is Watched.APART and len(self.sources) > 1))
        columns = [*wanted, *([PARTITION_COLUMN] * (PARTITION_COLUMN in rows.column_names))]
        if rows.num_rows == 0:
            return [], None
        if not columns:
            return [(self.sources[0], "")], None
        groups = group_codes([rows.column(name).combine_chunks() for name in columns])
        distinct = rows.select(columns).take(pa.array(groups.first_row)).to_pylist()
        found = [self._split(names[one.get(number, 0)], one.get(PARTITION_COLUMN)) for one in distinct]
        return found, groups.codes

    def _split(self, source: str, partition: str | None) -> Split:
        return source, partition or (NO_PARTITION if source in self.partitioned else "")


def _times_us(rows: pa.Table, codes: npt.NDArray[np.int32] | None, number: int) -> npt.NDArray[np.int64]:
    """Return the event times of one split, without NULLs: a record without event time moves no watermark."""
    times = rows.column(TIME_COLUMN)
    if codes is not None:
        times = times.filter(pa.array(codes == number))
    times = times.cast(pa.int64()).drop_null()
    found: npt.NDArray[np.int64] = times.to_numpy()
    return found
