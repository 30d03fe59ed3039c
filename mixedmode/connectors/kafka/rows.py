"""Converts staged rows to Kafka records.

One Spark task sends one staged file from its first row to its last. All rows of a key in an epoch are in one file, in
order, and Kafka partitions by key. So a topic has the records of a key in the order of its changes.

    key      JSON of the key columns; NULL without key columns
    value    JSON of the row; NULL for a deleted row (a tombstone)
    headers  mixedmode-job, -generation, -epoch, -sequence, as text

`sequence` counts the rows of an epoch across its files, in the order of the manifest. `generation` is the start of the
job that computed the rows. Both are the same in every repeat of the publication.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, StagedFile
from mixedmode.config.calls import quoted
from mixedmode.errors import RetryableError
from mixedmode.operators.interface import DELETE, OP_COLUMN
from mixedmode.spark.frames import spark_schema

__all__ = ["HEADERS", "RecordShape", "records_of"]

HEADERS = ("mixedmode-job", "mixedmode-generation", "mixedmode-epoch", "mixedmode-sequence")
_SEQUENCE, _GENERATION = "_sequence", "_generation"
_BATCH_ROWS = 10_000
#: NULL is written; instants are in UTC with microseconds. Spark's defaults would depend on the session
_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Columns of an output; `key_columns` are () if the output has no key."""

    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]


def records_of(
    session: SparkSession, store: ObjectStore, staged: Sequence[StagedFile], shape: RecordShape, job: str, epoch: Epoch
) -> DataFrame:
    """Return the records of an epoch's files, with the columns that Spark's Kafka writer expects."""
    first = accumulate((file.rows for file in staged[:-1]), initial=0)
    files = tuple((file.staged_path, rows, _generation_of(file)) for file, rows in zip(staged, first, strict=True))
    fields = (*shape.fields, pa.field(OP_COLUMN, pa.string())) if shape.key_columns else shape.fields
    more = (pa.field(_SEQUENCE, pa.int64()), pa.field(_GENERATION, pa.int64()))
    task = ReadStaged(store.url, files, fields)
    numbers = session.range(0, len(files), 1, len(files))
    rows = numbers.mapInArrow(task, spark_schema([*fields, *more]))
    values = (F.lit(job), F.col(_GENERATION), F.lit(epoch), F.col(_SEQUENCE))
    headers = [_header(name, value) for name, value in zip(HEADERS, values, strict=True)]
    return rows.select(*_key_and_value(shape), F.array(*headers).alias("headers"))


@dataclass(frozen=True, slots=True)
class ReadStaged:
    """Reads one staged file; Spark calls it with the file's number.
    `files`: (path, number of its first row, generation).
    """

    url: str
    files: tuple[tuple[str, int, int], ...]
    fields: tuple[pa.Field, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file, in order."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(*self.files[number])

    def _rows(self, path: str, sequence: int, generation: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema(list(self.fields))
        with temporary_folder("kafka-") as folder:
            local = folder / "staged"
            if not ObjectStore(self.url).fetch_file(path, local):
                msg = (
                    "an output that another start of the job may just have sent is gone. Start the job again. "
                    f"file={self.url}/{path}"
                )
                raise RetryableError(msg)
            with pq.ParquetFile(local) as parquet:
                for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=schema.names):
                    rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                    end = sequence + rows.num_rows
                    rows = rows.append_column(_SEQUENCE, pa.array(range(sequence, end), pa.int64()))
                    rows = rows.append_column(_GENERATION, pa.repeat(pa.scalar(generation, pa.int64()), rows.num_rows))
                    yield from rows.to_batches()
                    sequence = end


def _key_and_value(shape: RecordShape) -> tuple[Column, Column]:
    value = _json([field.name for field in shape.fields])
    if not shape.key_columns:
        return F.lit(None).cast("string").alias("key"), value.alias("value")
    is_gone = F.col(OP_COLUMN) == DELETE
    return _json(shape.key_columns).alias("key"), F.when(~is_gone, value).alias("value")


def _json(names: Sequence[str]) -> Column:
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), _JSON)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def _generation_of(file: StagedFile) -> Generation:
    parsed = output_paths.parse_staged_path(file.staged_path)
    generation = None if parsed is None else paths.parse_attempt(parsed.unique)
    assert generation is not None, file
    return generation
