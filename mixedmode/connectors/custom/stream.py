"""A custom class as Spark's Python data source: the code that runs in processes of Spark.

Spark pickles only names and numbers (the class, its arguments, offsets as JSON, splits as bytes). The class is
instantiated where it is needed. An offset is wrapped, because Spark expects a mapping: `{"offset": 17}`, and
`{"offset": null}` for the beginning.

Spark starts a separate process for each query, and the process imports this module. So the module imports little.
"""

import base64
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mixedmode.connectors.custom.classes import CustomSource, Offset
from mixedmode.connectors.custom.instances import CUSTOM_SOURCE, call_user_method, calling
from mixedmode.errors import InvalidJobError
from mixedmode.keys.arrow import cast
from mixedmode.operators.classes import NamedClass

FORMAT = "mixedmode-custom"

__all__ = ["FORMAT", "Calls", "CustomDataSource", "checked_offset", "not_what", "source_options"]


def source_options(named: NamedClass[CustomSource], columns: pa.Schema) -> dict[str, str]:
    """Return the options that Spark hands to CustomDataSource.  columns: the columns that batches must have."""
    said = {"module": named.module, "name": named.name, "args": named.args, "folder": named.folder}
    return {"class": json.dumps(said), "columns": base64.b64encode(columns.serialize().to_pybytes()).decode()}


class _Split(InputPartition):
    """A pickled split. It stays pickled because its class can be imported only after the user's class."""


class CustomDataSource(DataSource):
    """The data source that Spark pickles, by name; it contains no object of the user's."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options`: those of `source_options`; and `end`, an offset, if the source is read once."""
        super().__init__(dict(options))
        columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(options["columns"])))
        self._calls = Calls(NamedClass(CUSTOM_SOURCE, **json.loads(options["class"])), columns)
        self._end = json.loads(options.get("end", "null"))

    @classmethod
    def name(cls) -> str:
        """Return the name under which it is registered."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the columns are known
        """Return the reader of a batch."""
        return _BatchReader(self._calls, self._end)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a stream."""
        return _StreamReader(self._calls)


class Calls:
    """Calls the user's instance, which is created at the first call, in the process that needs it."""

    def __init__(self, named: NamedClass[CustomSource], columns: pa.Schema) -> None:
        self._named = named
        self._fields = columns
        self._own: CustomSource | None = None
        self._newest: Offset | None = None  # that this process knows

    def latest(self) -> Offset | None:
        """Return the offset up to which the source can be read now, after checking it."""
        own = self._object()
        found = checked_offset(self._named, call_user_method(self._named, own, own.latest))
        self._check_order(self._newest, found)
        self._newest = found
        return found

    def splits(self, start: Offset | None, end: Offset | None) -> list[InputPartition]:
        """Return the splits of a range, pickled."""
        self._check_order(start, end)  # a start of the job knows the offset before only here
        self._newest = end if self._newest is None else self._newest
        if end is None:
            return []
        own = self._object()
        found: Any = call_user_method(self._named, own, own.splits, start, end)
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise InvalidJobError(not_what(self._named, "splits", "a list of splits", found))
        with calling(self._named, own, "splits"):
            return [_Split(pickle.dumps(split)) for split in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, with exactly the required columns."""
        if partition.value is None:  # Spark's own partition if there are no splits
            return
        own = self._object()
        split = pickle.loads(partition.value)  # noqa: S301 - what `splits` has pickled
        with calling(self._named, own, "read"):
            for batch in own.read(split):
                yield self._fitting(batch)

    def _check_order(self, before: Offset | None, now: Offset | None) -> None:
        """Raise InvalidJobError if an offset is certainly before an earlier one: records would be read twice, or never.

        Offsets are any JSON, so only None and numbers can be compared.
        """
        is_number = all(isinstance(one, int | float) for one in (before, now))
        if before is None or (now is not None and not (is_number and now < before)):
            return
        msg = (
            "`latest` of the custom source went back. An offset must never decrease, and None means that there was no "
            "data yet, so records would be read twice, or never; nothing of this epoch was committed. Correct "
            "`latest`, and start the job again. If the error stays, the range is already planned: take a savepoint, "
            f"and restore it to a new checkpointing.dir. class={self._named.label}, method=latest, before={before}, "
            f"found={now}"
        )
        raise InvalidJobError(msg)

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with exactly the columns of the schema."""
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
                arrays.append(column if column.type == field.type else cast(column, field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                msg = (
                    "a batch has a column whose values are not of the type that `schema` says. Correct one of them. "
                    f"column={field.name}, type={column.type}, wanted={field.type}, cause={error},"
                )
                raise InvalidJobError(msg) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _object(self) -> CustomSource:
        if self._own is None:
            self._own = self._named.create()
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


def checked_offset(named: NamedClass[CustomSource], offset: Any) -> Offset | None:
    """Return the offset as it will be read from Spark's log.
    Raises InvalidJobError if it is not the same after that.
    """
    try:
        text = json.dumps(offset, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(not_what(named, "latest", "what JSON can hold", offset)) from error
    found = json.loads(text)
    if found != offset:
        raise InvalidJobError(not_what(named, "latest", "what is the same once it was written as JSON", offset))
    return found


def not_what(named: NamedClass[CustomSource], method: str, wanted: str, found: Any) -> str:
    """Return the message for a method that returns another value than it must."""
    return (
        f"a method of the custom source must return {wanted}, and returned something else. Correct it. "
        f"class={named.label}, method={method}, found={found!r:.300}"
    )
