"""The bytes of a record are decoded format by format, or refused. No broker: bytes are enough."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.jars import spark_avro
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.connectors.kafka.values import REASON, KafkaValues
from mixedmode.errors import InvalidJobError
from mixedmode.job import Source
from tests.services.fixtures import skip_without

pytestmark = pytest.mark.spark

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
DDL = "id long, name string"


@pytest.fixture
def avro() -> None:
    """Skips where Spark's Avro module cannot be had."""
    skip_without(spark_avro)


def source(value: str, **settings: Any) -> KafkaSourceSpec:
    return Source.kafka("t", bootstrap_servers="nowhere:1", value=value, **settings)  # type: ignore[arg-type]


def decoded(spark: SparkSession, of: KafkaSourceSpec, values: list[bytes | None], *, key: bytes = b"") -> list[Any]:
    """For each value the row, or the reason why there is none."""
    kafka = KafkaValues(spark, of, where="here")
    frame = spark.createDataFrame(
        [(number, bytearray(key), None if value is None else bytearray(value)) for number, value in enumerate(values)],
        "offset long, key binary, value binary",
    )
    marked = kafka.with_reasons(frame)
    rows = marked.select("offset", REASON, *kafka.columns()).orderBy("offset").collect()
    return [row[REASON] or tuple(row)[2:] for row in rows]


NO_JSON = "its value is not one JSON object that fits the schema"
NO_TEXT = "its value is not UTF-8 text"


#: (text of a value, the row or the reason why there is none)
JSON_TEXTS: list[tuple[bytes | None, object]] = [
    (b'{"id": 1, "name": "a"}', (1, "a")),
    (b' {"name": "\xc3\xa9", "other": [1]}\n', (None, "é")),
    (b"{}", (None, None)),
    (None, (None, None)),
    (b"", NO_JSON),
    (b"  ", NO_JSON),
    (b"null", NO_JSON),
    (b"5", NO_JSON),
    (b'"text"', NO_JSON),
    (b"[]", NO_JSON),
    (b'[{"id": 1}]', NO_JSON),
    (b'{"id": "one"}', NO_JSON),
    (b'{"id": 1.5}', NO_JSON),
    (b'{"id": 9223372036854775808}', NO_JSON),
    (b'{"id": 1', NO_JSON),
    (b'{"id": 1}}', NO_JSON),
    (b'{"id": 1} x', NO_JSON),
    (b'{"id": 1}{"id": 2}', NO_JSON),
    (b'{"id": 1},{"id": 2}', NO_JSON),
    (b'{"id": 1}]} x', NO_JSON),
    (b'{"id": 1}]]} x', NO_JSON),
    (b'{"id": 1}]],"x":[[{"id": 2}', NO_JSON),
    (b'{"name": "\xff"}', NO_TEXT),
]


def test_json_is_one_object_that_fits(spark: SparkSession) -> None:
    texts = [text for text, _ in JSON_TEXTS]
    found = decoded(spark, source("json", schema=DDL), texts)
    assert list(zip(texts, found, strict=True)) == JSON_TEXTS


def test_csv_is_a_line_with_all_of_the_columns(spark: SparkSession) -> None:
    wrong = "its value is not a line of CSV that fits the schema"
    values = {
        b"1,a": (1, "a"),
        b'1,"a,b"': (1, "a,b"),
        b",": (None, None),
        b"": wrong,
        b"1": wrong,
        b"1,a,b": wrong,
        b"one,a": wrong,
        b"1,\xff": NO_TEXT,
    }
    assert decoded(spark, source("csv", schema=DDL), list(values)) == list(values.values())
    assert decoded(spark, source("csv", schema=DDL, value_options={"sep": ";"}), [b"1;a"]) == [(1, "a")]


def test_text_and_bytes_are_one_column(spark: SparkSession) -> None:
    assert decoded(spark, source("text"), [b"\xc3\xa9", b"", None, b"\xff"]) == [("é",), ("",), (None,), NO_TEXT]
    assert decoded(spark, source("binary"), [b"\xff", b"", None]) == [(b"\xff",), (b"",), (None,)]


def test_a_key_that_is_read_as_text_has_to_be_text(spark: SparkSession) -> None:
    with_key = source("binary", metadata={"key": "k"})
    assert decoded(spark, with_key, [b"1"], key=b"\xff") == ["its key is not UTF-8 text"]
    assert decoded(spark, with_key, [b"1"], key=b"k") == [(b"1",)]
    assert decoded(spark, source("binary", metadata={"key": "k"}, key_format="binary"), [b"1"], key=b"\xff") == [
        (b"1",)
    ]


def test_avro_tells_a_record_of_nulls_from_none(spark: SparkSession, avro: None, tmp_path: Path) -> None:
    wrong = "its value is not Avro of the schema"
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    records: list[dict[str, Any]] = [{"id": 7, "at": 1000}, {"id": None, "at": 0}]
    good = [written(record) for record in records]
    of_text = source("avro", schema=json.dumps(AVRO))
    of_file = source("avro", schema_file=tmp_path / "order.avsc")
    expected = [(7, 1.0), (None, 0.0), wrong, wrong, wrong]
    for of in (of_text, of_file):
        rows = decoded(spark, of, [*good, b"", good[0][:-1], b"\x09"])
        assert [row if isinstance(row, str) else (row[0], row[1].timestamp()) for row in rows] == expected


def test_confluents_header_is_checked_and_left_out(spark: SparkSession, avro: None) -> None:
    of = source("avro", schema=json.dumps(AVRO), confluent_header=True)
    good = written({"id": 7, "at": 1000})
    rows = decoded(spark, of, [b"\x00\x00\x00\x00\x2a" + good, good, b"\x00\x00", b""])
    no_header = "its value does not begin with Confluent's header: 0, and a schema's number"
    assert rows[0][0] == 7
    assert rows[1:] == [no_header] * 3
    json_of = source("json", schema="id long", confluent_header=True)
    assert decoded(spark, json_of, [b'\x00\x00\x00\x00\x01{"id": 1}']) == [(1,)]


def written(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(AVRO)), record)
    return out.getvalue()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value": "json", "schema": "id lung"}, "here.value.schema: the schema is not valid Spark DDL."),
        ({"value": "avro", "schema": "id long"}, "here.value.schema: an Avro schema is JSON, and this is none."),
        ({"value": "avro", "schema": '"long"'}, "here.value.schema: the schema of a value is one of a record,"),
        ({"value": "avro", "schema_file": "none.avsc"}, "here.value.schema-file: the schema cannot be read."),
    ],
)
def test_a_schema_that_is_none_is_refused(spark: SparkSession, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as error:
        KafkaValues(spark, source(**settings), where="here")
    assert str(error.value).startswith(message)
