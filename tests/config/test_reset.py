"""A job that starts again from a point: what changes in its settings, and which jobs are refused."""

from typing import Any

import pytest

from mixedmode.config.load import job_spec_from_mapping
from mixedmode.config.reset import reset_spec
from mixedmode.config.starts import StartPoint
from mixedmode.errors import InvalidJobError

KAFKA = {"format": "kafka", "bootstrap-servers": "b:9092", "topics": "orders", "value": {"format": "text"}}
FILES = {"format": "json", "path": "/data/in", "schema": "value string", "event-time": "value"}
DELTA = {"format": "delta", "path": "/data/in", "starting": {"version": 4}}
TIME = "2026-11-24T08:00:00+01:00"


def job(source: dict[str, Any], sink: dict[str, Any] | None = None, **execution: Any) -> dict[str, Any]:
    return {
        "name": "totals",
        "execution": {"runtime-mode": "mixed", "checkpointing": {"dir": "/state/totals/"}, **execution},
        "sources": {"orders": source},
        "steps": [{"key-by": ["value"], "aggregate": {"n": "count(*)"}}],
        "sink": sink or {"format": "parquet", "path": "/data/out"},
    }


def reset(mapping: dict[str, Any], to: str, suffix: str = "_2") -> dict[str, Any]:
    return reset_spec(job_spec_from_mapping(mapping), StartPoint.parse(to), suffix).as_document()


@pytest.mark.parametrize(
    ("source", "to", "starting"),
    [
        (KAFKA | {"starting": "latest"}, "earliest", None),
        (KAFKA, "latest", "latest"),
        (KAFKA, TIME, {"timestamp": "2026-11-24T07:00:00+00:00"}),
        (KAFKA, '{"orders": {"0": 12, "1": "latest"}}', {"offsets": {"orders": {"0": 12, "1": "latest"}}}),
        (DELTA, "earliest", None),
        (DELTA, TIME, {"timestamp": "2026-11-24T07:00:00+00:00"}),
        (FILES, "earliest", None),
    ],
)
def test_only_the_start_the_checkpoints_and_the_output_change(
    source: dict[str, Any], to: str, starting: object
) -> None:
    before, now = job_spec_from_mapping(job(source)).as_document(), reset(job(source), to)
    given = now["sources"]["orders"]
    assert given.pop("starting", None) == starting
    assert given == {key: value for key, value in before["sources"]["orders"].items() if key != "starting"}
    assert now["execution"]["checkpointing"]["dir"] == "/state/totals_2"
    assert now["sink"]["path"] == "/data/out_2"
    assert {key: now[key] for key in ("name", "steps")} == {key: before[key] for key in ("name", "steps")}


@pytest.mark.parametrize(
    ("sink", "place"),
    [
        ({"format": "sqlite", "path": "/data/t.db", "table": "totals"}, "sqlite /data/t.db totals_2"),
        ({"format": "postgres", "url": "postgresql://h/d", "table": "totals"}, "postgres h:5432/d public.totals_2"),
        ({"format": "delta", "table": "main.totals"}, "delta main.totals_2"),
        ({"format": "iceberg", "path": "s3://data/totals/"}, "iceberg s3://data/totals_2"),
        ({"format": "kafka", "bootstrap-servers": "b:1", "topic": "totals"}, "kafka totals_2 at b:1"),
        ({"format": "console"}, "console standard output"),
    ],
)
def test_every_kind_of_output_gets_a_place_of_its_own(sink: dict[str, Any], place: str) -> None:
    spec = reset_spec(job_spec_from_mapping(job(FILES, sink)), StartPoint(at="earliest"), "_2")
    assert spec.sink is not None
    assert spec.sink.place == place


def test_every_output_of_a_job_moves() -> None:
    source = KAFKA | {"undecodable": "dead-letter", "dead-letter": {"format": "parquet", "path": "/data/dead"}}
    found = reset(job(source), "earliest", "_again")
    assert found["sources"]["orders"]["dead-letter"]["path"] == "/data/dead_again"


@pytest.mark.parametrize(
    ("mapping", "to", "says"),
    [
        (job(FILES), "latest", "sources.orders: this source has no position in time"),
        (job(FILES), TIME, "leave earlier records out by a condition in a sql step"),
        (job(DELTA), "latest", "from a time of its history on"),
        (job(KAFKA), '{"sales": {"0": 12}}', "the offsets must name the topics that the source reads"),
        (
            job(KAFKA),
            '{"orders": {"0": 1}, "sales": {"0": 12}}',
            'no source reads. Remove it. topic=sales, to={"orders"',
        ),
        (job(KAFKA), '{"orders": {"0": -7}}', "the offsets cannot be used: offsets.orders.0"),
        (job(KAFKA), "yesterday", "this is no point to start from"),
        (job(KAFKA), "2026-11-24T08:00:00", "a time with its offset from UTC"),
        (job(KAFKA), "2026-11-24T08:00:00.0000001Z", "a time with its offset from UTC and at most microseconds"),
        (job(FILES, {"format": "custom", "class": "m:C"}), "earliest", "sink: this output has no folder"),
        (
            job(FILES) | {"execution": {"runtime-mode": "batch"}},
            "earliest",
            "this job keeps no checkpoints, so each run starts at the beginning",
        ),
    ],
)
def test_what_cannot_start_there_exactly_is_refused(mapping: dict[str, Any], to: str, says: str) -> None:
    with pytest.raises(InvalidJobError, match=says):
        reset(mapping, to)


def test_each_source_begins_at_the_offsets_of_its_topics() -> None:
    mapping = job(KAFKA) | {
        "sources": {"orders": KAFKA, "rest": KAFKA | {"topics": ["sales", "refunds"]}},
        "steps": [
            {"name": "both", "from": ["orders", "rest"], "sql": "SELECT * FROM orders UNION ALL SELECT * FROM rest"},
            {"key-by": ["value"], "aggregate": {"n": "count(*)"}},
        ],
    }
    sources = reset(mapping, '{"orders": {"0": 1}, "refunds": {"0": "latest"}, "sales": {"0": 2, "1": 3}}')["sources"]
    assert sources["orders"]["starting"] == {"offsets": {"orders": {"0": 1}}}
    assert sources["rest"]["starting"] == {"offsets": {"refunds": {"0": "latest"}, "sales": {"0": 2, "1": 3}}}
    with pytest.raises(
        InvalidJobError, match=r"^sources\.rest: the offsets must name the topics that the source reads"
    ):
        reset(mapping, '{"orders": {"0": 1}}')


@pytest.mark.parametrize(("length", "is_cut_off"), [(61, False), (62, True)])
def test_a_table_whose_name_would_be_cut_off_is_refused(length: int, is_cut_off: bool) -> None:
    sink = {"format": "postgres", "url": "postgresql://h/d", "table": "t" * length}
    if not is_cut_off:
        assert reset(job(KAFKA, sink), "latest")["sink"]["table"] == f"{'t' * length}_2"
        return
    with pytest.raises(InvalidJobError, match=r"sink.table is longer than the 63 bytes of a name in PostgreSQL"):
        reset(job(KAFKA, sink), "latest")
