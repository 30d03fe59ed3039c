"""The shared columns of the two sides of a join in the sorted tables."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import KeySchema, encode_keys
from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN, Batch
from mixedmode.operators.join import LEFT, RIGHT, TIME_TYPE, JoinLayout

SCHEMA = KeySchema((pa.field("k", pa.int64()),))
TYPES = (pa.int64(), pa.string(), pa.float64(), pa.bool_(), TIME_TYPE, pa.decimal128(21, 2), pa.binary())


def test_columns_of_one_type_are_shared_and_event_times_are_left_out() -> None:
    left = (pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("c", pa.int64()), pa.field("at", TIME_TYPE))
    right = (pa.field("at", TIME_TYPE), pa.field("d", pa.float64()), pa.field("e", pa.int64()))
    layout = JoinLayout(SCHEMA, (left, right), (), times=(3, 0))
    assert [(field.name, field.type) for field in layout.input_fields] == [
        (SIDE_COLUMN, pa.uint8()),
        ("column0", pa.int64()),
        ("column1", pa.string()),
        ("column2", pa.int64()),
        ("column3", pa.float64()),
    ]
    assert len(JoinLayout(SCHEMA, (left, right), ()).input_fields) == 6


@given(st.data())
def test_the_columns_of_each_side_come_back(data: st.DataObject) -> None:
    types = st.lists(st.sampled_from(TYPES), max_size=5)
    sides = tuple(
        tuple(pa.field(f"{side}{i}", each) for i, each in enumerate(data.draw(types))) for side in ("left", "right")
    )
    assert len(sides) == 2
    of_type = [[i for i, field in enumerate(fields) if field.type == TIME_TYPE] for fields in sides]
    times = tuple(data.draw(st.sampled_from([None, *found])) for found in of_type)
    assert len(times) == 2
    layout = JoinLayout(SCHEMA, sides, (), times)
    of_side = np.array(data.draw(st.lists(st.integers(0, 1), max_size=6)), np.uint8)
    times_us = np.arange(len(of_side), dtype=np.int64)
    columns = []
    for side, fields in enumerate(sides):
        for index, field in enumerate(fields):
            values = pa.array(times_us) if index == times[side] else _values(data, field.type, len(of_side))
            mask = pa.array(of_side == side)
            columns.append(pc.if_else(mask, values.cast(field.type), pa.scalar(None, field.type)))
    keys = [pa.array(np.zeros(len(of_side), np.int64))]
    batch = Batch(keys=keys, arguments=columns, times_us=times_us, weights=None, sides=of_side)
    table = layout.folded(batch, late_us=-1, keeps_null_keys=(True, True), max_parallelism=4).table
    for side, start in ((LEFT, 0), (RIGHT, len(sides[LEFT]))):
        rows = np.flatnonzero(of_side == side)
        found = layout.columns_of(table, side, rows)
        own = [column.take(pa.array(rows)) for column in columns[start : start + len(sides[side])]]
        assert [column.to_pylist() for column in found] == [column.to_pylist() for column in own]
        stored = layout.table_of_side(
            np.zeros(len(rows), np.uint16), encode_keys([keys[0].take(pa.array(rows))], SCHEMA).cast(pa.large_binary()),
            times_us[rows], side, found,
        )  # fmt: skip
        assert stored.schema.equals(table.schema)
        every = layout.columns_of(stored, side, np.arange(len(rows)))
        assert [column.to_pylist() for column in every] == [column.to_pylist() for column in own]
        assert stored.column(TIME_COLUMN).to_pylist() == times_us[rows].tolist()


def _values(data: st.DataObject, data_type: pa.DataType, rows: int) -> pa.Array:
    numbers = data.draw(st.lists(st.none() | st.integers(0, 1), min_size=rows, max_size=rows))
    if data_type == pa.binary():
        return pa.array([None if one is None else bytes([one]) for one in numbers], data_type)
    return pa.array(numbers, pa.int64()).cast(data_type)
