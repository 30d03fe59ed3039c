"""Kafka topics as a source, through Spark's Kafka connector.

Spark manages offsets, partitions and the end of the backlog. This module sets the start, decodes values
(kafka_values.py), and makes sure that no record is lost silently. A record that cannot be decoded, or that Kafka has
deleted before it was read, stops the job unless its settings say otherwise.
"""

import json
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.config.instants import milliseconds_from
from mixedmode.connectors.kafka.admin import first_offsets, topic_ids
from mixedmode.connectors.kafka.errors import without_connector
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.connectors.kafka.values import REASON, KafkaValues
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import resolve, resolve_all
from mixedmode.sources.dead_letters import KAFKA_DEAD_LETTERS, ReadsOffsetsAgain
from mixedmode.sources.expired import LosesRecords
from mixedmode.sources.kafka_offsets import (
    OffsetRanges,
    Offsets,
    lines_of,
    parse_initial_offsets,
    parse_offsets,
    ranges_between,
    records_between,
)
from mixedmode.sources.source import Admission, OpenSource
from mixedmode.sources.topic_ids import HasTopicIds
from mixedmode.spark.scans import scan_metric

_DATA_LOSS = "dataLoss"  # how often a task of Spark's connector has skipped records that were missing
#: columns of records that cannot be decoded, besides `reason`, which is the last one
_DEAD_LETTER = tuple(field.name for field in KAFKA_DEAD_LETTERS[:-1])


class KafkaSource(OpenSource, ReadsOffsetsAgain, HasTopicIds, LosesRecords):
    """Topics, in a session."""

    def __init__(self, session: SparkSession, source: KafkaSourceSpec, *, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the schema is invalid or the connector is missing."""
        self._session = session
        self._source = source
        self._where = where
        self._ranges: OffsetRanges | None = None
        try:
            raw = self._raw_stream(Admission())
        except PySparkException as error:
            raise without_connector(where, error) from error
        self._values = KafkaValues(session, source, where=where)
        self.schema: StructType = self._rows(raw).schema
        _check_names(self.schema, where=where)

    @override
    def batch(self) -> DataFrame:
        return self._rows(self._read(self.batch_ranges()))

    @override
    def stream(self, admission: Admission) -> DataFrame:
        return self._rows(self._raw_stream(admission))

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the epoch has more records than the limit; False for the records that a job begins with."""
        limit = self._source.backlog_lag_records
        if limit is None or not before or not now:
            return False
        return records_between(parse_offsets(before[0]), parse_offsets(now[0])) > limit

    @property
    @override
    def dead_letter_fields(self) -> tuple[pa.Field, ...]:
        return () if self._source.dead_letter is None else KAFKA_DEAD_LETTERS

    @override
    def undecodable(self, ranges: OffsetRanges) -> DataFrame:
        marked = self._values.with_reasons(self._read(ranges))
        return marked.where(F.col(REASON).isNotNull()).select(*_DEAD_LETTER, F.col(REASON).alias("reason"))

    @property
    @override
    def where(self) -> str:
        return self._where

    @property
    @override
    def allows_data_loss(self) -> bool:
        return self._source.allow_data_loss

    @override
    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        return topic_ids(self._session, self._options(), topics)

    @override
    def first_offsets(self, partitions: Mapping[str, Collection[int]]) -> Offsets:
        return first_offsets(self._session, self._options(), partitions)

    @override
    def has_skipped(self) -> bool:
        return scan_metric(self._session, _DATA_LOSS) != 0

    @override
    def batch_ranges(self) -> OffsetRanges:
        """Return the ranges that `batch` reads: everything that exists when this is first called."""
        if self._ranges is None:
            self._ranges = self._present()
        return self._ranges

    def _present(self) -> OffsetRanges:
        """Return the ranges that exist now, found as for a streaming query's backlog, without reading records."""
        with temporary_folder("kafka-") as folder:
            query = (
                self._raw_stream(Admission())
                .writeStream.foreachBatch(lambda _frame, _number: None)
                .option("checkpointLocation", f"file://{folder}")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            begin = parse_initial_offsets((folder / "sources" / "0" / "0").read_bytes())
            entry = folder / "offsets" / "0"
            lines = lines_of(entry.read_text(encoding="utf-8")) if entry.exists() else []
        end = parse_offsets(lines[0]) if lines else begin
        assert begin is not None, folder
        assert end is not None, lines
        return ranges_between(begin, end)

    def _raw_stream(self, admission: Admission) -> DataFrame:
        limit = {} if admission.max_records is None else {"maxOffsetsPerTrigger": str(admission.max_records)}
        source = self._source
        topics = {"subscribePattern": source.topic_pattern} if source.topic_pattern else {}
        topics = topics or {"subscribe": ",".join(source.topics)}
        options = {**self._options(), **topics, **_starting(source), **limit}
        return self._session.readStream.format("kafka").options(**options).load()

    def _read(self, ranges: OffsetRanges) -> DataFrame:
        """Return exactly these records."""
        if not ranges.end:
            return self._session.createDataFrame([], self._raw_stream(Admission()).schema)
        return self._session.read.format("kafka").options(**self._options(), **ranges.as_options()).load()

    def _options(self) -> dict[str, str]:
        source = self._source
        return {
            "kafka.bootstrap.servers": resolve(source.bootstrap_servers, where=f"{self._where}.bootstrap-servers"),
            "failOnDataLoss": str(not source.allow_data_loss).lower(),
            "includeHeaders": str(source.metadata.headers is not None).lower(),
            **resolve_all(source.options, where=f"{self._where}.options"),
        }

    def _rows(self, raw: DataFrame) -> DataFrame:
        """Return the records that can be decoded, as rows.
        The others stop the job at the first one, or are left out.
        """
        marked = self._values.with_reasons(raw)
        if self._source.undecodable == "dead-letter":
            good = marked.where(F.col(REASON).isNull())
        else:
            # in a filter, because Spark does not compute a column that no step reads
            good = marked.where(F.when(F.col(REASON).isNull(), F.lit(True)).otherwise(_refusal()))
        fields = self._source.metadata.names
        return good.select(*self._values.columns(), *(self._metadata(field, name) for field, name in fields.items()))

    def _metadata(self, field: str, name: str) -> Column:
        column = F.col(field)
        is_text = field == "key" and self._source.key_format == "text"
        return (column.cast("string") if is_text else column).alias(name)


def _starting(source: KafkaSourceSpec) -> Mapping[str, str]:
    starting = source.starting
    if starting.timestamp is not None:
        at_ms = str(milliseconds_from(starting.timestamp))
        # if a partition has no such record yet, reading begins with its next record
        return {"startingTimestamp": at_ms, "startingOffsetsByTimestampStrategy": "latest"}
    if starting.offsets is not None:
        return {"startingOffsets": json.dumps(starting.offsets)}
    assert starting.at is not None, starting
    return {"startingOffsets": starting.at}


def _refusal() -> Column:
    """Return an expression that stops the job with an error that names the record."""
    msg = (
        "a record of Kafka cannot be decoded, and nothing was committed. Correct `value` of the source; or set "
        "`undecodable: dead-letter`, and such records go to an output of their own. reason="
    )
    place = [F.lit(", topic="), F.col("topic"), F.lit(", partition="), F.col("partition").cast("string")]
    place += [F.lit(", offset="), F.col("offset").cast("string")]
    return F.raise_error(F.concat(F.lit(msg), F.col(REASON), *place)).cast("boolean")


def _check_names(schema: StructType, *, where: str) -> None:
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = (
            f"{where}: two columns have one name. Give the one in `metadata` another name, or rename the field in the "
            f"schema. columns={', '.join(twice)}"
        )
        raise InvalidJobError(msg)
