"""The parts of an epoch that are the same wherever a keyed operator runs: in Spark tasks, or in one process.

map side     `fold` turns records into keyed rows; `divided_by_subtask` divides them among the subtasks
subtask      `sorter_for` makes the sorter for these pieces; `outputs_of` adds the rows that are due, sorts, processes
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeyGroupRange, group_range
from mixedmode.operators.interface import KEY_GROUP_COLUMN, Changes, KeyedOperator, SideRows, SubtaskContext
from mixedmode.profile import Profile
from mixedmode.sort import ExternalSorter, take_rows

_BLOCK_ROWS = 2**17  # rows whose columns mostly fit in a CPU's cache
_PIECE_ROWS = 2**14  # of a subtask in a block, on average at least: with fewer rows, calls take longer than their work


def checked_event_times(times: pa.Array, *, column: str) -> npt.NDArray[np.int64]:
    """Return event times (n,) as int64 microseconds. Raise InvalidJobError if a record has none."""
    if times.null_count:
        msg = (
            "a record has no event time, so it has no place in time. Set the column for every record, filter such "
            "records out in a sql step, or remove `event-time` from the source. "
            f"column={column}, records_affected={times.null_count}, records_looked_at={len(times)}"
        )
        raise InvalidJobError(msg)
    found: npt.NDArray[np.int64] = times.to_numpy()
    return found


def divided_by_subtask(
    table: pa.Table, groups: npt.NDArray[np.uint16], *, parallelism: int, max_parallelism: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield (subtask, some of its rows) of rows (n,) with these key groups (n,); a subtask may come several times.

    The rows of a key keep their order. They are not sorted by key: the subtask sorts the rows of all map tasks, and
    sorting them twice is no faster. But each block of rows is in the order of key groups. So where the subtask takes
    rows in sorted order, those of a key group are near each other, and are read in a cache.
    """
    owned = [group_range(n, parallelism=parallelism, max_parallelism=max_parallelism) for n in range(parallelism)]
    block_rows = max(_BLOCK_ROWS, parallelism * _PIECE_ROWS)
    for start in range(0, len(groups), block_rows):
        block = groups[start : start + block_rows]
        order = np.argsort(block, kind="stable")  # a radix sort, for numbers of 16 bits
        ordered = take_rows(table.slice(start, block_rows), order)
        before = [0, *np.cumsum(np.bincount(block, minlength=max_parallelism)).tolist()]  # rows before a group
        for subtask, own in enumerate(owned):
            rows = before[own.end] - before[own.start]
            if rows:
                yield subtask, ordered.slice(before[own.start], rows)


def sorter_for(operator: KeyedOperator, *, budget_bytes: int, spill_dir: Path) -> ExternalSorter:
    """Return the sorter of a subtask. If the operator does not combine rows, it says what a table must not divide."""
    combine = operator.combine
    undivided = operator.attributes.undivided if combine is None else "row"
    return ExternalSorter(budget_bytes=budget_bytes, spill_dir=spill_dir, combine=combine, undivided=undivided)


def outputs_of(
    operator: KeyedOperator,
    sorter: ExternalSorter,
    context: SubtaskContext,
    profile: Profile,
    tell: Callable[[float], object] = lambda _share: None,
) -> Iterator[Changes | SideRows]:
    """Yield the outputs of a subtask whose input is all in `sorter`. Iterating also writes the state.

    tell: called with the part of the key groups that is processed, each time when the operator asks for more.
    """
    with profile.stage("look for what is due"):
        for table in operator.due(context):
            sorter.add_sorted(table)
    tables = _told(profile.each("sort", sorter.sorted_tables()), context.groups, tell)
    return profile.each("process", operator.process(tables, context))


def _told(tables: Iterator[pa.Table], groups: KeyGroupRange, tell: Callable[[float], object]) -> Iterator[pa.Table]:
    """Yield sorted tables. Tell which part of the key groups those before cover, at the first one, and after each."""
    for number, table in enumerate(tables):
        if number == 0:
            tell(0.0)
        last = table.column(KEY_GROUP_COLUMN)[-1].as_py() if table.num_rows else groups.start
        yield table
        del table
        tell((last - groups.start) / max(1, groups.end - groups.start))
