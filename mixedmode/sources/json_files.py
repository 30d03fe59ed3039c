"""JSON files in which every byte must belong to a record: Spark reads texts, one line or file each, and parses all of
it.

Spark's own JSON reader returns the first value of a line, and ignores the rest (json_records.py). It is used only
where the source's option `mode` says that records which do not parse become NULL, or are dropped.
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
_SHOWN = 200  # limit for a text in a message, in characters
_OF_READER = {"mode", "multiline", "encoding", "charset", "linesep", "samplingratio", "columnnameofcorruptrecord"}


def is_checked(source: FileSourceSpec) -> bool:
    """Return whether a record that does not parse stops the job."""
    options = _options(source)
    return options.get("mode", "failfast").lower() == "failfast" and "singlevariantcolumn" not in options


def text_options(source: FileSourceSpec) -> dict[str, str]:
    """Return the options of Spark's text reader: a text is a line, or a whole file with `multiLine`."""
    encoding = _encoding(source)
    return {
        **listing_options(source),
        **({"wholetext": "true"} if _is_whole_file(source) else {}),
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
    """Return the records of texts (text_schema). A text stops the job unless all of it is JSON of the schema."""
    in_folders = texts.columns[1:]
    fields = StructType([field for field in schema if field.name not in in_folders])
    options = {name: value for name, value in value_options(source).items() if name.lower() not in _OF_READER}
    json = JsonRecords(fields, options)
    encoding = _encoding(source)
    text = F.col(_VALUE) if encoding is None else F.decode(F.col(_VALUE).cast("binary"), encoding)
    if _is_whole_file(source):  # Spark removes the byte order mark of lines itself
        text = F.ltrim(text, F.lit("\ufeff"))
    texts = texts.select(text.alias(_TEXT), F.input_file_name().alias(_FILE), *map(quoted, in_folders))
    # the condition is always true, but makes Spark evaluate the value once, instead of once per use
    once = F.when(F.spark_partition_id() >= 0, json.decoded(F.col(_TEXT), takes_arrays=True))
    decoded = texts.select("*", once.alias(_DECODED))
    is_good = (
        F.is_valid_utf8(F.col(_TEXT)) & json.is_whole(F.col(_DECODED)) & json.is_single(F.col(_TEXT), F.col(_DECODED))
    )
    records = F.when(is_good, json.records(F.col(_DECODED))).otherwise(_refusal())
    rows = decoded.select(_TEXT, _FILE, *map(quoted, in_folders), F.explode(records).alias(_RECORD))
    # refuses a NULL record; in a filter, because Spark does not compute a column that no step reads
    rows = rows.where(F.when(F.col(_RECORD).isNull(), _refusal().cast("boolean")).otherwise(F.lit(True)))
    return rows.select(*(_column(name, in_folders) for name in schema.names))


def _column(name: str, in_folders: list[str]) -> Column:
    return F.col(quoted(name)) if name in in_folders else F.col(_RECORD).getField(name).alias(name)


def _refusal() -> Column:
    """Return an expression that stops the job with an error that names the file and the text."""
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
    """Return the encoding of the files; None if it is UTF-8."""
    options = _options(source)
    found = options.get("encoding", options.get("charset", "UTF-8"))
    return None if found.upper() in {"UTF-8", "UTF8"} else found
