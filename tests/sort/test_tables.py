"""Streams of sorted tables: cutting, joining and combining keep the rows and their order."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InternalError
from mixedmode.sort import sort_table
from mixedmode.sort.tables import combined, joined, slices, whole_keys
from tests.sort.combiners import combine_counts, counted, counts_by_key
from tests.sort.keyed_tables import keyed_table, keyed_tables, random_cuts, row_keys, rows_of

CUTS = st.lists(st.integers(0, 100), max_size=12)


@given(keyed_tables(), st.integers(1, 600))
def test_slices_are_the_table_in_parts_of_bounded_size(table: pa.Table, bytes_max: int) -> None:
    parts = list(slices(table, bytes_max))
    assert rows_of(parts) == table.to_pylist()
    assert all(part.num_rows == 1 or part.nbytes <= 3 * bytes_max for part in parts), [p.nbytes for p in parts]


def test_slices_stay_bounded_when_one_row_is_far_larger_than_the_others() -> None:
    table = pa.table({"text": ["x"] * 50 + ["y" * 10_000] + ["x"] * 50})
    parts = list(slices(table, 500))
    assert all(part.num_rows == 1 or part.nbytes <= 1_500 for part in parts), [p.nbytes for p in parts]
    assert rows_of(parts) == table.to_pylist()


@given(keyed_tables(), CUTS, st.integers(1, 2_000))
def test_joined_tables_hold_at_least_the_bytes_asked_for(table: pa.Table, cuts: list[int], bytes_min: int) -> None:
    found = list(joined(random_cuts(table, cuts), bytes_min))
    assert rows_of(found) == table.to_pylist()
    assert all(t.nbytes >= bytes_min * 0.9 for t in found[:-1]), [t.nbytes for t in found]
    assert all(column.num_chunks <= 1 for t in found for column in t.columns), "each column is one chunk"


@given(keyed_tables(), CUTS)
def test_whole_keys_never_splits_a_key(table: pa.Table, cuts: list[int]) -> None:
    ordered = sort_table(table)
    found = list(whole_keys(random_cuts(ordered, cuts)))
    assert rows_of(found) == ordered.to_pylist()
    per_table = [{key[:2] for key in row_keys(t)} for t in found]
    assert sum(map(len, per_table)) == len(set().union(*per_table)), "no key is in two tables"
    assert all(per_table), "no table is empty"


def test_whole_keys_gives_a_table_as_soon_as_its_keys_are_complete() -> None:
    table = keyed_table([(0, key, 0) for key in (b"a", b"a", b"b", b"b", b"b", b"c")], pa.binary(1))
    found = list(whole_keys(random_cuts(table, [1, 3, 4])))
    assert [[key.key for key in row_keys(t)] for t in found] == [[b"a", b"a"], [b"b", b"b", b"b"], [b"c"]]


@given(keyed_tables(), CUTS)
def test_combined_holds_each_key_once_over_all_tables(table: pa.Table, cuts: list[int]) -> None:
    ordered = sort_table(counted(table))
    found = list(combined(random_cuts(ordered, cuts), combine_counts))
    keys = [key[:2] for t in found for key in row_keys(t)]
    assert keys == sorted(set(keys)), "keys are in order and once each"
    assert counts_by_key(found) == counts_by_key([counted(table)]), "no row is lost or counted twice"


def test_a_combiner_that_breaks_its_promise_is_refused() -> None:
    table = keyed_table([(0, b"a", 0), (0, b"a", 1)], pa.binary(1))
    with pytest.raises(InternalError) as caught:
        list(combined([table], lambda rows: rows))
    schema = "[_key_group: uint16, _key: fixed_size_binary[1], _time: int64, number: int64, text: string]"
    assert str(caught.value) == (
        "a combiner must turn sorted rows into sorted rows of the same schema, one per key, and it did not, so "
        "keys would be lost or counted twice. This is a defect in mixedmode: report it with this message. "
        f"rows_in=2, rows_out=2, schema_in={schema}, schema_out={schema}"
    )


@pytest.mark.parametrize("column", ["number", "text"])
def test_a_combiner_that_drops_a_column_or_all_rows_is_refused(column: str) -> None:
    table = keyed_table([(0, b"a", 0)], pa.binary(1))
    with pytest.raises(InternalError, match=r"rows_in=1, rows_out=1"):
        list(combined([table], lambda rows: rows.drop_columns([column])))
    with pytest.raises(InternalError, match=r"rows_in=1, rows_out=0"):
        list(combined([table], lambda rows: rows.slice(0, 0)))
