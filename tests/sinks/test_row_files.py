"""Parquet files of an output: which columns have dictionaries, and that the rows are the same with and without."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mixedmode.sinks import row_files
from mixedmode.sinks.row_files import columns_with_dictionary, open_row_file

ROWS = 40_000


def rows() -> pa.Table:
    """Columns with values of their own in each row, and with few values."""
    numbers = np.random.default_rng(1).permutation(ROWS)
    return pa.table(
        {
            "key": numbers,
            "when": pa.array(numbers * 1000, pa.timestamp("us", "UTC")),
            "price": numbers / 7,
            "count": numbers % 50,
            "maybe": pa.array(numbers % 50, mask=numbers % 2 == 0),
            "text": pa.array(numbers).cast(pa.string()),
            "op": pa.repeat(pa.scalar("insert"), ROWS),
        }
    )


def written(path: Path, *tables: pa.Table) -> pq.FileMetaData:
    file = open_row_file(path, tables[0].schema, "parquet", "snappy")
    for table in tables:
        file.write(table)
    file.close()
    found = pq.read_table(path)
    assert found.equals(pa.concat_tables(tables))
    return pq.read_metadata(path)


def encoded(metadata: pq.FileMetaData, group: int) -> set[str]:
    columns = map(metadata.row_group(group).column, range(metadata.num_columns))
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_numbers_and_times_that_hardly_repeat_have_no_dictionary(tmp_path: Path) -> None:
    assert encoded(written(tmp_path / "file", rows()), 0) == {"count", "maybe", "text", "op"}


def test_a_file_without_useless_dictionaries_is_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows().select(["key", "count"])
    written(tmp_path / "with", table)
    monkeypatch.setattr(row_files, "columns_with_dictionary", lambda _, is_compressed: is_compressed)
    written(tmp_path / "all", table)
    assert (tmp_path / "with").stat().st_size < 0.9 * (tmp_path / "all").stat().st_size


@pytest.mark.parametrize(
    ("run", "dictionaries"),
    [(1, {"again"}), (5, {"again"}), (ROWS // 100, {"again", "once"})],
    ids=["each row", "short runs", "long runs"],
)
def test_values_that_repeat_in_short_runs_only_have_no_dictionary(run: int, dictionaries: set[str]) -> None:
    """`once`: each value has one run; `again`: ten values take turns."""
    runs = pa.array(np.arange(ROWS) // run)
    table = pa.table({"once": runs, "again": pc.bit_wise_and(runs, 7).cast(pa.float64())})
    assert set(columns_with_dictionary(table, is_compressed=True)) == dictionaries  # type: ignore[arg-type]  # names


def test_compression_makes_short_runs_about_as_small_as_a_dictionary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"n": np.random.default_rng(1).random(ROWS // 10).repeat(10)})
    written(tmp_path / "without", table)
    monkeypatch.setattr(row_files, "columns_with_dictionary", lambda _, is_compressed: is_compressed)
    written(tmp_path / "with", table)
    assert (tmp_path / "without").stat().st_size < 1.25 * (tmp_path / "with").stat().st_size


def test_values_in_runs_have_a_dictionary_where_nothing_is_compressed() -> None:
    table = pa.table({"n": np.arange(ROWS) // 10})
    assert columns_with_dictionary(table, is_compressed=False) == ["n"]


def test_the_first_rows_decide_for_the_whole_file(tmp_path: Path) -> None:
    same = rows().slice(0, 1).take(pa.array(np.zeros(ROWS, np.int64)))
    assert "key" not in encoded(written(tmp_path / "file", rows(), same), 1)


def test_few_rows_and_nested_columns_are_not_looked_at() -> None:
    assert columns_with_dictionary(rows().slice(0, 1000), is_compressed=True) is True
    nested = rows().append_column("list", pa.array([[1]] * ROWS))
    assert columns_with_dictionary(nested, is_compressed=True) is True


def test_a_file_without_rows_is_whole(tmp_path: Path) -> None:
    assert written(tmp_path / "file", rows().slice(0, 0)).num_rows == 0
    file = open_row_file(tmp_path / "empty", rows().schema, "parquet", "zstd")
    file.close()
    assert pq.read_table(tmp_path / "empty").equals(rows().schema.empty_table())
