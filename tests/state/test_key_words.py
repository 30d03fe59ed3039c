"""Words of keys find the same keys as a comparison of their bytes, whatever the keys look like."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.keys import stored_keys
from mixedmode.state.rocksdb.key_words import SearchedKeys, find_keys, words_of
from tests.state.runs import fixed

BYTE = st.sampled_from([b"\x00", b"\x01", b"\x80", b"\xff"])


def keys(width: int) -> st.SearchStrategy[bytes]:
    """Keys of some bytes, or with all bytes alike but a few."""
    some = st.lists(BYTE, min_size=width, max_size=width).map(b"".join)
    place = st.integers(0, width - 1)
    alike = st.tuples(place, BYTE).map(lambda one: b"\x01" * one[0] + one[1] + b"\x01" * (width - one[0] - 1))
    return some | alike


def pairs_of_sets(width: int) -> st.SearchStrategy[tuple[int, set[bytes], set[bytes]]]:
    sets = st.sets(keys(width), min_size=1, max_size=20)
    return st.tuples(st.just(width), sets, sets)


def found_by(wanted: SearchedKeys, rows: npt.NDArray[np.uint8], *, with_words: bool) -> list[tuple[int, int]]:
    positions, at = find_keys(wanted, FixedBytes(rows).comparable(), words_of(rows) if with_words else None)
    return list(zip(positions.tolist(), at.tolist(), strict=True))


@given(st.sampled_from([1, 2, 7, 8, 9, 12]).flatmap(pairs_of_sets), st.data())
def test_the_keys_that_both_have_are_found(pair: tuple[int, set[bytes], set[bytes]], data: st.DataObject) -> None:
    width, stored, asked = pair
    held, ordered = sorted(stored), sorted(asked)
    rows, wanted = fixed(held, width).rows, SearchedKeys(fixed(ordered, width).rows)
    for _ in range(2):
        expected = [(number, held.index(key)) for number, key in enumerate(ordered) if key in stored]
        assert found_by(wanted, rows, with_words=True) == found_by(wanted, rows, with_words=False) == expected
        kept = sorted(data.draw(st.sets(st.sampled_from(range(len(ordered))), min_size=1)))
        ordered = [ordered[number] for number in kept]
        wanted = wanted.at(np.asarray(kept, np.intp))


def stored(values: Sequence[object], type_: pa.DataType) -> npt.NDArray[np.uint8]:
    """Return the stored keys of values, in their order."""
    encoded = encode_keys([pa.array(values, type_)], KeySchema((pa.field("k", type_),)))
    found = stored_keys(key_groups(encoded, max_parallelism=1024), encoded, 1)
    return fixed(sorted(found), len(found[0])).rows


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (range(10_000), pa.int64()),
        (range(-10_000, 0), pa.int64()),
        (range(10_000), pa.int32()),
        (np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 10_000).tolist(), pa.int64()),
        (np.random.default_rng(2).random(10_000).tolist(), pa.float64()),
        ([f"customer-{number:06}" for number in range(10_000)], pa.string()),
    ],
    ids=["a range", "negative", "int32", "random", "floats", "texts"],
)
def test_usual_keys_have_words_and_are_found_by_them(values: Sequence[object], type_: pa.DataType) -> None:
    rows = stored(values, type_)
    words = words_of(rows)
    assert words is not None
    every = SearchedKeys(rows)
    assert every.words(words.first_byte).tolist() == words.words.tolist()
    for some in (rows[::3], rows[100:200]):
        assert found_by(every, some, with_words=True) == found_by(every, some, with_words=False)
        assert len(found_by(SearchedKeys(some), rows, with_words=True)) == len(some)


def test_keys_without_words_of_their_own_are_found_by_their_bytes() -> None:
    rows = stored([-1, 0, 2**50, None], pa.int64())
    assert words_of(stored(range(-1000, 1000), pa.int64())) is None
    assert len(found_by(SearchedKeys(rows), rows, with_words=True)) == 4
