"""Makes the stage of a join from its spec and the columns of its two inputs. Pure: no Spark."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from mixedmode.config import JoinStep
from mixedmode.config.calls import named, quoted
from mixedmode.config.joins import Selected
from mixedmode.config.steps import operator_id
from mixedmode.config.two_inputs import TwoInputs
from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import Changelog
from mixedmode.operators.join import LEFT, RIGHT
from mixedmode.plan.join_operators import JoinedInput, JoinKey, Selection, join_identity, join_operator
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.row_keys import key_of_pairs
from mixedmode.plan.side_outputs import LATE_OF_SIDES
from mixedmode.plan.stages import KeyedStage, Side

__all__ = ["JOINED", "equal_fields", "join_stage", "selection", "sides_of"]

_Column = tuple[str, int, pa.Field]  # name, side, column of the side
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`", re.DOTALL)
_STAR = re.compile(r"[(,]\s*\*")  # an argument; else it multiplies, or follows the name of an input

JOINED = "_joined"  # not the id of the step: `join-1` is no name of a view in Spark


def equal_fields(
    pair: TwoInputs, inputs: tuple[JoinedInput, JoinedInput], where: str
) -> tuple[tuple[pa.Field, pa.Field], ...]:
    """Return (column of the left, column of the right) of each pair that must be equal.

    where: the place of `on`. Raise InvalidJobError for a column that is not there.
    """
    left, right = inputs
    return tuple((left.field(a, where), right.field(b, where)) for a, b in pair.equal_columns)


def sides_of(
    pair: TwoInputs,
    keys: Sequence[JoinKey],
    inputs: tuple[JoinedInput, JoinedInput],
    times: tuple[str | None, str | None],
    columns: Sequence[Sequence[pa.Field]],
) -> tuple[Side, ...]:
    """Return the inputs of a stage with two.

    times: the event-time column of each input that the stage goes by. columns: the arguments of the stage, by input.
    """
    starts = (0, len(columns[LEFT]), len(columns[LEFT]) + len(columns[RIGHT]))
    return tuple(
        Side(
            tuple(key.expressions[side] for key in keys),
            times[side],
            range(starts[side], starts[side + 1]),
            inputs[side].roots,
            late_tag=LATE_OF_SIDES[side],
            late_fields=inputs[side].fields if name in pair.late_sinks else (),
        )
        for side, name in ((LEFT, "left"), (RIGHT, "right"))
    )


def selection(step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], where: Where) -> Selection:
    """Return what a join emits. Its sql reads the rows of the join by the name JOINED.

    Raise InvalidJobError for columns that are unknown or in doubt, and for two columns with one name.
    """
    place = where("join", "select")
    items = step.join.selected
    if step.join.type in ("semi", "anti"):
        return _of_left(step, inputs, place)
    if not items:
        keys = {right.lower() for _, right in step.join.equal_columns}
        columns = [(field.name, LEFT, field) for field in inputs[LEFT].fields]
        columns += [(field.name, RIGHT, field) for field in inputs[RIGHT].fields if field.name.lower() not in keys]
        added = _added(step, columns, inputs)
        _check_names([name for name, _, _ in columns], inputs, place, added)
        return Selection(tuple(columns), added=added)
    found = [column for item in items if item.expression is None for column in _columns(item, inputs, place)]
    computed = [item for item in items if item.expression is not None]
    added = _added(step, found, inputs)
    _check_names([*(name for name, _, _ in found), *(str(item.name) for item in computed)], inputs, place, added)
    if not computed:
        return Selection(tuple(found), added=added)
    hidden = [
        (f"_{name}_{field.name}", side, field)  # not by alias: `_a_b_c` would be `b_c` of a, and `c` of a_b
        for side, name in ((LEFT, "left"), (RIGHT, "right"))
        for field in inputs[side].fields
        if any(_names(item, field.name, place) for item in computed)
    ]
    if not (found or hidden):  # a row needs a column
        key = inputs[LEFT].field(step.join.equal_columns[0][0], place)
        hidden = [(f"_left_{key.name}", LEFT, key)]
    bare = _bare(found, hidden, inputs, [item.text.replace("`", "") for item in computed])
    texts = list[str]()
    for item in items:
        if item.expression is not None:
            texts.append(named(item.expression, str(item.name)))
        else:
            texts += [_own(name, bare, is_result=True) for name, _, _ in _columns(item, inputs, place)]
    texts += [_own(name, bare, is_result=True) for name in added]
    given = [_own(name, bare) for name in (*(name for name, _, _ in found), *added)]
    given += [named(quoted(column), name) for name, column in bare.items()]
    given += [
        _struct(inputs[side].alias, side, hidden) for side in (LEFT, RIGHT) if any(s == side for _, s, _ in hidden)
    ]
    rows = f"SELECT {', '.join(given)} FROM {JOINED}"  # noqa: S608 - the job's own SQL
    sql = f"SELECT {', '.join(texts)} FROM ({rows})"  # noqa: S608 - the job's own SQL
    return Selection((*found, *hidden), sql, added)


def _added(step: JoinStep, columns: Sequence[_Column], inputs: tuple[JoinedInput, JoinedInput]) -> tuple[str, ...]:
    """Return the column that `event-time` adds; () if it names the event time of a side that each row has."""
    wanted = step.join.event_time
    if wanted is None:
        return ()
    is_own = any(
        name.lower() == wanted.lower() and step.join.is_in_each_row[side] and field.name == inputs[side].event_time
        for name, side, field in columns
    )
    return () if is_own else (wanted,)


def _bare(
    found: Sequence[_Column], hidden: Sequence[_Column], inputs: tuple[JoinedInput, ...], texts: Sequence[str]
) -> dict[str, str]:
    """Return {name: column of the joined rows} of the columns that expressions may name without their input.

    A column of both inputs is not among them; nor is one that is in the result under its own name.
    """
    every = [field.name.lower() for one in inputs for field in one.fields]
    results = {name.lower(): (side, field) for name, side, field in found}
    return {
        field.name: name
        for name, side, field in hidden
        if every.count(field.name.lower()) == 1
        and results.get(field.name.lower()) != (side, field)
        and any(re.search(rf"(?<![\w.]){re.escape(field.name)}(?!\w|\s*\.)", text, re.IGNORECASE) for text in texts)
    }


def _own(name: str, bare: Mapping[str, str], *, is_result: bool = False) -> str:
    """Return the SQL of a column of the result: in the rows that expressions read, or in the result.

    In these rows it has another name if an expression may mean a column of an input by this one.
    """
    if name.lower() not in {one.lower() for one in bare}:
        return quoted(name)
    own = f"_result_{name}"
    return named(quoted(own), name) if is_result else named(quoted(name), own)


def join_stage(
    step: JoinStep,
    upstream: Upstream,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    selected: Selection,
    where: Where,
) -> KeyedStage:
    """Return the stage of a join without problems (`join_problems`)."""
    operator = join_operator(step, inputs, keys, selected, where, is_changelog=upstream.is_changelog)
    times = (None, None) if step.join.is_regular else (inputs[LEFT].event_time, inputs[RIGHT].event_time)
    layout = operator.layout
    columns = layout.sides
    passed_key = None
    if operator.traits.emits is Changelog.RETRACT:
        equal = equal_fields(step.join, inputs, where("join", "on"))
        named_columns = [(name, side, field.name) for name, side, field in selected.columns if not name.startswith("_")]
        passed_key = key_of_pairs(step.join.type, equal, (inputs[LEFT].row_key, inputs[RIGHT].row_key), named_columns)
    return KeyedStage(
        operator_id=operator_id(step, upstream.keyed_before),
        reads=upstream.reads,
        key_fields=layout.key_schema.fields,
        arguments=tuple(quoted(field.name) for fields in columns for field in fields),
        argument_types=tuple(field.type for fields in columns for field in fields),
        event_time=times[LEFT],
        is_changelog=upstream.is_changelog,
        operator=operator,
        identity=join_identity(step, operator),
        delay_us=upstream.delay_us,
        sides=sides_of(step.join, keys, inputs, times, columns),
        passed_key=passed_key,
    )


def _of_left(step: JoinStep, inputs: tuple[JoinedInput, JoinedInput], where: str) -> Selection:
    """Return what a semi or anti join emits: columns of the left."""
    items = step.join.selected or (Selected("*", input=inputs[LEFT].alias, column="*"),)
    found = list[tuple[str, int, pa.Field]]()
    for item in items:
        own = [] if item.expression is not None else list(_columns(item, inputs, where))
        if not own or any(side == RIGHT for _, side, _ in own):
            msg = (
                f"{where}: a {step.join.type} join emits columns of the left. Compute others in a sql step behind it. "
                f"found={item.text}"
            )
            raise InvalidJobError(msg)
        found += own
    _check_names([name for name, _, _ in found], inputs, where)
    return Selection(tuple(found))


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


def _check_names(
    names: Sequence[str], inputs: tuple[JoinedInput, JoinedInput], where: str, added: Sequence[str] = ()
) -> None:
    """Raise InvalidJobError for two columns with one name, or one that is kept.  added: the `event-time` of a join."""
    lowered = [name.lower() for name in names]
    other = next((name for name in added if name.lower() in lowered), None)
    if other is not None:
        msg = (
            f"{where}: the column that `event-time` adds to the result has the name of another one. Give `event-time` "
            f"a name of its own, such as happened_at, or the other column with AS. column={other}"
        )
        raise InvalidJobError(msg)
    twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        left, right = (one.alias for one in inputs)
        msg = (
            f"{where}: two columns of the result have one name. Select them by name, one of them with another name, "
            f"such as `select: [{left}.*, {right}.{twice} AS {right}_{twice}]`. column={twice}"
        )
        raise InvalidJobError(msg)
    taken = next((name for name in (*names, *added) if name.startswith("_")), None)
    if taken is not None:
        msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={taken}"
        raise InvalidJobError(msg)


def _names(item: Selected, column: str, where: str) -> bool:
    """Return whether an expression may name a column, or all columns of an input."""
    if _STAR.search(_QUOTED.sub("", item.text)):
        msg = (
            f"{where}: an expression cannot take all columns of both inputs. Write those of each input, as in "
            f"struct(a.*), with the names of the inputs. found={item.text}"
        )
        raise InvalidJobError(msg)
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)|\.\s*\*", item.text, re.IGNORECASE) is not None


def _struct(alias: str, side: int, hidden: Sequence[tuple[str, int, pa.Field]]) -> str:
    parts = [f"{_text(field.name)}, {quoted(name)}" for name, own, field in hidden if own == side]
    return f"named_struct({', '.join(parts)}) AS {quoted(alias)}"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
