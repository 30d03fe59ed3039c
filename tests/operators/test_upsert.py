"""The upserts after the SQL that follows the last keyed step: one change per key, or a message."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import UpsertOperator
from tests.operators.epochs import MemoryState, map_side, run_epoch

KEYS = KeySchema((pa.field("k", pa.string()), pa.field("n", pa.int64())))
OPERATOR = UpsertOperator(KEYS, (pa.field("v", pa.string()),))
Change = tuple[str, str | None, int]  # key, value, weight


def upserts_of(changes: Sequence[Change]) -> list[tuple[object, ...]]:
    keys = [pa.array([c[0] for c in changes], pa.string()), pa.array([1] * len(changes), pa.int64())]
    table = map_side(OPERATOR, keys, [pa.array([c[1] for c in changes], pa.string())], weights=[c[2] for c in changes])
    state = MemoryState()
    found = run_epoch(OPERATOR, state, table, piece_rows=10)
    assert state.entries == {}, "it keeps no state"
    return [tuple(row.values()) for c in found for row in c.upserts().to_pylist()]


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.booleans(), st.booleans(), st.none() | st.just("new"))))
def test_each_key_is_inserted_updated_or_deleted(changes: dict[str, tuple[bool, bool, str | None]]) -> None:
    log, expected = list[Change](), list[tuple[object, ...]]()
    for key, (was, is_, value) in changes.items():
        log += [(key, "old", -1)] * was + [(key, value, 1)] * is_
        if is_:
            expected.append((key, 1, value, "update" if was else "insert"))
        elif was:
            expected.append((key, 1, None, "delete"))
    for order in (log, log[::-1]):
        assert sorted(upserts_of(order), key=str) == sorted(expected, key=str)


def test_several_rows_for_one_key_are_refused_in_full() -> None:
    with pytest.raises(InvalidJobError) as caught:
        upserts_of([("a", "x", 1), ("a", "y", 1), ("a", "z", 1)])
    assert str(caught.value) == (
        "the sql after the last key-by returns several rows for one key, so the output would not be one row per "
        "key. Give one row per key, or put the key-by after the sql. key_columns=k, n, keys_affected=1, keys=1"
    )


def test_an_empty_changelog_changes_nothing() -> None:
    assert upserts_of([]) == []


def test_it_declares_no_state_and_reads_its_arguments_and_a_weight() -> None:
    assert OPERATOR.states == ()
    assert [(f.name, f.type) for f in OPERATOR.input_fields] == [("_arg0", pa.string()), ("_weight", pa.int64())]
