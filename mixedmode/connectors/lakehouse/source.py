"""Tables of Delta Lake and Iceberg as sources, through the formats' own readers: what both have.

Settings under which rows would silently not be read are refused.
"""

from abc import abstractmethod
from copy import copy
from datetime import UTC
from functools import partial
from typing import Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.config.instants import milliseconds_from, parse_time
from mixedmode.connectors.lakehouse.spec import TableSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import hidden, resolve_all
from mixedmode.sources.source import OpenSource
from mixedmode.sources.versions import HasVersions, TableVersion, columns_changed
from mixedmode.spark.errors import spark_text
from mixedmode.spark.file_lengths import file_lengths

__all__ = ["NO_LIMIT", "LakehouseSource"]

#: a limit that never applies. Delta's own default of 1,000 files would cut a backlog into several epochs
NO_LIMIT = str(2**31 - 1)


class LakehouseSource(OpenSource, HasVersions):
    """A table in a session."""

    def __init__(self, session: SparkSession, source: TableSourceSpec, *, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the table or a reader for it does not exist."""
        self.session = session
        self.source = source
        self.where = where
        self.options = resolve_all(source.options, where=where)
        self.start_ms = None if source.starting is None else _milliseconds(source.starting.timestamp, where)
        try:
            self.look()
            self.schema = self.read({}).schema
        except (PySparkException, Py4JError) as error:
            raise self._not_there(error) from error

    def look(self) -> None:
        """Note what the table is like before it is read."""

    @abstractmethod
    def newest_version(self) -> tuple[str, dict[str, str]]:
        """Return the name of the newest version, and the option that reads it; none if nothing was ever written."""

    def within(self, session: SparkSession) -> Self:
        """Return this source in another session."""
        here = copy(self)
        here.session = session
        return here

    def read(self, options: dict[str, str]) -> DataFrame:
        """Return rows of the table, at once."""
        reader = self.session.read.format(self.source.format).options(**options)
        return reader.load(self.source.path) if self.source.path else reader.table(self.name)

    def read_stream(self, options: dict[str, str]) -> DataFrame:
        """Return rows of the table as a stream."""
        reader = self.session.readStream.format(self.source.format).options(**options)
        return reader.load(self.source.path) if self.source.path else reader.table(self.name)

    @override
    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        here = self.within(session)
        name, option = here.newest_version()
        if before is not None and before.name == name:
            return before
        frame = here.read({**self.options, **option})
        columns = {column.name: column.dataType for column in frame.schema}
        if any(columns.get(column.name) != column.dataType for column in self.version_schema):
            raise columns_changed(self.where, self.source.place)
        frame = frame.select(*map(quoted, self.version_schema.names))
        frame = frame if option else frame.where("false")
        return TableVersion(name, frame, lost=partial(_lost_file, frame))

    @property
    def name(self) -> str:
        """Return the table's name in a catalog, quoted."""
        assert self.source.table is not None, self.source
        return ".".join(map(quoted, self.source.table.split(".")))

    def _not_there(self, error: BaseException) -> InvalidJobError:
        msg = (
            f"{self.where}: Spark cannot open this table. Create it before the job starts, or correct the name; and "
            "see that Spark has the jars and the catalog for it. "
            f"place={self.source.place}, cause={hidden(spark_text(error))[:500]}"
        )
        return InvalidJobError(msg)


def _lost_file(version: DataFrame) -> str | None:
    """Return which file of a version is gone, as after a removal of old versions; None if all exist."""
    try:
        files = version.inputFiles()
        found = file_lengths(version.sparkSession, files, {})
    except (PySparkException, Py4JError) as error:
        return f"its files cannot be listed ({hidden(spark_text(error))[:300]})"
    return next((f"{file} is gone" for file in files if file not in found), None)


def _milliseconds(text: str | None, where: str) -> int | None:
    if text is None:
        return None
    found = parse_time(text)
    if found is None:
        msg = (
            f"{where}: this is no time of at most microseconds. Write it as 2026-01-31 08:00:00, or with an offset "
            f"such as +01:00; without one it is UTC. starting.timestamp={text}"
        )
        raise InvalidJobError(msg)
    return milliseconds_from(found if found.tzinfo else found.replace(tzinfo=UTC))
