"""Values in one Arrow column: the same sequence, and the same results of all functions, as a list of bytes and None."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.state.arrow_bytes import (
    ArrowBytes,
    array_of,
    data_bytes,
    joined,
    large_binary,
    none_count,
    piece_of,
    present,
    strictly_increase,
    values_at,
    without,
    without_none,
)
from mixedmode.state.fixed_bytes import FixedBytes
from tests.state.runs import fixed

VALUES = st.lists(st.none() | st.binary(max_size=3), max_size=6)
KEYS = st.lists(st.binary(max_size=3), max_size=6)
WIDTHS = st.lists(st.binary(min_size=2, max_size=2), min_size=1, max_size=6)


def in_column(values: Sequence[bytes | None]) -> ArrowBytes[bytes | None]:
    """The values in the middle of a longer column."""
    return ArrowBytes(pa.array([b"before", *values, b"after"], pa.large_binary())[1:-1])


@given(VALUES, st.integers(0, 6), st.integers(0, 6))
def test_it_is_a_sequence_like_a_list(values: list[bytes | None], start: int, end: int) -> None:
    found = in_column(values)
    assert list(found) == values
    assert len(found) == len(values)
    assert [found[index] for index in range(-len(values), len(values))] == values + values
    assert list(found[start:end]) == values[start:end]
    assert found.large_binary().equals(pa.array(values, pa.large_binary()))
    assert found.lengths().tolist() == [len(value or b"") for value in values]
    assert np.diff(found.offsets()).tolist() == found.lengths().tolist()
    assert none_count(found) == none_count(values) == values.count(None)
    assert data_bytes(found) == data_bytes(values) == len(b"".join(filter(None, values)))
    assert (
        present(found).tolist()
        == present(values).tolist()
        == [row for row, value in enumerate(values) if value is not None]
    )
    assert list(without_none(found)) == list(without_none(values)) == [value for value in values if value is not None]


@given(VALUES | WIDTHS)
def test_an_array_is_fixed_if_all_values_have_one_length(values: list[bytes | None]) -> None:
    for given_values in (values, in_column(values)):
        found = array_of(given_values)
        assert list(found) == values
        is_fixed = None not in values and len(set(map(len, filter(None, values)))) == 1 and b"" not in values
        assert isinstance(found, FixedBytes) == is_fixed
        assert array_of(found) is found or list(array_of(found)) == values
        assert large_binary(found).equals(pa.array(values, pa.large_binary()))


@given(WIDTHS)
def test_few_values_in_a_list_stay_there(values: list[bytes]) -> None:
    assert piece_of(values) is values
    many = piece_of(values * 256)
    assert isinstance(many, FixedBytes)
    assert list(many) == values * 256
    assert data_bytes(many) == 512 * len(values)
    assert present(many).tolist() == list(range(len(many)))


@given(KEYS | WIDTHS)
def test_keys_increase_if_each_sorts_after_the_one_before(keys: list[bytes]) -> None:
    for some in (keys, sorted(keys), sorted(set(keys))):
        assert strictly_increase(array_of(some)) == strictly_increase(some) == (some == sorted(set(some)))


@given(VALUES, WIDTHS, st.data())
def test_values_are_taken_and_left_out_by_position(
    values: list[bytes | None], keys: list[bytes], data: st.DataObject
) -> None:
    for each in (values, keys):
        positions = data.draw(st.lists(st.integers(0, len(each) - 1)) if each else st.just([]))
        for form in (each, in_column(each), array_of(each)):
            assert list(values_at(form, np.asarray(positions, np.intp))) == [each[position] for position in positions]
    gone = data.draw(st.lists(st.integers(0, len(keys) - 1), unique=True))
    for key_form in (keys, array_of(keys), ArrowBytes[bytes](large_binary(keys))):
        found = without(key_form, gone)
        assert list(found) == [None if row in gone else key for row, key in enumerate(keys)]
        assert none_count(found) == len(gone)
        large_binary(found).validate(full=True)


@given(st.lists(st.tuples(st.sampled_from(["list", "fixed", "column"]), WIDTHS), min_size=1))
def test_pieces_of_any_kind_are_joined_in_their_order(pieces: list[tuple[str, list[bytes]]]) -> None:
    found = joined([_made(kind, values) for kind, values in pieces])
    assert list(found) == [value for _, values in pieces for value in values]
    kinds = {kind for kind, _ in pieces}
    assert isinstance(found, FixedBytes) == (kinds == {"fixed"})
    assert isinstance(found, list) == (kinds == {"list"})


def _made(kind: str, values: list[bytes]) -> Sequence[bytes | None]:
    if kind == "list":
        return values
    return fixed(values, 2) if kind == "fixed" else in_column(values)
