"""Offsets of Iceberg's stream: ranges between them read each snapshot once. Without Iceberg."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mixedmode.connectors.lakehouse.iceberg_offsets import (
    NOTHING,
    Offset,
    Snapshot,
    after,
    before,
    last_read,
    offset_of,
)


def history(files: list[int]) -> list[Snapshot]:
    return [Snapshot(n, n - 1 if n else None, "append", n) for n, _ in enumerate(files)]


def read(snapshots: list[Snapshot], start: Offset, end: Offset) -> list[int]:
    """The snapshots after `start`, up to `end`, as Iceberg reads them: one by one, by their parents."""
    first, last = (last_read(one, snapshots[one.snapshot]) for one in (start, end))
    found: list[int] = []
    while last != first:
        assert last is not None, (start, end)
        found.insert(0, last)
        last = snapshots[last].parent
    return found


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_each_snapshot_is_read_once_wherever_limits_lie(files: list[int], data: st.DataObject) -> None:
    snapshots = history(files)
    every = [Offset(number, place) for number, count in enumerate(files) for place in range(count + 1)]
    cuts = sorted(data.draw(st.sets(st.sampled_from(every))) | {every[-1]}, key=lambda one: (one.snapshot, one.files))
    found = [number for pair in pairwise([before(snapshots[0]), *cuts]) for number in read(snapshots, *pair)]
    unread = {len(files) - 1} if files[-1] == 0 else set()  # of no files, so it adds no rows
    assert found == [number for number in range(len(files)) if number not in unread]


@given(st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))
def test_an_offset_is_read_as_it_was_written(snapshot: int, files: int) -> None:
    assert offset_of(Offset(snapshot, files).line()) == Offset(snapshot, files)


def test_lines_are_those_of_icebergs_stream() -> None:
    assert offset_of("") is offset_of("-") is None
    assert NOTHING.line() == '{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}'
    assert last_read(after(7), None) == 7
