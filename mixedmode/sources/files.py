"""File sources, bounded and growing, through Spark's own readers.

Two of Spark's defaults would lose data without a word, and are changed here unless the job says otherwise: a record
that does not parse becomes NULLs (mode PERMISSIVE), and a file older than a week beside newer ones is passed over
(maxFileAge).
"""

import glob
import os
from collections.abc import Callable
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from mixedmode.config import FileSourceSpec
from mixedmode.config.drift import Drift
from mixedmode.errors import InvalidJobError
from mixedmode.sources.drift import csv_rows, json_rows, parquet_rows
from mixedmode.sources.drift_checks import check_drift, check_drift_columns, listing_options, value_options
from mixedmode.sources.source import Admission, parse_ddl
from mixedmode.spark.errors import spark_text

_EVERY_RECORD = {"mode": "FAILFAST"}
_BINARY_FILE_DDL = "path string, modificationTime timestamp, length long, content binary"
_EVERY_FILE = {"maxFileAge": "36500d"}


class FileSource:
    """Files below a folder or glob, in a session."""

    def __init__(self, session: SparkSession, source: FileSourceSpec, *, where: str) -> None:
        """Raises InvalidJobError, beginning with `where`, when there are no columns to be had."""
        _check_path(source, where=where)
        _check_options(source, where=where)
        check_drift(source, where=where)
        self._session = session
        self._source = source
        self.schema = _schema(session, source, where=where)
        if source.drift is not None:
            check_drift_columns(source, self.schema, where=where)
            self._drift: Drift | None = replace(source.drift, declared=tuple(self.schema.names))
        else:
            self._drift = None

    def batch(self) -> DataFrame:
        """See OpenSource."""
        if self._drift is not None:
            return self._drifting(self._drift, self.list_batch, lambda: self._session.read.format("text"))
        options = {**_record_options(self._source), **self._source.options}
        return self._session.read.format(self._source.format).schema(self.schema).options(**options).load(self._path)

    def stream(self, admission: Admission) -> DataFrame:
        """See OpenSource."""
        if self._drift is not None:
            return self._drifting(self._drift, lambda: self.list_stream(admission), lambda: self._lines(admission))
        options = {**_record_options(self._source), **_EVERY_FILE, **_limit(admission), **self._source.options}
        files = self._session.readStream.format(self._source.format).schema(self.schema).options(**options)
        return files.load(self._path)

    def list_batch(self) -> DataFrame:
        """(path, length) of every file that is there now; no file is opened."""
        files = self._session.read.format("binaryFile").options(**listing_options(self._source))
        return files.load(self._path).select("path", "length")

    def list_stream(self, admission: Admission) -> DataFrame:
        """(path, length) of what is there and what comes. Spark's log of the files is the same as with `stream`."""
        options = {**_EVERY_FILE, **_limit(admission), **listing_options(self._source)}
        files = self._session.readStream.format("binaryFile").schema(_BINARY_FILE_DDL).options(**options)
        return files.load(self._path).select("path", "length")

    def _drifting(
        self, drift: Drift, files: Callable[[], DataFrame], lines: Callable[[], DataFrameReader | DataStreamReader]
    ) -> DataFrame:
        """Rows held against the declared columns. Spark's log of the files is the same as without."""
        source = self._source
        if source.format == "parquet":
            return parquet_rows(files(), self.schema, drift)
        if source.format == "csv":
            return csv_rows(files(), self.schema, drift, source.options)
        listing = listing_options(source)
        return json_rows(lines().options(**listing).load(self._path), self.schema, drift, value_options(source))

    def _lines(self, admission: Admission) -> DataStreamReader:
        return self._session.readStream.format("text").options(**_EVERY_FILE, **_limit(admission))

    @property
    def _path(self) -> str:
        return self._source.path


def _schema(session: SparkSession, source: FileSourceSpec, *, where: str) -> StructType:
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


def _limit(admission: Admission) -> dict[str, str]:
    """Options of Spark's streaming file source, which takes one of the two."""
    if admission.max_files is not None:
        return {"maxFilesPerTrigger": str(admission.max_files)}
    return {} if admission.max_bytes is None else {"maxBytesPerTrigger": str(admission.max_bytes)}


def _record_options(source: FileSourceSpec) -> dict[str, str]:
    return {} if source.format == "parquet" else _EVERY_RECORD


def _check_path(source: FileSourceSpec, *, where: str) -> None:
    if "://" in source.path or os.path.exists(source.path) or glob.has_magic(source.path):  # noqa: PTH110 - may be a glob
        return
    msg = f"{where}: there is no such file or directory. Create it, or correct the path. path={source.path}"
    raise InvalidJobError(msg)


def _check_options(source: FileSourceSpec, *, where: str) -> None:
    """Raises InvalidJobError for an option that belongs to the mode, or that deletes what may have to be read again."""
    cleaning = [option for option in source.options if option.lower() in {"cleansource", "sourcearchivedir"}]
    if cleaning:
        msg = (
            f"{where}: with this option, Spark deletes or moves a file soon after it was read, and the job may have to "
            "read the file again, when it goes back to an older checkpoint. Remove the option, and delete files that "
            f"are older than the oldest retained checkpoint and savepoint yourself. option={cleaning[0]}"
        )
        raise InvalidJobError(msg)
    # how much an epoch takes is the mode's to decide: a limit of Spark's would cut a mixed backlog into pieces
    limits = [option for option in source.options if option.lower() in {"maxfilespertrigger", "maxbytespertrigger"}]
    if limits:
        msg = (
            f"{where}: this option of Spark's is set by the job's mode. Use max-files-per-epoch or max-bytes-per-epoch "
            f"of the source, which hold where a backlog takes the streaming path. option={limits[0]}"
        )
        raise InvalidJobError(msg)
