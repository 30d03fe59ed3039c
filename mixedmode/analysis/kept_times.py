"""The check that the event time of a step is that of its roots, unchanged.

The watermark follows the column of the source. If SQL computes another time under its name, windows and timers would go
by times that the watermark does not know: an hour earlier, each live record would be late, and none of a batch.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import DataFrame

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of, kind_of
from mixedmode.analysis.direct_reads import StageInputs
from mixedmode.analysis.relations import Roots
from mixedmode.analysis.time_zones import moves_clocks
from mixedmode.errors import InvalidJobError
from mixedmode.plan.stages import KeyedStage

__all__ = ["check_kept_times"]

_Java = Any  # an object of the JVM
_INSTANT, _LOCAL = "TimestampType$", "TimestampNTZType$"


def check_kept_times(stage: KeyedStage, inputs: StageInputs, roots: Roots, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, if SQL computes the event time by which a stage fires.

    inputs: also of this stage. Rows of a map function are not checked: the function may return any times.
    """
    if not stage.operator.traits.fires_by_watermark:
        return
    frames = {**inputs.sources, **inputs.stages}
    relations = inputs.relations[stage.operator_id]
    times = [side.event_time for side in stage.sides] or [stage.event_time] * len(relations)
    for relation, time in zip(relations, times, strict=False):
        names = [*relation.sources, *relation.stages]
        timed = [(name, roots.event_time_of(name)) for name in names]
        known = [(frames[name], column) for name, column in timed if column is not None and name in frames]
        if time is None or len(known) < len(names):
            continue
        columns = _Columns.of(known, has_windows=bool(relation.stages), moves=moves_clocks(relation.frame.sparkSession))
        if _is_computed(relation.frame, time, columns):
            msg = (
                f"{where}: the step goes by event time, and SQL computes another time under the name of the event "
                "time. The watermark follows the column of the source, so records could be late that are not, and "
                "modes would have other results. Compute the time in `computed-columns` of the source, and name that "
                "column in its `event-time`; or give the computed column another name. "
                f"column={time}, event_times={', '.join(f'{name}.{column}' for name, column in timed)}"
            )
            raise InvalidJobError(msg)


def _is_computed(frame: DataFrame, column: str, columns: "_Columns") -> bool:
    """Return whether a column of a frame is anything but the event times of its roots."""
    plan = analysed(frame)
    columns.read(plan)
    return columns.is_computed(ids_of(plan.output())[frame.columns.index(column)])


@dataclass(slots=True)
class _Columns:
    """The columns of a plan that are passed on unchanged.

    roots: (plan, position of the event time) of each. has_windows: the last microsecond of a window is its event time,
    as SQL computes it of the window's end (grouped_sql.py). moves: clocks are moved in the time zone, so two instants
    may have one local time. times: ids of event times. before: {id: id of the column that it is}. others: {id of a
    column of a UNION: ids of the columns of its parts}. defined: {id of a query of WITH: ids of its columns}.
    """

    roots: Sequence[tuple[_Java, int]]
    has_windows: bool
    moves: bool
    times: set[int] = field(default_factory=set)
    before: dict[int, int] = field(default_factory=dict)
    others: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    defined: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, roots: Sequence[tuple[DataFrame, str]], *, has_windows: bool, moves: bool) -> Self:
        """roots: (rows, event-time column) of those that a frame is made of."""
        return cls([(analysed(rows), rows.columns.index(time)) for rows, time in roots], has_windows, moves)

    def read(self, plan: _Java) -> None:
        """Read a plan down to the roots."""
        position = next((position for root, position in self.roots if plan.sameResult(root)), None)
        if position is not None:
            self.times.add(ids_of(plan.output())[position])
            return
        kind = kind_of(plan)
        if kind == "Project":
            for expression in items_of(plan.projectList()):
                if kind_of(expression) == "Alias":
                    self._read_alias(id_of(expression), expression.child())
        elif kind == "CTERelationDef":
            self.defined[plan.id()] = ids_of(plan.output())
        elif kind == "CTERelationRef":
            columns = zip(ids_of(plan.output()), self.defined.get(plan.cteId(), ()), strict=False)
            self.before |= {own: before for own, before in columns if own != before}  # Spark may keep the id, too
        elif kind == "Union":
            for part in items_of(plan.children()):
                for own, other in zip(ids_of(plan.output()), ids_of(part.output()), strict=True):
                    self.others[own].add(other)
        for child in items_of(plan.children()):
            self.read(child)

    def _read_alias(self, own: int, value: _Java) -> None:
        while kind_of(value) == "Cast" and self._keeps_time(value):
            value = value.child()
        if kind_of(value) == "AttributeReference":
            self.before[own] = id_of(value)
        elif self.has_windows and kind_of(value) == "DatetimeSub":
            moved = value.replacement()
            if kind_of(moved) == "TimestampAddInterval" and moved.interval().foldable():
                self.times |= {own} if moved.interval().eval(None) == -1 else set()

    def _keeps_time(self, cast: _Java) -> bool:
        kind, before = kind_of(cast.dataType()), kind_of(cast.child().dataType())
        if kind == _LOCAL and before == _INSTANT:
            return not self.moves  # where clocks are set back, the later instant would become the earlier one
        return kind in {_INSTANT, _LOCAL}

    def is_computed(self, number: int) -> bool:
        """Return whether a column is not, in each part of a UNION, an event time of a root."""
        unread, seen = [number], set[int]()
        while unread:
            number = unread.pop()
            if number in seen:
                continue
            seen.add(number)
            unread += self.others.get(number, ())
            if number in self.before:
                unread.append(self.before[number])
            elif number not in self.times:
                return True
        return False
