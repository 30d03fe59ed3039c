"""The batch-style backend: nothing is read, pairs leave in order, and a key that comes back is met with an error."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InternalError
from mixedmode.state import SingleKeyBackend, StateRange


class Recorder:
    """A migration that keeps what it gets."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, bytes, bytes | None]] = []

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self.pairs += [(state_id, key, value) for key, value in zip(keys, values, strict=True)]


@given(st.lists(st.binary(min_size=1, max_size=4), unique=True, max_size=10).map(sorted), st.integers(1, 4))
def test_pairs_leave_for_the_migration_in_the_order_of_their_keys(keys: list[bytes], step: int) -> None:
    migration = Recorder()
    backend = SingleKeyBackend(migration)
    for start in range(0, len(keys), step):
        some = keys[start : start + step]
        assert list(backend.read(0, some)) == [None] * len(some), "no state precedes the backlog"
        backend.write(0, some, [key * 2 for key in some])
    assert migration.pairs == [(0, key, key * 2) for key in keys]


def test_without_a_migration_the_pairs_are_dropped() -> None:
    backend = SingleKeyBackend(None)
    backend.write(0, [b"a"], [b"1"])
    assert list(backend.read(0, [b"b"])) == [None]


def test_each_state_has_an_order_of_its_own() -> None:
    migration = Recorder()
    backend = SingleKeyBackend(migration)
    backend.write(1, [b"b"], [b"1"])
    backend.write(0, [b"a"], [b"2"])
    assert backend.scan(0, b"b", b"c") == StateRange([], [])
    assert backend.scan_prefixes(0, [b"b", b"c"]).keys == [], "no state precedes the backlog"
    assert migration.pairs == [(1, b"b", b"1"), (0, b"a", b"2")]


def test_nothing_to_read_or_write_is_fine_at_any_time() -> None:
    backend = SingleKeyBackend(None)
    backend.write(0, [b"a"], [b"1"])
    backend.write(0, [], [])
    assert list(backend.read(0, [])) == []
    assert backend.scan_prefixes(0, []).keys == []


@pytest.mark.parametrize(
    "use",
    [
        lambda backend, key: backend.read(3, [key, b"z"]),
        lambda backend, key: backend.write(3, [key], [b"2"]),
        lambda backend, key: backend.scan(3, key, b"z"),
        lambda backend, key: backend.scan_prefixes(3, [key, b"z"]),
    ],
    ids=["read", "write", "scan", "scan_prefixes"],
)
@pytest.mark.parametrize("key", [b"a", b"b"])
def test_a_key_that_comes_back_is_refused_in_full(use: Callable[[SingleKeyBackend, bytes], object], key: bytes) -> None:
    backend = SingleKeyBackend(None)
    backend.write(3, [b"a", b"b"], [b"1", b"1"])
    with pytest.raises(InternalError) as caught:
        use(backend, key)
    assert str(caught.value) == (
        "a key came back after the next key had begun, so the backlog is not sorted and its state would be "
        f"wrong. This is a defect; report it. state_id=3, key={key.hex()}, last_key=62"
    )
