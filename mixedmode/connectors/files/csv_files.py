"""CSV files in which every line is a record, or the job knows which line is none.

Spark's CSV reader reads the files. It reports a line that is no record in a column, or stops. To find the number of
such a line, the lines of the file are parsed again, one by one, by the same parser of Spark (from_csv).

Invariants (tests/sources/test_dead_lines.py):
  I1  a line of a file is a row of the reader, or a wrong line, or blank, a comment or the header; never two of these
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StringType, StructField, StructType

from mixedmode.config.calls import quoted
from mixedmode.connectors.files.drift_checks import value_options
from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines, is_utf8, not_utf8
from mixedmode.connectors.files.json_files import files_found, is_checked
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError

__all__ = [
    "CORRUPT",
    "check_utf8",
    "good_rows",
    "has_header",
    "is_no_record",
    "is_record_line",
    "is_utf8_csv",
    "marking",
    "parsed_line",
    "with_corrupt",
    "wrong_rows",
]

#: the column in which Spark's reader puts a line that is no record
CORRUPT = "_mixedmode_corrupt"
_MARKING = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
#: options that say how a file is cut into lines; Spark's parser of one line must not have them
_OF_FILES = {"mode", "multiline", "encoding", "charset", "linesep", "header", "columnpruning", "enforceschema"}
_BLANK = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes


def marking(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which Spark's reader puts wrong records into CORRUPT."""
    decided = {"mode", "columnnameofcorruptrecord", "columnpruning"}
    kept = {name: value for name, value in options.items() if name.lower() not in decided}
    return {**kept, **_MARKING, "columnPruning": "false"}


def with_corrupt(fields: Sequence[StructField]) -> StructType:
    """Return the schema of Spark's reader with `marking`."""
    return StructType([*fields, StructField(CORRUPT, StringType())])


def good_rows(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the records among rows that were read with `marking`."""
    return rows.where(_marked("IS NULL", schema)).select(*map(quoted, schema.names))


def wrong_rows(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows that are no records among rows that were read with `marking`."""
    return rows.where(_marked("IS NOT NULL", schema))


def _marked(condition: str, schema: StructType) -> str:
    """Return a condition on CORRUPT that uses every column; its last part is always true.

    Spark converts only values that a plan uses, so it would not mark a line for a wrong value in another column.
    """
    used = ", ".join(f"{quoted(name)} IS NOT NULL" for name in schema.names)
    return f"{CORRUPT} {condition} AND (spark_partition_id() >= 0 OR array_contains(array({used}), true))"


def has_header(source: FileSourceSpec) -> bool:
    """Return whether the first line of each file that is not blank has the names of the columns."""
    return _options(source).get("header", "").lower() == "true"


def is_utf8_csv(source: FileSourceSpec) -> bool:
    """Return whether the source has local files that must be UTF-8."""
    is_local, options = "://" not in source.path, _options(source)
    has_encoding = "encoding" in options or "charset" in options
    return source.format == "csv" and is_local and is_checked(source) and not has_encoding


def check_utf8(session: SparkSession, paths: Sequence[str]) -> None:
    """Raise InvalidJobError if one of these local files has bytes that Spark would replace by another character."""
    for path in files_found(session, paths, not_utf8):
        msg = (
            "a CSV file has bytes that are not UTF-8, and Spark would replace each of them by the character U+FFFD. "
            "Set the option `encoding` of the source to that of the file, or write the file as UTF-8. Nothing of its "
            f"epoch was committed. file={path}, line={_line_not_utf8(path)}"
        )
        raise InvalidJobError(msg)


def _line_not_utf8(path: str) -> int:
    line = 1
    for block in blocks_of_lines(FilePart(path, 0, None)):
        for text in block.splitlines(keepends=True):
            if not is_utf8(text):
                return line
            line += text.endswith(b"\n")
    return line


def is_record_line(text: Column, source: FileSourceSpec) -> Column:
    """Return whether Spark's reader takes a line for a record or the header: not if it is blank or a comment."""
    comment = _options(source).get("comment", "")
    is_blank = F.length(F.btrim(text, F.lit(_BLANK))) == 0
    return ~is_blank & ~F.startswith(text, F.lit(comment)) if comment else ~is_blank


def parsed_line(text: Column, fields: StructType, source: FileSourceSpec) -> Column:
    """Return a line as a record, for `is_no_record`. The value is expensive: use it as a column of its own."""
    options = {name: value for name, value in value_options(source).items() if name.lower() not in _OF_FILES}
    parsed = F.from_csv(text, with_corrupt(fields.fields).toDDL(), {**options, **_MARKING})
    # the condition is always true, but makes Spark evaluate the value once, instead of once per use
    return F.when(F.spark_partition_id() >= 0, parsed)


def is_no_record(parsed: Column) -> Column:
    """Return whether a line is no record of the fields.  parsed: see parsed_line."""
    return parsed.isNull() | parsed.getField(CORRUPT).isNotNull()


def _options(source: FileSourceSpec) -> dict[str, str]:
    return {name.lower(): value for name, value in source.options.items()}
