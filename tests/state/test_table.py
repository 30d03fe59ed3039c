"""State as columns, over a backend: only rows that exist are read, and deleted ones are written as such."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from mixedmode.state import KeyedStateBackend, PrefixRows, StateDescriptor, StateRange, StateTable

DESCRIPTOR = StateDescriptor(5, "rows", (pa.field("n", pa.int64()), pa.field("b", pa.large_binary())))


class Entries(KeyedStateBackend):
    """A backend over a dictionary, written at once."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, bytes], bytes | None] = {}

    @override
    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.stored.get((state_id, key)) for key in keys]

    @override
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        raise NotImplementedError

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        raise NotImplementedError

    @override
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self.stored.update({(state_id, key): value for key, value in zip(keys, values, strict=True)})


Cell = tuple[int | None, bytes | None]


@given(
    st.dictionaries(
        st.binary(max_size=3), st.tuples(st.none() | st.integers(-9, 9), st.none() | st.binary(max_size=3))
    ),
    st.sets(st.binary(max_size=3)),
    st.sets(st.integers(0, 9)),
)
def test_rows_that_exist_are_read_with_their_positions(
    cells: dict[bytes, Cell], others: set[bytes], deleted: set[int]
) -> None:
    backend = Entries()
    table = StateTable(DESCRIPTOR, backend)
    keys = sorted(cells)
    gone = sorted(position for position in deleted if position < len(keys))
    columns = [
        pa.array([cells[k][0] for k in keys], pa.int64()),
        pa.array([cells[k][1] for k in keys], pa.large_binary()),
    ]
    table.write(keys, columns, deleted=gone)
    left = {key: cell for position, (key, cell) in enumerate(sorted(cells.items())) if position not in gone}
    asked = sorted(others | cells.keys())
    found, read = table.read(asked)
    assert [asked[position] for position in found] == sorted(left)
    assert found.dtype == np.intp, "positions, also when there are none"
    assert list(zip(*(column.to_pylist() for column in read), strict=True)) == [left[key] for key in sorted(left)]


def test_stored_keys_carry_the_state_of_the_table() -> None:
    table = StateTable(DESCRIPTOR, Entries())
    assert list(table.stored_keys(np.array([1], np.uint16), pa.array([b"k"], pa.large_binary()))) == [b"\x00\x01\x05k"]


def test_a_descriptor_says_enough_to_decode_the_values_without_the_program() -> None:
    assert DESCRIPTOR.as_json() == {
        "state_id": 5,
        "name": "rows",
        "fields": [{"name": "n", "type": "int64"}, {"name": "b", "type": "large_binary"}],
    }
