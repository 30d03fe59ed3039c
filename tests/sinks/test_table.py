"""The current table of an output: what all changes amount to, the same from every format."""

import gzip
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.files.sink import FileSink
from mixedmode.errors import CorruptStateError
from mixedmode.sinks import SinkTask
from mixedmode.sinks.files import FileFormat
from mixedmode.sinks.publish import OutputColumn
from mixedmode.sinks.table import current_table
from tests.random_cases import random_cases
from tests.staging import stage

FORMATS: list[FileFormat] = ["parquet", "json", "csv"]
FIELDS = [pa.field("k", pa.string()), pa.field("n", pa.int16()), pa.field("v", pa.float64())]
Epochs = list[dict[tuple[str | None, int], float | None]]  # per epoch {key: new value, None for a deleted key}


def write_output(
    folder: Path, file_format: FileFormat, fields: list[pa.Field], keys: list[str], epochs: list[pa.Table]
) -> str:
    """An output folder with one published file per epoch."""
    url = str(folder / "out")
    sink = FileSink("job", url, file_format, replaces=False)
    sink.prepare(fields, keys, is_fresh=True)
    local = folder / "local"
    for epoch, table in enumerate(epochs):
        sink.publish(Epoch(epoch), stage(SinkTask(url, file_format), local, f"a{epoch}", table, epoch=epoch))
        (local / f"output.{file_format}").unlink(missing_ok=True)
    return url


def changes_of(rows: Mapping[tuple[str | None, int], float | None]) -> pa.Table:
    columns = [
        pa.array([key[0] for key in rows], pa.string()),
        pa.array([key[1] for key in rows], pa.int16()),
        pa.array(list(rows.values()), pa.float64()),
        pa.array(["delete" if value is None else "insert" for value in rows.values()], pa.string()),
    ]
    return pa.table(columns, names=["k", "n", "v", "_op"])


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=random_cases(13))
@given(
    epochs=st.lists(
        st.dictionaries(
            st.tuples(st.sampled_from([None, "", "a", "2024-01-01", "7"]), st.integers(0, 1)),
            st.none() | st.floats(),
        ),
        max_size=4,
    )
)
def test_the_newest_row_of_each_key_counts_unless_it_deletes(
    tmp_path_factory: pytest.TempPathFactory, file_format: FileFormat, epochs: Epochs
) -> None:
    folder = tmp_path_factory.mktemp("table")
    url = write_output(folder, file_format, FIELDS, ["k", "n"], [changes_of(rows) for rows in epochs])
    expected: dict[tuple[str | None, int], float | None] = {}
    for rows in epochs:
        expected.update(rows)
    found = current_table(url)
    assert found is not None
    assert found.rows.schema.equals(pa.schema(FIELDS)), "types are those of the output, whatever the format"
    assert [(row["k"], row["n"], repr(row["v"])) for row in found.rows.to_pylist()] == [
        (*key, repr(value))
        for key, value in sorted(expected.items(), key=lambda item: (item[0][0] is None, item[0][0] or "", item[0][1]))
        if value is not None
    ], "ordered by key, NULL last"


EVERY_TYPE: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, None],
    pa.int8(): [-1, None],
    pa.int64(): [2**63 - 1, None],
    pa.float32(): [0.1, math.inf],
    pa.float64(): [math.nan, -0.0],
    pa.decimal128(38, 10): [Decimal("12345678901234567890.0123456789"), None],
    pa.date32(): [date(1, 1, 1), None],
    pa.timestamp("us"): [datetime(1969, 12, 31, 23, 59, 59, 999999), None],  # noqa: DTZ001
    pa.timestamp("us", "UTC"): [datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None],
    pa.string(): ["2024-01-01", "1"],
    pa.large_string(): ["\u20ac\n", None],
    pa.binary(): [b"\x00\xff", None],
    pa.large_binary(): [b"", None],
}


@pytest.mark.parametrize("data_type", EVERY_TYPE, ids=str)
@pytest.mark.parametrize("is_key", [True, False])
def test_every_type_is_the_same_from_every_format(tmp_path: Path, data_type: pa.DataType, is_key: bool) -> None:
    fields = [pa.field("c", data_type), pa.field("i", pa.int32())]
    rows = [pa.array(EVERY_TYPE[data_type], data_type), pa.array([0, 1], pa.int32()), pa.array(["insert"] * 2)]
    tables = []
    for file_format in FORMATS:
        url = write_output(
            tmp_path / file_format, file_format, fields, ["c"] if is_key else ["i"], [pa.table(rows, ["c", "i", "_op"])]
        )
        found = current_table(url)
        assert found is not None
        tables.append(found.rows)
    parquet, json, csv = tables
    assert parquet.schema == json.schema == csv.schema == pa.schema(fields)
    assert repr(parquet.to_pylist()) == repr(json.to_pylist()) == repr(csv.to_pylist())
    assert parquet.num_rows == 2


@pytest.mark.parametrize("file_format", ["parquet", "json"])  # CSV has no lists
def test_a_job_without_a_key_gives_all_of_its_rows(tmp_path: Path, file_format: FileFormat) -> None:
    fields = [pa.field("x", pa.int64()), pa.field("list", pa.list_(pa.int64()))]
    tables = [pa.table({"x": [n, n], "list": [[n], None], "_op": ["insert"] * 2}) for n in range(2)]
    found = current_table(write_output(tmp_path, file_format, fields, [], tables))
    assert found is not None
    assert found.rows.to_pylist() == [
        {"x": 0, "list": [0]},
        {"x": 0, "list": None},
        {"x": 1, "list": [1]},
        {"x": 1, "list": None},
    ]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_side_output_has_no_operations_and_gives_all_of_its_rows(tmp_path: Path, file_format: FileFormat) -> None:
    fields = [pa.field("x", pa.int64())]
    tables = [pa.table({"x": [n, n]}) for n in range(2)]
    found = current_table(write_output(tmp_path, file_format, fields, [], tables))
    assert found is not None
    assert found.rows.to_pylist() == [{"x": 0}, {"x": 0}, {"x": 1}, {"x": 1}]


@pytest.mark.parametrize("file_format", FORMATS)
def test_of_several_rows_of_a_key_in_an_epoch_the_last_one_counts(tmp_path: Path, file_format: FileFormat) -> None:
    running = [("b", 0, 1.0, "insert"), ("a", 0, 3.0, "insert"), ("a", 0, 2.0, "update"), ("b", 0, None, "delete")]
    table = pa.table([pa.array(c) for c in zip(*running, strict=True)], names=["k", "n", "v", "_op"])
    table = table.set_column(1, "n", table.column("n").cast(pa.int16()))
    found = current_table(write_output(tmp_path, file_format, FIELDS, ["k", "n"], [changes_of({("a", 0): 9.0}), table]))
    assert found is not None
    assert found.rows.to_pylist() == [{"k": "a", "n": 0, "v": 2.0}]


@pytest.mark.parametrize("file_format", FORMATS)
def test_an_output_without_rows_is_an_empty_table_of_its_columns(tmp_path: Path, file_format: FileFormat) -> None:
    found = current_table(write_output(tmp_path, file_format, FIELDS, ["k"], []))
    assert found is not None
    assert (found.rows.num_rows, found.rows.schema) == (0, pa.schema(FIELDS))
    assert found.description.columns[1] == OutputColumn("n", "int16")


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_damaged_file_is_named(tmp_path: Path, file_format: FileFormat) -> None:
    """Text that is not compressed has no mark of its end, so only bytes that are no text are found there."""
    url = write_output(tmp_path, file_format, FIELDS, ["k", "n"], [changes_of({("a", 0): 1.0, ("b", 1): 2.0})])
    (file,) = Path(url).glob(f"part-*.{file_format}")
    whole = file.read_bytes()
    damaged = [whole[:end] for end in range(len(whole))] if file_format == "parquet" else [whole[:-3] + b"\xff\xfe"]
    for data in damaged:
        file.write_bytes(data)
        with pytest.raises(CorruptStateError, match=f"a file of this output is damaged.* file={file.name}, found="):
            current_table(url)


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_a_compressed_file_that_is_cut_short_is_no_shorter_one(tmp_path: Path, file_format: FileFormat) -> None:
    """Rows were lost silently."""
    url = write_output(tmp_path, file_format, FIELDS, ["k", "n"], [changes_of({("a", 0): 1.0, ("b", 1): 2.0})])
    (file,) = Path(url).glob(f"part-*.{file_format}")
    whole = gzip.compress(file.read_bytes())
    packed = file.rename(file.with_name(f"{file.name}.gz"))
    packed.write_bytes(whole)
    found = current_table(url)
    assert found is not None
    assert found.rows.num_rows == 2
    for end in range(1, len(whole)):
        packed.write_bytes(whole[:end])
        with pytest.raises(CorruptStateError, match=f"damaged.* file={packed.name}, found="):
            current_table(url)


def test_a_folder_that_is_no_output_is_no_table(tmp_path: Path) -> None:
    assert current_table(str(tmp_path)) is None


def test_staged_files_that_are_not_published_are_not_read(tmp_path: Path) -> None:
    url = write_output(tmp_path, "parquet", FIELDS, ["k", "n"], [changes_of({("a", 0): 1.0})])
    stage(SinkTask(url, "parquet"), tmp_path / "local", "zombie", changes_of({("a", 0): 2.0}), epoch=1)
    found = current_table(url)
    assert found is not None
    assert found.rows.to_pylist() == [{"k": "a", "n": 0, "v": 1.0}]
