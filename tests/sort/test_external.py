"""The external sorter: equal to Python's stable sort (or a dictionary of sums), whatever spills and however often."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError, InternalError, RetryableError
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.sort import ExternalSorter, SortStats, external, sort_table
from tests.random_cases import random_cases
from tests.sort.combiners import combine_counts, counted, counts_by_key
from tests.sort.keyed_tables import keyed_table, keyed_tables, python_sorted, random_cuts, row_keys, rows_of

CUTS = st.lists(st.integers(0, 100), max_size=8)
BUDGETS = st.integers(1, 6_000)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def _sorted(scratch: Path, tables: list[pa.Table], **options: Any) -> tuple[list[pa.Table], SortStats]:
    with ExternalSorter(spill_dir=scratch / "spill", **options) as sorter:
        for table in tables:
            sorter.add(table)
        found = list(sorter.sorted_tables())
        stats = sorter.stats
    assert not list((scratch / "spill").glob("*")), "a closed sorter leaves no file"
    return found, stats


@given(table=keyed_tables(), cuts=CUTS, budget=BUDGETS, emit=st.integers(1, 2_000))
def test_output_is_the_stable_sort_of_everything_added(
    scratch: Path, table: pa.Table, cuts: list[int], budget: int, emit: int
) -> None:
    found, _ = _sorted(scratch, random_cuts(table, cuts), budget_bytes=budget, emit_bytes=emit)
    assert rows_of(found) == python_sorted(table)
    assert all(t.num_rows for t in found), "no table is empty"


@given(table=keyed_tables(), cuts=CUTS, budget=BUDGETS, emit=st.integers(1, 2_000))
def test_whole_keys_gives_the_same_rows_and_splits_no_key(
    scratch: Path, table: pa.Table, cuts: list[int], budget: int, emit: int
) -> None:
    options = {"budget_bytes": budget, "emit_bytes": emit, "undivided": "key"}
    found, _ = _sorted(scratch, random_cuts(table, cuts), **options)
    assert rows_of(found) == python_sorted(table)
    per_table = [{key[:2] for key in row_keys(t)} for t in found]
    assert sum(map(len, per_table)) == len(set().union(*per_table)), "no key is in two tables"


@given(table=keyed_tables(), cuts=CUTS, budget=BUDGETS, emit=st.integers(1, 2_000))
def test_combine_gives_each_key_once_with_all_its_rows(
    scratch: Path, table: pa.Table, cuts: list[int], budget: int, emit: int
) -> None:
    partials = [counted(part) for part in random_cuts(table, cuts)]
    found, _ = _sorted(scratch, partials, budget_bytes=budget, emit_bytes=emit, combine=combine_counts)
    keys = [key[:2] for t in found for key in row_keys(t)]
    assert keys == sorted(set(keys)), "keys are in order and once each"
    assert counts_by_key(found) == counts_by_key(partials)


def _numbered(keys: np.ndarray[Any, Any], key_type: pa.DataType | None = None) -> pa.Table:
    column = pa.array(keys, key_type or pa.int64())
    encoded = encode_keys([column], KeySchema((pa.field("k", column.type),)))
    groups = pa.array(key_groups(encoded, max_parallelism=128))
    rng = np.random.default_rng(1)
    times = pa.array(rng.integers(0, 50, len(keys)))
    numbers = pa.array(np.arange(len(keys)))
    return pa.table({"_key_group": groups, "_key": encoded, "_time": times, "number": numbers})


_DISTRIBUTIONS: dict[str, Callable[[np.random.Generator], pa.Table]] = {
    "all distinct": lambda rng: _numbered(rng.permutation(3_000)),
    "one key": lambda _: _numbered(np.full(3_000, 7)),
    "one giant key among others": lambda rng: _numbered(np.where(rng.random(3_000) < 0.8, 3, rng.permutation(3_000))),
    "skewed strings": lambda rng: _numbered(rng.zipf(1.3, 3_000).astype(str).astype(object), pa.string()),
    "already sorted": lambda rng: sort_table(_numbered(rng.permutation(3_000))),
    "backwards": lambda rng: sort_table(_numbered(rng.permutation(3_000))).take(np.arange(3_000)[::-1].copy()),
}


@pytest.mark.parametrize("fan_in", [2, 3, 64])
@pytest.mark.parametrize("name", _DISTRIBUTIONS)
def test_many_runs_merge_in_passes_into_the_same_rows(
    tmp_path: Path, name: str, fan_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "_FAN_IN", fan_in)
    table = _DISTRIBUTIONS[name](np.random.default_rng(2))
    parts = [table.slice(at, 37) for at in range(0, 3_000, 37)]
    found, stats = _sorted(tmp_path, parts, budget_bytes=5_000)
    assert pa.concat_tables(found).equals(sort_table(table)), "the whole in memory is the reference"
    assert stats.spilled_runs > 40, "two parts fit, so there are 41 runs, and those that the passes write"


@pytest.mark.parametrize("name", _DISTRIBUTIONS)
def test_many_runs_combine_in_passes_into_one_row_per_key(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "_FAN_IN", 3)
    table = counted(_DISTRIBUTIONS[name](np.random.default_rng(2)))
    parts = [table.slice(at, 37) for at in range(0, 3_000, 37)]
    found, stats = _sorted(tmp_path, parts, budget_bytes=8_000, combine=combine_counts)
    keys = [key[:2] for t in found for key in row_keys(t)]
    assert keys == sorted(set(keys)), "keys are in order and once each"
    assert counts_by_key(found) == counts_by_key([table])
    assert (stats.spilled_runs == 0) == (name == "one key"), "combined to one row, a single key never spills"


@pytest.mark.parametrize("options", [{}, {"undivided": "key"}, {"combine": combine_counts}])
def test_empty_input_gives_no_table_and_makes_no_file(tmp_path: Path, options: dict[str, Any]) -> None:
    empty = keyed_table([], pa.binary(9))
    found, stats = _sorted(tmp_path, [counted(empty), counted(empty)], budget_bytes=1_000, **options)
    assert found == []
    assert stats == SortStats()
    assert not (tmp_path / "spill").exists(), "the folder is made when something spills"


def test_sorted_tables_added_as_sorted_give_the_same_and_others_are_refused(tmp_path: Path) -> None:
    table = _numbered(np.random.default_rng(4).permutation(500))
    with ExternalSorter(budget_bytes=10_000, spill_dir=tmp_path) as sorter:
        for at in range(0, 500, 100):
            sorter.add_sorted(sort_table(table.slice(at, 100)))
        with pytest.raises(InternalError, match=r"^rows that must come sorted"):
            sorter.add_sorted(table)
        assert pa.concat_tables(list(sorter.sorted_tables())).equals(sort_table(table))


def test_rows_that_fit_the_budget_never_touch_the_disk(tmp_path: Path) -> None:
    table = _numbered(np.random.default_rng(4).permutation(1_000))
    found, stats = _sorted(tmp_path, [table], budget_bytes=2**20)
    assert pa.concat_tables(found).equals(sort_table(table))
    assert (stats.spilled_runs, stats.spilled_bytes) == (0, 0)


def test_a_slice_of_a_large_table_does_not_keep_the_large_table(tmp_path: Path) -> None:
    large = _numbered(np.arange(200_000)).take(np.arange(200_000))  # copied into memory that Arrow counts
    with ExternalSorter(budget_bytes=2**20, spill_dir=tmp_path) as sorter:
        sorter.add(large.slice(100, 50))
        before = pa.total_allocated_bytes()
        del large
        assert before - pa.total_allocated_bytes() > 10**6, "the sorter copied its 50 rows"
        assert sum(t.num_rows for t in sorter.sorted_tables()) == 50


def test_a_damaged_spill_file_stops_the_sort_with_its_path(tmp_path: Path) -> None:
    table = _numbered(np.arange(3_000)[::-1].copy())
    with ExternalSorter(budget_bytes=20_000, spill_dir=tmp_path) as sorter:
        for at in range(0, 3_000, 100):
            sorter.add(table.slice(at, 100))
        path = sorted(tmp_path.glob("sort-*/*.run"))[1]
        data = path.read_bytes()
        path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
        with pytest.raises(CorruptStateError) as caught:
            list(sorter.sorted_tables())
    assert str(caught.value) == (
        "a sorted run that this sort spilled to local disk is damaged, so the sort cannot go on. Nothing is committed. "
        "Check the disk, then start again; a job resumes from its last checkpoint. "
        f"path={path}, rows_read=0, reason=a block is cut off or its checksum differs"
    )


def test_a_full_disk_stops_the_sort_with_a_retryable_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda *_: FullFile())
    table = _numbered(np.arange(3_000))
    with (
        ExternalSorter(budget_bytes=20_000, spill_dir=tmp_path) as sorter,
        pytest.raises(RetryableError, match=r": no space is left on the disk\. .*No space left on device$"),
    ):
        sorter.add(table)


def test_a_spill_directory_that_cannot_be_made_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    table = _numbered(np.arange(3_000))
    spill_dir = tmp_path / "file" / "spill"
    with (
        ExternalSorter(budget_bytes=20_000, spill_dir=spill_dir) as sorter,
        pytest.raises(RetryableError) as caught,
    ):
        sorter.add(table)
    assert str(caught.value) == (
        "the spill directory cannot be made, so the sort cannot exceed its memory. Make it writable, or choose another "
        f"one, then start the job again. spill_dir={spill_dir}, error=Not a directory"
    )


def test_tables_with_different_columns_are_refused(tmp_path: Path) -> None:
    with ExternalSorter(budget_bytes=20_000, spill_dir=tmp_path) as sorter:
        sorter.add(keyed_table([(0, b"a", 0)], pa.binary(1)))
        with pytest.raises(InternalError, match=r"^tables with different columns cannot be sorted together"):
            sorter.add(keyed_table([(0, b"a", 0)], pa.binary(1), with_time=False))


def test_an_abandoned_sort_removes_its_files(tmp_path: Path) -> None:
    with ExternalSorter(budget_bytes=20_000, spill_dir=tmp_path) as sorter:
        sorter.add(_numbered(np.arange(3_000)))
        assert list(tmp_path.glob("sort-*/*.run")), "it has spilled"
        tables = sorter.sorted_tables()
        next(tables)
    assert not list(tmp_path.iterdir())


@settings(max_examples=random_cases(10))
@given(sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=8), budget=st.integers(50, 20_000))
def test_rows_larger_than_the_budget_pass_through(scratch: Path, sizes: list[int], budget: int) -> None:
    table = keyed_table([(0, bytes([9 - n]), 0) for n in range(len(sizes))], pa.binary(1))
    table = table.append_column("blob", pa.array([b"x" * size for size in sizes]))
    found, _ = _sorted(scratch, [table], budget_bytes=budget)
    assert rows_of(found) == python_sorted(table)
