"""Finds the lines of files that are no records of their source, with their numbers: after a failure, as dead letters.

Spark reads a file in blocks, in several tasks, and numbers the rows of each task consecutively. So the number of a line
is the number of lines in the blocks before, and the position within its block:

    line = lines of the file in earlier blocks + (number of the row - least number of a row of its block) + 1

Invariants (tests/sources/test_dead_lines.py):
  I1  each line of the files is a row of the source or a wrong line, never both, and none is missing
"""

from bisect import bisect_left
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StringType, StructField, StructType

from mixedmode.config.globs import escaped
from mixedmode.connectors.files.csv_files import (
    CORRUPT,
    has_header,
    is_no_record,
    is_record_line,
    marking,
    parsed_line,
    with_corrupt,
    wrong_rows,
)
from mixedmode.connectors.files.json_files import (
    OF_JSON,
    decoded_texts,
    encoding_of,
    is_good_text,
    is_whole_file,
    json_parser,
    text_options,
)
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.spark.damaged import WRONG_RECORD

__all__ = ["wrong_lines", "wrong_record"]

_TEXT, _FILE, _BLOCK, _NUMBER, _IS_LINE, _IS_WRONG = "_text", "_file", "_block", "_number", "_is_line", "_is_wrong"
_PARSED = "_parsed"
_VALUE = "value"  # Spark's name for the column of a text file
_SHOWN = 200  # limit for a text in a message, in characters
_EACH = {
    "json": OF_JSON,
    "csv": "A line of CSV has one value for each column of `schema`, and each value fits its type.",
}
_NO_HEADER = " If the first line of each file names the columns, set the option `header: true`."
_REASON = "it is not a line of {format} that fits the schema"


def wrong_lines(
    session: SparkSession, fields: StructType, source: FileSourceSpec, urls: Sequence[str]
) -> DataFrame | None:
    """Return the lines of files that are no records, as (file, line, record, reason); None if every line is a record.

    fields: the columns of the source that are in its files, not in names of its folders (`day=1`).
    """
    if not urls:
        return None
    pieces = _pieces(_judged(session, fields, source, urls), source)
    found = [row[0] for row in pieces.where("wrong > 0").select(_FILE).distinct().collect()]
    if not found:
        return None
    lines = _judged(session, fields, source, found)
    pieces = _pieces(lines, source)
    earlier = Window.partitionBy(_FILE).orderBy(_BLOCK).rowsBetween(Window.unboundedPreceding, -1)
    starts = pieces.select(
        _FILE, _BLOCK, "first", "header", F.coalesce(F.sum("lines").over(earlier), F.lit(0)).alias("before")
    )
    wrong = lines.where(_IS_WRONG).join(starts, [_FILE, _BLOCK]).where(F.col(_NUMBER) != F.col("header"))
    return wrong.select(
        F.col(_FILE).alias("file"),
        (F.col("before") + F.col(_NUMBER) - F.col("first") + 1).alias("line"),
        F.make_valid_utf8(F.col(_TEXT)).alias("record"),
        F.lit(_REASON.format(format=source.format.upper())).alias("reason"),
    )


def wrong_record(session: SparkSession, fields: StructType, source: FileSourceSpec, url: str) -> str | None:
    """Return an error's text that names the first record of a file that does not fit the source; None if all do.

    This parses the whole file. It is meant for a file with which something is probably wrong.
    """
    hint = _NO_HEADER if source.format == "csv" and not has_header(source) else ""
    what = f"{WRONG_RECORD} {_EACH[source.format]}{hint} file={url}"
    if is_whole_file(source):
        found = (_wrong_json if source.format == "json" else _wrong_csv)(session, fields, source, url)
        return None if found is None else f"{what}, {' '.join(found.split())}"
    lines = wrong_lines(session, fields, source, [url])
    first = None if lines is None else lines.orderBy("line").select("line", "record").first()
    if first is None:
        return None
    return f"{what}, line={first[0]}, {_wrong_column(session, fields, source, first[1])}record={first[1][:_SHOWN]}"


def _wrong_column(session: SparkSession, fields: StructType, source: FileSourceSpec, line: str) -> str:
    """Return the first column whose value in a wrong line does not fit, for a message; "" if the line itself is wrong.

    A line is parsed with the types of the first columns only. The least number of them with which it is wrong is found
    by halving.
    """
    row = session.createDataFrame([(line,)], StructType().add(_TEXT, StringType()))

    def is_wrong(typed: int) -> bool:
        found = row.select(_is_wrong_so_far(F.col(_TEXT), fields, typed, source)).first()
        assert found is not None, line
        return bool(found[0])

    typed = bisect_left(range(len(fields) + 1), 1, key=is_wrong)
    if not 0 < typed <= len(fields):
        return ""
    column = fields[typed - 1]
    return f"column={column.name}, type_in_schema={column.dataType.simpleString()}, "


def _is_wrong_so_far(text: Column, fields: StructType, typed: int, source: FileSourceSpec) -> Column:
    """Return whether a line does not fit the first columns. JSON has no others then; in CSV, they are texts."""
    first, others = fields.fields[:typed], fields.fields[typed:]
    if source.format == "json":
        json = json_parser(StructType(first), source)
        return ~json.is_whole(json.decoded(text, takes_arrays=True))
    texts = [StructField(field.name, StringType()) for field in others]
    return is_no_record(parsed_line(text, StructType([*first, *texts]), source))


def _judged(session: SparkSession, fields: StructType, source: FileSourceSpec, urls: Sequence[str]) -> DataFrame:
    """Return the lines of files: their text and place, whether they may be records, and whether they are wrong."""
    lines = _texts(session, source, urls).select(
        _VALUE,
        F.input_file_name().alias(_FILE),
        F.input_file_block_start().alias(_BLOCK),
        F.monotonically_increasing_id().alias(_NUMBER),
    )
    if source.format == "json":
        json = json_parser(fields, source)
        decoded = decoded_texts(lines, json, source)
        return decoded.withColumn(_IS_LINE, F.lit(True)).withColumn(_IS_WRONG, ~is_good_text(json))
    encoding = encoding_of(source)
    text = F.col(_VALUE) if encoding is None else F.decode(F.col(_VALUE).cast("binary"), encoding)
    lines = lines.select(text.alias(_TEXT), _FILE, _BLOCK, _NUMBER)
    lines = lines.withColumn(_IS_LINE, is_record_line(F.col(_TEXT), source))
    lines = lines.withColumn(_PARSED, parsed_line(F.col(_TEXT), fields, source))
    return lines.withColumn(_IS_WRONG, F.col(_IS_LINE) & is_no_record(F.col(_PARSED)))


def _pieces(lines: DataFrame, source: FileSourceSpec) -> DataFrame:
    """Return (lines, first, header, wrong) of each block of each file.

    first: the least number of a row. header: the number of the row with the header line, -1 if there is none. wrong:
    the number of wrong lines.
    """
    number = F.when(F.col(_IS_LINE), F.col(_NUMBER))
    may_have = F.lit(source.format == "csv" and has_header(source)) & (F.col(_BLOCK) == 0)
    of_header = F.when(may_have, F.coalesce(F.min_by(F.col(_IS_WRONG).cast("int"), number), F.lit(0)))
    return lines.groupBy(_FILE, _BLOCK).agg(
        F.count("*").alias("lines"),
        F.min(_NUMBER).alias("first"),
        F.when(may_have, F.coalesce(F.min(number), F.lit(-1))).otherwise(F.lit(-1)).alias("header"),
        (F.sum(F.col(_IS_WRONG).cast("int")) - F.coalesce(of_header, F.lit(0))).alias("wrong"),
    )


def _wrong_json(session: SparkSession, fields: StructType, source: FileSourceSpec, url: str) -> str | None:
    """Return the first wrong record of a file that is one object or one array; the number only if it is valid JSON."""
    json = json_parser(fields, source)
    whole = decoded_texts(_texts(session, source, [url]), json, source)
    found = whole.where(~is_good_text(json)).select(_TEXT, _shown(F.col(_TEXT))).first()
    if found is None:
        return None
    elements = whole.select(F.posexplode(F.from_json(_TEXT, "array<string>")).alias(_NUMBER, _VALUE))
    wrong = decoded_texts(elements, json, source).where(~is_good_text(json)).orderBy(_NUMBER)
    first = wrong.select(_NUMBER, _shown(F.col(_TEXT))).first()
    return f"record={found[1]}" if first is None else f"record_number={first[0] + 1}, record={first[1]}"


def _wrong_csv(session: SparkSession, fields: StructType, source: FileSourceSpec, url: str) -> str | None:
    """Return the first wrong record of a file in which a record may have several lines; one task reads the file."""
    reader = session.read.format("csv").schema(with_corrupt(fields.fields)).options(**marking(source.options))
    rows = reader.load(escaped(unquote(url))).select("*", F.monotonically_increasing_id().alias(_NUMBER))
    wrong = wrong_rows(rows, fields).orderBy(_NUMBER)
    first = wrong.select(_NUMBER, _shown(F.col(CORRUPT))).first()
    return None if first is None else f"record_number={first[0] + 1}, record={first[1]}"


def _texts(session: SparkSession, source: FileSourceSpec, urls: Sequence[str]) -> DataFrame:
    # a recursive search finds exactly these files, and does not look for columns in names of folders
    options = {**text_options(source), "recursiveFileLookup": "true"}
    reader = session.read.format("text").options(**options).schema(StructType().add(_VALUE, StringType()))
    return reader.load([escaped(unquote(url)) for url in urls])


def _shown(text: Column) -> Column:
    return F.substring(text, 1, _SHOWN)
