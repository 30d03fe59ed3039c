"""The key of the rows of a join: no two rows of any result have it."""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from mixedmode.operators.join.layout import JoinType
from mixedmode.plan.row_keys import RowKey, key_of_pairs

LONG, TEXT, DOUBLE = pa.int64(), pa.string(), pa.float64()
COLUMNS = ("a", "b", "c")
KINDS: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
Record = dict[str, int | None]


def fields(
    *pairs: tuple[str, str], types: tuple[pa.DataType, pa.DataType] = (LONG, LONG)
) -> list[tuple[pa.Field, ...]]:
    return [tuple(pa.field(name, one) for name, one in zip(pair, types, strict=True)) for pair in pairs]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Record], RowKey]:
    """Records with the columns a, b and c, and columns that identify them, if some do."""
    value = st.none() | st.integers(0, 2)
    records = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, value)), max_size=7))
    key = draw(st.none() | st.lists(st.sampled_from(COLUMNS), max_size=2, unique=True).map(tuple))
    if key is None:
        return records, None
    return list({tuple(one[name] for name in key): one for one in records}.values()), key


def joined(kind: JoinType, pairs: list[tuple[str, str]], left: list[Record], right: list[Record]) -> list[Record]:
    """The rows of a join, by two nested loops; columns of the right have a prefix."""

    def meet(one: Record, other: Record) -> bool:
        return all(one[a] is not None and one[a] == other[b] for a, b in pairs)

    def row(one: Record | None, other: Record | None) -> Record:
        left, right = one or {}, other or {}
        return {**{name: left.get(name) for name in COLUMNS}, **{f"r{name}": right.get(name) for name in COLUMNS}}

    if kind in ("semi", "anti"):
        return [row(one, None) for one in left if any(meet(one, other) for other in right) == (kind == "semi")]
    found = [row(one, other) for one, other in product(left, right) if meet(one, other)]
    if kind in ("left", "full"):
        found += [row(one, None) for one in left if not any(meet(one, other) for other in right)]
    if kind in ("right", "full"):
        found += [row(None, other) for other in right if not any(meet(one, other) for one in left)]
    return found


@given(
    kind=st.sampled_from(KINDS),
    pairs=st.lists(st.tuples(st.sampled_from(COLUMNS), st.sampled_from(COLUMNS)), min_size=1, max_size=3),
    left=tables(),
    right=tables(),
    shown=st.sets(st.sampled_from(list(product((0, 1), COLUMNS)))),
)
def test_no_two_rows_of_a_join_have_its_key(
    kind: JoinType,
    pairs: list[tuple[str, str]],
    left: tuple[list[Record], RowKey],
    right: tuple[list[Record], RowKey],
    shown: set[tuple[int, str]],
) -> None:
    selected = [(f"r{name}" if side else name, side, name) for side, name in sorted(shown)]
    if kind in ("semi", "anti"):
        selected = [one for one in selected if one[1] == 0]
    key = key_of_pairs(kind, fields(*pairs), (left[1], right[1]), selected)
    event(f"{kind}, {'no key' if key is None else 'a key'}")
    if key is not None:
        assert set(key) <= {name for name, _, _ in selected}
        found = [tuple(row[name] for name in key) for row in joined(kind, pairs, left[0], right[0])]
        assert len(found) == len(set(found)), (key, found)


SHOWN = [("k", 0, "k"), ("no", 0, "no"), ("n", 1, "n")]


@pytest.mark.parametrize(
    ("kind", "keys", "key"),
    [
        ("inner", (("k",), ("k",)), ("k",)),
        ("inner", (("no",), ("k",)), ("no",)),
        ("left", (("no",), ("k",)), ("no",)),
        ("semi", (("no",), None), ("no",)),
        ("inner", (("k",), ("n",)), ("n",)),  # each row of the right has one partner
        ("left", (("k",), ("n",)), ("k", "n")),  # NULL for a row of the left without a partner
        ("inner", (("no",), ("n",)), ("no", "n")),
        ("inner", (("no",), ()), ("no",)),  # one row for all
        ("right", (("k",), ("k",)), None),  # the key of the right is not selected
        ("inner", (None, ("k",)), None),
        ("full", (("k",), ("k",)), None),
    ],
)
def test_the_key_is_that_of_the_side_whose_rows_have_one_partner(
    kind: JoinType, keys: tuple[RowKey, RowKey], key: RowKey
) -> None:
    assert key_of_pairs(kind, fields(("k", "k")), keys, SHOWN) == key


@pytest.mark.parametrize(
    ("types", "key"),
    [
        ((LONG, pa.int32()), ("no",)),
        ((TEXT, TEXT), ("no",)),
        ((LONG, TEXT), None),  # the texts 1 and 01 both equal the number 1
        ((DOUBLE, DOUBLE), None),  # 0.0 equals -0.0
    ],
)
def test_values_of_two_types_may_be_equal_to_several_keys(types: tuple[pa.DataType, pa.DataType], key: RowKey) -> None:
    assert key_of_pairs("inner", fields(("k", "k"), types=types), (("no",), ("k",)), SHOWN[:2]) == key
