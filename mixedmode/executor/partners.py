"""Decides whether map tasks of a join leave out rows that find no partner (tasks/partners.py). Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mixedmode.executor.protocol import EpochTask
from mixedmode.operators.join import LEFT, RIGHT, JoinBase
from mixedmode.plan.stages import KeyedStage
from mixedmode.tasks.partners import Partners

__all__ = ["files_rows", "partners", "side_to_thin"]

#: the most rows of a side whose keys are collected: hashes of them travel with every task
FEW_ROWS = 100_000
#: the least rows of the other side that make it worth an action of its own, as a number and as times those of the first
MANY_ROWS, MANY_TIMES = 1_000_000, 10
_ROW_BYTES = 100


def files_rows(files: Sequence[tuple[str, int]]) -> int:
    """Return about how many rows are in files (path, bytes), rather too few."""
    return sum(length for _, length in files) // _ROW_BYTES


def side_to_thin(task: EpochTask, stage: KeyedStage, rows: Mapping[str, int]) -> int | None:
    """Return the side of a join whose rows without a partner may be left out in this epoch; None: no side.

    rows: {root: its rows}, of the steps that have ended and of the sources whose size is known.

    The watermark of the epoch has to be known, and no row of an earlier epoch may be a partner, so the step has no
    stored state yet. All rows of the other side come from steps that have ended.
    """
    operator, timing = stage.operator, task.timing_of(stage)
    is_known = timing.fires_all or task.plan.measured_by != stage.operator_id
    if not (isinstance(operator, JoinBase) and timing.is_backlog and is_known) or task.runs_of(stage.operator_id):
        return None
    for side, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
        few, many = (stage.sides[number].roots for number in (other, side))
        if not operator.drops_alone(side) or not set(few) <= rows.keys() & set(stage.reads.stages):
            continue
        fewer, more = sum(rows[root] for root in few), sum(rows.get(root, 0) for root in many)
        if fewer <= FEW_ROWS and more >= max(MANY_ROWS, MANY_TIMES * fewer):
            return side
    return None


def partners(task: EpochTask, stage: KeyedStage, side: int, hashes: npt.NDArray[np.uint64]) -> Partners:
    """Return what map tasks need to leave rows of a side out.  hashes: of the keys of the other side."""
    return Partners(side, hashes, task.timing_of(stage).epoch_time(task.seen, delay_us=stage.delay_us))
