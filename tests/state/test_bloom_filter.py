"""Filters: bit by bit those of RocksDB's own writer, and RocksDB asks them before it reads a block."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys.rows import binary_rows
from mixedmode.state.rocksdb.bloom_filter import BloomFilter
from mixedmode.state.rocksdb.xxph3 import xxph3
from tests.random_cases import random_cases
from tests.state.sst_files import Ingested, write_ours, write_theirs

FOOTER_BYTES, HANDLES_AT, FILTER_NAME = 53, 13, b"fullfilter.rocksdb.BuiltinBloomFilter"
LENGTHS = [*range(1, 40), 63, 64, 65, 96, 97, 128, 129, 143, 144, 239, 240, 241, 255, 256, 257, 1023, 1024, 1025, 2500]


def filter_of(keys: Sequence[bytes]) -> bytes:
    """Return the filter block in a file that RocksDB writes (format version 6: the metaindex ends at the footer)."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_theirs(Path(folder) / "a.sst", dict.fromkeys(keys, b"v")).read_bytes()
    handle = file.index(FILTER_NAME, len(file) - 1000) + len(FILTER_NAME)
    offset, handle = _varint(file, handle)
    size, _ = _varint(file, handle)
    return file[offset : offset + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found, shift = 0, 0
    while data[at] >= 128:
        found |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return found | data[at] << shift, at + 1


def ours(keys: Sequence[bytes], *, pieces: int = 1) -> bytes:
    """The filter of keys that come in several pieces."""
    step = -(-len(keys) // pieces)
    parts = [keys[start : start + step] for start in range(0, len(keys), step)]
    found = BloomFilter(bits_per_key=10)
    for part in parts:
        found.add(xxph3(binary_rows(pa.array(part, pa.large_binary()))))
    return b"".join(found.parts())


@pytest.mark.parametrize("length", LENGTHS)
def test_a_filter_of_keys_of_one_length_equals_that_of_rocksdb(length: int) -> None:
    rng = Random(length)
    keys = sorted({rng.randbytes(length) for _ in range(40)})
    assert ours(keys) == filter_of(keys)
    rows = binary_rows(pa.array(keys, pa.large_binary()))
    assert (xxph3(rows, length) == xxph3(rows)).all(), "words are read in another way, and are the same"


@settings(max_examples=random_cases(20), deadline=None)
@given(
    st.sets(st.sampled_from(LENGTHS).flatmap(lambda n: st.binary(min_size=n, max_size=n)), min_size=1),
    st.integers(1, 4),
)
def test_a_filter_of_keys_of_several_lengths_equals_that_of_rocksdb(keys: set[bytes], pieces: int) -> None:
    assert ours(sorted(keys), pieces=pieces) == filter_of(sorted(keys))


@pytest.mark.parametrize("count", [1, 2, 6, 52, 3_000, 500_000])
def test_a_filter_of_any_size_equals_that_of_rocksdb(count: int) -> None:
    keys = [b"%012d" % number for number in range(count)]
    assert ours(keys, pieces=3) == filter_of(keys)


def test_rocksdb_asks_the_filter_and_reads_no_block_for_ninety_nine_of_a_hundred_absent_keys(tmp_path: Path) -> None:
    keys = [b"%010d" % number for number in range(0, 200_000, 2)]
    absent = [b"%010d" % number for number in range(1, 199_998, 2)]
    with Ingested(write_ours(tmp_path / "a.sst", dict.fromkeys(keys, b"v"))) as database:
        assert database.database.get(keys[:1000]) == [b"v"] * 1000
        assert database.counted("bloom.filter.full.true.positive") == 1000
        for start in range(0, len(absent), 1000):
            assert not any(database.database.get(absent[start : start + 1000]))
        spared = database.counted("bloom.filter.useful")
        read = database.counted("bloom.filter.full.positive") - 1000
    assert spared + read == len(absent)
    assert read < 0.015 * len(absent)
