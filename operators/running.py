"""An epoch of a keyed operator, in the steps that do not depend on where it runs: Spark's tasks, or one process.

map side     fold, then `pieces_by_subtask` of what that gives
subtask      `sorter_for` takes the pieces, `outputs_of` brings what is due, sorts, and processes
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import subtask_of_group
from mixedmode.operators.interface import KEY_GROUP_COLUMN, Changes, KeyedOperator, SideRows, SubtaskContext
from mixedmode.profile import Profile
from mixedmode.sort import ExternalSorter, take_rows


def checked_event_times(times: pa.Array, *, column: str) -> npt.NDArray[np.int64]:
    """Event times of records, (n,) int64 in microseconds. Raises InvalidJobError when a record has none."""
    if times.null_count:
        msg = (
            "a record has no event time, so it has no place in time. Set the column for every record, filter such "
            "records out in a sql step, or remove `event-time` from the source. "
            f"column={column}, records_affected={times.null_count}, records_looked_at={len(times)}"
        )
        raise InvalidJobError(msg)
    found: npt.NDArray[np.int64] = times.to_numpy()
    return found


def pieces_by_subtask(table: pa.Table, *, parallelism: int, max_parallelism: int) -> Iterator[pa.Table]:
    """The rows of each subtask, in the order of the table: `parallelism` tables, some of them empty.

    They are not sorted: the subtask sorts what comes from all map tasks, and sorting it twice is no faster.
    """
    groups = table.column(KEY_GROUP_COLUMN).to_numpy()
    owners = subtask_of_group(groups, parallelism=parallelism, max_parallelism=max_parallelism)
    rows = np.argsort(owners.astype(np.uint16), kind="stable")  # a radix sort, for numbers of 16 bits
    borders = np.cumsum(np.bincount(owners, minlength=parallelism)).tolist()
    for start, end in pairwise([0, *borders]):
        yield take_rows(table, rows[start:end])


def sorter_for(operator: KeyedOperator, *, budget_bytes: int, spill_dir: Path) -> ExternalSorter:
    """The sorter of a subtask. Whatever the operator does not combine comes in tables of whole keys."""
    combine = operator.combine
    return ExternalSorter(budget_bytes=budget_bytes, spill_dir=spill_dir, combine=combine, whole_keys=combine is None)


def outputs_of(
    operator: KeyedOperator, sorter: ExternalSorter, context: SubtaskContext, profile: Profile
) -> Iterator[Changes | SideRows]:
    """What a subtask gives once it has all of its input in `sorter`; state is written meanwhile."""
    with profile.stage("look for what is due"):
        for table in operator.due(context):
            sorter.add_sorted(table)
    return profile.each("process", operator.process(profile.each("sort", sorter.sorted_tables()), context))
