"""Partitions: assigns each row to a folder, and buffers rows per folder until they fill a file.

Folders are named as Hive and Spark name them: `column=value`, special characters as %XX, NULL as
__HIVE_DEFAULT_PARTITION__. The files of a folder omit the columns whose values are in its name, as Spark, pyarrow and
DuckDB expect. A part of a time (`day(at)`) is an additional column, and `at` stays.

Hive has no name for the empty text, and Spark reads it back as NULL: such a row is refused instead.

Rows are divided in Arrow: each row of a table gets the number of its folder, and the rows of a folder are taken out at
once. At most BUFFER_BYTES of rows (and one table) wait in memory; then the fullest folders are written.

Invariants (tests/sinks/test_partitions.py):
  I1  folder_value(folder_name(name, value)) == (name, value) as text; no two values have the same folder
  I2  each row is emitted once, in its folder; the rows of a folder keep the order in which they were added
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.config.partitions import Partition
from mixedmode.errors import InvalidJobError
from mixedmode.keys import group_codes
from mixedmode.operators.tables import column_of
from mixedmode.sinks.shown import only_times_of_python

BUFFER_BYTES = 64 * 1024 * 1024  # of buffered rows, per output of a subtask
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_NAME_BYTES_MAX = 255  # limit for a name on a local disk
_SPECIAL = re.compile("[\\x00-\\x1f\"#%'*/:=?\\\\\\x7f{\\[\\]^]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_FORMATS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}


def partition_problem(partition: Partition, fields: Mapping[str, pa.Field], key_columns: Sequence[str]) -> str | None:
    """Return why an output with these columns (and keys, () if none) cannot be partitioned this way; None if it can."""
    field = fields.get(partition.column)
    if field is None:
        return f"the output has no such column. Columns here: {', '.join(fields)}. column={partition.column}"
    if key_columns and partition.column not in key_columns:
        return (
            "rows of a key would be in several folders, and who reads one of them would not see that a row in it is no "
            f"longer true. Partition by key columns ({', '.join(key_columns)}). column={partition.column}"
        )
    kind = field.type
    if partition.every is None:
        if any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)):
            return None
        if pa.types.is_date32(kind):
            return None
        return (
            "values of this type are no names of folders. Partition by text, whole numbers, booleans or dates, or by "
            f"the day(...) or hour(...) of a timestamp. column={partition.column}, type={kind}"
        )
    if partition.name in fields:
        return f"the output has a column of the folder's name. Rename it with AS. name={partition.name}"
    if not (pa.types.is_timestamp(kind) or (pa.types.is_date32(kind) and partition.every != "hour")):
        return f"{partition.every}() is of a timestamp{_OR_DATE}. column={partition.column}, type={kind}"
    return None


_OR_DATE = ", or, but for hours, of a date"


def folder_name(name: str, value: str | None) -> str:
    """Return `name=value`, escaped as Hive does; None is NULL. Raises InvalidJobError for a value without a name."""
    if value == "":
        msg = (
            "a row has an empty text in a column that the output is partitioned by, and folders have no name for it: "
            f"readers would take it for NULL. Make it NULL or another text in a sql step, such as nullif({name}, ''), "
            f"or do not partition by it. Nothing was committed. column={name}"
        )
        raise InvalidJobError(msg)
    written = NULL_FOLDER if value is None else _escaped(value)
    if value == NULL_FOLDER:  # the text, not NULL
        written = f"%5F{written[1:]}"
    folder = f"{_escaped(name)}={written}"
    if len(folder.encode()) > _NAME_BYTES_MAX:
        msg = (
            "a row has a text in a column that the output is partitioned by which is too long for the name of a "
            "folder. Partition by something shorter, such as substring(column, 1, 20) as a column of its own. Nothing "
            f"was committed. column={name}, value={value[:40] if value else value}..., bytes_max={_NAME_BYTES_MAX}"
        )
        raise InvalidJobError(msg)
    return folder


def folder_value(folder: str) -> tuple[str, str | None]:
    """Return (name, value) of a folder's name. The inverse of folder_name."""
    name, _, written = folder.partition("=")
    return _unescaped(name), None if written == NULL_FOLDER else _unescaped(written)


class FolderRows:
    """Buffers rows for the files of their folders, and tracks their memory."""

    def __init__(self, partitions: Sequence[Partition], *, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._partitions = tuple(partitions)
        self._left_out = [partition.column for partition in partitions if partition.every is None]
        self._limit = buffer_bytes
        self._names: dict[tuple[Any, ...], str] = {}
        self._waiting: dict[str, list[pa.Table]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Add rows; yield the (folder, rows) to write now to free memory. A folder ends with a slash."""
        table = table.combine_chunks()
        cut = [_cut(column_of(table, partition.column), partition) for partition in self._partitions]
        groups = group_codes(cut)
        order = np.argsort(groups.codes, kind="stable")
        ends = np.cumsum(np.bincount(groups.codes, minlength=len(groups.first_row)))
        rows = table.drop_columns(self._left_out)
        for code, first in enumerate(groups.first_row):
            with only_times_of_python("a column in partition-by"):
                folder = self._folder(tuple(column[int(first)].as_py() for column in cut))
            # copied, not sliced: a slice would keep the whole table in memory while the folder waits
            taken = rows.take(pa.array(order[0 if code == 0 else ends[code - 1] : ends[code]]))
            self._waiting.setdefault(folder, []).append(taken)
            self._bytes[folder] = self._bytes.get(folder, 0) + taken.nbytes
        total = sum(self._bytes.values())
        if total > self._limit:
            for folder in sorted(self._bytes, key=lambda one: -self._bytes[one]):
                total -= self._bytes[folder]
                yield self._out(folder)
                if total <= self._limit // 2:
                    return

    def rest(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows that are still buffered."""
        for folder in sorted(self._waiting):
            yield self._out(folder)

    def _out(self, folder: str) -> tuple[str, pa.Table]:
        del self._bytes[folder]
        return folder, pa.concat_tables(self._waiting.pop(folder))

    def _folder(self, values: tuple[Any, ...]) -> str:
        found = self._names.get(values)
        if found is None:
            texts = map(_text, values, self._partitions)
            pairs = zip(self._partitions, texts, strict=True)
            found = "".join(f"{folder_name(partition.name, text)}/" for partition, text in pairs)
            self._names[values] = found
        return found


def _cut(column: pa.Array, partition: Partition) -> pa.Array:
    return column if partition.every is None else pc.floor_temporal(_utc(column), 1, partition.every)


def _utc(column: pa.Array) -> pa.Array:
    """Return timestamps in UTC, wherever the job runs."""
    is_elsewhere = pa.types.is_timestamp(column.type) and column.type.tz not in {None, "UTC"}
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if is_elsewhere else column


def _text(value: Any, partition: Partition) -> str | None:
    if value is None:
        return None
    if partition.every is not None:
        assert isinstance(value, date | datetime), value
        return _year(value) + value.strftime(_FORMATS[partition.every][2:])
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _year(value: date) -> str:
    return f"{value.year:04}"  # strftime does not pad years on every system


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
