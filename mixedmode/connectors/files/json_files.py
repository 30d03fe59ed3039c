"""JSON files in which every byte must belong to a record.

Spark's own JSON reader returns the first value of a line, and ignores the rest. It alone reads the files only where the
source's option `mode` says that records which do not parse become NULL. Else a file is read in one of two ways:

    scanned   Spark's reader reads local lines of UTF-8; a scan of the same bytes finds files with doubtful lines
              (json_scan.py), and each of these files is looked at again, line by line
    as text   Spark reads texts, one line or file each, and parses all of each text (json_records.py), which takes
              longer: files in an object store, in other encodings, of several lines per record, with dead letters
"""

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructType

from mixedmode.config.calls import quoted
from mixedmode.connectors.files.drift_checks import listing_options, value_options
from mixedmode.connectors.files.file_blocks import FilePart, parts_of
from mixedmode.connectors.files.json_scan import doubtful
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.sources.json_records import JsonRecords
from mixedmode.spark.damaged import WRONG_RECORD

__all__ = [
    "OF_JSON",
    "Reader",
    "decoded_texts",
    "doubtful_files",
    "encoding_of",
    "files_found",
    "is_checked",
    "is_good_text",
    "is_scanned",
    "is_whole_file",
    "json_file_rows",
    "json_parser",
    "text_options",
    "text_schema",
    "with_every_column",
]

Reader = DataFrameReader | DataStreamReader
_TEXT, _FILE, _DECODED, _RECORD = "_text", "_file", "_decoded", "_record"
_VALUE = "value"  # Spark's name for the column of a text file
_SHOWN = 200  # limit for a text in a message, in characters
_PARTS = "path string, begin long, end long"  # the fields of FilePart
#: follows WRONG_RECORD
OF_JSON = (
    "A line of JSON (with the option multiLine, a file) holds one object or one array of objects and nothing else."
)
_SMALL_BYTES = 256 * 1024 * 1024  # the driver scans that much in the time that it takes to begin tasks
_OF_READER = {"mode", "multiline", "encoding", "charset", "linesep", "samplingratio", "columnnameofcorruptrecord"}


def is_checked(source: FileSourceSpec) -> bool:
    """Return whether a record that does not parse stops the job."""
    options = _options(source)
    return options.get("mode", "failfast").lower() == "failfast" and "singlevariantcolumn" not in options


def text_options(source: FileSourceSpec) -> dict[str, str]:
    """Return the options of Spark's text reader: a text is a line, or a whole file with `multiLine`."""
    encoding = encoding_of(source)
    return {
        **listing_options(source),
        **({"wholetext": "true"} if is_whole_file(source) else {}),
        **({} if encoding is None else {"encoding": encoding}),
    }


def text_schema(
    session: SparkSession, source: FileSourceSpec, schema: StructType, path: str, options: Mapping[str, str]
) -> StructType:
    """Return the schema of a text column, and of the columns that names of folders hold (`day=1`).

    path: that of the source, as Spark expects it. options: those with which Spark lists it.
    """
    texts = StructType().add(_VALUE, StringType())
    if is_plain_folder(source.path) and not glob.has_magic(source.path):
        return texts
    try:
        found = session.read.format("text").options(**options).load(path).columns
    except AnalysisException:  # no file exists yet
        return texts
    in_folders = {name.lower() for name in found} - {_VALUE}
    for field in schema:
        if field.name.lower() in in_folders:
            texts = texts.add(field)
    return texts


def json_file_rows(texts: DataFrame, schema: StructType, source: FileSourceSpec) -> DataFrame:
    """Return the records of texts (text_schema).

    A text of which a part is no JSON of the schema stops the job, or has no records if it is a dead letter.
    """
    in_folders = texts.columns[1:]
    others = {name.lower() for name in in_folders}
    json = json_parser(StructType([field for field in schema if field.name.lower() not in others]), source)
    texts = texts.select(_VALUE, F.input_file_name().alias(_FILE), *map(quoted, in_folders))
    decoded = decoded_texts(texts, json, source)
    wrong = _refusal() if source.undecodable == "fail" else F.lit(None)
    records = F.when(is_good_text(json), json.records(F.col(_DECODED))).otherwise(wrong)
    rows = decoded.select(_TEXT, _FILE, *map(quoted, in_folders), F.explode(records).alias(_RECORD))
    # refuses a NULL record; in a filter, because Spark does not compute a column that no step reads
    rows = rows.where(F.when(F.col(_RECORD).isNull(), _refusal().cast("boolean")).otherwise(F.lit(True)))
    return rows.select(*(_column(name, in_folders) for name in schema.names))


def is_scanned(source: FileSourceSpec) -> bool:
    """Return whether Spark's JSON reader reads the source, and a scan finds what it would ignore."""
    is_local = "://" not in source.path and source.undecodable == "fail"
    has_lines = not is_whole_file(source) and "linesep" not in _options(source)
    return source.format == "json" and is_checked(source) and is_local and has_lines and encoding_of(source) is None


def with_every_column(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows of Spark's reader, which then parses and checks all columns, also those that no step reads.

    The condition is always true, but Spark does not know it: it neither prunes a column of it, nor lets its reader skip
    the rest of a record by a later filter.
    """
    names = list(map(quoted, schema.names))
    values = ", ".join(f"{name} IS NOT NULL" for name in names)  # a text, because each Column is a call of the JVM
    return rows.where(f"spark_partition_id() >= 0 OR array_contains(array({values}), true)").select(*names)


def doubtful_files(session: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return those of local files in which Spark's reader may ignore something."""
    return files_found(session, paths, doubtful)


def files_found(
    session: SparkSession, paths: Sequence[str], scan: Callable[[Sequence[FilePart]], Iterator[str]]
) -> list[str]:
    """Return those of local files that a scan finds. Spark's tasks scan large files."""
    lengths = {path: _length(path) for path in paths}
    parts = [part for path, length in lengths.items() for part in parts_of(path, length)]
    if sum(lengths.values()) <= _SMALL_BYTES:
        found = set(scan(parts))
    else:
        rows = session.createDataFrame([(part.path, part.begin, part.end) for part in parts], _PARTS)
        found = {row[0] for row in rows.mapInArrow(partial(_scan, scan), "path string").collect()}
    return [path for path in lengths if path in found]


def _scan(
    scan: Callable[[Sequence[FilePart]], Iterator[str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the paths of the parts that the scan finds. Called by Spark."""
    for batch in batches:
        parts = [FilePart(*part.values()) for part in batch.to_pylist()]
        yield pa.record_batch([pa.array(scan(parts), pa.string())], names=["path"])


def _length(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202 - many
    except FileNotFoundError:  # Spark fails, or skips the file if the job's settings say so
        return 0


def json_parser(fields: StructType, source: FileSourceSpec) -> JsonRecords:
    """Return the parser of texts of the source.  fields: the columns that are in the texts."""
    options = {name: value for name, value in value_options(source).items() if name.lower() not in _OF_READER}
    return JsonRecords(fields, options)


def decoded_texts(texts: DataFrame, json: JsonRecords, source: FileSourceSpec) -> DataFrame:
    """Return texts as _TEXT and _DECODED, with the other columns."""
    encoding = encoding_of(source)
    text = F.col(_VALUE) if encoding is None else F.decode(F.col(_VALUE).cast("binary"), encoding)
    if is_whole_file(source):  # Spark removes the byte order mark of lines itself
        text = F.ltrim(text, F.lit("\ufeff"))
    texts = texts.select(text.alias(_TEXT), *(quoted(name) for name in texts.columns if name != _VALUE))
    # the condition is always true, but makes Spark evaluate the value once, instead of once per use
    once = F.when(F.spark_partition_id() >= 0, json.decoded(F.col(_TEXT), takes_arrays=True))
    return texts.select("*", once.alias(_DECODED))


def is_good_text(json: JsonRecords) -> Column:
    """Return whether a text that `decoded_texts` returned is nothing but records."""
    decoded = F.col(_DECODED)
    has_null = F.coalesce(F.exists(json.records(decoded), lambda record: record.isNull()), F.lit(False))
    is_one = json.is_whole(decoded) & json.is_single(F.col(_TEXT), decoded)
    return F.is_valid_utf8(F.col(_TEXT)) & is_one & ~has_null


def _column(name: str, in_folders: list[str]) -> Column:
    return F.col(quoted(name)) if name in in_folders else F.col(_RECORD).getField(name).alias(name)


def _refusal() -> Column:
    """Return an expression that stops the job with an error that names the file and the text."""
    file, text = F.col(_FILE), F.substring(_TEXT, 1, _SHOWN)
    return F.raise_error(F.concat(F.lit(f"{WRONG_RECORD} {OF_JSON} file="), file, F.lit(", record="), text))


def _options(source: FileSourceSpec) -> dict[str, str]:
    return {name.lower(): value for name, value in source.options.items()}


def is_whole_file(source: FileSourceSpec) -> bool:
    """Return whether the option multiLine lets a record extend over several lines."""
    return _options(source).get("multiline", "").lower() == "true"


def encoding_of(source: FileSourceSpec) -> str | None:
    """Return the encoding of the files; None if it is UTF-8."""
    options = _options(source)
    found = options.get("encoding", options.get("charset", "UTF-8"))
    return None if found.upper() in {"UTF-8", "UTF8"} else found
