"""Upserts by columns that may be no key: one row per key over any epochs, or a message that names both rows."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import CheckedUpsertOperator
from tests.operators.epochs import MemoryState, map_side, run_epoch

KEYS = KeySchema((pa.field("k", pa.string()),))
OPERATOR = CheckedUpsertOperator(KEYS, (pa.field("v", pa.int64()), pa.field("l", pa.list_(pa.int64()))))
Change = tuple[str, int | None, int]  # key, value, weight

#: the changes of an epoch to upstream keys: each key has a row of an output key and a value, or no row
epochs = st.lists(
    st.dictionaries(st.integers(0, 3), st.none() | st.tuples(st.sampled_from("ab"), st.integers(0, 1))), max_size=5
)


def run(state: MemoryState, changes: Sequence[Change]) -> list[dict[str, Any]]:
    values = [pa.array([c[1] for c in changes], pa.int64()), pa.array([[c[1]] for c in changes], pa.list_(pa.int64()))]
    keys = [pa.array([c[0] for c in changes], pa.string())]
    table = map_side(OPERATOR, keys, values, weights=[c[2] for c in changes])
    found = run_epoch(OPERATOR, state, table, piece_rows=10)
    return [row for changes in found for row in changes.upserts().to_pylist()]


@given(epochs=epochs, is_reversed=st.booleans())
def test_a_table_has_the_row_of_each_key_until_two_rows_have_one(
    epochs: list[dict[int, tuple[str, int] | None]], is_reversed: bool
) -> None:
    state, upstream, table = MemoryState(), dict[int, tuple[str, int]](), dict[str, object]()
    for epoch in epochs:
        log = list[Change]()
        for number, row in epoch.items():
            before = upstream.pop(number, None)
            if before is not None:
                log.append((*before, -1))
            if row is not None:
                log.append((*row, 1))
                upstream[number] = row
        counts = Counter(key for key, _ in upstream.values())
        if any(count > 1 for count in counts.values()):
            with pytest.raises(InvalidJobError, match=r"two rows of an output have one key.*key=\(k='[ab]'\)"):
                run(state, log[::-1] if is_reversed else log)
            return
        for change in run(state, log[::-1] if is_reversed else log):
            assert (change["k"] in table) == (change["_op"] != "insert"), change
            if change["_op"] == "delete":
                del table[change["k"]]
            else:
                table[change["k"]] = change["v"]
        assert table == dict(upstream.values())
        assert len(state.entries) == len(table)


def test_the_message_names_the_key_and_both_rows() -> None:
    state = MemoryState()
    with pytest.raises(InvalidJobError) as caught:
        run(state, [("a", 1, 1), ("b", 1, 1), ("a", 2, 1), ("b", 1, -1)])
    assert str(caught.value) == (
        "two rows of an output have one key, and only one of them would be left. Name in the `key` of the output all "
        "columns that tell its rows apart, or make one row of them with key-by and aggregate, or with deduplicate. "
        "key=(k='a'), columns=(v, l), rows=(1, [1]) and (2, [2]), keys_affected=1"
    )
    assert run(state, [("a", 1, 1)]) == [{"k": "a", "v": 1, "l": [1], "_op": "insert"}]
    with pytest.raises(InvalidJobError, match=r"rows=one that the output has and \(7, \[7\]\)"):
        run(state, [("a", 7, 1)])


def test_the_message_shows_times_that_python_cannot_hold_as_numbers() -> None:
    instant, day = pa.timestamp("us", "UTC"), pa.date32()
    operator = CheckedUpsertOperator(KeySchema((pa.field("k", instant), pa.field("d", day))), (pa.field("t", instant),))
    last, first = 2**62, -(2**31)
    keys = [pa.array([last] * 3, pa.int64()).view(instant), pa.array([first] * 3, pa.int32()).view(day)]
    times = pa.array([5, last, 5], pa.int64()).view(instant)
    table = map_side(operator, keys, [times], weights=[1, 1, -1])
    (changes,) = run_epoch(operator, MemoryState(), table, piece_rows=10)
    assert changes.upserts().column("t").cast(pa.int64()).to_pylist() == [last]
    table = map_side(operator, [key[:2] for key in keys], [times[:2]], weights=[1, 1])
    with pytest.raises(InvalidJobError, match=rf"key=\(k={last}, d={first}\).*rows=\(5,\) and \({last},\)"):
        run_epoch(operator, MemoryState(), table, piece_rows=10)


@pytest.mark.parametrize("container", ["list", "struct", "map"])
def test_rows_with_such_times_in_nested_columns_are_told_apart(container: str) -> None:
    times, offsets = pa.array([5, 2**62, 5], pa.int64()).view(pa.timestamp("us", "UTC")), [0, 1, 2, 3]
    values = {
        "list": pa.ListArray.from_arrays(offsets, times),
        "struct": pa.StructArray.from_arrays([times, pa.array([1, 2, 1])], ["t", "n"]),
        "map": pa.MapArray.from_arrays(offsets, times, times),
    }[container]
    operator = CheckedUpsertOperator(KEYS, (pa.field("v", values.type),))
    table = map_side(operator, [pa.array(["a"] * 3)], [values], weights=[1, 1, -1])
    (changes,) = run_epoch(operator, MemoryState(), table, piece_rows=10)
    assert changes.upserts().column("v").combine_chunks().equals(values.slice(1, 1))


def test_columns_that_are_all_in_the_key_are_rows_too() -> None:
    operator = CheckedUpsertOperator(KEYS, ())
    table = map_side(operator, [pa.array(["a", "a"])], [], weights=[1, 1])
    with pytest.raises(InvalidJobError, match=r"columns=\(\), rows=\(\) and \(\)"):
        run_epoch(operator, MemoryState(), table, piece_rows=10)
