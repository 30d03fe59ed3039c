"""The join of two bags, epoch by epoch, against nested loops: added and retracted rows, equal rows, NULL keys."""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Call, Column, Query
from mixedmode.keys import KeySchema
from mixedmode.operators.interface import AppendedRows, Batch, Changelog, Changes
from mixedmode.operators.join import LEFT, RIGHT, Condition, JoinLayout, OutputColumn, RegularJoinOperator
from mixedmode.operators.join.layout import JoinType
from mixedmode.operators.join.products import blocks_of_pairs, blocks_of_repeats
from mixedmode.sort import sort_table
from mixedmode.sort.tables import whole_keys
from mixedmode.state import KeyedStateBackend, PrefixRows, SingleKeyBackend
from mixedmode.state.memory import MemoryBackend
from mixedmode.time import MIN_TIME_US
from tests.differential.stories import local_cases
from tests.operators.epochs import MAX_PARALLELISM, MemoryState, RunState, State, context_of
from tests.random_cases import random_cases

KINDS: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
Row = tuple[int, str | None, int | None]  # side, key, value
Weighted = Sequence[tuple[Row, int]]

KEYS = st.none() | st.sampled_from(["", "a", "b\x00"])
ROWS = st.tuples(st.integers(0, 1), KEYS, st.none() | st.integers(0, 2))
#: one epoch: rows that are added, and which of the rows that are there (by position) are retracted
EPOCHS = st.lists(st.tuples(st.lists(ROWS, max_size=8), st.lists(st.integers(0, 50), max_size=4)), max_size=5)
#: the same with nearly all rows in one key
HOT_ROWS = st.tuples(st.integers(0, 1), st.sampled_from(["a", "a", "a", None]), st.integers(0, 2))
HOT_EPOCHS = st.lists(
    st.tuples(st.lists(HOT_ROWS, min_size=2, max_size=8), st.lists(st.integers(0, 50), max_size=4)),
    min_size=2,
    max_size=5,
)


def operator_of(kind: JoinType, *, is_changelog: bool, block_rows: int = 3) -> RegularJoinOperator:
    columns = tuple(pa.field(name, data_type) for name, data_type in (("k", pa.string()), ("v", pa.int64())))
    left = tuple(OutputColumn(f"l{i}", LEFT, i) for i in range(2))
    right = () if kind in ("semi", "anti") else tuple(OutputColumn(f"r{i}", RIGHT, i) for i in range(2))
    layout = JoinLayout(KeySchema((pa.field("k", pa.string()),)), (columns, columns if right else ()), (*left, *right))
    return RegularJoinOperator(layout, kind, is_changelog=is_changelog, block_rows=block_rows)


def folded(operator: RegularJoinOperator, rows: Weighted) -> pa.Table:
    """Rows as the exchange brings them to the operator."""
    of_side = [
        [
            pa.array([row[1] if row[0] == side else None for row, _ in rows], pa.string()),
            pa.array([row[2] if row[0] == side else None for row, _ in rows], pa.int64()),
        ]
        for side in (LEFT, RIGHT)
    ]
    used = [columns for columns, fields in zip(of_side, operator.layout.sides, strict=True) if fields]
    batch = Batch(
        keys=[pa.array([row[1] for row, _ in rows], pa.string())],
        arguments=[column for columns in used for column in columns],
        times_us=None,
        weights=np.array([weight for _, weight in rows], np.int64) if operator.is_changelog else None,
        sides=np.array([row[0] for row, _ in rows], np.uint8),
    )
    return sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=MAX_PARALLELISM).table)


def run(operator: RegularJoinOperator, state: State, rows: Weighted, *, memory_bytes: int = 2**23) -> list[Changes]:
    """One epoch; the rows come in tables of whole keys, as the sorter makes them."""
    table = folded(operator, rows)
    pieces = [table.slice(start, 3) for start in range(0, table.num_rows, 3)]
    with state.epoch() as backend:
        return list(
            operator.process(whole_keys(pieces), replace(context_of(backend, state.epochs), memory_bytes=memory_bytes))
        )


def joined(kind: JoinType, rows: Counter[Row]) -> Counter[tuple[Any, ...]]:
    """The join of the rows, by two nested loops."""
    left, right = ([row[1:] for row in rows.elements() if row[0] == side] for side in (LEFT, RIGHT))
    alone = (None, None)

    def partners(row: tuple[Any, ...], others: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [other for other in others if row[0] is not None and other[0] == row[0]]

    if kind == "semi":
        return Counter(row for row in left if partners(row, right))
    if kind == "anti":
        return Counter(row for row in left if not partners(row, right))
    found = Counter((*row, *other) for row in left for other in partners(row, right))
    if kind in ("left", "full"):
        found.update((*row, *alone) for row in left if not partners(row, right))
    if kind in ("right", "full"):
        found.update((*alone, *row) for row in right if not partners(row, left))
    return found


def follow(result: Counter[tuple[Any, ...]], changes: Sequence[Changes], block_rows: int) -> None:
    """Apply the changes of an epoch."""
    for change in changes:
        logged = change.changelog()
        assert 0 < logged.num_rows <= block_rows
        for row in logged.to_pylist():
            weight = row.pop("_weight")
            assert abs(weight) == 1
            result[tuple(row.values())] += weight


def epochs_of(drawn: Sequence[tuple[list[Row], list[int]]], *, retracts: bool) -> list[Weighted]:
    there, epochs = list[Row](), list[Weighted]()
    for added, retracted in drawn:
        there += added
        positions = retracted[: len(there)] if retracts else []
        gone = [(there.pop(position % len(there)), -1) for position in positions]
        epochs.append([*gone, *((row, 1) for row in added)])
    return epochs


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(drawn=EPOCHS, memory_bytes=st.sampled_from([1, 300, 2**23]))
@local_cases(0.02)
def test_the_changes_of_a_join_add_up_to_the_join_of_the_rows(
    kind: JoinType, retracts: bool, drawn: list[tuple[list[Row], list[int]]], memory_bytes: int
) -> None:
    operator, state = operator_of(kind, is_changelog=retracts), MemoryState()
    rows, result = Counter[Row](), Counter[tuple[Any, ...]]()
    for epoch in epochs_of(drawn, retracts=retracts):
        for row, weight in epoch:
            rows[row] += weight
        changes = run(operator, state, epoch, memory_bytes=memory_bytes)
        if kind in ("inner", "semi") and not retracts:
            assert operator.traits.emits is Changelog.APPEND
            assert all(isinstance(change, AppendedRows) for change in changes)
        if kind in ("inner", "semi", "anti"):
            logged = [tuple(row.values()) for change in changes for row in change.changelog().to_pylist()]
            assert not {row[:-1] for row in logged if row[-1] > 0} & {row[:-1] for row in logged if row[-1] < 0}
        follow(result, changes, operator.block_rows)
        assert {row: count for row, count in result.items() if count} == joined(kind, rows)
    kept = Counter({row: count for row, count in rows.items() if row[1] is not None})
    by_itself = 0 if retracts else sum(count for row, count in kept.items() if operator.layout.sides[row[0]])
    counted = (
        {row if operator.layout.sides[row[0]] else row[:2] for row in +kept}
        if retracts
        else {row[:2] for row in kept if not operator.layout.sides[row[0]]}
    )
    assert len(state.entries) == by_itself + len(counted), (
        "a row that is gone, or has a NULL in its key, leaves nothing"
    )


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_join_goes_on_from_the_rows_of_a_backlog(kind: JoinType, retracts: bool, tmp_path: Path) -> None:
    operator, state = operator_of(kind, is_changelog=retracts), RunState(tmp_path)
    rows, result = Counter[Row](), Counter[tuple[Any, ...]]()
    backlog: Weighted = [((side, key, v), 1) for side in (0, 1) for key in ("a", "b", "c") for v in (1, 1, 2)]
    live: Sequence[Weighted] = [
        [((1, "a", 1), -2), ((1, "a", 2), -1), ((0, "d", 5), 1)],
        [((0, "b", 1), -1), ((1, "d", 6), 2), ((1, "a", 9), 1)],
        [((0, "c", 1), -2), ((0, "c", 2), -1), ((0, None, 1), 1), ((1, None, 1), 1)],
        [((1, "d", 6), -2), ((0, "c", 7), 1)],
    ]
    if not retracts:  # equal rows come one by one
        live = [[(row, 1) for row, weight in epoch for _ in range(abs(weight))] for epoch in live]
    for epoch in (backlog, *live):
        for row, weight in epoch:
            rows[row] += weight
        follow(result, run(operator, state, epoch), operator.block_rows)
        assert {row: count for row, count in result.items() if count} == joined(kind, rows)


@pytest.mark.parametrize("kind", KINDS)
@given(added=st.lists(ROWS, max_size=12))
@settings(max_examples=random_cases(15))
def test_input_that_comes_whole_has_the_same_join_without_a_state(kind: JoinType, added: list[Row]) -> None:
    operator, result = operator_of(kind, is_changelog=False), Counter[tuple[Any, ...]]()
    table = folded(operator, [(row, 1) for row in added])
    pieces = [table.slice(start, 3) for start in range(0, table.num_rows, 3)]
    changes = list(operator.process(whole_keys(pieces), context_of(SingleKeyBackend(None))))
    follow(result, changes, operator.block_rows)
    assert result == joined(kind, Counter(added))


ABOVE = Condition(
    "left.v <= right.v",
    Query(
        (Column("l", pa.int64()), Column("r", pa.int64()), Call("LessThanOrEqual", (0, 1), pa.bool_())), (), (("c", 2),)
    ),
    (OutputColumn("l", LEFT, 1), OutputColumn("r", RIGHT, 1)),
)


def with_condition(kind: JoinType, *, is_changelog: bool = True) -> RegularJoinOperator:
    """A join with a condition, which reads the value of the right also where no column of the right is emitted."""
    both = operator_of("inner", is_changelog=is_changelog).layout.sides
    operator = replace(operator_of(kind, is_changelog=is_changelog), condition=ABOVE)
    return replace(operator, layout=replace(operator.layout, sides=both))


def blockwise(operator: RegularJoinOperator, backend: KeyedStateBackend, rows: Weighted) -> list[Changes]:
    """A backlog in which each key is too large for the memory."""
    table = folded(operator, rows)
    pieces = [table.slice(start, 2) for start in range(0, table.num_rows, 2)]
    return list(operator.process(iter(pieces), replace(context_of(SingleKeyBackend(backend)), memory_bytes=1)))


@pytest.mark.parametrize("condition", [None, ABOVE])
@pytest.mark.parametrize("kind", KINDS)
@given(added=st.lists(ROWS, max_size=16), retracted=st.lists(st.integers(0, 50), max_size=4))
@settings(max_examples=random_cases(12))
def test_a_key_that_does_not_fit_in_memory_is_joined_in_blocks(
    kind: JoinType, condition: Condition | None, added: list[Row], retracted: list[int]
) -> None:
    operator = operator_of(kind, is_changelog=True) if condition is None else with_condition(kind)
    gone = Counter(added[position % len(added)] for position in retracted) if added else Counter[Row]()
    rows = [*((row, 1) for row in added), *((row, -min(n, added.count(row))) for row, n in gone.items())]
    whole, divided = MemoryState(), MemoryState()
    expected, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    follow(expected, run(operator, whole, rows), operator.block_rows)
    with divided.epoch() as backend:
        follow(found, blockwise(operator, backend, rows), operator.block_rows)
    assert found == expected
    assert divided.entries == whole.entries
    if condition is None:
        assert found == joined(kind, Counter(added) - gone)


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(drawn=HOT_EPOCHS, memory_bytes=st.sampled_from([1, 300]))
@local_cases(0.02)
def test_epochs_of_keys_that_do_not_fit_in_memory_change_the_same(
    kind: JoinType, retracts: bool, drawn: list[tuple[list[Row], list[int]]], memory_bytes: int
) -> None:
    """With a condition, whether a stored row has a match depends on rows of other blocks, changed and not."""
    operator, whole, divided = with_condition(kind, is_changelog=retracts), MemoryState(), MemoryState()
    for epoch in epochs_of(drawn, retracts=retracts):
        expected, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
        follow(expected, run(operator, whole, epoch), operator.block_rows)
        follow(found, run(operator, divided, epoch, memory_bytes=memory_bytes), operator.block_rows)
        assert {row: n for row, n in found.items() if n} == {row: n for row, n in expected.items() if n}
        if retracts:
            assert divided.entries == whole.entries
        else:  # the rows are numbered in another order
            assert len(divided.entries) == len(whole.entries)


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_has_grown_too_large_for_the_memory_goes_on_live(
    kind: JoinType, retracts: bool, tmp_path: Path
) -> None:
    """Its stored rows are read from RocksDB and from columns, a part at a time."""
    operator, state = operator_of(kind, is_changelog=retracts, block_rows=500), RunState(tmp_path)
    rows, result = Counter[Row](), Counter[tuple[Any, ...]]()
    backlog: Weighted = [((side, "a", v), 1) for side, count in ((0, 300), (1, 20)) for v in range(count)]
    live: Sequence[Weighted] = [
        [((1, "a", 5), -1), ((1, "a", 99), 1)],
        [((0, "a", 7), -1), ((0, "a", 1000), 2), ((1, "a", 6), -1)],
        [((1, "a", v), -1) for v in (*range(5), *range(7, 20), 99)],
        [((1, "a", 1), 1), ((0, "b", 1), 1)],
    ]
    if not retracts:
        live = [[(row, abs(weight)) for row, weight in epoch if abs(weight) == 1] for epoch in live]
    for epoch in (backlog, *live):
        for row, weight in epoch:
            rows[row] += weight
        follow(result, run(operator, state, epoch, memory_bytes=2_000), operator.block_rows)
        assert {row: count for row, count in result.items() if count} == joined(kind, rows)


class Counting(MemoryBackend):
    """Counts the stored rows that are read by prefix, by state; `most`: at once."""

    def __init__(self, entries: SortedDict) -> None:
        super().__init__(entries)
        self.rows = Counter[int]()
        self.most = 0

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        found = super().scan_prefixes(state_id, prefixes, limits, bytes_max)
        self.rows[state_id] += len(found.keys)
        self.most = max(self.most, len(found.keys))
        return found


@pytest.mark.parametrize(
    ("kind", "changed", "read"),
    [
        ("inner", (LEFT, "a", 99), {RIGHT: 20}),
        ("inner", (RIGHT, "a", 99), {LEFT: 30}),
        ("left", (RIGHT, "a", 99), {LEFT: 30, RIGHT: 2}),
        ("full", (LEFT, "a", 99), {LEFT: 2, RIGHT: 20}),
        ("semi", (RIGHT, "a", 99), {RIGHT: 2}),
        ("anti", (LEFT, "a", 99), {RIGHT: 1}),
    ],
)
def test_an_epoch_reads_only_the_stored_rows_that_the_change_meets(
    kind: JoinType, changed: Row, read: dict[int, int]
) -> None:
    operator, state = operator_of(kind, is_changelog=True), MemoryState()
    if kind in ("semi", "anti"):  # so that the rows of the right are told apart
        layout = operator.layout
        operator = replace(operator, layout=replace(layout, sides=(layout.sides[LEFT], layout.sides[LEFT])))
    there = [(LEFT, v) for v in range(30)] + [(RIGHT, v) for v in range(20)]
    run(operator, state, [((side, key, v), 1) for key in ("a", "b") for side, v in there])
    backend = Counting(state.entries)
    changes = list(operator.process(iter([folded(operator, [(changed, 1)])]), context_of(backend)))
    assert +backend.rows == read
    rows = {"inner": {LEFT: 20, RIGHT: 30}, "left": {RIGHT: 30}, "full": {LEFT: 20}}.get(kind, {}).get(changed[0], 0)
    assert sum(change.changelog().num_rows for change in changes) == rows


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_rows_of_an_epoch_are_read_in_as_many_parts_as_memory_asks_for(kind: JoinType) -> None:
    operator, state = operator_of(kind, is_changelog=True, block_rows=1 << 12), MemoryState()
    keys, of_each = [f"k{number:02d}" for number in range(32)], 40
    there = [((side, key, v), 1) for key in keys for side in (LEFT, RIGHT) for v in range(of_each)]
    run(operator, state, there)
    table = sort_table(folded(operator, [((side, key, 99), 1) for key in keys for side in (LEFT, RIGHT)]))
    found = dict[int, Counter[tuple[Any, ...]]]()
    read = dict[int, Counting]()
    for memory_bytes in (2**23, 2**14):  # 2**14: some three keys
        backend = read[memory_bytes] = Counting(state.entries)
        context = replace(context_of(backend), memory_bytes=memory_bytes)
        found[memory_bytes] = Counter()
        follow(found[memory_bytes], list(operator.process(iter([table]), context)), operator.block_rows)
    assert found[2**14] == found[2**23]
    if kind not in ("semi", "anti"):  # they read few rows anyway
        assert read[2**23].most == (len(keys) - 1) * of_each, "the last key of a table is processed by itself"
        assert read[2**14].most <= 2**14 // 82 + 1
        assert sum(read[2**14].rows.values()) <= 3 * sum(read[2**23].rows.values()), (
            "a part that did not fit is read again"
        )


def test_a_retraction_of_a_row_that_is_not_there_is_refused() -> None:
    operator, state = operator_of("left", is_changelog=True), MemoryState()
    run(operator, state, [((0, "a", 1), 1)])
    with pytest.raises(InvalidJobError, match=r"never inserted: .* affected=1"):
        run(operator, state, [((0, "a", 2), -1)])


@given(counts=st.lists(st.integers(0, 5), max_size=6), block_rows=st.integers(1, 7))
def test_blocks_of_repeats_are_the_repeats_cut(counts: list[int], block_rows: int) -> None:
    blocks = list(blocks_of_repeats(np.array(counts, np.int64), block_rows))
    assert all(len(block) == block_rows for block in blocks[:-1])
    found = [int(number) for block in blocks for number in block]
    assert found == [number for number, count in enumerate(counts) for _ in range(count)]


@given(
    left=st.lists(st.integers(0, 3), max_size=6).map(sorted),
    right=st.lists(st.integers(0, 3), max_size=6).map(sorted),
    block_rows=st.integers(1, 7),
)
def test_blocks_of_pairs_are_the_pairs_of_equal_codes(left: list[int], right: list[int], block_rows: int) -> None:
    a, b = np.array(left, np.int64), np.array(right, np.int64)
    blocks = list(blocks_of_pairs(10 + np.arange(len(a)), a, 20 + np.arange(len(b)), b, block_rows))
    assert all(0 < len(lefts) == len(rights) <= block_rows for lefts, rights in blocks)
    found = [(int(x), int(y)) for lefts, rights in blocks for x, y in zip(lefts, rights, strict=True)]
    assert found == [(10 + i, 20 + j) for i, x in enumerate(left) for j, y in enumerate(right) if x == y]


def test_the_pairs_of_a_hot_key_are_emitted_in_blocks() -> None:
    n, m = 2000, 1000
    operator = operator_of("inner", is_changelog=False, block_rows=1 << 14)
    rows = [((side, "hot", v), 1) for side, count in ((0, n), (1, m)) for v in range(count)]
    pool: Callable[[], int] = pa.default_memory_pool().bytes_allocated
    before, most, pairs, total = pool(), 0, 0, 0
    tracemalloc.start()
    try:
        with MemoryState().epoch() as backend:
            table = folded(operator, rows)
            for change in operator.process(iter([table]), context_of(backend)):
                block = change.changelog()
                pairs += block.num_rows
                total += int(np.sum(block.column("l1").to_numpy()))
                most = max(most, pool() - before)
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pairs == n * m
    assert total == m * n * (n - 1) // 2
    assert most + traced < 16e6, "the whole product has 64 MB"
