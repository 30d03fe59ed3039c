"""Values of one length in one array: the same sequence, and the same Arrow columns, as a list of bytes."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.state.arrow_bytes import joined
from mixedmode.state.fixed_bytes import FixedBytes, put_columns, words_at
from tests.state.runs import fixed


def values_of(width: int) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.binary(min_size=width, max_size=width), max_size=6)


VALUES = st.integers(1, 4).flatmap(values_of).filter(bool)


@given(VALUES, st.integers(0, 6), st.integers(0, 6))
def test_it_is_a_sequence_like_a_list(values: list[bytes], start: int, end: int) -> None:
    found = fixed(values, len(values[0]))
    assert list(found) == values
    assert len(found) == len(values)
    assert [found[index] for index in range(-len(values), len(values))] == values + values
    assert list(found[start:end]) == values[start:end]
    assert list(found[::-2]) == values[::-2]
    assert found.index(values[-1]) == values.index(values[-1])


@given(VALUES, st.integers(0, 6))
def test_it_is_the_arrow_columns_of_a_list(values: list[bytes], start: int) -> None:
    found = fixed(values, len(values[0]))[start:]
    for column, data_type in (
        (found.fixed_size_binary(), pa.binary(len(values[0]))),
        (found.large_binary(), pa.large_binary()),
    ):
        column.validate(full=True)
        assert column.equals(pa.array(values[start:], data_type))
    width = len(values[0])
    assert list(FixedBytes.of(pa.array(values, pa.binary(width)).slice(start))) == values[start:]
    assert [values[row] for row in np.argsort(fixed(values, width).comparable(), kind="stable")] == sorted(values)


@given(st.integers(1, 20), st.data())
def test_an_order_is_that_of_a_list_also_where_values_share_many_bytes(width: int, data: st.DataObject) -> None:
    value = st.lists(st.sampled_from([0, 1, 127, 128, 255]), min_size=width, max_size=width).map(bytes)
    values = data.draw(st.lists(value, min_size=1, max_size=6).map(sorted) | st.lists(value, min_size=1, max_size=6))
    found, start = fixed(values, width), data.draw(st.integers(0, width - 1))
    assert found.strictly_increases() == (sorted(set(values)) == values)
    words = [int.from_bytes(value[start : start + 8].ljust(8, b"\0"), "big") for value in values]
    assert words_at(found.rows, start).tolist() == words


@given(st.integers(1, 20), st.integers(0, 3), st.integers(0, 3), st.integers(0, 4))
def test_columns_are_put_between_others(width: int, before: int, after: int, rows: int) -> None:
    target = np.full((rows, before + width + after), 7, np.uint8)
    source = np.arange(rows * width, dtype=np.uint8).reshape(rows, width)
    put_columns(target, before, source)
    assert (target[:, before : before + width] == source).all()
    assert (np.delete(target, np.s_[before : before + width], axis=1) == 7).all()


@given(st.lists(st.integers(1, 2).flatmap(lambda width: st.tuples(st.just(width), values_of(width))), min_size=1))
def test_pieces_are_joined_in_their_order(pieces: list[tuple[int, list[bytes]]]) -> None:
    whole = [value for _, values in pieces for value in values]
    found = joined([fixed(values, width) for width, values in pieces])
    assert list(found) == whole
    assert isinstance(found, FixedBytes) == (len({width for width, _ in pieces}) == 1)
    assert list(joined([values for _, values in pieces])) == whole
    assert list(joined([fixed(values, width) if width == 1 else values for width, values in pieces])) == whole
