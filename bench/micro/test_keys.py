"""Keys of a million rows: to canonical bytes and back, to key groups, and to dense group numbers."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.stages import MAX_PARALLELISM
from mixedmode.keys import KeySchema, decode_keys, encode_keys, group_codes, key_groups

ROWS = 1_000_000

pytestmark = pytest.mark.benchmark(group="keys, 1 M rows", min_rounds=3, max_time=0.5)

_RNG = np.random.default_rng(5)
_INTEGERS = _RNG.integers(0, 2**62, ROWS)
_COLUMNS: dict[str, list[pa.Array]] = {
    "int64": [pa.array(_INTEGERS)],
    "string": [pa.array(_INTEGERS).cast(pa.string())],
    "string and int32": [
        pa.array(_INTEGERS % 50_000).cast(pa.string()),
        pa.array((_INTEGERS % 97).astype(np.int32), mask=_INTEGERS % 10 == 0),
    ],
}
KINDS = pytest.mark.parametrize("columns", _COLUMNS.values(), ids=_COLUMNS.keys())


@KINDS
def test_encode_keys(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    keys = benchmark(encode_keys, columns, _schema(columns))
    assert len(keys) == ROWS


@KINDS
def test_decode_keys(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    schema = _schema(columns)
    decoded = benchmark(decode_keys, encode_keys(columns, schema), schema)
    assert decoded[0].equals(columns[0])


@KINDS
def test_key_groups(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    keys = encode_keys(columns, _schema(columns))
    groups = benchmark(key_groups, keys, max_parallelism=MAX_PARALLELISM)
    assert int(groups.max()) == MAX_PARALLELISM - 1


@KINDS
def test_group_codes(benchmark: BenchmarkFixture, columns: Sequence[pa.Array]) -> None:
    groups = benchmark(group_codes, columns)
    assert len(groups.codes) == ROWS


def _schema(columns: Sequence[pa.Array]) -> KeySchema:
    return KeySchema(tuple(pa.field(f"k{i}", column.type) for i, column in enumerate(columns)))
