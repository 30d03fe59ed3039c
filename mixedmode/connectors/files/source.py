"""File sources, bounded and growing, through Spark's own readers.

Spark's defaults would lose data silently, and are changed here unless the job sets them. In Spark, a record that
cannot be parsed becomes NULLs (mode PERMISSIVE), a line of CSV may have any number of values that no step reads
(columnPruning), and a file more than a week older than the newest file is skipped (maxFileAge). Spark drops whatever
follows the first value in a line of JSON, whatever the options are; json_files.py finds such lines.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.drift import Drift
from mixedmode.config.globs import escaped, has_magic
from mixedmode.connectors.files.csv_files import check_utf8, good_rows, is_utf8_csv, marking, with_corrupt
from mixedmode.connectors.files.drift import csv_rows, json_rows, parquet_rows
from mixedmode.connectors.files.drift_checks import check_drift, check_drift_columns, listing_options, value_options
from mixedmode.connectors.files.empty_files import check_not_empty
from mixedmode.connectors.files.inferred_columns import columns_of
from mixedmode.connectors.files.json_files import (
    Reader,
    doubtful_files,
    is_checked,
    is_scanned,
    json_file_rows,
    text_options,
    text_schema,
    with_every_column,
)
from mixedmode.connectors.files.local_inputs import (
    files_depth,
    files_in_folders,
    has_magic_names,
    is_hidden,
    local_input,
    matched,
    spark_path,
    visible_files,
)
from mixedmode.connectors.files.odd_entries import check_entries, check_regular
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.partition_folders import PartitionFolders
from mixedmode.connectors.files.source_checks import check_header, check_options, check_path
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.connectors.files.stored_types import check_stored_types
from mixedmode.connectors.files.versions import changed_files, newest_version
from mixedmode.connectors.files.wrong_lines import wrong_lines, wrong_record
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import resolve_all
from mixedmode.sources.dead_letters import FILE_DEAD_LETTERS, ReadsFilesAgain
from mixedmode.sources.source import Admission, ChecksFiles, NotesBeginning, OpenSource
from mixedmode.sources.versions import HasVersions, TableVersion
from mixedmode.spark.file_lengths import FileState, file_states

#: with pruning, Spark's CSV reader does not notice that a line has more or fewer values than the schema has columns
_EVERY_RECORD = {"mode": "FAILFAST", "columnPruning": "false"}
_BINARY_FILE_DDL = "path string, modificationTime timestamp, length long, content binary"
_PATTERN = re.compile(r"[*?\[{\\]")
_EVERY_FILE = {"maxFileAge": "36500d"}
#: Spark returns the rows of an equal frame that the program has cached, which may be older. This makes no frame equal.
_NOT_CACHED = {"mixedmode": "not-cached"}


class FileSource(OpenSource, ChecksFiles, ReadsFilesAgain, NotesBeginning, HasVersions):
    """Files in a folder or matching a pattern, in a session."""

    def __init__(self, session: SparkSession, source: FileSourceSpec, *, where: str) -> None:
        """Open the source. Raises InvalidJobError, beginning with `where`, if its columns cannot be determined."""
        check_path(source, where=where)
        self._where = where
        check_options(source, where=where)
        source = source.model_copy(update={"options": resolve_all(source.options, where=f"{where}.options")})
        check_drift(session, source, where=where)
        self._session = session
        self._source = source
        self._path = source.path if "://" in source.path else spark_path(source.path)
        self._base = {**_NOT_CACHED, **_base_path(source)}
        self.schema = columns_of(session, source, self._path, where=where)
        check_header(source, self.schema.names, where=where)
        self._folders = PartitionFolders.of(source, self.schema)
        self._folders.check_present(where)
        self._depth = _depth_read_once(source)
        if "://" not in source.path:
            check_entries(source.path, where=where, is_recursive=_looks_into_folders(source))
        self._marks = source.format == "csv" and source.undecodable == "dead-letter"
        self._read_schema = with_corrupt(self.schema.fields) if self._marks else self.schema
        self._batch_files: Sequence[str] = ()
        self._states_read: Mapping[str, FileState] = {}  # of the files of an epoch, or of the batch
        self._streams: dict[Admission, DataFrame] = {}  # see _loaded
        self.is_parsed_by_tasks = False  # tasks parse the lines themselves, so they need no check before
        if source.drift is not None:
            check_drift_columns(source, self.schema, where=where)
            self._drift: Drift | None = replace(source.drift, declared=tuple(self.schema.names))
        else:
            self._drift = None

    @override
    def batch(self) -> DataFrame:
        return self._whole(self._batch())

    def _batch(self) -> DataFrame:
        texts = self._session.read.format("text").options(**_NOT_CACHED)
        if self._drift is not None:
            return self._drifting(self._drift, self._list_batch, lambda: texts)
        if self._is_text:
            return json_file_rows(self._with_partitions(texts.options(**self._base)), self.schema, self._source)
        files = self._session.read.format(self._source.format).schema(self._read_schema)
        return self._good(files.options(**self._base, **self._record_options()).load(self._path))

    def rows_of(self, session: SparkSession, paths: Sequence[str]) -> DataFrame:
        """Return the rows of some files, read by Spark, which is to read what tasks cannot (LeftToSparkError).

        paths: of local files in folders without partitions; with `schema-drift`, of Parquet.
        """
        here = copy(self)
        here.is_parsed_by_tasks = False
        here._session = session  # noqa: SLF001 - its own
        # a recursive search finds exactly these files, and does not look for columns in names of folders
        reader = session.read.options(**_NOT_CACHED, recursiveFileLookup="true")
        found = [escaped(path) for path in paths]
        if self._drift is not None:
            assert self._source.format == "parquet", self._source
            files = reader.format("binaryFile").load(found).select("path", "length")
            return parquet_rows(files, self.schema, self._drift)
        rows = reader.format(self._source.format).schema(self._read_schema).options(**self._record_options())
        return here._whole(self._good(rows.load(found)))  # noqa: SLF001

    @override
    def stream(self, admission: Admission) -> DataFrame:
        if self._drift is not None:
            return self._drifting(self._drift, lambda: self.list_stream(admission), lambda: self._lines(admission))
        if self._is_text:
            lines = self._once(self._with_partitions(self._lines(admission)))
            return json_file_rows(lines, self.schema, self._source)
        return self._good(self._once(self._loaded(admission)))

    def _loaded(self, admission: Admission) -> DataFrame:
        """Return the stream of all columns of the files, which Spark resolves once for analysis and for the query."""
        if admission not in self._streams:
            files = self._session.readStream.format(self._source.format).schema(self._read_schema)
            files = files.options(**{**self._streaming(admission), **self._record_options()})
            self._streams[admission] = files.load(self._path)
        return self._streams[admission]

    @override
    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        here = copy(self)
        here._session = session  # noqa: SLF001 - its own
        return newest_version(here._batch, here._states, before, here._whole, place=self._source.place)  # noqa: SLF001

    def _states(self, rows: DataFrame) -> Mapping[str, FileState]:
        return file_states(self._session, self.files_read(rows.inputFiles()), self._source.options)

    @override
    def check_files(self, files: Mapping[str, FileState]) -> None:
        read = self.files_read(files)
        for url in read:
            check_regular(url, files[url][0])
            check_not_empty(url, files[url][0], self._source.format)
        self._folders.check(read, self._where)
        self._check_contents(list(files))
        self._states_read = {url: files[url] for url in read}

    @override
    def changed_file(self) -> str | None:
        before = self._states_read
        now = file_states(self._session, list(before), self._source.options)
        self._states_read = {**before, **now}
        return changed_files(before, now)

    def _whole(self, rows: DataFrame) -> DataFrame:
        """Return rows of a batch, after a check of its files."""
        urls = rows.inputFiles()
        read = self.files_read(urls)
        self._folders.check(read, self._where)
        self._states_read = file_states(self._session, read, self._source.options)
        for url, (length, _) in self._states_read.items():
            check_not_empty(url, length, self._source.format)
        self._check_contents(urls)
        self._batch_files = urls
        return rows

    def files_read(self, urls: Iterable[str]) -> list[str]:
        """Return those of the listed files that Spark reads.

        These are not the files in nested folders (see reads_once), and not the files whose names begin with _metadata:
        Spark lists such files, but reads no rows of them.
        """
        path_of = {url: _local_path(url).strip("/") for url in urls}
        named = {url: path for url, path in path_of.items() if not is_hidden(path.rpartition("/")[2])}
        return [url for url, path in named.items() if self._depth is None or path.count("/") <= self._depth]

    def _check_contents(self, urls: Sequence[str]) -> None:
        """Raise InvalidJobError if Spark's reader would ignore a part of these files, or change a value."""
        url_of = {_local_path(url): url for url in self.files_read(urls)}
        if is_utf8_csv(self._source) and not self.is_parsed_by_tasks:
            check_utf8(self._session, list(url_of))
        if self._source.format == "parquet" and self._drift is None and not self.is_parsed_by_tasks:
            local = [path for path, url in url_of.items() if url.startswith("file:")]
            check_stored_types(self._session, local, self.schema)
        if self._drift is not None or not is_scanned(self._source) or self.is_parsed_by_tasks:
            return
        for path in doubtful_files(self._session, list(url_of)):
            told = self.wrong_record(url_of[path])
            if told is not None:
                raise InvalidJobError(told)

    @override
    def wrong_record(self, url: str) -> str | None:
        has_records = self._source.format != "parquet" and is_checked(self._source) and self._drift is None
        if not has_records or not _may_have(self._source, url):
            return None
        return wrong_record(self._session, self._schema_of_files(), self._source, url)

    @property
    @override
    def dead_letter_fields(self) -> tuple[pa.Field, ...]:
        return () if self._source.dead_letter is None else FILE_DEAD_LETTERS

    @override
    def undecodable_lines(self, urls: Sequence[str]) -> DataFrame | None:
        return wrong_lines(self._session, self._schema_of_files(), self._source, self.files_read(urls))

    @override
    def batch_files(self) -> Sequence[str]:
        return self._batch_files

    def list_batch(self) -> None:
        """Note every file that exists now for `batch_files`; opens no file."""
        self._whole(self._list_batch())

    def _list_batch(self) -> DataFrame:
        files = self._session.read.format("binaryFile").options(**_NOT_CACHED, **listing_options(self._source))
        return files.load(self._path).select("path", "length")

    def list_stream(self, admission: Admission) -> DataFrame:
        """Return (path, length) of existing and future files. Spark's log of the files is the same as with `stream`."""
        return self._once(self._list_stream(admission)).select("path", "length")

    def _list_stream(self, admission: Admission) -> DataFrame:
        files = self._session.readStream.format("binaryFile").schema(_BINARY_FILE_DDL)
        return files.options(**{**self._streaming(admission), **listing_options(self._source)}).load(self._path)

    def plan_stream(self, admission: Admission) -> DataFrame:
        """Return a stream without rows: Spark's log of its files is the same as with `stream`.

        Spark finds no row to plan for in it, so a micro-batch costs Spark no plan over its files.
        """
        if self._source.format == "parquet" and self._drift is None:
            return self._loaded(admission).where("false")
        return self._list_stream(admission).where("false")

    @override
    def notices(self) -> Iterator[str]:
        if "://" in self._source.path:
            return
        unread = None if _looks_into_folders(self._source) else next(files_in_folders(self._source.path), None)
        if unread is not None:
            yield (
                f"{self._where}: files in folders below this path are not read. To read them, set the option "
                f"recursiveFileLookup: true, or name the folders by a pattern. path={self._source.path}, file={unread}"
            )
        if unread is None and next(visible_files(self._source.path), None) is None:
            cut = local_input(self._source.path)
            what = "no file matches this pattern yet" if cut.has_pattern else "there is no file in this folder yet"
            yield f"{self._where}: {what}. If there should be one, correct the path. path={self._source.path}"

    def reads_once(self, path: str) -> bool:
        """Return whether a file of this path belongs to this source and is read once although Spark would read it more
        often.

        If an epoch has several files, and Spark takes the path of one of them for a pattern, Spark lists all of them
        several times, unless it searches folders recursively. So recursive search is enabled, and files in nested
        folders are filtered out.
        """
        if "://" in self._source.path or not path.startswith(local_input(self._source.path).literal):
            return False
        return self._depth is not None or _looks_into_folders(self._source)

    def _streaming(self, admission: Admission) -> dict[str, str]:
        """Return the options of the streaming reader."""
        recursive = {} if self._depth is None else {"recursiveFileLookup": "true"}
        return {**_EVERY_FILE, **_limit(admission), **self._base, **recursive}

    def _once(self, frame: DataFrame) -> DataFrame:
        """Return the rows without those of files in nested folders; see reads_once."""
        if self._depth is None:
            return frame
        path = "trim(LEADING '/' FROM substring(_metadata.file_path, length('file:') + 1))"
        return frame.where(f"length({path}) - length(replace({path}, '/', '')) <= {self._depth}")

    def _drifting(
        self, drift: Drift, files: Callable[[], DataFrame], lines: Callable[[], DataFrameReader | DataStreamReader]
    ) -> DataFrame:
        """Return rows compared with the declared columns; Spark's log of the files is the same as without that."""
        source = self._source
        if source.format == "parquet":
            return parquet_rows(files(), self.schema, drift)
        if source.format == "csv":
            return csv_rows(files(), self.schema, drift, source.options)
        listing = listing_options(source)
        read = lines().options(**listing).load(self._path)
        read = self._once(read) if read.isStreaming else read
        return json_rows(read, self.schema, drift, value_options(source))

    def _lines(self, admission: Admission) -> DataStreamReader:
        return self._session.readStream.format("text").options(**self._streaming(admission))

    @property
    def _is_text(self) -> bool:
        return self._source.format == "json" and is_checked(self._source) and not is_scanned(self._source)

    def _with_partitions(self, reader: Reader) -> DataFrame:
        """Return a frame of texts, with the columns of the schema that only names of folders have."""
        return reader.options(**text_options(self._source)).schema(self._text_schema()).load(self._path)

    def _text_schema(self) -> StructType:
        listed = {**self._base, **text_options(self._source)}
        return text_schema(self._session, self._source, self.schema, self._path, listed)

    def _schema_of_files(self) -> StructType:
        """Return the columns that files have themselves, without those that only names of folders have."""
        in_folders = {name.lower() for name in self._text_schema().names[1:]}
        return StructType([field for field in self.schema if field.name.lower() not in in_folders])

    def _record_options(self) -> dict[str, str]:
        """Return the options that define records. Spark's JSON reader has no option `columnPruning`, and ignores it."""
        if self._marks:
            return marking(self._source.options)
        return {**({} if self._source.format == "parquet" else _EVERY_RECORD), **self._source.options}

    def _good(self, rows: DataFrame) -> DataFrame:
        """Return the records among rows of Spark's reader."""
        if self._marks:
            return good_rows(rows, self.schema)
        return with_every_column(rows, self.schema) if is_scanned(self._source) else rows


def _local_path(url: str) -> str:
    return unquote(url).removeprefix("file:").removeprefix("//")


def _may_have(source: FileSourceSpec, url: str) -> bool:
    """Return whether a file is below the part of the source's path that is no pattern."""
    if "://" in source.path:
        return unquote(url).startswith(_PATTERN.split(source.path)[0])
    return unquote(url).removeprefix("file://").startswith(local_input(source.path).literal)


def _limit(admission: Admission) -> dict[str, str]:
    """Return the options of Spark's streaming file source, which accepts one of the two limits."""
    if admission.max_files is not None:
        return {"maxFilesPerTrigger": str(admission.max_files)}
    return {} if admission.max_bytes is None else {"maxBytesPerTrigger": str(admission.max_bytes)}


def _base_path(source: FileSourceSpec) -> dict[str, str]:
    """Return the option that names the folder above the partitions, if Spark would take the folder for a pattern."""
    is_folder = "://" not in source.path and os.path.isdir(source.path)  # noqa: PTH112 - a text is given on
    return {"basePath": source.path} if is_folder and has_magic(source.path) else {}


def _looks_into_folders(source: FileSourceSpec) -> bool:
    """Return whether Spark searches folders recursively by itself, in which case it lists each file once."""
    given = {name.lower(): value.lower() for name, value in source.options.items()}
    return given.get("recursivefilelookup") == "true" or not is_plain_folder(source.path)


def _depth_read_once(source: FileSourceSpec) -> int | None:
    """Return the number of folders above the files to read, where Spark would read some of them several times."""
    if "://" in source.path or _looks_into_folders(source):
        return None
    is_file = any(root.is_file() for root in matched(source.path)) and not local_input(source.path).has_pattern
    if is_file or not (has_magic(local_input(source.path).literal) or has_magic_names(source.path)):
        return None
    return files_depth(source.path)
