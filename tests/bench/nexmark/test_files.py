"""Nexmark's events as files: all of them, in the order of time."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode_bench.nexmark import files
from mixedmode_bench.nexmark.files import FILES, TABLES, write_events
from mixedmode_bench.nexmark.generator import Settings, make_events

DISORDERED = Settings(out_of_order_events=500)


def files_of(folder: Path, table: str) -> list[Path]:
    return sorted((folder / table).glob("*.parquet"))


def test_the_files_of_a_table_are_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK_EVENTS", 700)  # so that a file has several row groups
    write_events(tmp_path / "data", 20_001, DISORDERED)
    whole = make_events(0, 20_001, DISORDERED)
    for name in TABLES:
        paths = files_of(tmp_path / "data", name)
        assert [path.name for path in paths] == [f"{name}-{number:04d}.parquet" for number in range(FILES)]
        written, made = pa.concat_tables(pq.read_table(path) for path in paths), getattr(whole, name)
        assert written.column_names == made.column_names
        assert written.equals(made.cast(written.schema)), name
        assert not any(pa.types.is_dictionary(field.type) for field in written.schema), "text for every reader"
    assert pq.ParquetFile(files_of(tmp_path / "data", "bid")[0]).num_row_groups == 2


def test_files_do_not_overlap_in_time_and_get_older_in_the_same_order(tmp_path: Path) -> None:
    write_events(tmp_path / "data", 50_000, Settings(), files=5)
    for name in TABLES:
        paths = files_of(tmp_path / "data", name)
        ages = [path.stat().st_mtime for path in paths]
        assert ages == sorted(set(ages)), "readers that go by the age of a file take them in order"
        bounds = [bounds_of(path, "dateTime") for path in paths]
        assert all(before[1] < after[0] for before, after in pairwise(bounds)), name


def bounds_of(path: Path, column: str) -> tuple[Any, Any]:
    """The least and the greatest value, as the file's statistics tell a reader that wants to leave it out."""
    metadata = pq.ParquetFile(path).metadata
    index = metadata.schema.names.index(column)
    found = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
    return min(one.min for one in found), max(one.max for one in found)


def test_fewer_events_than_files_are_enough(tmp_path: Path) -> None:
    write_events(tmp_path / "data", 6, Settings())
    counts = [sum(pq.read_metadata(path).num_rows for path in files_of(tmp_path / "data", name)) for name in TABLES]
    assert counts == [1, 3, 2]
    assert len(files_of(tmp_path / "data", "bid")) == FILES
