"""State values of half a million keys: columns to bytes and back, of fixed width and with a variable part."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mixedmode.state import RowCodec

ROWS = 500_000

pytestmark = pytest.mark.benchmark(group=f"codec, {ROWS:,} values", min_rounds=3, max_time=0.3)

_RNG = np.random.default_rng(3)
_INTEGERS = _RNG.integers(0, 2**62, ROWS)
_COLUMNS: dict[str, list[pa.Array]] = {
    "count and sum": [pa.array(_INTEGERS), pa.array(_RNG.random(ROWS))],
    "with NULLs": [pa.array(_INTEGERS, mask=_INTEGERS % 10 == 0), pa.array(_RNG.random(ROWS))],
    "with a string": [pa.array(_INTEGERS), pa.array(_INTEGERS % 10**6).cast(pa.string()).cast(pa.large_binary())],
}
KINDS = pytest.mark.parametrize("columns", _COLUMNS.values(), ids=_COLUMNS)


@KINDS
def test_pack(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    assert len(benchmark(_codec(columns).pack, columns)) == ROWS


@KINDS
def test_unpack(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    codec = _codec(columns)
    assert benchmark(codec.unpack, codec.pack(columns)) == list(columns)


def _codec(columns: Sequence[pa.Array]) -> RowCodec:
    return RowCodec(tuple(pa.field(f"f{i}", column.type) for i, column in enumerate(columns)))
