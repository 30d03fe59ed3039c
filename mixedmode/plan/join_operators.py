"""Makes the operator of a join from its spec and the columns of its two inputs. Pure: no Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from mixedmode.config import JoinStep
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Query
from mixedmode.keys import KeySchema
from mixedmode.operators.join import (
    LEFT,
    RIGHT,
    TIME_TYPE,
    AsOfJoinOperator,
    Condition,
    IntervalJoinOperator,
    JoinLayout,
    OutputColumn,
    RegularJoinOperator,
    Sides,
)
from mixedmode.plan.fingerprint import Fingerprint, step_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stored_types import unordered, unstorable

__all__ = [
    "JoinKey",
    "JoinOperator",
    "JoinedInput",
    "PairCondition",
    "Selection",
    "join_identity",
    "join_operator",
    "join_problems",
    "no_event_time_of",
    "pair_condition",
    "pair_name",
]

JoinOperator: TypeAlias = AsOfJoinOperator | IntervalJoinOperator | RegularJoinOperator


@dataclass(frozen=True, slots=True)
class JoinedInput:
    """One input of a join: its name there, its columns, its event-time column, the sources and stages it comes from.

    `row_key`: see RowKey.
    """

    alias: str
    fields: tuple[pa.Field, ...]
    event_time: str | None
    roots: tuple[str, ...]
    row_key: RowKey = None

    def field(self, name: str, where: str) -> pa.Field:
        """Return a column, whatever the case of `name`. Raise InvalidJobError, beginning with `where`, if none is."""
        found = next((field for field in self.fields if field.name.lower() == name.lower()), None)
        if found is None:
            known = [field.name for field in self.fields]
            msg = (
                f"{where}: {self.alias} has no column {name}.{did_you_mean(name, known)} Columns there: "
                f"{', '.join(known)}."
            )
            raise InvalidJobError(msg)
        return found


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A key column of a step with two inputs.

    `field`: its name on the left, and its type. `right`: its name on the right. `expressions`: SQL over each input.
    """

    field: pa.Field
    right: str
    expressions: tuple[str, str]


@dataclass(frozen=True, slots=True)
class PairCondition:
    """The condition of a join, over columns of both sides: (name in the query, side, column of the side)."""

    text: str
    query: Query
    columns: tuple[tuple[str, int, pa.Field], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns that a join emits: (name, side, column of the side). `sql`: a SELECT over them, for expressions.

    `added`: the name of a column with the later time of a pair, if there is one. `condition`: of the pairs from which
    they come.
    """

    columns: tuple[tuple[str, int, pa.Field], ...]
    sql: str | None = None
    added: tuple[str, ...] = ()
    condition: PairCondition | None = None


def pair_name(side: int, column: str) -> str:
    """Return the name of a column of a side in the query of a condition."""
    return f"{'left' if side == LEFT else 'right'}.{column}"


def pair_condition(text: str, query: Query, inputs: tuple[JoinedInput, JoinedInput], where: str) -> PairCondition:
    """Return a condition.  query: its columns are named by `pair_name`. Raise InvalidJobError if it reads no column."""
    used = {column.name for column in query.reads}
    found = tuple(
        (name, side, field)
        for side in (LEFT, RIGHT)
        for field in inputs[side].fields
        if (name := pair_name(side, field.name)) in used
    )
    if not found:
        msg = f"{where}: the condition depends on no column, so it is the same for all pairs. Remove it. found={text}"
        raise InvalidJobError(msg)
    return PairCondition(text, query, found)


def join_operator(
    step: JoinStep,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    selected: Selection,
    where: Where,
    *,
    is_changelog: bool,
) -> JoinOperator:
    """Return the operator of a join without problems (`join_problems`).  is_changelog: an input may retract rows."""
    if step.join.is_regular:
        sides = _sides(selected, [])
        return RegularJoinOperator(
            _layout(keys, sides, selected),
            step.join.type,
            is_changelog=is_changelog,
            condition=_condition(selected, sides),
        )
    of_left = _emitted_time(selected, str(inputs[LEFT].event_time))
    spec = step.join.as_of
    if spec is None:
        assert step.join.within is not None, step
        lower_ms, upper_ms = step.join.within
        is_pair = step.join.type not in ("semi", "anti")
        sides = _sides(selected, [])
        return IntervalJoinOperator(
            _layout(keys, sides, selected, inputs),
            step.join.type,
            bounds_us=(1000 * lower_ms, 1000 * upper_ms),
            event_time=_time_of_pairs(step, selected) if is_pair else of_left,
            adds_time=bool(selected.added),
            condition=_condition(selected, sides),
        )
    ties, deleted = _own_columns(step, inputs[RIGHT], where)
    sides = _sides(selected, [*ties, *([deleted] if deleted else [])])
    return AsOfJoinOperator(
        _layout(keys, sides, selected, inputs),
        keeps_left=step.join.type == "left",
        strictly=spec.strictly,
        tolerance_us=None if spec.tolerance_ms is None else 1000 * spec.tolerance_ms,
        tie_break=tuple(sides[RIGHT].index(field) for field in ties),
        deleted=None if deleted is None else sides[RIGHT].index(deleted),
        event_time=of_left,
    )


def join_identity(step: JoinStep, operator: JoinOperator) -> Fingerprint:
    """Return the fingerprint of a join, without the part on its inputs."""
    layout = operator.layout
    columns = [[{"name": field.name, "type": str(field.type)} for field in fields] for fields in layout.sides]
    condition = step.join.condition
    met = {} if condition is None else {"condition": " ".join(condition.split())}
    if isinstance(operator, RegularJoinOperator):
        own = {"type": operator.type, "columns": columns, "changelog": operator.is_changelog, **met}
        return {**step_fingerprint("regular-join", layout.key_schema.fields), **own}
    names = [field.name for field in layout.sides[RIGHT]]
    common = {"type": step.join.type, "columns": columns, **met}
    if isinstance(operator, IntervalJoinOperator):
        bounds = {"within-us": list(operator.bounds_us)}
        return {**step_fingerprint("interval-join", layout.key_schema.fields), **common, **bounds}
    return {
        **step_fingerprint("as-of-join", layout.key_schema.fields),
        **common,
        "deleted": None if operator.deleted is None else names[operator.deleted],
        "forgets": operator.tolerance_us is not None,
    }


def join_problems(
    step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], selected: Selection, where: Where
) -> list[InvalidJobError]:
    """Return the mistakes of a join whose key and selection are right."""
    place = where("join", "select")
    if step.join.is_regular:
        return _unstorable(_sides(selected, []), place)
    kind = "within" if step.join.as_of is None else "as-of"
    found = [no_event_time_of(one, where("join", kind)) for one in inputs if one.event_time is None]
    if step.join.as_of is None:
        return [*found, *_unstorable(_sides(selected, []), place)]
    try:
        ties, deleted = _own_columns(step, inputs[RIGHT], where)
    except InvalidJobError as error:
        return [*found, error]
    if deleted is not None and not pa.types.is_boolean(deleted.type):
        msg = (
            f"{where('join', 'as-of', 'deleted')}: it must be a boolean column. Compute one in a sql step before. "
            f"column={deleted.name}, type={deleted.type}"
        )
        found.append(InvalidJobError(msg))
    found += unordered([(tie.name, tie.type) for tie in ties], where("join", "as-of", "tie-break"))
    return [*found, *_unstorable(_sides(selected, []), place)]


def _own_columns(step: JoinStep, right: JoinedInput, where: Where) -> tuple[list[pa.Field], pa.Field | None]:
    """Return the tie-break columns and the `deleted` column. Raise InvalidJobError for one that is not there."""
    spec = step.join.as_of
    assert spec is not None, step
    ties = [right.field(name, where("join", "as-of", "tie-break")) for name in spec.tie_break]
    return ties, None if spec.deleted is None else right.field(spec.deleted, where("join", "as-of", "deleted"))


def _layout(
    keys: Sequence[JoinKey], sides: Sides, selected: Selection, timed: tuple[JoinedInput, JoinedInput] | None = None
) -> JoinLayout:
    """Return the layout of a join.  timed: its inputs, if it goes by event time."""
    output = (OutputColumn(name, side, sides[side].index(field)) for name, side, field in selected.columns)
    times = (
        (None, None) if timed is None else (_time_in(sides[LEFT], timed[LEFT]), _time_in(sides[RIGHT], timed[RIGHT]))
    )
    schema = KeySchema(tuple(key.field for key in keys))
    return JoinLayout(schema, sides, tuple(output), times, tuple(key.right for key in keys))


def _time_in(fields: Sequence[pa.Field], given: JoinedInput) -> int | None:
    """Return which of these columns of an input is its event time; None if there is none that is equal to it."""
    name = str(given.event_time).lower()
    return next((i for i, field in enumerate(fields) if field.name.lower() == name and field.type == TIME_TYPE), None)


def _sides(selected: Selection, of_right: Sequence[pa.Field]) -> Sides:
    """Return the columns of each side that a join reads.  of_right: those that it reads besides the selection."""
    read = [*selected.columns, *(() if selected.condition is None else selected.condition.columns)]
    left, right = ([field for _, side, field in read if side == own] for own in (LEFT, RIGHT))
    return tuple(dict.fromkeys(left)), tuple(dict.fromkeys([*right, *of_right]))


def _condition(selected: Selection, sides: Sides) -> Condition | None:
    given = selected.condition
    if given is None:
        return None
    columns = (OutputColumn(name, side, sides[side].index(field)) for name, side, field in given.columns)
    return Condition(given.text, given.query, tuple(columns))


def _emitted_time(selected: Selection, event_time: str) -> str | None:
    """Return the name under which a join emits the event time of the left; None if it does not."""
    own = (name for name, side, field in selected.columns if side == LEFT and field.name.lower() == event_time.lower())
    return next(own, None)


def _time_of_pairs(step: JoinStep, selected: Selection) -> str | None:
    """Return the column that `event-time` names, as it is written in the result."""
    wanted = step.join.event_time
    return next((name for name, _, _ in selected.columns if wanted and name.lower() == wanted.lower()), wanted)


def no_event_time_of(given: JoinedInput, where: str) -> InvalidJobError:
    """Return the error of a step, at `where`, that goes by event time, and of whose input the rows have none."""
    msg = (
        f"{where}: it goes by event time, and the rows of {given.alias} have none. Set `event-time` on the source, the "
        "process step or the join with within that they come from. `select` and the sql between must keep that column."
    )
    return InvalidJobError(msg)


def _unstorable(sides: Sequence[Sequence[pa.Field]], where: str) -> list[InvalidJobError]:
    return [problem for fields in sides for problem in unstorable(fields, where)]
