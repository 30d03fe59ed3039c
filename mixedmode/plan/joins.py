"""Makes the stage of a join from its spec and the columns of its two inputs. Pure: no Spark."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.config import JoinStep
from mixedmode.config.calls import quoted
from mixedmode.config.joins import Selected
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate.values import has_order
from mixedmode.operators.join import LEFT, RIGHT, AsOfJoinOperator, JoinLayout, OutputColumn
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage, Side

__all__ = ["JoinKey", "JoinedInput", "Selection", "equal_fields", "join_problems", "join_stage", "selection"]


@dataclass(frozen=True, slots=True)
class JoinedInput:
    """One input of a join: its name there, its columns, its event-time column, the sources and stages it comes from."""

    alias: str
    fields: tuple[pa.Field, ...]
    event_time: str | None
    roots: tuple[str, ...]

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
    """A key column of a join: its name and type, and its SQL expression over each input."""

    field: pa.Field
    expressions: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns that a join emits: (name, side, column of the side). `sql`: a SELECT over them, for expressions."""

    columns: tuple[tuple[str, int, pa.Field], ...]
    sql: str | None = None


def equal_fields(
    step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], where: Where
) -> tuple[tuple[pa.Field, pa.Field], ...]:
    """Return (column of the left, column of the right) of each pair that must be equal. Raise InvalidJobError."""
    left, right = inputs
    place = where("join", "on")
    return tuple((left.field(a, place), right.field(b, place)) for a, b in step.join.equal_columns)


def selection(step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], input_name: str, where: Where) -> Selection:
    """Return what a join emits.  input_name: the name by which the sql reads the rows of the join.

    Raise InvalidJobError for columns that are unknown or in doubt, and for two columns with one name.
    """
    place = where("join", "select")
    items = step.join.selected
    if not items:
        keys = {right.lower() for _, right in step.join.equal_columns}
        columns = [(field.name, LEFT, field) for field in inputs[LEFT].fields]
        columns += [(field.name, RIGHT, field) for field in inputs[RIGHT].fields if field.name.lower() not in keys]
        _check_names([name for name, _, _ in columns], inputs, place)
        return Selection(tuple(columns))
    found, texts = list[tuple[str, int, pa.Field]](), list[str]()
    for item in items:
        if item.expression is not None:
            texts.append(f"{item.expression} AS {quoted(str(item.name))}")
            continue
        own = list(_columns(item, inputs, place))
        found += own
        texts += [quoted(name) for name, _, _ in own]
    names = [name for name, _, _ in found]
    computed = [item for item in items if item.expression is not None]
    _check_names([*names, *(str(item.name) for item in computed)], inputs, place)
    if not computed:
        return Selection(tuple(found))
    hidden = [
        (f"_{inputs[side].alias}_{field.name}", side, field)
        for side in (LEFT, RIGHT)
        for field in inputs[side].fields
        if any(_names(item.text, field.name) for item in computed)
    ]
    structs = [
        _struct(inputs[side].alias, side, hidden) for side in (LEFT, RIGHT) if any(s == side for _, s, _ in hidden)
    ]
    rows = f"SELECT {', '.join(['*', *structs])} FROM {quoted(input_name)}"  # noqa: S608 - the job's own SQL
    sql = f"SELECT {', '.join(texts)} FROM ({rows})"  # noqa: S608 - the job's own SQL
    return Selection((*found, *hidden), sql)


def join_stage(
    step: JoinStep,
    upstream: Upstream,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    selected: Selection,
    where: Where,
) -> KeyedStage:
    """Return the stage of a join without problems (`join_problems`)."""
    spec = step.join.as_of
    ties, deleted = _own_columns(step, inputs[RIGHT], where)
    sides = _sides(selected, [*ties, *([deleted] if deleted else [])])
    layout = JoinLayout(
        KeySchema(tuple(key.field for key in keys)),
        (sides[LEFT], sides[RIGHT]),
        tuple(OutputColumn(name, side, sides[side].index(field)) for name, side, field in selected.columns),
    )
    event_time = inputs[LEFT].event_time
    operator = AsOfJoinOperator(
        layout,
        keeps_left=step.join.type == "left",
        strictly=spec.strictly,
        tolerance_us=None if spec.tolerance_ms is None else 1000 * spec.tolerance_ms,
        tie_break=tuple(sides[RIGHT].index(field) for field in ties),
        deleted=None if deleted is None else sides[RIGHT].index(deleted),
        event_time=_emitted_time(selected, str(event_time)),
    )
    starts = (0, len(sides[LEFT]), len(sides[LEFT]) + len(sides[RIGHT]))
    identity = {
        **step_fingerprint("as-of-join", [key.field for key in keys]),
        "type": step.join.type,
        "columns": [[{"name": field.name, "type": str(field.type)} for field in fields] for fields in sides],
        "tie-break": [field.name for field in ties],
        "deleted": None if deleted is None else deleted.name,
    }
    return KeyedStage(
        operator_id=operator_id(step, upstream.keyed_before),
        reads=upstream.reads,
        key_fields=tuple(key.field for key in keys),
        arguments=tuple(quoted(field.name) for fields in sides for field in fields),
        argument_types=tuple(field.type for fields in sides for field in fields),
        event_time=event_time,
        is_changelog=False,
        operator=operator,
        identity=identity,
        delay_us=upstream.delay_us,
        sides=tuple(
            Side(
                tuple(key.expressions[side] for key in keys),
                inputs[side].event_time,
                range(starts[side], starts[side + 1]),
                inputs[side].roots,
            )
            for side in (LEFT, RIGHT)
        ),
    )


def join_problems(
    step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], selected: Selection, where: Where
) -> list[InvalidJobError]:
    """Return the mistakes of a join whose key and selection are right."""
    found = [_no_event_time(one, where) for one in inputs if one.event_time is None]
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
    sides = _sides(selected, ties)
    return [*found, *(_no_order(field, where) for fields in sides for field in fields if not has_order(field.type))]


def _own_columns(step: JoinStep, right: JoinedInput, where: Where) -> tuple[list[pa.Field], pa.Field | None]:
    """Return the tie-break columns and the `deleted` column. Raise InvalidJobError for one that is not there."""
    spec = step.join.as_of
    ties = [right.field(name, where("join", "as-of", "tie-break")) for name in spec.tie_break]
    return ties, None if spec.deleted is None else right.field(spec.deleted, where("join", "as-of", "deleted"))


def _sides(selected: Selection, of_right: Sequence[pa.Field]) -> tuple[tuple[pa.Field, ...], tuple[pa.Field, ...]]:
    """Return the columns of each side that a join reads.  of_right: those that it reads besides the selection."""
    left = [field for _, side, field in selected.columns if side == LEFT]
    right = [field for _, side, field in selected.columns if side == RIGHT]
    return tuple(dict.fromkeys(left)), tuple(dict.fromkeys([*right, *of_right]))


def _columns(
    item: Selected, inputs: tuple[JoinedInput, JoinedInput], where: str
) -> Iterator[tuple[str, int, pa.Field]]:
    """Yield (name, side, column) of an entry that is a column or all columns of an input."""
    column = str(item.column)
    sides = [s for s in (LEFT, RIGHT) if item.input is None or inputs[s].alias.lower() == item.input.lower()]
    if column == "*":
        yield from ((field.name, side, field) for side in sides for field in inputs[side].fields)
        return
    if item.input is None:
        has = [s for s in sides if any(field.name.lower() == column.lower() for field in inputs[s].fields)]
        if len(has) > 1:
            left, right = (one.alias for one in inputs)
            msg = (
                f"{where}: both inputs have this column. Write {left}.{column} or {right}.{column}, with another name "
                f"if both are wanted: {right}.{column} AS other_{column}. found={item.text}"
            )
            raise InvalidJobError(msg)
        sides = has or sides[:1]
    field = inputs[sides[0]].field(column, where)
    yield item.name or field.name, sides[0], field


def _check_names(names: Sequence[str], inputs: tuple[JoinedInput, JoinedInput], where: str) -> None:
    lowered = [name.lower() for name in names]
    twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        left, right = (one.alias for one in inputs)
        msg = (
            f"{where}: two columns of the result have one name. Select them by name, one of them with another name, "
            f"such as `select: [{left}.*, {right}.{twice} AS {right}_{twice}]`. column={twice}"
        )
        raise InvalidJobError(msg)
    taken = next((name for name in names if name.startswith("_")), None)
    if taken is not None:
        msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={taken}"
        raise InvalidJobError(msg)


def _names(text: str, column: str) -> bool:
    """Return whether an expression may name a column, or all columns."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)|\.\s*\*", text, re.IGNORECASE) is not None


def _struct(alias: str, side: int, hidden: Sequence[tuple[str, int, pa.Field]]) -> str:
    parts = [f"{_text(field.name)}, {quoted(name)}" for name, own, field in hidden if own == side]
    return f"named_struct({', '.join(parts)}) AS {quoted(alias)}"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _emitted_time(selected: Selection, event_time: str) -> str | None:
    """Return the name under which a join emits the event time of the left; None if it does not."""
    own = (name for name, side, field in selected.columns if side == LEFT and field.name.lower() == event_time.lower())
    return next(own, None)


def _no_event_time(given: JoinedInput, where: Where) -> InvalidJobError:
    msg = (
        f"{where('join', 'as-of')}: it goes by event time, and the rows of {given.alias} have none. Set `event-time` "
        "on the source, or on the process step, that they come from, and keep that column in the sql between."
    )
    return InvalidJobError(msg)


def _no_order(field: pa.Field, where: Where) -> InvalidJobError:
    msg = (
        f"{where('join', 'select')}: a column of this type cannot be kept while a row waits. Leave it out of `select`, "
        f"or cast it in a sql step before, as with to_json. column={field.name}, type={field.type}"
    )
    return InvalidJobError(msg)
