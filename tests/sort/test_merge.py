"""Merging runs: the stable sort of their concatenation, in bounded memory, and never of a run that is out of order."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError
from mixedmode.sort import merge_runs, sort_table
from tests.sort.keyed_tables import keyed_table, keyed_tables, python_sorted, random_cuts, rows_of

CUTS = st.lists(st.integers(0, 100), max_size=6)


@given(keyed_tables(), CUTS, CUTS)
def test_merge_is_the_stable_sort_of_the_concatenated_runs(
    table: pa.Table, run_cuts: list[int], chunk_cuts: list[int]
) -> None:
    runs = [sort_table(part) for part in random_cuts(table, run_cuts)]
    found = list(merge_runs([random_cuts(run, chunk_cuts) for run in runs]))
    assert rows_of(found) == python_sorted(table), "equal rows leave in the order of their runs"
    assert all(t.num_rows for t in found), "no table is empty"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_merge_of_one_equal_key_everywhere_makes_progress_in_run_order(sizes: list[int], chunk_rows: int) -> None:
    table = keyed_table([(1, b"k", 5)] * sum(sizes), pa.binary(1))
    borders = [sum(sizes[:i]) for i in range(len(sizes))]
    runs = [table.slice(start, size) for start, size in zip(borders, sizes, strict=True)]
    chunks = [[run.slice(at, chunk_rows) for at in range(0, run.num_rows, chunk_rows)] for run in runs]
    assert [row["number"] for row in rows_of(list(merge_runs(chunks)))] == list(range(sum(sizes)))


def test_runs_of_record_batches_merge_as_tables_do() -> None:
    table = keyed_table([(0, b"a", 0), (0, b"b", 0)], pa.binary(1))
    found = list(merge_runs([table.slice(1).to_batches(), table.slice(0, 1).to_batches()]))
    assert rows_of(found) == table.to_pylist()


def test_merge_of_nothing_gives_nothing() -> None:
    empty = keyed_table([], pa.binary(1))
    assert list(merge_runs([])) == []
    assert list(merge_runs([[], [empty], [empty, empty]])) == []


def test_merge_holds_one_chunk_of_each_run() -> None:
    table = sort_table(keyed_table([(0, bytes([n]), 0) for n in range(200)], pa.binary(1)))
    read = [0, 0, 0]

    def chunks(run: int) -> Iterator[pa.Table]:
        for start in range(0, 200, 10):
            read[run] += 1
            yield table.slice(start, 10)

    given_rows = 0
    for found in merge_runs([chunks(run) for run in range(3)]):
        given_rows += found.num_rows
        assert sum(read) * 10 - given_rows <= 3 * 10, "rows that were read and not given fit in a chunk of each run"


@pytest.mark.parametrize(
    ("chunks", "row"),
    [
        ([[b"b", b"a"]], 1),
        ([[b"a", b"c"], [b"b"]], 2),
        ([[b"a"], [b"b", b"d", b"c"]], 3),
    ],
)
def test_a_run_out_of_order_is_refused_with_its_name_and_row(chunks: list[list[bytes]], row: int) -> None:
    damaged = [keyed_table([(0, key, 0) for key in keys], pa.binary(1)) for keys in chunks]
    good = [keyed_table([(0, b"a", 0), (0, b"z", 0)], pa.binary(1))]
    with pytest.raises(CorruptStateError) as caught:
        list(merge_runs([good, damaged], names=["first.run", "second.run"]))
    assert str(caught.value) == (
        "a run is not sorted by (key group, key, time) as it was when it was written, so its data is damaged "
        "and merging it would have wrong results. Check the disk, then start again; a job resumes from "
        f"its last checkpoint. run=second.run, row={row}"
    )
