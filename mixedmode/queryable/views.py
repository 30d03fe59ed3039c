"""Views: the readable parts of a step's state, by name, and how their stored entries become rows. Pure.

    aggregate      result             one row per key
    windows        windows, sessions  one row per key and stored window; `_fired`: only late records can change it
    count windows  windows            one row per key with an open window
    top            rows               the current ranks
    deduplicate    emitted; waiting   the keys that have their row; the rows that wait for the watermark
    over           keys; waiting      the number of rows of each key; the rows that wait for the watermark
    as-of join     current; waiting-left, waiting-right   the version of each key; the rows that wait for the watermark
    co-group       waiting-left; waiting-right       the rows whose window has not ended; its bounds, if fixed
    interval join  left; right        the rows that may still find a partner
    regular join   left; right        the rows of each side
    async-map      answers            the remembered answers, and until when they count
    process        values; each state by its name; event-time-timers, processing-time-timers

The first name of a step is its default.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import CorruptStateError
from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate import AggregateOperator, MultisetAggregateOperator
from mixedmode.operators.aggregate.one_key import one_key
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.async_map import AsyncMapOperator
from mixedmode.operators.async_map.answers import ANSWER_FIELDS, ANSWERS
from mixedmode.operators.co_group import CoGroupOperator, SessionCoGroupOperator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.interface import OP_COLUMN, KeyedOperator
from mixedmode.operators.join import (
    LEFT,
    RIGHT,
    AsOfJoinOperator,
    IntervalJoinOperator,
    JoinLayout,
    RegularJoinOperator,
)
from mixedmode.operators.join.as_of import CURRENT_FIELDS
from mixedmode.operators.join.bags import bag_rows
from mixedmode.operators.join.counts import counts_of
from mixedmode.operators.join.stored import parts_of_entries, stored_rows
from mixedmode.operators.join.waiting import waiting_rows
from mixedmode.operators.over import OverOperator
from mixedmode.operators.row_columns import decoded_rows
from mixedmode.operators.top import TopOperator
from mixedmode.operators.top.rows import keys_of as packed_keys
from mixedmode.operators.top.rows import without_prefix
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.operators.window.keys import TIME_BYTES, stored_schema, trailing_times
from mixedmode.operators.window.output import WINDOW_BOUNDS, instants
from mixedmode.plan.stored_operators import keys_of, operator_from
from mixedmode.queryable.functions import function_parts
from mixedmode.queryable.over_parts import over_parts
from mixedmode.queryable.parts import Columns, Moment, Part, StateView, free_name
from mixedmode.state import RowCodec, StateRange
from mixedmode.state.keys import PREFIX_BYTES, cut_keys
from mixedmode.time import MIN_TIME_US

__all__ = ["views_of"]

FIRED = pa.field("_fired", pa.bool_())
UNTIL = pa.field("_until", pa.timestamp("us", "UTC"))
EMITTED_AT = pa.field("_time", pa.timestamp("us", "UTC"))
_FEW = 32  # stored values, which take less time one by one than in arrays
_SIDES = ((LEFT, "left"), (RIGHT, "right"))


def views_of(state_schema: Mapping[str, Any], moment: Moment) -> dict[str, StateView]:
    """Return the views of a step by name, the default first; {} if the step keeps no state.

    state_schema: of the step, in the manifest. Raise CorruptStateError for a manifest without the description.
    """
    stored = state_schema.get("operator")
    if stored is None:
        if not state_schema["states"]:
            return {}
        msg = (
            "the manifest does not describe the state of this step, so it cannot be read without the job. Start the "
            "job once more with this version of the program: its next checkpoint has the description."
        )
        raise CorruptStateError(msg)
    if stored["kind"] == "process":
        schema = keys_of(stored)
        assert schema is not None, stored
        return {
            part.name: StateView(schema, schema.fields, part)
            for part in function_parts(schema, state_schema["function"], moment)
        }
    operator = operator_from(stored)
    return {view.part.name: view for view in _views(operator, moment)}


def _views(operator: KeyedOperator, moment: Moment) -> list[StateView]:
    match operator:
        case AggregateOperator() | MultisetAggregateOperator():
            is_exact = isinstance(operator, AggregateOperator)
            columns = _results(operator) if isinstance(operator, AggregateOperator) else None
            state_id = operator.states[0].state_id
            part = Part("result", state_id, _snapshot(operator), is_exact=is_exact, columns=columns)
            return [_keyed(operator.key_schema, part)]
        case TopOperator() | ApplyChangesOperator():
            return [_keyed(operator.layout.key_schema, Part("rows", 0, _snapshot(operator)))]
        case TimeWindowAggregateOperator():
            part = Part("windows", 0, lambda found: _time_windows(operator, found, moment), bytes_before=TIME_BYTES)
            return [_keyed(operator.key_schema, part)]
        case SessionAggregateOperator():
            return [_keyed(operator.key_schema, Part("sessions", 0, lambda found: _sessions(operator, found, moment)))]
        case CountWindowAggregateOperator():
            part = Part("windows", 0, lambda found: _count_windows(operator, found), is_exact=True)
            return [_keyed(operator.key_schema, part)]
        case AsOfJoinOperator():
            layout = operator.layout
            current = Part("current", 2, lambda found: _current(layout, found), is_exact=True)
            waiting = [
                Part(f"waiting-{name}", side, partial(_waiting_side, layout, side), bytes_before=TIME_BYTES)
                for side, name in _SIDES
            ]
            return [_of_side(layout, RIGHT, current), *_of_sides(layout, waiting)]
        case CoGroupOperator():
            layout = operator.layout
            parts = [
                Part(f"waiting-{name}", side, partial(_waiting_group, operator, side), bytes_before=TIME_BYTES)
                for side, name in _SIDES
            ]
            return _of_sides(layout, parts)
        case SessionCoGroupOperator():
            layout = operator.layout
            parts = [Part(f"waiting-{name}", side, partial(_waiting_in_session, layout, side)) for side, name in _SIDES]
            return _of_sides(layout, parts)
        case IntervalJoinOperator() | RegularJoinOperator():
            layout = operator.layout
            rows = _stored_side if isinstance(operator, IntervalJoinOperator) else _bag
            return _of_sides(layout, [Part(name, side, partial(rows, layout, side)) for side, name in _SIDES])
        case AsyncMapOperator():
            part = Part("answers", ANSWERS, lambda found: _answers(operator, found), is_exact=True)
            return [_keyed(operator.key_schema, part)]
        case OverOperator():
            return [_keyed(operator.layout.key_schema, part) for part in over_parts(operator)]
    assert isinstance(operator, DeduplicateOperator), operator
    return [_keyed(operator.layout.key_schema, part) for part in _deduplicate_parts(operator)]


def _deduplicate_parts(operator: DeduplicateOperator) -> Iterator[Part]:
    yield Part("emitted", 0, lambda found: _emitted(operator, found), is_exact=True)
    if operator.waits:
        yield Part("waiting", 1, lambda found: _waiting(operator, found), bytes_before=TIME_BYTES)


def _keyed(schema: KeySchema | None, part: Part) -> StateView:
    return StateView(stored_schema(schema), () if schema is None else schema.fields, part)


def _of_sides(layout: JoinLayout, parts: Sequence[Part]) -> list[StateView]:
    """Return the views of two parts: of the left and of the right."""
    return [_of_side(layout, side, part) for (side, _), part in zip(_SIDES, parts, strict=True)]


def _of_side(layout: JoinLayout, side: int, part: Part) -> StateView:
    return StateView(layout.key_schema, layout.keys_on(side), part)


def _snapshot(
    operator: AggregateOperator | MultisetAggregateOperator | TopOperator | ApplyChangesOperator,
) -> Callable[[StateRange], pa.Table]:
    def table(found: StateRange) -> pa.Table:
        (changes,) = operator.stored_rows(iter([found]))
        return changes.upserts().drop_columns([OP_COLUMN])

    return table


def _results(operator: AggregateOperator) -> Columns:
    """Return a function from stored values to results. An entry is of a key that exists: others are deleted."""
    codec, aggregator = RowCodec(operator.states[0].fields), operator.aggregator
    names, of_one = [field.name for field in aggregator.result_fields], one_key(operator.aggregator)

    def results(values: Sequence[bytes]) -> dict[str, pa.Array | Sequence[Any]]:
        if of_one is not None and len(values) <= _FEW:
            rows = [of_one(value) for value in values]
            if None not in rows:
                return {name: [row[at] for row in rows if row is not None] for at, name in enumerate(names)}
        return dict(zip(names, aggregator.results(codec.unpack(values)), strict=True))

    return results


def _time_windows(operator: TimeWindowAggregateOperator, found: StateRange, moment: Moment) -> pa.Table:
    keys = cut_keys(found.keys, operator.sorted_schema, before=PREFIX_BYTES)
    end, *user_key = decode_keys(keys, operator.sorted_schema)
    ends = end.to_numpy()
    registers = operator.layout.from_state(RowCodec(operator.layout.state_fields).unpack(found.values)).registers
    bounds = [instants(operator.windows.starts(ends)), instants(ends)]
    columns = [*bounds, *_own(user_key, operator.key_schema), *operator.aggregator.results(registers)]
    if operator.by_clock and moment.clock_ms is not None:
        moment = Moment(1000 * moment.clock_ms, moment.clock_ms)
    return _with_fired(columns, operator.output_fields, ends, moment)


def _sessions(operator: SessionAggregateOperator, found: StateRange, moment: Moment) -> pa.Table:
    schema = stored_schema(operator.key_schema)
    user_key = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES, after=TIME_BYTES), schema)
    starts = trailing_times(pa.array(found.keys, pa.large_binary()))
    end, *stored = RowCodec(operator.states[0].fields).unpack(found.values)
    ends = end.to_numpy()
    results = operator.aggregator.results(operator.layout.from_state(stored).registers)
    columns = [instants(starts), instants(ends), *_own(user_key, operator.key_schema), *results]
    return _with_fired(columns, operator.output_fields, ends + operator.traits.delay_us, moment)


def _with_fired(
    columns: list[pa.Array], fields: Sequence[pa.Field], fires_at_us: npt.NDArray[np.int64], moment: Moment
) -> pa.Table:
    watermark_us = MIN_TIME_US if moment.watermark_us is None else moment.watermark_us
    fired = pa.array(fires_at_us <= watermark_us)
    names = [field.name for field in fields]
    return pa.table([*columns, fired], names=[*names, free_name(FIRED.name, names)])


def _count_windows(operator: CountWindowAggregateOperator, found: StateRange) -> pa.Table:
    schema = stored_schema(operator.key_schema)
    windows, records, *window = RowCodec(operator.states[0].fields).unpack(found.values)
    rows = pa.array(np.flatnonzero(records.to_numpy() > 0))  # of the keys that have an open window
    user_key = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES).take(rows), schema)
    least, greatest, *registers = (column.take(rows) for column in window)
    columns = [
        *_own(user_key, operator.key_schema),
        windows.take(rows),
        instants(least.to_numpy()),
        instants(greatest.to_numpy() + 1),
        *operator.aggregator.results(registers),
    ]
    return pa.table(columns, names=[field.name for field in operator.output_fields])


def _emitted(operator: DeduplicateOperator, found: StateRange) -> pa.Table:
    schema = operator.layout.key_schema
    columns = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES), schema)
    names = [field.name for field in schema.fields]
    if operator.has_event_time:
        columns.append(instants(RowCodec(operator.states[0].fields).unpack(found.values)[0].to_numpy()))
        names.append(free_name(EMITTED_AT.name, names))
    return pa.table(columns, names=names)


def _answers(operator: AsyncMapOperator, found: StateRange) -> pa.Table:
    """Return the key, the columns of the answer, and the time of the clock until which it counts."""
    schema = operator.key_schema
    names = [field.name for field in (*schema.fields, *operator.answer_fields)]
    keys = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES), schema)
    until, packed = RowCodec(ANSWER_FIELDS).unpack(found.values)
    columns = [*keys, *decoded_rows(packed, operator.answer_fields), instants(until.to_numpy())]
    return pa.table(columns, names=[*names, free_name(UNTIL.name, names)])


def _waiting(operator: DeduplicateOperator, found: StateRange) -> pa.Table:
    packed = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES)
    columns = [*operator.layout.unpack_keys(packed), *operator.layout.unpack_rows(packed)]
    return pa.table(columns, names=[field.name for field in operator.output_fields])


def _current(layout: JoinLayout, found: StateRange) -> pa.Table:
    schema, fields = layout.key_schema, layout.sides[RIGHT]
    times_us, rows = RowCodec(CURRENT_FIELDS).unpack(found.values)
    keys = decode_keys(cut_keys(found.keys, schema, before=PREFIX_BYTES), schema)
    return _side_table(layout, RIGHT, keys, decoded_rows(rows, fields), times_us.to_numpy())


def _waiting_side(layout: JoinLayout, side: int, found: StateRange) -> pa.Table:
    rows = waiting_rows(layout, side, found.keys, found.values)
    keys = decode_keys(layout.as_keys(rows.keys), layout.key_schema)
    return _side_table(layout, side, keys, rows.columns, rows.times_us)


def _waiting_group(operator: CoGroupOperator, side: int, found: StateRange) -> pa.Table:
    """Return the bounds of the window, the key, and the columns of a side, a row once for each of its windows."""
    layout = operator.layout
    rows = waiting_rows(layout, side, found.keys, found.values)
    keys = decode_keys(layout.as_keys(rows.keys), layout.key_schema)
    table = _side_table(layout, side, keys, rows.columns)
    ends_us = rows.times_us + 1
    bounds = [instants(operator.windows.starts(ends_us)), instants(ends_us)]
    own = table.column_names
    names = [*(free_name(field.name, own) for field in WINDOW_BOUNDS), *own]
    return pa.table([*bounds, *table.columns], names=names)


def _waiting_in_session(layout: JoinLayout, side: int, found: StateRange) -> pa.Table:
    """Return the key and the columns of a side, a row as often as it is there."""
    parts = parts_of_entries(layout, layout.sides[side], found.keys)
    counts = counts_of(found.values)
    taken = pa.array(np.repeat(np.arange(len(counts)), counts))
    keys = [column.take(taken) for column in decode_keys(layout.as_keys(parts.keys), layout.key_schema)]
    columns = [column.take(taken) for column in parts.columns]
    return _side_table(layout, side, keys, columns, parts.times_us[taken.to_numpy()])


def _stored_side(layout: JoinLayout, side: int, found: StateRange) -> pa.Table:
    rows = stored_rows(layout, layout.sides[side], found.keys, found.values)
    keys = decode_keys(layout.as_keys(rows.keys), layout.key_schema)
    return _side_table(layout, side, keys, rows.columns, rows.times_us)


def _bag(layout: JoinLayout, side: int, found: StateRange) -> pa.Table:
    """Return the key and the columns of a side, a row as often as it is there."""
    packed = without_prefix(found.keys, PREFIX_BYTES)
    keys = decode_keys(layout.as_keys(packed_keys(packed)), layout.key_schema)
    nth = pa.array(np.repeat(np.arange(len(packed)), counts_of(found.values)))
    rows = [column.take(nth) for column in bag_rows(layout, side, packed)]
    return _side_table(layout, side, [key.take(nth) for key in keys], rows)


def _side_table(
    layout: JoinLayout,
    side: int,
    keys: Sequence[pa.Array],
    rows: Sequence[pa.Array],
    times_us: npt.NDArray[np.int64] | None = None,
) -> pa.Table:
    """Return the key, the event time if the join goes by it, and the other columns of a side, with its names."""
    key = {field.name: column for field, column in zip(layout.keys_on(side), keys, strict=True)}
    own = {field.name: column for field, column in zip(layout.sides[side], rows, strict=True) if field.name not in key}
    time = {} if times_us is None else {free_name(EMITTED_AT.name, {*key, *own}): instants(times_us)}
    return pa.table({**key, **time, **own})


def _own(columns: Sequence[pa.Array], schema: KeySchema | None) -> Sequence[pa.Array]:
    """Return the columns of the user's key: none for un-keyed input, which has a constant key."""
    return () if schema is None else columns
