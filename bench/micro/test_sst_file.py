"""Writing a run of a million entries: our files, from arrays, against those of RocksDB's writer, entry by entry.

Prints the processor time of each way, and the sizes of the files. Keys are stored keys of integers (12 bytes) with the
state of a count and a sum, or of strings with a state that has a string.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rocksdict import SstFileWriter

from bench.micro.stages import KEY_SCHEMA, MAX_PARALLELISM, count_and_sum
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.state import RowCodec
from mixedmode.state.arrow_bytes import array_of, values_at
from mixedmode.state.keys import stored_keys
from mixedmode.state.rocksdb.options import run_options
from mixedmode.state.rocksdb.sst_file import SstFile

ENTRIES, ROUNDS = 1_000_000, 3
RATIO_MAX = 0.7  # of processor times, with keys and values of one length; it is less than a half
SIZE_RATIO_MAX = {"one length": 1.05, "several lengths": 1.25}  # short strings with short values are the worst case

Pairs = tuple[Sequence[bytes], Sequence[bytes]]


@pytest.mark.parametrize("kind", ["one length", "several lengths"])
def test_write(tmp_path: Path, kind: str) -> None:
    """Prints nanoseconds of processor time per entry, and bytes per entry."""
    arrays = _one_length() if kind == "one length" else _several_lengths()
    lists = list(arrays[0]), list(arrays[1])
    ways: dict[str, Callable[[Path], None]] = {
        "RocksDB's writer, from lists": lambda path: _write_theirs(path, *lists),
        "RocksDB's writer, from arrays": lambda path: _write_theirs(path, *map(_objects, arrays)),
        "ours, from lists": lambda path: _write_ours(path, *lists),
        "ours, from arrays": lambda path: _write_ours(path, *arrays),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    sizes = {}
    for _ in range(ROUNDS):
        for way, write in ways.items():
            path = tmp_path / "a.sst"
            started = time.process_time()
            write(path)
            seconds[way].append(time.process_time() - started)
            sizes[way] = path.stat().st_size
            path.unlink()
    for way, found in seconds.items():
        each = 1e9 * min(found) / ENTRIES
        print(f"{ENTRIES:,} entries of {kind}, {way}: {each:.0f} ns and {sizes[way] / ENTRIES:.1f} bytes each")
    theirs, ours = "RocksDB's writer, from arrays", "ours, from arrays"
    assert sizes[ours] < SIZE_RATIO_MAX[kind] * sizes[theirs]
    if kind == "one length":
        assert min(seconds[ours]) < RATIO_MAX * min(seconds[theirs])


def _write_theirs(path: Path, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    file = SstFileWriter(run_options())
    file.open(str(path))
    for key, value in zip(keys, values, strict=True):
        file[key] = value
    file.finish()


def _write_ours(path: Path, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    file = SstFile(path)
    file.write(array_of(keys), array_of(values))
    file.finish()


def _objects(values: Sequence[bytes]) -> list[bytes]:
    """New objects, as writing one entry after the other makes them from arrays."""
    return list(values[:])


def _one_length() -> Pairs:
    rng, (descriptor,) = np.random.default_rng(1), count_and_sum().operator.states
    numbers = [rng.integers(1, 20, ENTRIES), rng.random(ENTRIES) * 100, rng.integers(1, 20, ENTRIES)]
    columns = [pa.array(n).cast(field.type) for n, field in zip(numbers, descriptor.fields, strict=True)]
    return _in_order(pa.array(np.arange(ENTRIES)), KEY_SCHEMA, RowCodec(descriptor.fields).pack(columns))


def _several_lengths() -> Pairs:
    rng, fields = np.random.default_rng(2), (pa.field("n", pa.int64()), pa.field("text", pa.large_binary()))
    numbers = pa.array(rng.integers(1, 20, ENTRIES))
    names = pa.array([f"customer-{number}" for number in range(ENTRIES)])
    texts = numbers.cast(pa.string()).cast(pa.large_binary())
    return _in_order(names, KeySchema((pa.field("k", pa.string()),)), RowCodec(fields).pack([numbers, texts]))


def _in_order(keys: pa.Array, schema: KeySchema, values: Sequence[bytes]) -> Pairs:
    encoded = encode_keys([keys], schema)
    stored = stored_keys(key_groups(encoded, max_parallelism=MAX_PARALLELISM), encoded, 0)
    order = np.argsort(np.array(list(stored), object), kind="stable")
    return values_at(stored, order), values_at(values, order)
