"""The in-memory backend answers as RocksDB does, shows writes at the commit only, and refuses what breaks the rules."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from mixedmode.errors import InternalError
from mixedmode.state import KeyedStateBackend, MemoryBackend, PrefixRows
from mixedmode.state.backend import entry_bytes
from mixedmode.state.rocksdb import RocksDBBackend, RunWriter, open_replica
from tests.random_cases import random_cases
from tests.state.runs import Entries, keys_of_groups, laid_over, run_entries, wanted_runs

PREFIX = b"\x00\x00\x00"


def none_begins_with_another(prefixes: set[bytes]) -> list[bytes]:
    """Sorted, without those that begin with another one."""
    kept: list[bytes] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def rows_of(found: PrefixRows) -> list[tuple[int, bytes, bytes]]:
    return list(zip(found.prefix_of_row.tolist(), found.keys, found.values, strict=True))


def oracle(stored: Mapping[bytes, bytes], prefixes: Sequence[bytes]) -> list[tuple[int, bytes, bytes]]:
    return [
        (number, key, stored[key])
        for number, prefix in enumerate(prefixes)
        for key in sorted(stored)
        if key.startswith(prefix)
    ]


def first_of_each(rows: list[tuple[int, bytes, bytes]], limits: list[int]) -> list[tuple[int, bytes, bytes]]:
    """The first rows of each prefix, as many as its limit."""
    return [row for at, row in enumerate(rows) if sum(other[0] == row[0] for other in rows[:at]) < limits[row[0]]]


@settings(max_examples=random_cases(10))
@given(
    runs=st.lists(run_entries(30), max_size=4),
    wanted=st.lists(st.sets(keys_of_groups(4), max_size=12), min_size=1, max_size=4),
    neighbours=run_entries(6),
    ranges=st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=2), st.binary(max_size=2)), max_size=4),
    limits=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_it_answers_as_rocksdb_and_as_a_dictionary_do(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[Entries],
    wanted: list[set[bytes]],
    neighbours: Entries,
    ranges: list[tuple[int, bytes, bytes]],
    limits: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    stored = laid_over(runs)
    beside = {key[:2] + bytes([other]) + key[3:]: b"!" for key in neighbours for other in (1, 255)}
    memory = MemoryBackend(SortedDict({**stored, **beside}))
    replica_runs = wanted_runs(folder, [*runs, beside])
    with RunWriter(folder / "new") as writer, open_replica(folder / "r", replica_runs, attempt="a") as replica:
        backends: list[KeyedStateBackend] = [RocksDBBackend(replica, writer, {}), memory]
        for backend in backends:
            for some in wanted:
                prefixes = none_begins_with_another(some)
                found = backend.scan_prefixes(0, prefixes)
                assert rows_of(found) == oracle(stored, prefixes), type(backend)
                assert found.prefix_of_row.dtype.name == "int64", type(backend)
                few = rows_of(backend.scan_prefixes(0, prefixes, limits[: len(prefixes)]))
                assert few == first_of_each(oracle(stored, prefixes), limits), type(backend)
                for bytes_max in (0, 90, 200, 2**20):
                    some_rows = backend.scan_prefixes(0, prefixes, None, bytes_max)
                    whole = oracle(stored, prefixes)
                    taken = list(accumulate(entry_bytes(key, value) for _, key, value in whole))
                    count = 1 + sum(one <= bytes_max for one in taken)
                    assert rows_of(some_rows) == whole[:count], type(backend)
                    assert some_rows.is_whole == (count > len(whole)), type(backend)
                assert backend.read(0, prefixes) == [stored.get(key) for key in prefixes], type(backend)
            last_state = none_begins_with_another({key[:3] for key in beside if key[2] == 255})
            assert rows_of(backend.scan_prefixes(255, last_state)) == [
                (number, key, b"!") for number, key, _ in oracle(beside, last_state)
            ], f"keys that begin with 0xff, {type(backend)}"
            for group, first, second in ranges:
                start, end = (bytes([0, group, 0]) + part for part in (first, second))
                expected = [key for key in sorted(stored) if start <= key < end]
                assert backend.scan(0, start, end).keys == expected, type(backend)
                assert backend.scan(0, start, end).values == [stored[key] for key in expected], type(backend)


def test_what_is_written_is_read_after_the_commit_and_not_before() -> None:
    backend = MemoryBackend(SortedDict({PREFIX + b"a": b"1", PREFIX + b"b": b"1"}))
    keys = [PREFIX + b"a", PREFIX + b"b", PREFIX + b"c"]
    backend.write(0, keys[:2], [None, b"2"])
    backend.write(0, keys[2:], [b"3"])
    assert backend.read(0, keys) == [b"1", b"1", None], "an epoch reads what was committed before it"
    assert backend.scan_prefixes(0, [PREFIX]).keys == keys[:2]
    assert backend.commit() == 3, "the deleted key counts too"
    assert backend.read(0, keys) == [None, b"2", b"3"]
    assert backend.scan(0, PREFIX, PREFIX + b"c").keys == [PREFIX + b"b"]
    backend.write(0, keys[:1], [b"4"])
    assert backend.commit() == 1, "the next epoch begins with an order of its own"
    assert backend.read(0, keys) == [b"4", b"2", b"3"]


def test_deleting_what_is_not_there_changes_nothing() -> None:
    entries = SortedDict({PREFIX + b"a": b"1"})
    backend = MemoryBackend(entries)
    backend.write(0, [PREFIX + b"b"], [None])
    assert backend.commit() == 1
    assert dict(entries) == {PREFIX + b"a": b"1"}


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
@pytest.mark.parametrize("before", [0, 1])
def test_writes_out_of_order_are_refused_in_full(keys: list[bytes], before: int) -> None:
    backend = MemoryBackend(SortedDict())
    stored = [PREFIX + key for key in keys]
    backend.write(0, stored[:before], [b"1"] * before)
    backend.write(0, [], [])
    with pytest.raises(InternalError) as caught:
        backend.write(0, stored[before:], [b"2"] * (2 - before))
    assert str(caught.value) == (
        "keys of a sorted run must be strictly increasing, and these are not, so state would be lost. This "
        f"is a defect; report it. state_id=0, key={stored[1].hex()}, key_before={stored[0].hex()}"
    )


def test_each_state_has_an_order_of_its_own() -> None:
    backend = MemoryBackend(SortedDict())
    backend.write(1, [b"\x00\x00\x01b"], [b"1"])
    backend.write(0, [b"\x00\x00\x00a"], [b"2"])
    assert backend.commit() == 2


BROKEN_RULES: dict[str, Callable[[MemoryBackend], object]] = {
    "a key of another state is read": lambda backend: backend.read(0, [b"\x00\x00\x01a"]),
    "a key of another state is written": lambda backend: backend.write(1, [PREFIX + b"a"], [b"1"]),
    "keys are read out of order": lambda backend: backend.read(0, [PREFIX + b"b", PREFIX + b"a"]),
    "a key is read twice": lambda backend: backend.read(0, [PREFIX, PREFIX]),
    "a prefix is not a stored key": lambda backend: backend.scan_prefixes(0, [b"\x00"]),
    "a prefix begins with another": lambda backend: backend.scan_prefixes(0, [PREFIX, PREFIX + b"a"]),
    "a range goes into the next state": lambda backend: backend.scan(0, PREFIX, b"\x00\x00\x01\x00"),
    "a tombstone is written as a value": lambda backend: backend.write(0, [PREFIX + b"a"], [b""]),
}


@pytest.mark.parametrize("use", BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_what_breaks_the_rules_of_the_protocol_is_a_defect(use: Callable[[MemoryBackend], object]) -> None:
    with pytest.raises(AssertionError):
        use(MemoryBackend(SortedDict()))
