"""A class of the user's own as Spark's Python data source: what runs in processes of Spark's.

The one idea: Spark pickles names and numbers only (the class, its arguments, offsets as JSON, splits as bytes), and the
object is made where it is needed. An offset is wrapped, as Spark wants a mapping: `{"offset": 17}`, and
`{"offset": null}` for the beginning.

Spark starts a process of its own for each query, which imports this module; so it imports little.
"""

import base64
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mixedmode.connectors import CustomSource, Offset
from mixedmode.custom_classes import CustomSourceClass, call_user_method, calling, instantiate
from mixedmode.errors import InvalidJobError

FORMAT = "mixedmode-custom"

__all__ = ["FORMAT", "Calls", "CustomDataSource", "checked_offset", "not_what", "source_options"]


def source_options(named: CustomSourceClass, columns: pa.Schema) -> dict[str, str]:
    """What Spark hands to CustomDataSource.  columns: as batches have to have them."""
    said = {"module": named.module, "name": named.name, "args": named.args, "folder": named.folder}
    return {"class": json.dumps(said), "columns": base64.b64encode(columns.serialize().to_pybytes()).decode()}


class _Split(InputPartition):
    """A split, pickled: its class can only be imported once the user's class is."""


class CustomDataSource(DataSource):
    """What Spark pickles, by name: nothing of the user's is in it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options`: those of `source_options`; and `end`, an offset, where it is read once."""
        super().__init__(dict(options))
        columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(options["columns"])))
        self._calls = Calls(CustomSourceClass(**json.loads(options["class"])), columns)
        self._end = json.loads(options.get("end", "null"))

    @classmethod
    def name(cls) -> str:
        """Under which it is registered."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the columns are known
        """The reader of a batch."""
        return _BatchReader(self._calls, self._end)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """The reader of a stream."""
        return _StreamReader(self._calls)


class Calls:
    """The calls of the user's object, which is made at the first one, in the process that needs it."""

    def __init__(self, named: CustomSourceClass, columns: pa.Schema) -> None:
        self._named = named
        self._fields = columns
        self._own: CustomSource | None = None

    def latest(self) -> Offset | None:
        """How far the source can be read now, checked."""
        own = self._object()
        return checked_offset(self._named, call_user_method(self._named, own, own.latest))

    def splits(self, start: Offset | None, end: Offset | None) -> list[InputPartition]:
        """The splits of a range, pickled."""
        if end is None:
            return []
        own = self._object()
        found: Any = call_user_method(self._named, own, own.splits, start, end)
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise InvalidJobError(not_what(self._named, "splits", "a list of splits", found))
        with calling(self._named, own, "splits"):
            return [_Split(pickle.dumps(split)) for split in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split, with exactly the columns that are wanted."""
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
            raise InvalidJobError(not_what(self._named, "read", "batches of pyarrow.RecordBatch", batch))
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
            self._own = instantiate(self._named)
        return self._own


class _BatchReader(DataSourceReader):
    def __init__(self, calls: Calls, end: Offset | None) -> None:
        self._calls = calls
        self._end = end

    def partitions(self) -> list[InputPartition]:
        return self._calls.splits(None, self._end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._calls.read(partition)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"offset": None}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as all versions of Spark know it
        return {"offset": self._calls.latest()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._calls.splits(start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._calls.read(partition)


def checked_offset(named: CustomSourceClass, offset: Any) -> Offset | None:
    """The offset as it will be read from Spark's log. Raises InvalidJobError if it does not come back as it was."""
    try:
        text = json.dumps(offset, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(not_what(named, "latest", "what JSON can hold", offset)) from error
    found = json.loads(text)
    if found != offset:
        raise InvalidJobError(not_what(named, "latest", "what is the same once it was written as JSON", offset))
    return found


def not_what(named: CustomSourceClass, method: str, wanted: str, found: Any) -> str:
    """The message for a method that gives something else than it must."""
    return (
        f"a method of the custom source must give {wanted}, and gave something else. Correct it. "
        f"class={named.label}, method={method}, found={found!r:.300}"
    )
