"""The flat binary files between Python and the Flink programs: records in, rows out.

Records are laid out by numpy, whole batches at a time, because Flink's Python package has no reader of
Parquet. Reading them costs Flink next to nothing, so this is in its favour.

    record of count-sum    int64 key | float64 value
    record of word-count   int32 bytes of the word | the word, UTF-8
    record of regular-join int64 key | int64 number | float64 value             each table in a folder of its own
    block                  int32 bytes | int32 records | the records            a file of records is a row of blocks
    row of count-sum       int64 key | int64 count | float64 sum
    row of word-count      int32 bytes of the word | int64 count                its word stands in the file of texts
    row of regular-join    int64 number, int64 number of the other | int64 key | float64, float64 values

All of it is little-endian. A program writes each change of a key as a row, to the files of one subtask (`rows-N` and
`texts-N`), so that the last row of a key is the one that counts; or rows that never change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BLOCK_ROWS = 1 << 16
ROWS, TEXTS = "rows-", "texts-"

_COUNT_SUM_ROW = np.dtype([("key", "<i8"), ("count", "<i8"), ("sum", "<f8")])
_PAIR = np.dtype([("left", "<i8"), ("right", "<i8"), ("key", "<i8"), ("value", "<f8"), ("other", "<f8")])
_WORD_COUNT_ROW = np.dtype([("bytes", "<i4"), ("count", "<i8")])


class Layout(Protocol):
    """The records and rows of one program. `program`: its name in bench/src/mixedmode_bench/flink_programs.

    `is_changelog`: a row replaces the one before it with the same key. `folder`: of the records of a table, in that of
    all records.
    """

    program: ClassVar[str]
    is_changelog: ClassVar[bool]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the Parquet files that the program reads."""

    def records(self, batch: pa.RecordBatch) -> bytes:
        """The records of a batch, in its order."""

    def folder(self, table: str) -> str:
        """Return the folder of the records of a table, in that of all records."""

    def rows(self, numbers: Path, texts: Path) -> pa.Table:
        """Return the rows that one subtask wrote, in their order; the first column of a changelog is the key."""


class _OneTable:
    """The records of the one table of a changelog are those of the program."""

    is_changelog: ClassVar[bool] = True

    def folder(self, _table: str) -> str:
        """Return the folder of the records of a table, in that of all records."""
        return ""


@dataclass(frozen=True, slots=True)
class CountSum(_OneTable):
    """count(*) and sum(double) per int64 key."""

    program: ClassVar[str] = "count-sum"
    columns: tuple[str, str]  # key, value

    def records(self, batch: pa.RecordBatch) -> bytes:
        """The records of a batch, in its order."""
        records = np.empty(batch.num_rows, [("key", "<i8"), ("value", "<f8")])
        for field, column in zip(("key", "value"), self.columns, strict=True):
            records[field] = batch.column(column)
        return records.tobytes()

    def rows(self, numbers: Path, _texts: Path) -> pa.Table:
        """Return the rows that one subtask wrote: key, count, sum."""
        read = np.fromfile(numbers, _COUNT_SUM_ROW)
        return pa.table({name: np.ascontiguousarray(read[name]) for name in ("key", "count", "sum")})


@dataclass(frozen=True, slots=True)
class WordCount(_OneTable):
    """count(*) per word."""

    program: ClassVar[str] = "word-count"
    columns: tuple[str]  # the word

    def records(self, batch: pa.RecordBatch) -> bytes:
        """The records of a batch, in its order."""
        words = batch.column(self.columns[0]).cast(pa.large_binary())
        lengths = pc.binary_length(words).to_numpy(zero_copy_only=False).astype("<i4")
        starts = np.cumsum(lengths + 4, dtype=np.int64) - lengths - 4
        laid = np.empty(int(lengths.sum()) + 4 * len(lengths), np.uint8)
        is_length = np.zeros(len(laid), bool)
        places = (starts[:, None] + np.arange(4)).reshape(-1)
        is_length[places] = True
        laid[places] = lengths.view(np.uint8)
        laid[~is_length] = np.frombuffer(b"".join(words.to_pylist()), np.uint8)
        return laid.tobytes()

    def rows(self, numbers: Path, texts: Path) -> pa.Table:
        """Return the rows that one subtask wrote: word, count."""
        read = np.fromfile(numbers, _WORD_COUNT_ROW)
        ends = np.zeros(len(read) + 1, np.int64)
        np.cumsum(read["bytes"], out=ends[1:])
        words = pa.LargeStringArray.from_buffers(len(read), pa.py_buffer(ends), pa.py_buffer(texts.read_bytes()))
        return pa.table({"key": words.cast(pa.large_string()), "count": np.ascontiguousarray(read["count"])})


@dataclass(frozen=True, slots=True)
class RegularJoin:
    """Pairs of rows of two tables with one int64 key."""

    program: ClassVar[str] = "regular-join"
    is_changelog: ClassVar[bool] = False
    columns: tuple[str, str, str]  # key, number, value

    def folder(self, table: str) -> str:
        """Return the folder of the records of a table, in that of all records."""
        return table

    def records(self, batch: pa.RecordBatch) -> bytes:
        """The records of a batch, in its order."""
        records = np.empty(batch.num_rows, [("key", "<i8"), ("number", "<i8"), ("value", "<f8")])
        for field, column in zip(("key", "number", "value"), self.columns, strict=True):
            records[field] = batch.column(column)
        return records.tobytes()

    def rows(self, numbers: Path, _texts: Path) -> pa.Table:
        """Return the pairs that one subtask wrote: both numbers, the key, both values."""
        read = np.fromfile(numbers, _PAIR)
        return pa.table({name: np.ascontiguousarray(read[name]) for name in _PAIR.names or ()})


#: by what a workload calls it
LAYOUTS: Mapping[str, Layout] = {
    "count-sum": CountSum(("k", "v")),
    "word-count": WordCount(("word",)),
    "regular-join": RegularJoin(("k", "seq", "v")),
}


def write_records(source: Path, target: Path, layout: Layout) -> None:
    """Each Parquet file in `source` as a file of records in `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.parquet")):
        with (target / path.stem).open("wb") as file:
            for batch in pq.ParquetFile(path).iter_batches(BLOCK_ROWS, columns=list(layout.columns)):
                records = layout.records(batch)
                file.write(np.array([len(records), batch.num_rows], "<i4").tobytes())
                file.write(records)


def rows_written(folder: Path, layout: Layout, names: list[str]) -> pa.Table:
    """All rows, or the last row of each key of a changelog, with the names given."""
    subtasks = sorted(path.name.removeprefix(ROWS) for path in folder.glob(f"{ROWS}*"))
    tables = [layout.rows(folder / f"{ROWS}{n}", folder / f"{TEXTS}{n}") for n in subtasks]
    return pa.concat_tables(map(_newest, tables) if layout.is_changelog else tables).rename_columns(names)


def _newest(rows: pa.Table) -> pa.Table:
    """Of the rows of a subtask, those that no later one replaces."""
    places: npt.NDArray[np.int64] = np.arange(rows.num_rows)
    last = pa.table({"key": rows["key"], "place": places}).group_by("key").aggregate([("place", "max")])
    return rows.take(last["place_max"])
