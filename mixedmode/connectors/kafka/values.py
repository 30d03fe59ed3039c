"""Decodes the bytes of Kafka records to columns, and says why a record cannot be decoded.

Spark decodes in its lenient mode, which marks values that do not fit instead of failing. One column contains the
reason why a record is not a row, or NULL if it is one. The source decides what happens to such a record (kafka.py).

Spark's mode is too lenient. This module also marks what Spark would ignore: JSON followed by other text, text that is
not UTF-8, and an empty value. A record without a value (a tombstone) is a row of NULLs.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from mixedmode.connectors.kafka.avro import MARK, AvroSchemas
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.sources.json_records import JsonRecords
from mixedmode.sources.source import parse_ddl

__all__ = ["REASON", "KafkaValues"]

#: names that no Kafka column has; the user's columns are inside _DECODED, so theirs cannot clash
REASON, _DECODED, _CORRUPT = "_reason", "_decoded", "_corrupt"
_CONFLUENT_BYTES = 5  # a zero byte, and the number of a schema as a big-endian int
_LENIENT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


class KafkaValues:
    """Decodes the values of one source. `fields` are their columns."""

    def __init__(self, session: SparkSession, source: KafkaSourceSpec, *, where: str) -> None:
        """Prepare the decoder. Raises InvalidJobError, beginning with `where`, if the schema is invalid."""
        self._source = source
        self._value = source.value
        self._avro: AvroSchemas | None = None
        if self._value.format == "avro":
            self._avro = AvroSchemas(session, self._value, where=where)
            self.fields = self._avro.fields
        elif self._value.format in {"json", "csv"}:
            self.fields = parse_ddl(self._value.schema_ddl or "", where=f"{where}.value.schema")
        else:
            one: DataType = StringType() if self._value.format == "text" else BinaryType()
            self.fields = StructType([StructField("value", one)])
        self._json = JsonRecords(self.fields, self._value.options)

    def with_reasons(self, frame: DataFrame) -> DataFrame:
        """Return Kafka's columns, and in REASON why a record cannot be decoded; also the decoded value, for
        `columns`.
        """
        # the condition is always true, but makes Spark evaluate the value once, instead of once per use
        once = F.when(F.spark_partition_id() >= 0, self._decoded())
        return frame.withColumn(_DECODED, once).withColumn(REASON, self._reason())

    def columns(self) -> list[Column]:
        """Return the columns of the values, over a frame that `with_reasons` returned."""
        record = self._record()
        if self._value.format in {"text", "binary"}:
            return [record.alias("value")]
        return [record.getField(field.name).alias(field.name) for field in self.fields]

    def _decoded(self) -> Column:
        payload, options = self._payload(), {**self._value.options, **_LENIENT}
        match self._value.format:
            case "json":
                return self._json.decoded(payload.cast("string"), takes_arrays=False)
            case "csv":
                return F.from_csv(payload.cast("string"), _with_corrupt(*self.fields).toDDL(), options)
            case "avro":
                assert self._avro is not None, "made above"
                return self._avro.decoded(payload)
            case "text":
                return payload.cast("string")
            case "binary":
                return payload

    def _record(self) -> Column:
        decoded = F.col(_DECODED)
        return F.get(self._json.records(decoded), F.lit(0)) if self._value.format == "json" else decoded

    def _reason(self) -> Column:
        """Return the first reason why a record cannot be decoded."""
        faults: list[tuple[Column, str]] = []
        if self._source.key_format == "text" and self._source.metadata.key is not None:
            faults.append((_is_no_text(F.col("key")), "its key is not UTF-8 text"))
        of_value: list[tuple[Column, str]] = []
        if self._value.confluent_header:
            has_header = (F.hex(F.substring("value", 1, 1)) == "00") & (F.length("value") >= _CONFLUENT_BYTES)
            of_value.append((~has_header, "its value does not begin with Confluent's header: 0, and a schema's number"))
        if self._value.format in {"json", "csv", "text"}:
            of_value.append((_is_no_text(self._payload()), "its value is not UTF-8 text"))
        of_value += self._faults_of_format()
        faults += [(F.col("value").isNotNull() & fault, reason) for fault, reason in of_value]
        first = F.lit(None).cast("string")
        for fault, reason in reversed(faults):
            first = F.when(fault, F.lit(reason)).otherwise(first)
        return first

    def _faults_of_format(self) -> list[tuple[Column, str]]:
        decoded = F.col(_DECODED)
        match self._value.format:
            case "json":
                is_one = self._json.is_whole(decoded) & (F.size(self._json.records(decoded)) == 1)
                fault = ~is_one | self._record().isNull()
                return [(fault, "its value is not one JSON object that fits the schema")]
            case "csv":
                is_empty = F.trim(self._payload().cast("string")) == ""
                fault = is_empty | decoded.isNull() | decoded.getField(_CORRUPT).isNotNull()
                return [(fault, "its value is not a line of CSV that fits the schema")]
            case "avro":
                return [(decoded.isNull() | decoded.getField(MARK).isNull(), "its value is not Avro of the schema")]
            case "text" | "binary":
                return []

    def _payload(self) -> Column:
        """Return the value without the header that a serializer has put before it."""
        if not self._value.confluent_header:
            return F.col("value")
        return F.expr(f"substring(value, {_CONFLUENT_BYTES + 1})")


def _with_corrupt(*fields: StructField) -> StructType:
    return StructType([*fields, StructField(_CORRUPT, StringType())])


def _is_no_text(value: Column) -> Column:
    return value.isNotNull() & ~F.is_valid_utf8(value.cast("string"))
