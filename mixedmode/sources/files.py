"""File sources, bounded and growing, through Spark's own readers.

Two of Spark's defaults would lose data without a word, and are changed here unless the job says otherwise: a record
that does not parse becomes NULLs (mode PERMISSIVE), and a file older than a week beside newer ones is passed over
(maxFileAge).
"""

import glob
import os
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.config import SourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.runtime.spark_errors import spark_text

_EVERY_RECORD = {"mode": "FAILFAST"}
_BINARY_FILE_DDL = "path string, modificationTime timestamp, length long, content binary"
_EVERY_FILE = {"maxFileAge": "36500d"}


@dataclass(frozen=True, slots=True)
class Admission:
    """How much of a source one epoch may take; None is no limit."""

    max_files: int | None = None
    max_bytes: int | None = None

    def as_options(self) -> dict[str, str]:
        """Options of Spark's streaming file source, which takes one of the two."""
        if self.max_files is not None:
            return {"maxFilesPerTrigger": str(self.max_files)}
        return {} if self.max_bytes is None else {"maxBytesPerTrigger": str(self.max_bytes)}


def source_schema(session: SparkSession, source: SourceSpec, *, where: str) -> StructType:
    """The columns of a source. Raises InvalidJobError, beginning with `where`, when there are none to be had."""
    _check_path(source, where=where)
    _check_options(source, where=where)
    if source.schema_ddl is not None:
        return parse_ddl(source.schema_ddl, where=where)
    try:
        return session.read.format(source.format).options(**source.options).load(source.path).schema
    except AnalysisException as error:
        msg = (
            f"{where}: the columns cannot be read from the files, because there are none yet or they are not what the "
            f"format says. Add `schema` to the source, or put a file there. cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error


def read_batch(session: SparkSession, source: SourceSpec, schema: StructType) -> DataFrame:
    """Everything that is there now."""
    options = {**_record_options(source), **source.options}
    return session.read.format(source.format).schema(schema).options(**options).load(source.path)


def read_stream(session: SparkSession, source: SourceSpec, schema: StructType, admission: Admission) -> DataFrame:
    """What is there and what comes, in micro-batches of at most `admission`."""
    options = {**_record_options(source), **_EVERY_FILE, **admission.as_options(), **source.options}
    return session.readStream.format(source.format).schema(schema).options(**options).load(source.path)


def list_files_batch(session: SparkSession, source: SourceSpec) -> DataFrame:
    """(path, length) of every file that is there now; no file is opened."""
    return session.read.format("binaryFile").load(source.path).select("path", "length")


def list_files_stream(session: SparkSession, source: SourceSpec, admission: Admission) -> DataFrame:
    """(path, length) of what is there and what comes. Spark's log of the files is the same as with `read_stream`."""
    options = {**_EVERY_FILE, **admission.as_options()}
    files = session.readStream.format("binaryFile").schema(_BINARY_FILE_DDL).options(**options)
    return files.load(source.path).select("path", "length")


def _record_options(source: SourceSpec) -> dict[str, str]:
    return {} if source.format == "parquet" else _EVERY_RECORD


def _check_path(source: SourceSpec, *, where: str) -> None:
    if "://" in source.path or os.path.exists(source.path) or glob.has_magic(source.path):  # noqa: PTH110 - may be a glob
        return
    msg = f"{where}: there is no such file or directory. Create it, or correct the path. path={source.path}"
    raise InvalidJobError(msg)


def _check_options(source: SourceSpec, *, where: str) -> None:
    """How much an epoch takes is the mode's to decide: a limit of Spark's would cut a mixed backlog into pieces."""
    limits = [option for option in source.options if option.lower() in {"maxfilespertrigger", "maxbytespertrigger"}]
    if limits:
        msg = (
            f"{where}: this option of Spark's is set by the job's mode. Use max-files-per-epoch or max-bytes-per-epoch "
            f"of the source, which hold where a backlog takes the streaming path. option={limits[0]}"
        )
        raise InvalidJobError(msg)


def parse_ddl(ddl: str, *, where: str) -> StructType:
    """Columns written as Spark DDL. Raises InvalidJobError, beginning with `where`, when they are not."""
    try:
        schema = StructType.fromDDL(ddl)
    except (ParseException, AnalysisException) as error:
        msg = (
            f"{where}: the schema is not valid Spark DDL. Write columns as `name type, name type`. "
            f"cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error
    if not isinstance(schema, StructType):  # a single type is DDL too
        msg = f"{where}: the schema names no columns. Write columns as `name type, name type`. schema={ddl}"
        raise InvalidJobError(msg)
    return schema
