"""A custom class as a source, through Spark's Python data source.

The driver calls the class for its schema, and for the end of a batch. All other methods are called in processes of
Spark (custom/stream.py).

Spark has no limit per epoch for such a source that works in all its versions. So an availableNow query reads the
source through Spark's own wrapper: `latest` is called once when the query begins, and its answer is the end of the
input.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.connectors.custom.classes import CustomSource, Offset
from mixedmode.connectors.custom.instances import CUSTOM_SOURCE, call_user_method
from mixedmode.connectors.custom.spec import CustomSourceSpec
from mixedmode.connectors.custom.stream import FORMAT, CustomDataSource, checked_offset, not_what, source_options
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.classes import NamedClass
from mixedmode.sources.source import Admission, OpenSource, parse_ddl
from mixedmode.spark.errors import spark_text
from mixedmode.spark.frames import arrow_fields

#: without this setting, Spark would run each availableNow query that reads such a source as one micro-batch
_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


class CustomSourceReader(OpenSource):
    """Reads a CustomSource in a session."""

    def __init__(self, session: SparkSession, source: CustomSourceSpec, *, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the class or its schema cannot be loaded."""
        self._session = session
        self._named = CUSTOM_SOURCE.named(source.class_, source.args, source.folder)
        try:
            self._own = self._named.create()
            ddl: Any = call_user_method(self._named, self._own, self._own.schema)
        except MixedmodeError as error:
            msg = f"{where}: {error}"
            raise type(error)(msg) from error
        if not isinstance(ddl, str):
            msg = f"{where}: {not_what(self._named, 'schema', 'Spark DDL as text', ddl)}"
            raise InvalidJobError(msg)
        self.schema = parse_ddl(ddl, where=where)
        self._options = source_options(self._named, _columns(self.schema, self._named, where))
        session.dataSource.register(CustomDataSource)
        session.conf.set(_WRAPPER, "true")

    @override
    def batch(self) -> DataFrame:
        """Fix the end here, since Spark may plan the reading of one frame several times."""
        end = checked_offset(self._named, call_user_method(self._named, self._own, self._own.latest))
        options = {**self._options, "end": json.dumps(end)}
        return self._session.read.format(FORMAT).schema(self.schema).options(**options).load()

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the class reports a backlog. Raise InvalidJobError for an answer other than a bool."""
        start, end = _offset(before), _offset(now)
        if end is None:
            return False
        said: Any = call_user_method(self._named, self._own, self._own.is_backlog, start, end)
        if not isinstance(said, bool):
            raise InvalidJobError(not_what(self._named, "is_backlog", "True or False", said))
        return said

    @override
    def stream(self, admission: Admission) -> DataFrame:
        return self._session.readStream.format(FORMAT).schema(self.schema).options(**self._options).load()


def _columns(schema: StructType, named: NamedClass[CustomSource], where: str) -> pa.Schema:
    """Return the columns that batches must have. Raise InvalidJobError for those that Spark takes from no batch."""
    needed = [field.name for field in schema if not field.nullable]
    if needed:
        msg = (
            f"{where}: `schema` of the custom source declares a column NOT NULL, and Spark takes no such column from a "
            f"class. Leave NOT NULL out. class={named.label}, method=schema, column={needed[0]}"
        )
        raise InvalidJobError(msg)
    try:
        return pa.schema(arrow_fields(schema))
    except PySparkException as error:
        msg = (
            f"{where}: `schema` of the custom source names a type that batches of pyarrow do not have. Write another "
            "one, such as string for char(n) and varchar(n), or a number of months. "
            f"class={named.label}, method=schema, cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error


def _offset(lines: Sequence[str]) -> Offset | None:
    """Return the offset in the source's line of Spark's log; None before its first line."""
    if not lines or lines[0] in {"", "-"}:
        return None
    return json.loads(lines[0])["offset"]
