"""Compares files with the declared columns: readers for `schema-drift`, used where Spark's readers behave differently.

Every row that is read has a column that describes its problem, and a filter that no optimiser drops raises that
problem. So an epoch with drift that must fail does fail, whichever columns the job uses.

    parquet    Spark lists files, tasks read them (parquet_files.py); a column has one type throughout a file
    csv        Spark lists files, tasks cut lines into values by the names in the header, or by position;
               Spark converts the values, by the options of its own reader
    json       Spark reads lines and parses them; each record has its own names
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StringType, StructField, StructType

from mixedmode.config.calls import quoted
from mixedmode.config.drift import MISSING_IN_RECORD, NEW_IN_RECORD, NO_RECORD, WRONG_VALUE, Drift
from mixedmode.connectors.files.csv_values import CsvDialect, read_values
from mixedmode.connectors.files.parquet_files import path_of_text, read_files
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.sources.json_records import JsonRecords
from mixedmode.spark.frames import arrow_fields

_PROBLEM, _FILE, _CORRUPT, _LINE, _VALUE = "_problem", "_file", "_corrupt", "_line", "_value"
_SHOWN = 200  # limit for a record in a message, in characters
#: options of Spark's CSV reader that convert text to values; the other options say how a line is cut
CSV_VALUE_OPTIONS = {
    *("nullvalue", "emptyvalue", "nanvalue", "positiveinf", "negativeinf", "dateformat", "timestampformat"),
    *("timestampntzformat", "locale"),
}


#: Spark writes the texts of a line as they are: without these options, it removes blanks around them
_WRITING = {"escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@dataclass(frozen=True, slots=True)
class _FileRows:
    """Reads a list of files in tasks. Spark calls it with batches of (path, length)."""

    read: Callable[[str], Iterator[pa.RecordBatch]]
    fields: tuple[pa.Field, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files, each with its problem and its file;
        one row without values for a problem of a whole file.
        """
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield from self._rows(path_of_text(text))

    def _rows(self, path: str) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.read(path):
                told = [pa.nulls(batch.num_rows, pa.string()), pa.repeat(pa.scalar(path), batch.num_rows)]
                yield pa.record_batch([*batch.columns, *told], schema=self._schema)
        except InvalidJobError as error:
            told = [pa.array([str(error)]), pa.array([path])]
            yield pa.record_batch([*(pa.nulls(1, field.type) for field in self.fields), *told], schema=self._schema)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*self.fields, pa.field(_PROBLEM, pa.string()), pa.field(_FILE, pa.string())])


@dataclass(frozen=True, slots=True)
class _ParquetRows:
    columns: tuple[ReadColumn, ...]

    def __call__(self, path: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_files([path], self.columns)
        except LeftToSparkError as error:
            msg = (
                "only Spark's own reader can read a source file, and with schema-drift tasks read it; nothing was "
                f"committed. Write the file again with a newer program, or remove schema-drift. cause={error}"
            )
            raise InvalidJobError(msg) from error


@dataclass(frozen=True, slots=True)
class _CsvRows:
    dialect: CsvDialect
    drift: Drift

    def __call__(self, path: str) -> Iterator[pa.RecordBatch]:
        return read_values(path, self.dialect, self.drift)


def parquet_rows(files: DataFrame, schema: StructType, drift: Drift) -> DataFrame:
    """Return the rows of Parquet files.  files: (path, length) of each."""
    fields = arrow_fields(schema)
    columns = tuple(ReadColumn(field.name, field.type, field.name, drift) for field in fields)
    rows = _file_rows(files, _FileRows(_ParquetRows(columns), tuple(fields)), schema)
    return _checked(rows, F.col(_PROBLEM)).select(*_columns(schema))


def csv_rows(files: DataFrame, schema: StructType, drift: Drift, options: Mapping[str, str]) -> DataFrame:
    """Return the rows of CSV files.  files: (path, length) of each; options: those of Spark's reader."""
    texts = StructType()
    for field in schema:
        texts = texts.add(field.name, StringType())
    fields = tuple(pa.field(field.name, pa.string()) for field in schema)
    rows = _file_rows(files, _FileRows(_CsvRows(CsvDialect.of(options), drift), fields), texts)
    line = F.to_csv(F.struct(*_columns(schema)), _WRITING)
    kept = {name: value for name, value in options.items() if name.lower() in CSV_VALUE_OPTIONS}
    reading = {**kept, "escape": '"', "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_csv(line, _ddl(schema), reading)
    rows = rows.select(_PROBLEM, _FILE, F.struct(*_columns(schema)).alias(_LINE), parsed.alias(_VALUE))
    problem = F.coalesce(F.col(_PROBLEM), _wrong_value(schema, drift, lambda name: F.col(_LINE)[name]))
    return _checked(rows, problem).select(*_values(schema))


def json_rows(lines: DataFrame, schema: StructType, drift: Drift, options: Mapping[str, str]) -> DataFrame:
    """Return the rows of lines of JSON, in a column `value`."""
    names = F.json_object_keys("value")
    declared = F.array(*(F.lit(name) for name in schema.names))
    reading = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = JsonRecords(StructType(), options)
    rows = lines.where("trim(value) <> ''").select(
        F.input_file_name().alias(_FILE),
        F.col("value").alias(_LINE),
        F.from_json("value", _ddl(schema), reading).alias(_VALUE),
        F.array_except(names, declared).alias("_new"),
        F.array_except(declared, names).alias("_missing"),
        text.decoded(F.col("value"), takes_arrays=False).alias("_text"),
    )
    is_text = F.is_valid_utf8(F.col(_LINE))  # otherwise Spark replaces bytes by U+FFFD
    is_record = is_text & text.is_whole(F.col("_text")) & (F.size(text.records(F.col("_text"))) == 1)
    problems = [F.when(F.col("_new").isNull() | ~is_record, _message(NO_RECORD, record=F.substring(_LINE, 1, _SHOWN)))]
    if drift.new_column == "fail":
        problems.append(F.when(F.size("_new") > 0, _message(NEW_IN_RECORD, column=F.array_join("_new", ", "))))
    if drift.missing_column == "fail":
        found = F.when(F.size("_missing") > 0, _message(MISSING_IN_RECORD, column=F.array_join("_missing", ", ")))
        problems.append(found)
    problems.append(_wrong_value(schema, drift, _json_text))
    return _checked(rows, F.coalesce(*problems)).select(*_values(schema))


def _file_rows(files: DataFrame, rows: _FileRows, schema: StructType) -> DataFrame:
    given = StructType(list(schema.fields)).add(_PROBLEM, StringType()).add(_FILE, StringType())
    return files.mapInArrow(rows, given)


def _checked(rows: DataFrame, problem: Column) -> DataFrame:
    """Return the rows; evaluating a row that has a problem raises the problem."""
    is_whole = F.when(problem.isNotNull(), F.raise_error(problem).cast("boolean")).otherwise(F.lit(True))
    return rows.where(is_whole)


def _wrong_value(schema: StructType, drift: Drift, text: Callable[[str], Column]) -> Column:
    """Return the message for a record in which Spark found a value of another type; NULL if there is none."""
    if drift.wrong_type == "nulls":
        return F.lit(None).cast("string")
    found = F.lit(None).cast("string")
    for field in reversed(schema.fields):
        value = text(field.name)
        told = _message(
            WRONG_VALUE,
            column=F.lit(field.name),
            found=F.substring(value, 1, _SHOWN),
            type_in_schema=F.lit(field.dataType.simpleString()),
        )
        found = F.when(F.col(_VALUE)[field.name].isNull() & value.isNotNull(), told).otherwise(found)
    anywhere = _message(WRONG_VALUE, column=F.lit("unknown"), found=F.substring(F.col(_VALUE)[_CORRUPT], 1, _SHOWN))
    return F.when(F.col(_VALUE)[_CORRUPT].isNotNull(), F.coalesce(found, anywhere))


def _json_text(name: str) -> Column:
    path = name.replace("\\", "\\\\").replace("'", "\\'")
    return F.get_json_object(_LINE, f"$['{path}']")


def _message(text: str, **values: Column) -> Column:
    parts = [F.lit(f"{text} file="), F.col(_FILE)]
    for name, value in values.items():
        parts += [F.lit(f", {name}="), F.coalesce(value, F.lit("NULL"))]
    return F.concat(*parts)


def _ddl(schema: StructType) -> str:
    fields = [*schema.fields, StructField(_CORRUPT, StringType())]
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in fields)


def _columns(schema: StructType) -> list[Column]:
    return [F.col(quoted(name)) for name in schema.names]


def _values(schema: StructType) -> list[Column]:
    return [F.col(_VALUE)[name].alias(name) for name in schema.names]
