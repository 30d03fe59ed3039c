"""The two shapes in which changes are passed on: upserts for a sink, a changelog for another step."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.operators.aggregate.changes import KeyedChanges

KEYS = [pa.field("k", pa.string()), pa.field("n", pa.int16())]
FIELDS = [pa.field("total", pa.decimal128(15, 2)), pa.field("ok", pa.bool_())]


def _decimals(numbers: list[int]) -> pa.Array:
    return pa.array([Decimal(n) for n in numbers], pa.decimal128(15, 2))


def changes_of(existed: list[bool], exists: list[bool], *, previous: bool = True) -> KeyedChanges:
    """Keys ("k0", 0), ("k1", 1), ...; new results are the key's number, previous ones ten times that."""
    numbers = list(range(len(existed)))
    keys = [pa.array([f"k{n}" for n in numbers], pa.string()), pa.array(numbers, pa.int16())]
    old = [10 * n for n, was in zip(numbers, existed, strict=True) if was]
    return KeyedChanges(
        ("k", "n", "total", "ok"),
        keys,
        np.array(existed, np.bool_),
        np.array(exists, np.bool_),
        [_decimals(numbers), pa.array([True] * len(numbers), pa.bool_())],
        [_decimals(old), pa.array([False] * len(old), pa.bool_())] if previous else None,
    )


def test_upserts_say_what_became_of_each_key_and_leave_out_what_never_was() -> None:
    changes = changes_of([False, True, True, False], [True, True, False, False])
    assert changes.upserts().to_pylist() == [
        {"k": "k0", "n": 0, "total": 0, "ok": True, "_op": "insert"},
        {"k": "k1", "n": 1, "total": 1, "ok": True, "_op": "update"},
        {"k": "k2", "n": 2, "total": None, "ok": None, "_op": "delete"},
    ]


@pytest.mark.parametrize("exists", [[True, True], [False, True], [False, False]])
def test_upserts_have_the_same_types_whatever_happened(exists: list[bool]) -> None:
    table = changes_of([True, True], exists, previous=False).upserts()
    assert table.schema == pa.schema([*KEYS, *FIELDS, pa.field("_op", pa.string())])


def test_a_changelog_takes_back_what_was_and_adds_what_is() -> None:
    changes = changes_of([False, True, True, False], [True, True, False, False])
    assert changes.changelog().to_pylist() == [
        {"k": "k1", "n": 1, "total": 10, "ok": False, "_weight": -1},
        {"k": "k2", "n": 2, "total": 20, "ok": False, "_weight": -1},
        {"k": "k0", "n": 0, "total": 0, "ok": True, "_weight": 1},
        {"k": "k1", "n": 1, "total": 1, "ok": True, "_weight": 1},
    ]


def test_a_changelog_of_new_keys_only_has_the_types_of_any_other() -> None:
    table = changes_of([False], [True]).changelog()
    assert table.schema == pa.schema([*KEYS, *FIELDS, pa.field("_weight", pa.int64())])


def test_a_changelog_needs_the_previous_results() -> None:
    with pytest.raises(AssertionError, match="planned without previous results"):
        changes_of([True], [True], previous=False).changelog()
