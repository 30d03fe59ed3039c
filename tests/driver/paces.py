"""Figures of an epoch whose phases take as long as their costs say."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from mixedmode.driver.pace import PartFigures, StepFigures, Work

TASKS, RECORDS, SIZE, IDLE = 4, 1_000_000, 64_000_000, 6.0


def figures(done: Sequence[float], made: float) -> StepFigures:
    """The figures of a step of which these shares of its phases are done. Its tasks go on side by side."""
    read, folded, sent, received, ordered, processed, stored = done
    rows = int(made * RECORDS)
    is_sent = sent >= 1
    map_side = PartFigures(
        tasks=TASKS,
        tasks_done=TASKS * is_sent,
        is_complete=is_sent,
        records=int(RECORDS * read),
        rows=int(made * RECORDS * folded),
        bytes_read=SIZE * read,
        bytes_total=SIZE,
        records_noted=int(RECORDS * read),
        records_folded=int(RECORDS * folded),
        records_sent=int(RECORDS * sent),
    )
    subtasks = PartFigures(
        tasks=TASKS * is_sent,
        tasks_done=TASKS * (stored >= 1),
        is_complete=stored >= 1,
        rows=int(rows * received),
        sorted=TASKS * ordered,
        processed=TASKS * processed,
        stored=TASKS * (processed >= 1),
    )
    return map_side, subtasks


def run_of(
    work: Work, made: float, slices: int, whole: float, *, looks: int = 60
) -> tuple[float, list[tuple[float, StepFigures]]]:
    """The figures of a step that takes so many seconds after IDLE, as its costs say; and when the first slice is sent.

    Nobody sees how far a slice is folded or sent, a subtask sorts or stores.
    """
    costs = work.of(RECORDS, made * RECORDS)
    pace = whole / sum(costs)
    shares = [0.0] * 7
    ends = [(IDLE, tuple(shares))]
    for number in range(1, slices + 1):
        for phase in range(3):
            shares[phase] = number / slices
            ends.append((ends[-1][0] + costs[phase] * pace / slices, tuple(shares)))
    for phase in range(3, 7):
        shares[phase] = 1.0
        ends.append((ends[-1][0] + costs[phase] * pace, tuple(shares)))
    return ends[3][0], [
        (second, figures(_at(ends, second), made))
        for second in (ends[-1][0] * number / looks for number in range(1, looks + 1))
    ]


def _at(ends: Sequence[tuple[float, tuple[float, ...]]], second: float) -> Sequence[float]:
    visible = (True, False, False, True, False, True, False)
    for (begin, before), (end, after) in pairwise(ends):
        if begin <= second < end:
            part = (second - begin) / (end - begin)
            return [low + (high - low) * part * shown for low, high, shown in zip(before, after, visible, strict=True)]
    return ends[0][1] if second < IDLE else ends[-1][1]


parts = st.builds(
    PartFigures,
    tasks=st.integers(0, 8),
    tasks_done=st.integers(0, 8),
    is_complete=st.booleans(),
    records=st.integers(0, 10),
    rows=st.integers(0, 10),
    bytes_read=st.floats(0, 1e9),
    bytes_total=st.floats(0, 1e9),
    records_noted=st.integers(0, 10),
    records_folded=st.integers(0, 10),
    records_sent=st.integers(0, 10),
    sorted=st.floats(0, 8),
    processed=st.floats(0, 8),
)
