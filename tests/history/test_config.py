"""The section of a history and what is live: what it takes, and what it says of the rest."""

from typing import Any

import pytest

from mixedmode.config import JobSpec, load_job
from mixedmode.connectors.history.spec import HistoryAndLiveSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.job import Job, Sink, Source
from tests.config.refusals import SMALLEST_JOB, messages
from tests.history.story import SEAM

KAFKA = {
    "format": "kafka",
    "bootstrap-servers": "broker:9092",
    "topics": "orders.eu",
    "value": {"format": "json", "schema": "at timestamp"},
}
SOURCE: dict[str, Any] = {
    "history": {"format": "parquet", "path": "/archive"},
    "live": KAFKA,
    "seam": {"timestamp": "2024-06-01T02:00:00+02:00"},
    "event-time": "at",
}


def job(**changes: Any) -> dict[str, Any]:
    return SMALLEST_JOB | {"sources": {"orders": {**SOURCE, **changes}}}


def test_a_section_with_history_and_live_needs_no_format() -> None:
    source = JobSpec.model_validate(job()).sources["orders"]
    assert isinstance(source, HistoryAndLiveSpec)
    assert (source.seam.timestamp, source.seam.nulls, source.missing_columns) == (SEAM, "fail", "fail")
    assert source.seam_column == "at"
    assert source.place == "history parquet /archive, live kafka orders.eu at broker:9092"


def test_a_seam_of_offsets_is_where_the_live_side_begins(tmp_path: Any) -> None:
    text = """\
name: orders
execution.checkpointing.dir: ./checkpoints
sources:
  orders:
    history: {format: parquet, path: archive}
    live: {format: kafka, bootstrap-servers: "broker:9092", topics: orders.eu, value: {format: json, schema: at date}}
    seam: {offsets: {orders.eu: {0: 1200, 1: 0}}}
steps: [{sql: SELECT * FROM orders}]
sink: {format: console}
"""
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    spec = load_job(tmp_path / "job.yaml").spec
    source = spec.sources["orders"]
    assert isinstance(source, HistoryAndLiveSpec)
    assert source.history.place == f"parquet {tmp_path / 'archive'}", "paths of the sides are the job file's"
    live: Any = source.sides["live"]
    assert live.starting.offsets == {"orders.eu": {0: 1200, 1: 0}}
    assert source.seam_column is None
    assert JobSpec.model_validate(spec.as_document()) == spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"history": {"path": "/archive"}}, ".history.format is missing: what it is. Add it. Known values: csv, "),
        ({"history": KAFKA}, ".history.format cannot be kafka. Known values: csv, "),
        ({"history": None}, ".history is missing: where the records before the seam are"),
        (
            {
                "history": {
                    "format": "csv",
                    "path": "/archive",
                    "schema": "at timestamp",
                    "undecodable": "dead-letter",
                    "dead-letter": {"format": "console"},
                }
            },
            ".history.dead-letter is an output that only the live side can have. Remove it, with undecodable.",
        ),
        ({"live": {"history": {}, "live": {}}}, ".live.format is missing: what it is."),
        (
            {"history": {**SOURCE["history"], "bounded": True}},
            ".history.bounded is said of the source as a whole. Move it out, beside history and live.",
        ),
        ({"live": {**KAFKA, "event-time": "at"}}, ".live.event-time is said of the source as a whole."),
        ({"live": {**KAFKA, "watermark": {"idle-timeout": "1m"}}}, ".live.watermark is said of the source as a whole."),
        ({"seam": {}}, ".seam has either timestamp or offsets. Give one of them."),
        (
            {"seam": {"timestamp": "2024-06-01"}},
            ".seam.timestamp must be a point in time with its offset from UTC and at most microseconds, such as",
        ),
        (
            {"seam": {"offsets": {"orders.eu": {"0": 1}}, "column": "at"}},
            ".seam.column has no effect on a seam of offsets, which compares no column. Remove it.",
        ),
        (
            {"event-time": None},
            ".seam.column is missing: without event-time, the seam does not say what its timestamp is compared with.",
        ),
        (
            {"live": SOURCE["history"], "seam": {"offsets": {"orders.eu": {"0": 1}}}},
            ".seam.offsets are offsets of Kafka, and the live side has none. Give a timestamp. live=parquet /archive",
        ),
        (
            {"live": {**KAFKA, "starting": "latest"}, "seam": {"offsets": {"orders.eu": {"0": 1}}}},
            ".live.starting is given by the seam's offsets, where the live side begins. Remove it.",
        ),
        (
            {"seam": {"offsets": {"orders": {"0": 1}}}},
            (
                ".seam.offsets must name the topics that the live side reads, and no other, each with all of its "
                "partitions. Correct it. topics=orders, orders.eu"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(changes: dict[str, Any], message: str) -> None:
    found = messages(JobSpec, job(**changes))
    assert found[0].startswith(f"sources.orders{message}"), found


def test_a_source_without_any_kind_is_told_of_both_ways() -> None:
    (found,) = messages(JobSpec, SMALLEST_JOB | {"sources": {"orders": {"path": "/archive"}}})
    assert found.startswith("sources.orders.format is missing: what it is. Add it. Known values: csv, ")
    assert found.endswith(" Or give it history, live and seam, each a section.")


def test_it_is_the_same_in_python() -> None:
    source = Source.history_and_live(
        Source.parquet("/archive"),
        Source.json("/live", schema="at timestamp"),
        seam=SEAM,
        nulls="live",
        missing_columns="nulls",
        event_time="at",
        out_of_orderness="1h",
    )
    built = Job("orders", sources={"orders": source}, checkpoint_dir="/run").sql("SELECT * FROM orders")
    spec = built.write(Sink.console()).spec
    assert JobSpec.model_validate(spec.as_document()) == spec
    assert spec.as_document()["sources"]["orders"] == {
        "history": {"format": "parquet", "path": "/archive"},
        "live": {"format": "json", "path": "/live", "schema": "at timestamp"},
        "seam": {"timestamp": "2024-06-01T00:00:00+00:00", "nulls": "live"},
        "missing-columns": "nulls",
        "event-time": "at",
        "watermark": {"out-of-orderness": "1h"},
    }


def test_a_live_side_of_kafka_in_python_begins_at_the_offsets_of_the_seam() -> None:
    live = Source.kafka("orders", bootstrap_servers="broker:9092", value="text")
    source = Source.history_and_live(Source.parquet("/archive"), live, seam={"orders": {0: 7, 1: 0}})
    begun = source.sides["live"]
    assert isinstance(begun, KafkaSourceSpec)
    assert begun.starting.offsets == {"orders": {0: 7, 1: 0}}
