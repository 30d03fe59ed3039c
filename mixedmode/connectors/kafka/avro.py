"""Avro values, through Spark's from_avro, which does not report whether a record could be decoded.

A value that is not Avro of the schema is returned as a record of NULLs, which may also be a valid record. So values
are read with a schema that has one additional field with a default. Every valid record then has the field, and no
other record has it.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from mixedmode.config.outside_texts import parse_json
from mixedmode.connectors.kafka.source_spec import KafkaValueSpec
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import spark_text

__all__ = ["MARK", "AvroSchemas"]

#: the field that every decoded record has
MARK = "mixedmode_decoded"


class AvroSchemas:
    """The schema with which values were written, and the schema with which they are read."""

    def __init__(self, session: SparkSession, value: KafkaValueSpec, *, where: str) -> None:
        """Build both schemas. Raises InvalidJobError, beginning with `where`, if `value` has no record schema, or
        Spark cannot read Avro.
        """
        schema = _schema(value, where=where)
        marked = {**schema, "fields": [*schema["fields"], {"name": MARK, "type": "boolean", "default": True}]}
        self._written = json.dumps(schema)
        self._options = {**value.options, "mode": "PERMISSIVE", "avroSchema": json.dumps(marked)}
        #: the columns of a record
        self.fields = _fields(session, self.decoded(F.lit(b"")), where=where)

    def decoded(self, value: Column) -> Column:
        """Return records with MARK; MARK is NULL if the value does not match the schema.
        Bytes after a record are ignored.
        """
        return from_avro(value, self._written, self._options)


def _schema(value: KafkaValueSpec, *, where: str) -> dict[str, Any]:
    text, place = value.schema_ddl, f"{where}.value.schema"
    if value.schema_file is not None:
        place = f"{where}.value.schema-file"
        try:
            text = Path(value.schema_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{place}: the schema cannot be read. Correct the path. path={value.schema_file}, cause={error}"
            raise InvalidJobError(msg) from error
    try:
        schema = parse_json(text or "")
    except ValueError as error:
        msg = f"{place}: an Avro schema is JSON, and this is none. Correct it. cause={error}"
        raise InvalidJobError(msg) from error
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        msg = f"{place}: the schema of a value is one of a record, with `type: record` and `fields`. Correct it."
        raise InvalidJobError(msg)
    return schema


def _fields(session: SparkSession, decoded: Column, *, where: str) -> StructType:
    try:
        record = session.range(1).select(decoded.alias("record")).schema[0].dataType
    except PySparkException as error:
        msg = (
            f"{where}.value: Spark cannot read Avro with this schema, or its Avro module is not there. Correct the "
            "schema; or see docs/kafka.md for the module's jar. "
            f"cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error
    assert isinstance(record, StructType), record
    return StructType([field for field in record if field.name != MARK])
