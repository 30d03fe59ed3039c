"""Parquet files that tasks read themselves, where nothing from Spark SQL is needed (tasks/direct.py).

Spark still finds the files, fixes the range of an epoch and records it. But the records do not travel from Spark's JVM
to Python. Each map task reads the columns that the stage needs, of its slices of the files (file_slices.py).

These readers treat a file as Spark does: column names are matched without regard to case, a column that a file lacks
is NULL, and a type that does not widen to the declared type is refused. The source's `schema-drift` may change this
(config/drift.py). If the rows of such a source go to Spark, the same functions read it (drift.py).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.config.drift import WRONG_TYPE, Drift
from mixedmode.connectors.files.file_slices import FileSlice
from mixedmode.connectors.files.local_inputs import matched
from mixedmode.connectors.files.old_calendar import check_calendar
from mixedmode.connectors.files.row_groups import spans_of
from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Column, Query
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.spark.damaged import damaged_file

BATCH_ROWS = 1_000_000
_NARROW_BITS = 32  # of the smaller of the two kinds of whole numbers in Parquet
_DIGITS_NARROW, _DIGITS_WIDE = 10, 20  # of decimals that Spark reads such numbers as
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_FOOTERS = 20  # an estimate of records reads about so many


def read_files(paths: Sequence[str], columns: Sequence[ReadColumn]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of whole local files as batches of `columns`.
    Raises InvalidJobError for a file that does not match, and LeftToSparkError for one that only Spark reads.
    """
    return read_slices([FileSlice.whole(path) for path in paths], columns)


def file_bytes(path: str) -> int:
    """Return the size of a file; 0 if it no longer exists, which its reader will report."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def records_about(files: Sequence[tuple[str, int]]) -> int | None:
    """Estimate the number of records in local files (path, bytes) from the footers of some; None for other formats."""
    some = files[:: max(1, len(files) // _FOOTERS)]
    rows = 0
    for path, _ in some:
        try:
            rows += pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            return None
    sampled = sum(length for _, length in some)
    return rows * sum(length for _, length in files) // sampled if sampled else None


def read_slices(
    slices: Sequence[FileSlice], columns: Sequence[ReadColumn], tell: Callable[[float], object] = lambda _bytes: None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the slices as batches of `columns`. Raises as `read_files`.

    tell: called before each batch with its part of the bytes of its file.
    """
    nodes = tuple(Column(column.name, column.data_type) for column in columns)
    every = Query(nodes, (), tuple((column.name, number) for number, column in enumerate(columns)))
    return (batch for _, batch in read_for(slices, columns, (every,), tell))


def read_for(
    slices: Sequence[FileSlice],
    columns: Sequence[ReadColumn],
    queries: Sequence[Query],
    tell: Callable[[float], object] = lambda _bytes: None,
) -> Iterator[tuple[Sequence[Query], pa.RecordBatch]]:
    """Yield batches of the rows of the slices, each with the queries that a row of it may pass, and with what they use.

    Rows that pass no query may be left out. Otherwise as `read_slices`.
    """
    drift = columns[0].drift if columns else Drift()
    for piece in slices:
        with _damage_explained(piece.path), _opened(piece.path) as file:
            drift.check_names(file.schema_arrow.names, file=piece.path)
            check_calendar(file, columns, piece.path)
            yield from _read_slice(file, piece, columns, queries, tell)


def _read_slice(
    file: pq.ParquetFile,
    piece: FileSlice,
    columns: Sequence[ReadColumn],
    queries: Sequence[Query],
    tell: Callable[[float], object],
) -> Iterator[tuple[Sequence[Query], pa.RecordBatch]]:
    instants = {c.path.lower() for c in map(file.schema.column, range(len(file.schema))) if _is_int96(c)}
    starts = list(accumulate((file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)), initial=0))
    own = piece.rows_of(starts[-1])
    names = _names_without_case(file.schema_arrow.names, columns, piece.path)
    if not own:
        tell(piece.size)
        return
    groups = [g for g, (start, end) in enumerate(pairwise(starts)) if max(start, own.start) < min(end, own.stop)]
    row_bytes = piece.size / len(own)
    for span in spans_of(file, groups, columns, queries):
        start = starts[span.groups[0]]
        rows = range(max(own.start - start, 0), min(own.stop - start, span.rows))
        if len(span.columns) < len(columns):  # a wrong type is one also where nothing is read
            fields = [file.schema_arrow.field(name) for name in _stored(columns, names)]
            none = pa.record_batch([pa.array([], field.type) for field in fields], schema=pa.schema(fields))
            _renamed(none, columns, instants, piece.path)
        if not span.queries:
            tell(len(rows) * row_bytes)
            continue
        for batch in _rows_of(file, span.groups, rows, _stored(span.columns, names)):
            tell(batch.num_rows * row_bytes)
            yield span.queries, _renamed(batch, span.columns, instants, piece.path)


def _rows_of(file: pq.ParquetFile, groups: Sequence[int], rows: range, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield those rows of row groups, by their number in the groups."""
    batch_rows = -(-rows.stop // -(-rows.stop // BATCH_ROWS))  # equal batches: no row after the last one is decoded
    start = 0
    for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
        end = start + batch.num_rows
        if end > rows.start:
            first = max(rows.start - start, 0)
            yield batch.slice(first, min(end, rows.stop) - start - first)
        if end >= rows.stop:
            return
        start = end


def _stored(columns: Sequence[ReadColumn], names: Mapping[str, str]) -> list[str]:
    """Return the names in the file of those columns that it has.  names: as of `_names_without_case`."""
    return list(dict.fromkeys(names[one.source.lower()] for one in columns if one.source.lower() in names))


def _names_without_case(names: Sequence[str], columns: Sequence[ReadColumn], path: str) -> dict[str, str]:
    """Return {name in lower case: name in the file}. Raise InvalidJobError if a column that is read has two names."""
    found = {name.lower(): name for name in names}
    if len(found) < len(names):
        count = Counter(name.lower() for name in names)
        source = next((one.source.lower() for one in columns if count[one.source.lower()] > 1), None)
        if source is not None:
            alike = ", ".join(name for name in names if name.lower() == source)
            msg = (
                "a file of a source has several columns of one name, regardless of case, so which one is meant cannot "
                f"be told. Rename one of them in the file. file={path}, columns={alike}"
            )
            raise InvalidJobError(msg)
    return found


def _opened(path: str) -> pq.ParquetFile:
    # not mapped into memory: a file that is cut short while it is read would kill the process (SIGBUS)
    return pq.ParquetFile(path, pre_buffer=False, coerce_int96_timestamp_unit="us")


@contextmanager
def _damage_explained(path: str) -> Iterator[None]:
    """Raise InvalidJobError for Arrow's errors about the bytes of a file. Errors of the system stay what they are."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged_file(path, re.sub(r"\s+", " ", str(error))[:200]) from error


def _is_int96(column: pq.ColumnSchema) -> bool:
    """Return whether a column has Spark's default timestamp format.
    It is always an instant, though Arrow shows no time zone.
    """
    return bool(column.physical_type == "INT96")


def _renamed(batch: pa.RecordBatch, columns: Sequence[ReadColumn], instants: set[str], path: str) -> pa.RecordBatch:
    found = {name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    arrays = []
    for column in columns:
        array = found.get(column.source.lower())
        if array is None:
            array = pa.nulls(batch.num_rows, column.data_type)
        elif column.source.lower() in instants:
            array = array.view(pa.timestamp("us", "UTC"))
        arrays.append(_widened(array, column, path))
    return pa.record_batch(arrays, names=[column.name for column in columns])


def wrong_type(path: str, fields: Sequence[pa.Field]) -> str | None:
    """Return the error's text if a file has one of these columns with a type that changes its values; None if not.

    Also of elements, keys, values and fields of nested columns. A file that Arrow cannot open is left to Spark.
    """
    try:
        with _opened(path) as file:
            stored = {one.name.lower(): one.type for one in file.schema_arrow}
    except (pa.ArrowException, OSError):
        return None
    for wanted in fields:
        found = stored.get(wanted.name.lower())
        if found is not None and not _keeps_values(found, wanted.type):
            return _wrong_type(path, wanted.name, found, wanted.type)
    return None


def _wrong_type(path: str, column: str, stored: pa.DataType, wanted: pa.DataType) -> str:
    return f"{WRONG_TYPE} file={path}, column={column}, type_in_file={stored}, type_in_schema={wanted}"


def _keeps_values(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether no value changes that Spark's reader takes for one of the wanted type."""
    stored = _plain(pa.array([], stored)).type
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return _keeps_values(stored.key_type, wanted.key_type) and _keeps_values(stored.item_type, wanted.item_type)
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        types = {one.name.lower(): one.type for one in wanted}
        return all(_keeps_values(one.type, types.get(one.name.lower(), one.type)) for one in stored)
    if all(pa.types.is_list(one) or pa.types.is_large_list(one) for one in (stored, wanted)):
        return _keeps_values(stored.value_type, wanted.value_type)
    return bool(stored == wanted or _widens(stored, wanted))


def _widened(array: pa.Array, column: ReadColumn, path: str) -> pa.Array:
    if array.type == column.data_type:
        return array
    array = _plain(array)
    if array.type == column.data_type:
        return array
    if not _widens(array.type, column.data_type):
        if column.drift.wrong_type == "nulls":
            return pa.nulls(len(array), column.data_type)
        raise InvalidJobError(_wrong_type(path, column.source, array.type, column.data_type))
    if pa.types.is_timestamp(array.type):  # a timestamp without a zone is read as UTC, as Spark does
        return array.cast(pa.timestamp("us", array.type.tz)).view(column.data_type)
    if pa.types.is_binary(array.type) and pa.types.is_string(column.data_type):
        return array.view(column.data_type)  # Spark does not check the bytes of text
    return array.cast(column.data_type)


def _plain(array: pa.Array) -> pa.Array:
    """Return a column in the form without dictionaries, views, and types of other programs."""
    if isinstance(array, pa.ExtensionArray):  # such as JSON, which is text
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_duration(array.type):  # only a note for Arrow: the file has whole numbers, and so has Spark
        array = array.view(pa.int64())
    if array.type in _VIEWS:
        array = array.cast(_VIEWS[array.type])
    return array


def _widens(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every value of the stored type is the same value in the wanted type."""
    if pa.types.is_null(stored):
        return True
    if pa.types.is_integer(stored):
        return _integer_widens(stored, wanted)
    if pa.types.is_float32(stored) and pa.types.is_float64(wanted):
        return True
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        return stored.unit in {"ms", "us"}
    if pa.types.is_date32(stored):
        return bool(wanted == pa.timestamp("us"))
    if _is_bytes(stored):
        return _is_bytes(wanted)
    if pa.types.is_fixed_size_binary(stored):
        return bool(wanted == pa.binary())
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        has_digits = stored.precision - stored.scale <= wanted.precision - wanted.scale
        return bool(stored.scale <= wanted.scale and has_digits)
    return False


def _integer_widens(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Spark reads whole numbers as the wanted type without changing one."""
    is_signed, is_wide = pa.types.is_signed_integer(stored), stored.bit_width > _NARROW_BITS
    if pa.types.is_signed_integer(wanted):
        return bool(stored.bit_width < wanted.bit_width + is_signed)
    if pa.types.is_float64(wanted):
        return is_signed and not is_wide
    if pa.types.is_decimal(wanted) and is_signed:
        return bool(wanted.precision - wanted.scale >= (_DIGITS_WIDE if is_wide else _DIGITS_NARROW))
    return bool(is_wide and wanted == pa.decimal128(_DIGITS_WIDE, 0))


def _is_bytes(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def path_of_url(url: str) -> str:
    """Return the path in a `file:` URL of Spark's log, in which Spark escapes some characters (`%20`)."""
    return unquote(urlsplit(url).path)


def path_of_text(text: str) -> str:
    """Return the path in a `file:/a b` of Spark's column `path`, in which Spark escapes nothing."""
    return text.removeprefix("file:")


def is_plain_folder(path: str) -> bool:
    """Return whether a source's path is local and has no partition folder (`day=1`), whose columns no file has."""
    if "://" in path:
        return False
    return not any("=" in child.name for root in matched(path) for child in _children(root) if child.is_dir())


def _children(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
