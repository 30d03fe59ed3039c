"""Staged output files: Parquet keeps every type, JSON says every value, and there is no file without rows."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.errors import RetryableError
from mixedmode.sinks.files import FileFormat, OutputWriter, SinkTask
from tests.operators.arguments import columns
from tests.operators.oracle import identical
from tests.random_cases import random_cases
from tests.staging import stage

FORMATS: list[FileFormat] = ["parquet", "json"]


def staged(folder: Path, file_format: FileFormat, tables: list[pa.Table], *, epoch: int = 3) -> tuple[StagedFile, ...]:
    """Return the files that one subtask stages in `folder / "out"`."""
    task = SinkTask(str(folder / "out"), file_format)
    return stage(task, folder / "local", "attempt", *tables, epoch=epoch, subtask=2)


def json_rows(folder: Path, table: pa.Table) -> list[dict[str, Any]]:
    (file,) = staged(folder, "json", [table])
    text = (folder / "out" / file.staged_path).read_text(encoding="utf-8")
    assert text.endswith("\n"), "a line each"
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_staged_file_is_described_so_that_it_can_be_verified(tmp_path: Path, file_format: FileFormat) -> None:
    tables = [pa.table({"k": [1, 2]}), pa.table({"k": pa.array([], pa.int64())}), pa.table({"k": [3]})]
    (file,) = staged(tmp_path, file_format, tables)
    path = tmp_path / "out" / file.staged_path
    assert file == StagedFile(
        staged_path=output_paths.staged_path(Epoch(3), 2, "attempt", file_format),
        final_path=output_paths.final_path(Epoch(3), 2, file_format),
        bytes=path.stat().st_size,
        rows=3,
        checksum=file_checksum(path),
    )


@pytest.mark.parametrize("file_format", FORMATS)
def test_several_outputs_of_a_subtask_are_written_at_once_into_one_local_folder(
    tmp_path: Path, file_format: FileFormat
) -> None:
    names = ["", "late", "dead-letter", "a/b", "ä b"]
    tasks = {name: SinkTask(str(tmp_path / f"out-{number}"), file_format) for number, name in enumerate(names)}
    with Uploads() as uploads:
        writers = {
            name: OutputWriter(task, Epoch(3), 2, tmp_path, uploads, "attempt", name) for name, task in tasks.items()
        }
        for value in range(2):
            for number, writer in enumerate(writers.values()):
                writer.write(pa.table({"n": [10 * number + value]}))
        files = [writer.finish() for writer in writers.values()]
    for number, (name, (file,)) in enumerate(zip(writers, files, strict=True)):
        assert file.sink == name
        assert file.staged_path == output_paths.staged_path(Epoch(3), 2, "attempt", file_format), (
            "the same in every folder"
        )
        data = (tmp_path / f"out-{number}" / file.staged_path).read_bytes()
        read = pq.read_table(pa.BufferReader(data)).to_pylist() if file_format == "parquet" else None
        rows = read or [json.loads(line) for line in data.splitlines()]
        assert rows == [{"n": 10 * number + value, "_epoch": 3} for value in range(2)], name


@pytest.mark.parametrize("file_format", FORMATS)
def test_without_rows_there_is_no_file(tmp_path: Path, file_format: FileFormat) -> None:
    assert staged(tmp_path, file_format, []) == ()
    assert staged(tmp_path, file_format, [pa.table({"k": pa.array([], pa.int64())})]) == ()
    assert ObjectStore(tmp_path / "out").list() == []


@settings(max_examples=random_cases(20))
@given(column=columns())
def test_parquet_keeps_types_values_and_nulls(tmp_path_factory: pytest.TempPathFactory, column: pa.Array) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    files = staged(folder, "parquet", [pa.table({"c": column})])
    assert len(files) == (len(column) > 0)
    for file in files:
        table = pq.read_table(folder / "out" / file.staged_path)
        assert table.schema.types == [column.type, pa.int64()]
        assert all(map(identical, table.column("c").to_pylist(), column.to_pylist()))
        assert table.column("_epoch").to_pylist() == [3] * len(column)


@settings(max_examples=random_cases(20))
@given(column=columns())
def test_every_value_has_a_place_in_json(tmp_path_factory: pytest.TempPathFactory, column: pa.Array) -> None:
    if len(column) == 0:
        return
    rows = json_rows(tmp_path_factory.mktemp("json"), pa.table({"c": column}))
    assert [row["_epoch"] for row in rows] == [3] * len(column)
    assert [row["c"] is None for row in rows] == [value is None for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("values", "data_type", "expected"),
    [
        ([1, None], pa.int64(), [1, None]),
        ([True], pa.bool_(), [True]),
        (["a\n\u20ac"], pa.string(), ["a\n\u20ac"]),
        ([b"\x00\xff"], pa.binary(), ["AP8="]),
        ([Decimal("1.50"), Decimal("0E-10")], pa.decimal128(38, 10), ["1.5000000000", "0.0000000000"]),
        ([1.0, math.nan, math.inf, -math.inf], pa.float64(), [1.0, "NaN", "Infinity", "-Infinity"]),
        ([date(2024, 2, 29)], pa.date32(), ["2024-02-29"]),
        ([datetime(2024, 1, 2, 3, 4, 5, 600)], pa.timestamp("us"), ["2024-01-02T03:04:05.000600"]),  # noqa: DTZ001
        ([datetime(2024, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"), ["2024-01-02T00:00:00+00:00"]),
        ([time(1, 2, 3)], pa.time64("us"), ["01:02:03"]),
        ([timedelta(days=1, seconds=2)], pa.duration("us"), ["1 day, 0:00:02"]),
        ([[Decimal(1), None]], pa.list_(pa.decimal128(3, 1)), [["1.0", None]]),
        ([{"a": b"x", "b": [math.nan]}], None, [{"a": "eA==", "b": ["NaN"]}]),
        ([[(date(2024, 1, 1), b"x")]], pa.map_(pa.date32(), pa.binary()), [{"2024-01-01": "eA=="}]),
    ],
    ids=str,
)
def test_json_values_are_pinned(tmp_path: Path, values: list[Any], data_type: pa.DataType, expected: list[Any]) -> None:
    rows = json_rows(tmp_path, pa.table({"c": pa.array(values, data_type)}))
    assert [row["c"] for row in rows] == expected


@pytest.mark.parametrize("file_format", FORMATS)
def test_another_engine_reads_the_same_rows(tmp_path: Path, file_format: FileFormat) -> None:
    table = pa.table({"k": ["a", None], "n": [2**62, -1], "x": [0.5, None], "d": pa.array([Decimal("1.50"), None])})
    (file,) = staged(tmp_path, file_format, [table])
    path = tmp_path / "out" / file.staged_path
    query = f"SELECT k, n, x, CAST(d AS DECIMAL(3, 2)), _epoch FROM read_{file_format}('{path}') ORDER BY n DESC"
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    assert rows == [("a", 2**62, 0.5, Decimal("1.50"), 3), (None, -1, None, None, 3)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_full_disk_is_retryable(tmp_path: Path, file_format: FileFormat) -> None:
    (tmp_path / "local").mkdir()
    path = tmp_path / "local" / f"output.{file_format}"
    path.symlink_to("/dev/full")
    with pytest.raises(RetryableError) as caught:
        staged(tmp_path, file_format, [pa.table({"k": [1]})])
    said, cause = str(caught.value).split(", cause=")
    assert cause.endswith("No space left on device")
    assert said == (
        "the output cannot be written to the folder for temporary files: no space is left on the disk. Nothing is "
        "committed. Free space, or delete files if `df -i` shows that no inode is free; or move the folder to a larger "
        "disk, or set TMPDIR to another disk; then start again; a job resumes from its last checkpoint. "
        f"path={path}"
    )
