"""Decides whether the windows of a range of time can be computed again on their own, and replaced. Pure.

A window of the range depends on the records of the range only, if all keyed steps after the windows keep the windows
apart. The windows must be closed: no record that still comes changes them, and no state is left of them.

The rows of an output show their windows by a column with the start or the end, under whatever name. SQL after the
windows may drop one of the two where the other one shows which windows lie in the range.

Invariant (tests/plan/test_backfill.py): `around` a range is the smallest range that has it, and at whose start some
window begins, and at whose end some window ends; the rows of `replaced_rows` are those of the windows in the range.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mixedmode.checkpoint.types import Manifest
from mixedmode.expressions import NAMED_STRUCT, Call, Column, Node, Query
from mixedmode.operators.window import WINDOW_BOUNDS, TimeWindowAggregateOperator
from mixedmode.plan.job_plan import JobPlan, entry_of
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage, key_column
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, Cumulating, Sliding, TimeWindows, shifted_us
from mixedmode.time.window_range import BOUND_TYPE, Bound, ReplacedRows, WindowRange

__all__ = ["BackfillStep", "BoundPath", "around", "closed_until_us", "replaceable_step", "replaced_rows"]

#: the name of a column, and of its field, if it is a struct
BoundPath = tuple[str] | tuple[str, str]


@dataclass(frozen=True, slots=True)
class BackfillStep:
    """The step whose windows are computed again, and where the output has the bounds of its windows.

    start, end: a column, or a column and its field; None for a bound that the output does not have. One of the two
    shows which windows lie in a range.
    """

    stage: KeyedStage
    operator: TimeWindowAggregateOperator
    start: BoundPath | None
    end: BoundPath | None


def replaceable_step(plan: JobPlan, output: str) -> BackfillStep | str:
    """Return the step with the windows of an output; or the reason, as a clause, why its rows cannot be replaced.

    output: the name of an output of whole steps.
    """
    if any(stage.keeps_list for stage in plan.maps):
        return "a map function keeps a list, which depends on all records before"
    result = plan.results[output]
    path = _stages_of(plan, result.reads)
    if isinstance(path, str):
        return path
    first, *others = path
    operator = _window_step(first)
    if operator is None:
        return (
            "its first keyed step has no tumbling, sliding or cumulating window of event time. So its rows depend on "
            f"records outside of the range, too. step={first.operator_id}"
        )
    names = _Bounds(*((bound.name,) for bound in WINDOW_BOUNDS))
    before = first.operator_id
    for stage in others:
        names = names.in_key(plan, stage, before)
        if not names.show(operator.windows):
            return f"step {stage.operator_id} has no bounds of the windows in its key, so it mixes windows"
        if stage.operator.states and not stage.is_window_keyed:
            return (
                f"step {stage.operator_id} keeps the results of closed windows in its state, where they would stay as "
                "they are. Put window_start and window_end, or the window itself, into its key"
            )
        before = stage.operator_id
    if result.stage is None:
        names = names.read_by(plan, entry_of(output), result.reads, before)
    else:
        names = names.among({field.name: field.name for field in result.fields if field.type == BOUND_TYPE})
    if not names.show(operator.windows):
        return _no_bounds(plan, operator.windows, before)
    return BackfillStep(first, operator, names.start, names.end)


def replaced_rows(step: BackfillStep, windows: WindowRange) -> ReplacedRows:
    """Return the rows of an output whose windows lie in a range.

    windows: at its start, a window begins, and at its end, one ends (see `around`). Then the start or the end of a
    window is enough. Example, of 10:00 to 12:00: an hour that starts before 12:00 lies in it, an hour of every ten
    minutes if it starts by 11:00.
    """
    kind = step.operator.windows
    length_us = kind.size_us if isinstance(kind, Sliding) else 1
    least = greatest = None
    if step.start is not None:
        least = _bound(step.start, windows.start_us)
        greatest = _bound(step.start, windows.end_us - length_us)
    if step.end is not None:
        least = least or _bound(step.end, windows.start_us + length_us)
        greatest = _bound(step.end, windows.end_us)
    assert least is not None, step
    assert greatest is not None, step
    return ReplacedRows(least, greatest)


def around(kinds: Sequence[TimeWindows], wanted: WindowRange) -> WindowRange:
    """Return the smallest range with `wanted`, at whose start and end a window of each kind begins and ends.

    Example: with windows of an hour, it is 10:00 to 12:00 around 10:00 to 11:30, and around itself.
    """
    found = wanted
    for windows in kinds:
        _, ends = windows.windows_of_panes(windows.panes(np.array([found.start_us], np.int64)))
        _, last = windows.windows_of_panes(windows.panes(np.array([found.end_us - 1], np.int64)))
        found = WindowRange(int(windows.starts(ends).max()), int(last.min()))
    return found if found == wanted else around(kinds, found)


def closed_until_us(step: BackfillStep, manifest: Manifest) -> int | None:
    """Return the latest end of windows that no record can change after a checkpoint; None if there is none."""
    if manifest.is_final:
        return MAX_TIME_US
    watermark_us = manifest.step_watermarks.get(step.stage.operator_id, manifest.watermark_us)
    if watermark_us is None or watermark_us == MIN_TIME_US:
        return None
    return shifted_us(watermark_us, -step.operator.allowed_lateness_us)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The places of the start and the end of windows in rows; None for a bound that is not there."""

    start: BoundPath | None
    end: BoundPath | None

    def show(self, windows: TimeWindows) -> bool:
        """Return whether rows with these columns show which windows lie in a range (see `replaced_rows`).

        The start of a cumulating window does not say when it ends, nor do days of a time zone that slide, as they have
        different lengths.
        """
        if self.start is not None and self.end is not None:
            return True
        if isinstance(windows, Sliding) and windows.time_zone is not None:
            return False
        return self.end is not None or (self.start is not None and not isinstance(windows, Cumulating))

    def among(self, columns: Mapping[str, str]) -> "_Bounds":
        """Return the bounds that are among these columns as they are, by their new names."""
        found = [None if path is None or len(path) > 1 else columns.get(path[0]) for path in (self.start, self.end)]
        return _Bounds(*(None if name is None else (name,) for name in found))

    def in_key(self, plan: JobPlan, stage: KeyedStage, before: str) -> "_Bounds":
        """Return the key columns of a stage that are bounds in the rows of the stage `before`."""
        names = [field.name for field in stage.key_fields]
        if stage.reads.relations == stage.reads.stages:
            return self.among({name: name for name in names})
        read = {key_column(number): name for number, name in enumerate(names)}
        return self.read_by(plan, stage.operator_id, stage.reads, before).among(read)

    def read_by(self, plan: JobPlan, reader: str, reads: Reads, stage: str) -> "_Bounds":
        """Return where a reader of the rows of `stage` has the bounds as they are."""
        if reads.relations == reads.stages:
            return self
        queries = plan.inner.get(reader, {}).get(stage, ())
        return _Bounds(*(None if path is None else _unchanged(queries, path[0]) for path in (self.start, self.end)))


def _bound(path: BoundPath, at_us: int) -> Bound:
    column, *field = path
    return Bound(column, at_us, *field)


def _unchanged(queries: Sequence[Query], name: str) -> BoundPath | None:
    """Return where all queries put the column `name` of their input; None if there is no such place.

    A column of its own is found before a field of a struct.
    """
    found = [set(_places_of(query, name)) for query in queries]
    return min(set.intersection(*found), key=lambda path: (len(path), path), default=None) if found else None


def _places_of(query: Query, name: str) -> Iterator[BoundPath]:
    for column, number in query.columns:
        node = query.nodes[number]
        if _is_column(node, name):
            yield (column,)
        elif isinstance(node, Call) and node.kind == NAMED_STRUCT:
            for field, argument in zip(node.data_type, node.arguments, strict=True):
                if _is_column(query.nodes[argument], name):
                    yield column, field.name


def _is_column(node: Node, name: str) -> bool:
    return isinstance(node, Column) and node.name == name and node.data_type == BOUND_TYPE


def _window_step(stage: KeyedStage) -> TimeWindowAggregateOperator | None:
    """Return the operator of a stage that has windows of event time over records; None for any other stage."""
    operator = stage.operator
    if not isinstance(operator, TimeWindowAggregateOperator) or operator.by_clock:
        return None
    return operator if stage.event_time is not None and not stage.reads.stages else None


def _stages_of(plan: JobPlan, reads: Reads) -> list[KeyedStage] | str:
    """Return the stages that the rows of an output go through, the first one first; or why there is no such chain."""
    stages: Mapping[str, KeyedStage] = {stage.operator_id: stage for stage in plan.stages}
    found = list[KeyedStage]()
    while reads.stages:
        if len(reads.stages) > 1 or reads.sources:
            return "its rows are made of the rows of several steps"
        found.insert(0, stages[reads.stages[0]])
        reads = found[0].reads
    if not found:
        return (
            "it has no step with windows. So no watermark ever closes the range: the job may still read a record of "
            "it, also one that the backfill has read, and would write its rows a second time"
        )
    return found


def _no_bounds(plan: JobPlan, windows: TimeWindows, stage: str) -> str:
    spark = plan.inner_by_spark.get(stage)
    if spark is not None:
        return f"Spark runs the SQL after the windows, so their bounds cannot be followed: {spark}"
    needed = "the end" if isinstance(windows, Cumulating) else "the start or the end"
    if isinstance(windows, Sliding) and windows.time_zone is not None:
        needed = "the start and the end"
    return f"the output does not have {needed} of the windows as it is. Select the window, or window.start AS hour"
