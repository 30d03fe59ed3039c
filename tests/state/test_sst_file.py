"""RocksDB reads from a file of ours what it reads from one of its own writer, finds damage in it, and compacts it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.state.arrow_bytes import ArrowBytes, array_of
from mixedmode.state.rocksdb import sst_file as sst_file_module
from mixedmode.state.rocksdb.options import BLOCK_BYTES
from mixedmode.state.rocksdb.sst_file import SstFile
from tests.random_cases import random_cases
from tests.state.sst_files import Entries, Ingested, write_ours, write_theirs

FOOTER_BYTES = 53
LENGTHS = st.sampled_from([0, 1, 3, 127, 128, 200, 5_000, BLOCK_BYTES + 1])


def binary(min_size: int = 0) -> st.SearchStrategy[bytes]:
    """Few bytes, or many that repeat."""
    long = st.builds(lambda start, length: (start * length)[:length], st.binary(min_size=1, max_size=3), LENGTHS)
    return (st.binary(min_size=min_size, max_size=20) | long).filter(lambda value: len(value) >= min_size)


def several_lengths() -> st.SearchStrategy[Entries]:
    return st.dictionaries(binary(min_size=1), binary(), min_size=1, max_size=60)


@st.composite
def one_length(draw: st.DrawFn) -> Entries:
    key_bytes, value_bytes = draw(st.integers(1, 20)), draw(LENGTHS.filter(bool))
    keys = st.binary(min_size=key_bytes, max_size=key_bytes)
    values = st.binary(min_size=1, max_size=3).map(lambda value: (value * value_bytes)[:value_bytes])
    return draw(st.dictionaries(keys, values, min_size=1, max_size=60))


@settings(max_examples=random_cases(40), deadline=None)
@given(
    entries=several_lengths() | one_length(),
    steps=st.lists(st.integers(0, 20), max_size=4),
    others=st.lists(st.binary(max_size=20), max_size=5),
    group_bytes=st.sampled_from([1, 100, 40_000, 1 << 20]),
    has_filter=st.booleans(),
)
def test_rocksdb_reads_the_same_from_our_file_as_from_its_own(
    tmp_path_factory: pytest.TempPathFactory,
    entries: Entries,
    steps: list[int],
    others: list[bytes],
    group_bytes: int,
    has_filter: bool,
) -> None:
    folder, wanted = tmp_path_factory.mktemp("sst"), sorted({*list(entries)[:20], *others})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sst_file_module, "_GROUP_BYTES", group_bytes)
        ours = write_ours(folder / "ours.sst", entries, steps=steps, has_filter=has_filter)
    with Ingested(ours) as mine, Ingested(write_theirs(folder / "theirs.sst", entries)) as its:
        found = mine.read(wanted)
        assert found == its.read(wanted)
    assert found.forward == sorted(entries.items())
    assert found.entries_in_properties == len(entries)


@pytest.mark.parametrize("is_one_length", [False, True])
def test_a_hundred_thousand_entries_are_read_back_and_take_about_as_many_bytes(
    tmp_path: Path, is_one_length: bool
) -> None:
    rng = np.random.default_rng(3)
    lengths = [20] * 100_000 if is_one_length else rng.integers(0, 40, 100_000).tolist()
    entries = {
        b"\0\1\0%d" % number if not is_one_length else b"\0\1\0%08d" % number: b"count\0\0\0" + rng.bytes(length)
        for number, length in enumerate(lengths)
    }
    steps = [1, 2, 20_000, 5, 30_000, 1]
    ours = write_ours(tmp_path / "ours.sst", entries, steps=steps)
    theirs = write_theirs(tmp_path / "theirs.sst", entries)
    with Ingested(ours) as database:
        found = database.read([b"\0\1\0%08d" % number for number in range(0, 200_000, 777)])
    assert found.forward == sorted(entries.items())
    assert found.backward == found.forward[::-1]
    assert found.points == [entries.get(b"\0\1\0%08d" % number) for number in range(0, 200_000, 777)]
    assert ours.stat().st_size < 1.15 * theirs.stat().st_size


@settings(max_examples=random_cases(20), deadline=None)
@given(
    at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), is_one_length=st.booleans(), has_filter=st.booleans()
)
def test_a_flipped_bit_is_found(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int, is_one_length: bool, has_filter: bool
) -> None:
    folder = tmp_path_factory.mktemp("sst")
    values = [b"v%07d" % (number**2) for number in range(3000)]
    entries = {b"k%06d" % number: value if is_one_length else value.strip(b"0") for number, value in enumerate(values)}
    whole = write_ours(folder / "whole.sst", entries, has_filter=has_filter).read_bytes()
    damaged = bytearray(whole)
    damaged[int(at * (len(whole) - FOOTER_BYTES))] ^= 1 << bit
    path = folder / "damaged.sst"
    path.write_bytes(damaged)
    error = _error_of_reading(path, entries)
    assert error is None or "Corruption" in str(error)


def _error_of_reading(path: Path, entries: Entries) -> Exception | None:
    """Read all entries; return what RocksDB raises. If it cannot read the filter, it may do without."""
    absent = [key + b"x" for key in sorted(entries)]
    try:
        with Ingested(path) as database:
            found = database.read([*entries, *absent])
            spared = database.counted("bloom.filter.useful")
    except Exception as error:  # noqa: BLE001 - rocksdict raises plain Exception
        return error
    assert spared == 0, "only a damaged filter raises nothing"
    assert found.forward == sorted(entries.items())
    assert found.points == [*entries.values(), *([None] * len(absent))]
    return None


@settings(max_examples=random_cases(13), deadline=None)
@given(older=several_lengths(), newer=several_lengths(), has_filter=st.booleans())
def test_rocksdb_compacts_our_files(
    tmp_path_factory: pytest.TempPathFactory, older: Entries, newer: Entries, has_filter: bool
) -> None:
    folder = tmp_path_factory.mktemp("sst")
    files = [
        write_ours(folder / f"{number}.sst", entries, has_filter=has_filter)
        for number, entries in enumerate([older, newer])
    ]
    with Ingested(*files) as database:
        database.database.compact_range(None, None)
        assert len(database.database.live_files()) == 1
        assert database.read([]).forward == sorted({**older, **newer}.items())


def test_nothing_of_a_file_is_held_in_memory_but_a_group_of_entries(tmp_path: Path) -> None:
    file, path, rng = SstFile(tmp_path / "a.sst"), tmp_path / "a.sst", np.random.default_rng(1)
    for number in range(8):
        keys = [b"%02d%06d" % (number, entry) for entry in range(10_000)]
        file.write(array_of(keys), array_of([rng.bytes(50) for _ in keys]))
        unwritten = (number + 1) * 580_000 - path.stat().st_size
        assert unwritten < 2 * sst_file_module._GROUP_BYTES
    file.discard()


def test_the_bytes_of_a_file_depend_on_its_entries_only(tmp_path: Path) -> None:
    entries = {b"k%06d" % number: b"v" * (number % 50) for number in range(1000)}
    first, second = (write_ours(tmp_path / name, entries).read_bytes() for name in ("a.sst", "b.sst"))
    assert first == second


def test_bytes_that_arrow_keeps_behind_a_deleted_value_are_not_written(tmp_path: Path) -> None:
    data, offsets = b"firstsecond", np.array([0, 5, 11])
    buffers = [pa.py_buffer(bytes([0b10])), pa.py_buffer(offsets), pa.py_buffer(data)]
    values = ArrowBytes[bytes | None](pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2, buffers))
    file = SstFile(tmp_path / "a.sst")
    file.write([b"a", b"b"], values)
    file.finish()
    with Ingested(tmp_path / "a.sst") as database:
        assert database.read([]).forward == [(b"a", b""), (b"b", b"second")]
