"""A class of the user's own as a source, through Spark's Python data source.

The one idea: Spark is given names and numbers only (the class, its arguments, offsets as JSON, splits as bytes), and
makes the object where it needs one. An offset is wrapped, as Spark wants a mapping: `{"offset": 17}`, and
`{"offset": null}` for the beginning.

Spark knows no limit for such a source that holds in all its versions, so an availableNow query reads it through Spark's
own wrapper: `latest` is asked once when the query begins, and that is where its input ends.
"""

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mixedmode.config import PythonSourceSpec
from mixedmode.connectors import CustomSource, Offset
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.own_classes import OwnSource, call, calling, made
from mixedmode.runtime.frames import arrow_fields
from mixedmode.sources.source import Admission, parse_ddl

_FORMAT = "mixedmode-custom"
#: without it, Spark would take each availableNow query of a job with such a source for a single micro-batch
_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


class PythonSource:
    """A CustomSource in a session."""

    def __init__(self, session: SparkSession, source: PythonSourceSpec, *, where: str) -> None:
        """Raises InvalidJobError, beginning with `where`, when the class or its schema cannot be had."""
        self._session = session
        self._named = OwnSource.parse(source.class_, source.args, source.folder)
        try:
            self._own = made(self._named)
            ddl: Any = call(self._named, self._own, self._own.schema)
        except MixedmodeError as error:
            msg = f"{where}: {error}"
            raise type(error)(msg) from error
        if not isinstance(ddl, str):
            msg = f"{where}: {_not_what(self._named, 'schema', 'Spark DDL as text', ddl)}"
            raise InvalidJobError(msg)
        self.schema = parse_ddl(ddl, where=where)
        session.dataSource.register(_OwnDataSource)
        session.conf.set(_WRAPPER, "true")

    def batch(self) -> DataFrame:
        """See OpenSource. The end is fixed here, since Spark may plan the reading of one frame several times."""
        end = _checked_offset(self._named, call(self._named, self._own, self._own.latest))
        options = {**self._options, "end": json.dumps(end)}
        return self._session.read.format(_FORMAT).schema(self.schema).options(**options).load()

    def stream(self, admission: Admission) -> DataFrame:  # noqa: ARG002 - it knows no limits
        """See OpenSource."""
        return self._session.readStream.format(_FORMAT).schema(self.schema).options(**self._options).load()

    @property
    def _options(self) -> dict[str, str]:
        named = self._named
        said = {"module": named.module, "name": named.name, "args": named.args, "folder": named.folder}
        return {"class": json.dumps(said)}


class _Split(InputPartition):
    """A split, pickled: its class can only be imported once the user's class is."""


class _OwnDataSource(DataSource):
    """What Spark pickles, by name: nothing of the user's is in it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._class = OwnSource(**json.loads(options["class"]))
        self._end = json.loads(options.get("end", "null"))

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(_Calls(self._class, schema), self._end)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _StreamReader(_Calls(self._class, schema))


class _Calls:
    """The calls of the user's object, which is made at the first one, in the process that needs it."""

    def __init__(self, named: OwnSource, schema: StructType) -> None:
        self._named = named
        self._fields = pa.schema(arrow_fields(schema))
        self._own: CustomSource | None = None

    def latest(self) -> Offset | None:
        own = self._object()
        return _checked_offset(self._named, call(self._named, own, own.latest))

    def splits(self, start: Offset | None, end: Offset | None) -> list[InputPartition]:
        if end is None:
            return []
        own = self._object()
        found: Any = call(self._named, own, own.splits, start, end)
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise InvalidJobError(_not_what(self._named, "splits", "a list of splits", found))
        with calling(self._named, own, "splits"):
            return [_Split(pickle.dumps(split)) for split in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark's own, for no splits at all
            return
        own = self._object()
        split = pickle.loads(partition.value)  # noqa: S301 - what `splits` has pickled
        with calling(self._named, own, "read"):
            for batch in own.read(split):
                yield self._fitting(batch)

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with exactly the columns of the schema."""
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidJobError(_not_what(self._named, "read", "batches of pyarrow.RecordBatch", batch))
        if sorted(batch.schema.names) != sorted(self._fields.names):
            msg = (
                "a batch has other columns than `schema` says. Give exactly those, by name. "
                f"columns={', '.join(batch.schema.names)}, schema={', '.join(self._fields.names)},"
            )
            raise InvalidJobError(msg)
        arrays = []
        for field in self._fields:
            column = batch.column(field.name)
            try:
                arrays.append(column if column.type == field.type else column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                msg = (
                    "a batch has a column whose values are not of the type that `schema` says. Correct one of them. "
                    f"column={field.name}, type={column.type}, wanted={field.type}, cause={error},"
                )
                raise InvalidJobError(msg) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _object(self) -> CustomSource:
        if self._own is None:
            self._own = made(self._named)
        return self._own


class _BatchReader(DataSourceReader):
    def __init__(self, calls: _Calls, end: Offset | None) -> None:
        self._calls = calls
        self._end = end

    def partitions(self) -> list[InputPartition]:
        return self._calls.splits(None, self._end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._calls.read(partition)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"offset": None}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as all versions of Spark know it
        return {"offset": self._calls.latest()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._calls.splits(start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._calls.read(partition)


def _checked_offset(named: OwnSource, offset: Any) -> Offset | None:
    """The offset as it will be read from Spark's log. Raises InvalidJobError if it does not come back as it was."""
    try:
        text = json.dumps(offset, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(_not_what(named, "latest", "what JSON can hold", offset)) from error
    found = json.loads(text)
    if found != offset:
        raise InvalidJobError(_not_what(named, "latest", "what is the same once it was written as JSON", offset))
    return found


def _not_what(named: OwnSource, method: str, wanted: str, found: Any) -> str:
    return (
        f"a method of the custom source must give {wanted}, and gave something else. Correct it. "
        f"class={named.label}, method={method}, found={found!r:.300}"
    )
