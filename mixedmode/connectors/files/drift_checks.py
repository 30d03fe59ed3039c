"""Checks which settings a source with `schema-drift` may have; other settings are refused before anything runs."""

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from mixedmode.connectors.files.csv_values import CsvDialect
from mixedmode.connectors.files.drift import CSV_VALUE_OPTIONS
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.parquet_settings import unusual_setting
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError

#: options of all Spark readers that select files
_LISTING = {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "maxfileage", "latestfirst"}
_CSV = CSV_VALUE_OPTIONS | set(CsvDialect.OPTIONS)
_JSON = {
    *("dateformat", "timestampformat", "timestampntzformat", "locale", "linesep", "primitivesasstring"),
    *("prefersdecimal", "allownumericleadingzeros", "allownonnumericnumbers", "timezone"),
}
_KNOWN: Mapping[str, set[str]] = {"parquet": set(), "csv": _CSV, "json": _JSON}


def listing_options(source: FileSourceSpec) -> dict[str, str]:
    """Return the options of a source that select its files."""
    return {name: value for name, value in source.options.items() if name.lower() in _LISTING | {"linesep"}}


def value_options(source: FileSourceSpec) -> dict[str, str]:
    """Return the options of a source that define its records."""
    return {name: value for name, value in source.options.items() if name.lower() not in _LISTING}


def check_drift(session: SparkSession, source: FileSourceSpec, *, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for settings that cannot be combined with the rules for drift."""
    if source.drift is None:
        return
    known = _KNOWN[source.format] | _LISTING
    unknown = [name for name in source.options if name.lower() not in known]
    if unknown:
        msg = (
            f"{where}: with schema-drift, files are read by mixedmode's own means, which do not know this option of "
            f"Spark's reader. Remove it, or schema-drift. option={unknown[0]}, known={', '.join(sorted(known))}"
        )
        raise InvalidJobError(msg)
    _check_settings(session, source, where=where)
    if source.format == "json":
        return
    _check_dialect(source, where=where)
    if "://" in source.path:
        msg = (
            f"{where}: with schema-drift, tasks open {source.format} files themselves, which they can where the files "
            "are in a folder of the machine. Mount them, or remove schema-drift (of JSON, it can be had anywhere). "
            f"path={source.path}"
        )
        raise InvalidJobError(msg)
    if not is_plain_folder(source.path):
        msg = (
            f"{where}: the source has folders of partitions, whose columns no file has, so files cannot be held "
            f"against schema. Name one partition as path, or remove schema-drift. path={source.path}"
        )
        raise InvalidJobError(msg)


def _check_settings(session: SparkSession, source: FileSourceSpec, *, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for a setting of Spark that would be ignored."""
    unusual = unusual_setting(session) if source.format == "parquet" else None
    if unusual is not None:
        msg = (
            f"{where}: with schema-drift, files are read by mixedmode's own means, which do not know this setting of "
            f"Spark's reader. Remove it, or schema-drift. setting={unusual[0]}, value={unusual[1]}"
        )
        raise InvalidJobError(msg)


def _check_dialect(source: FileSourceSpec, *, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for what Arrow cannot take as a separator, quote or escape."""
    dialect = CsvDialect.of(source.options)
    for option, value in [("sep", dialect.separator), ("quote", dialect.quote), ("escape", dialect.escape)]:
        if len(value) != 1 or not value.isascii() or value in "\r\n":
            msg = (
                f"{where}: with schema-drift, this option is one character of ASCII; a tab is written as such, in YAML "
                f'as "\\t". Correct it, or remove schema-drift. option={option}, value={value}'
            )
            raise InvalidJobError(msg)


def check_drift_columns(source: FileSourceSpec, schema: StructType, *, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for columns in which drift cannot be detected."""
    for field in schema:
        if source.format == "parquet" and isinstance(field.dataType, ArrayType | MapType | StructType | VariantType):
            msg = (
                f"{where}: schema-drift cannot be told inside of nested columns of Parquet. Remove the column from "
                f"schema, or remove schema-drift. column={field.name}, type={field.dataType.simpleString()}"
            )
            raise InvalidJobError(msg)
