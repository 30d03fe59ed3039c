"""Slices of files: each byte and row is in one of them, tasks get equal shares, and a reader yields a slice's rows."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.connectors.files import file_slices, parquet_files
from mixedmode.connectors.files.file_slices import PIECE_BYTES, FileSlice, assign_slices
from mixedmode.connectors.files.parquet_files import file_bytes, read_for, read_slices
from mixedmode.expressions import Call, Column, Literal, Nodes, Query
from mixedmode.plan.job_plan import ReadColumn

FILES = st.lists(
    st.tuples(
        st.builds("/in/{}{}".format, st.uuids(), st.sampled_from([".parquet", ".json.gz"])),
        st.sampled_from([0, 1, PIECE_BYTES]) | st.integers(0, 40 * PIECE_BYTES),
    ),
    max_size=8,
)
K = ReadColumn("k", pa.int64(), "k")


@example([("/in/a.parquet", 0), ("/in/b.parquet", 0)], 2, 1)
@given(FILES, st.integers(1, 16), st.sampled_from([1, 8]))
def test_every_byte_of_every_file_is_in_one_task_and_no_task_is_empty(
    files: list[tuple[str, int]], tasks: int, effort: int
) -> None:
    dealt = assign_slices(files, tasks, effort=effort)
    assert len(dealt) <= tasks
    assert all(dealt)
    for path, length in files:
        own = sorted((one for task in dealt for one in task if one.path == path), key=lambda one: one.begin)
        assert [own[0].begin, *(one.end for one in own)] == [*(one.begin for one in own), length], "no gap, no overlap"
        assert all(one.size >= PIECE_BYTES // effort for one in own) or own == [FileSlice.whole(path, length)]
        assert len(own) == 1 or not path.endswith(".gz")


@given(FILES, st.integers(1, 16), st.sampled_from([1, 8]))
def test_no_task_has_more_than_its_share_and_a_few_pieces(
    files: list[tuple[str, int]], tasks: int, effort: int
) -> None:
    piece = PIECE_BYTES // effort
    loads = [sum(one.size for one in task) for task in assign_slices(files, tasks, effort=effort)]
    largest = max((length for path, length in files if path.endswith(".gz") or length < 2 * piece), default=0)
    assert max(loads, default=0) <= sum(length for _, length in files) / tasks + max(4 * piece, largest)


def test_a_file_that_is_larger_than_a_share_is_cut_where_the_share_ends() -> None:
    sizes = {"/in/a": 5 * PIECE_BYTES, "/in/b": 15 * PIECE_BYTES}
    assert assign_slices(list(sizes.items()), 2) == [
        (FileSlice.whole("/in/a", sizes["/in/a"]), FileSlice("/in/b", 0, 5 * PIECE_BYTES, sizes["/in/b"])),
        (FileSlice("/in/b", 5 * PIECE_BYTES, sizes["/in/b"], sizes["/in/b"]),),
    ]


@given(st.integers(0, 100), st.integers(1, 1000), st.lists(st.integers(0, 1000), max_size=5))
def test_each_row_is_in_one_slice(rows: int, length: int, cuts: list[int]) -> None:
    ends = [0, *sorted(cut % length for cut in cuts), length]
    found = [row for begin, end in pairwise(ends) for row in FileSlice("/in/a", begin, end, length).rows_of(rows)]
    assert found == list(range(rows))


def values_above(limit: int) -> Query:
    """SELECT k WHERE k > limit."""
    nodes = Nodes()
    k = nodes.add(Column("k", pa.int64()))
    above = nodes.add(Call("GreaterThan", (k, nodes.add(Literal(limit, pa.int64()))), pa.bool_()))
    return nodes.query([above], [("k", k)])


@pytest.mark.parametrize("batch_rows", [7, 1_000_000])
@pytest.mark.parametrize("row_group_size", [1, 10, 64, 1_000])
def test_a_reader_yields_the_rows_of_a_slice_in_their_order_and_tells_all_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_size: int, batch_rows: int
) -> None:
    """Also where a query may pass in some row groups only: rows that it cannot pass need not be yielded."""
    monkeypatch.setattr(file_slices, "PIECE_BYTES", 100)
    monkeypatch.setattr(parquet_files, "BATCH_ROWS", batch_rows)
    paths = [str(tmp_path / f"{number}.parquet") for number in range(4)]
    for number, path in enumerate(paths):
        values = range(1000 * number, 1000 * number + 150 * number)  # the first file has no row
        pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), path, row_group_size=row_group_size)
    files = [(path, file_bytes(path)) for path in paths]
    query = values_above(2_100)
    told: list[float] = []
    some: list[float] = []
    found, passing = list[int](), list[int]()
    tasks = assign_slices(files, 5)
    assert len(tasks) == 5
    for task in tasks:
        rows = [batch.column(0).to_pylist() for batch in read_slices(task, [K], told.append)]
        assert max(map(len, rows), default=0) <= batch_rows
        assert all(rows), "no empty batch"
        found += [value for batch in rows for value in batch]
        passing += [v for _, batch in read_for(task, [K], [query], some.append) for v in batch.column(0).to_pylist()]
    expected = [value for path in paths for value in pq.read_table(path).column("k").to_pylist()]
    assert sorted(found) == expected
    assert sorted(value for value in passing if value > 2_100) == [value for value in expected if value > 2_100]
    assert len(passing) < len(found) or row_group_size == 1_000
    assert sum(told) == pytest.approx(sum(size for _, size in files)) == pytest.approx(sum(some))
