"""Parquet files of an output: their columns are encoded as decided, and the rows are those that were written."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode.sinks import row_files
from mixedmode.sinks.parquet_encodings import Encodings
from mixedmode.sinks.row_files import open_row_file

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
    monkeypatch.setattr(row_files, "encodings_of", lambda _, is_compressed: Encodings(is_compressed, None))
    written(tmp_path / "all", table)
    assert (tmp_path / "with").stat().st_size < 0.9 * (tmp_path / "all").stat().st_size


def test_compression_makes_short_runs_about_as_small_as_a_dictionary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"n": np.random.default_rng(1).random(ROWS // 10).repeat(10)})
    written(tmp_path / "without", table)
    monkeypatch.setattr(row_files, "encodings_of", lambda _, is_compressed: Encodings(is_compressed, None))
    written(tmp_path / "with", table)
    assert (tmp_path / "without").stat().st_size < 1.25 * (tmp_path / "with").stat().st_size


def test_the_first_rows_decide_for_the_whole_file(tmp_path: Path) -> None:
    same = rows().slice(0, 1).take(pa.array(np.zeros(ROWS, np.int64)))
    assert "key" not in encoded(written(tmp_path / "file", rows(), same), 1)


def test_a_file_without_rows_is_whole(tmp_path: Path) -> None:
    assert written(tmp_path / "file", rows().slice(0, 0)).num_rows == 0
    file = open_row_file(tmp_path / "empty", rows().schema, "parquet", "zstd")
    file.close()
    assert pq.read_table(tmp_path / "empty").equals(rows().schema.empty_table())
