"""JSON files whose every byte is a part of a record: Spark reads texts, a line or a file each, and parses them whole.

Spark's own reader of JSON returns the first value of a line, and passes over the rest (json_records.py). It reads files
only where the source's option `mode` says that records which do not parse are to become NULL, or are to be dropped.
"""

import glob
from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructType

from mixedmode.config import FileSourceSpec
from mixedmode.sources.drift_checks import listing_options, value_options
from mixedmode.sources.json_records import JsonRecords
from mixedmode.sources.parquet_files import is_plain_folder
from mixedmode.spark.frames import quoted

__all__ = ["Reader", "is_checked", "json_file_rows", "text_options", "text_schema"]

Reader = DataFrameReader | DataStreamReader
_TEXT, _FILE, _DECODED, _RECORD = "_text", "_file", "_decoded", "_record"
_VALUE = "value"  # Spark's name for the column of a text file
_SHOWN = 200  # characters of a text in a message
_OF_READER = {"mode", "multiline", "encoding", "charset", "linesep", "samplingratio", "columnnameofcorruptrecord"}


def is_checked(source: FileSourceSpec) -> bool:
    """Whether a record that does not parse stops the job."""
    options = _options(source)
    return options.get("mode", "failfast").lower() == "failfast" and "singlevariantcolumn" not in options


def text_options(source: FileSourceSpec) -> dict[str, str]:
    """Options of Spark's reader of texts: a text is a line, or a file with `multiLine`."""
    encoding = _encoding(source)
    return {
        **listing_options(source),
        **({"wholetext": "true"} if _is_whole_file(source) else {}),
        **({} if encoding is None else {"encoding": encoding}),
    }


def text_schema(
    session: SparkSession, source: FileSourceSpec, schema: StructType, path: str, options: Mapping[str, str]
) -> StructType:
    """Return a text, and the columns of the schema that names of folders hold (`day=1`).

    path: that of the source, as Spark takes it. options: with which Spark lists it.
    """
    texts = StructType().add(_VALUE, StringType())
    if is_plain_folder(source.path) and not glob.has_magic(source.path):
        return texts
    try:
        found = session.read.format("text").options(**options).load(path).columns
    except AnalysisException:  # there is no file yet
        return texts
    in_folders = {name.lower() for name in found} - {_VALUE}
    for field in schema:
        if field.name.lower() in in_folders:
            texts = texts.add(field)
    return texts


def json_file_rows(texts: DataFrame, schema: StructType, source: FileSourceSpec) -> DataFrame:
    """The records of texts (text_schema). A text that is not JSON of the schema, as a whole, stops the job."""
    in_folders = texts.columns[1:]
    fields = StructType([field for field in schema if field.name not in in_folders])
    options = {name: value for name, value in value_options(source).items() if name.lower() not in _OF_READER}
    json = JsonRecords(fields, options)
    encoding = _encoding(source)
    text = F.col(_VALUE) if encoding is None else F.decode(F.col(_VALUE).cast("binary"), encoding)
    if _is_whole_file(source):  # of lines, Spark takes away the byte order mark itself
        text = F.ltrim(text, F.lit("\ufeff"))
    texts = texts.select(text.alias(_TEXT), F.input_file_name().alias(_FILE), *map(quoted, in_folders))
    # true, and of a kind that Spark computes once; else it would parse a text anew for each place that reads it
    once = F.when(F.spark_partition_id() >= 0, json.decoded(F.col(_TEXT), takes_arrays=True))
    decoded = texts.select("*", once.alias(_DECODED))
    is_good = (
        F.is_valid_utf8(F.col(_TEXT)) & json.is_whole(F.col(_DECODED)) & json.is_single(F.col(_TEXT), F.col(_DECODED))
    )
    records = F.when(is_good, json.records(F.col(_DECODED))).otherwise(_refusal())
    rows = decoded.select(_TEXT, _FILE, *map(quoted, in_folders), F.explode(records).alias(_RECORD))
    # NULL in place of a record; in a filter, since a column that no step reads is not computed
    rows = rows.where(F.when(F.col(_RECORD).isNull(), _refusal().cast("boolean")).otherwise(F.lit(True)))
    return rows.select(*(_column(name, in_folders) for name in schema.names))


def _column(name: str, in_folders: list[str]) -> Column:
    return F.col(quoted(name)) if name in in_folders else F.col(_RECORD).getField(name).alias(name)


def _refusal() -> Column:
    """Stops the job, and says at which text."""
    msg = (
        "a record of a source is not what its format and schema say, and nothing was committed. Correct the file, or "
        "correct `schema`, or set the reader's option `mode: PERMISSIVE` on the source to have such fields become "
        "NULL. A line of JSON (with the option multiLine, a file) holds one object or one array of objects, and "
        "nothing behind it. file="
    )
    return F.raise_error(F.concat(F.lit(msg), F.col(_FILE), F.lit(", record="), F.substring(_TEXT, 1, _SHOWN)))


def _options(source: FileSourceSpec) -> dict[str, str]:
    return {name.lower(): value for name, value in source.options.items()}


def _is_whole_file(source: FileSourceSpec) -> bool:
    return _options(source).get("multiline", "").lower() == "true"


def _encoding(source: FileSourceSpec) -> str | None:
    """The encoding of the files where it is not UTF-8."""
    options = _options(source)
    found = options.get("encoding", options.get("charset", "UTF-8"))
    return None if found.upper() in {"UTF-8", "UTF8"} else found
