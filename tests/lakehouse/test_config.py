"""Tables in a job file and in Python: what is read, what is refused, and what Spark is given for them."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import job_spec_from_mapping
from mixedmode.connectors.lakehouse.errors import lakehouse_problem
from mixedmode.connectors.lakehouse.spec import TableSinkSpec, TableSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Sink, Source, side_output
from mixedmode.spark.packages import connector_settings


def job(**parts: Any) -> dict[str, Any]:
    whole = {
        "name": "lake",
        "execution.checkpointing.dir": "/c",
        "sources": {"t": {"format": "delta", "path": "/in"}},
        "steps": [{"sql": "SELECT * FROM t"}],
        "sink": {"format": "iceberg", "table": "lake.db.out"},
    }
    return {**whole, **parts}


def refused(**parts: Any) -> str:
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(job(**parts))
    return str(caught.value)


def test_a_job_file_and_python_give_the_same() -> None:
    source = {
        "format": "iceberg",
        "table": "lake.db.in",
        "starting": {"snapshot": 12345678901234},
        "event-time": "at",
        "options": {"streaming-skip-delete-snapshots": True},
        "max-records-per-epoch": 5,
    }
    sink = {"format": "delta", "path": "out", "mode": "append", "partition-by": ["a", "b"]}
    spec = job_spec_from_mapping(job(sources={"t": source}, sink=sink))
    assert spec.sources["t"] == Source.iceberg(
        table="lake.db.in",
        starting={"snapshot": 12345678901234},
        event_time="at",
        options={"streaming-skip-delete-snapshots": True},
        max_records_per_epoch=5,
    )
    assert spec.sink == Sink.delta("out", mode="append", partition_by=["a", "b"])
    assert isinstance(spec.sink, TableSinkSpec)
    assert (spec.sink.place, spec.sink.folder) == (f"delta {Path.cwd() / 'out'}", str(Path.cwd() / "out"))
    assert isinstance(spec.sources["t"], TableSourceSpec)
    assert (spec.sources["t"].place, spec.sources["t"].limits_per_epoch) == ("iceberg lake.db.in", {"max_records": 5})
    side: Any = side_output(Sink.delta("late"), schema="a string")
    assert (side.schema_ddl, side.partition_by) == ("a string", ())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "sources.t.path is missing: the folder of the table. Add it, or name the table in table."),
        (
            {"path": "/in", "table": "a.b"},
            "sources.t.table and path are both given, and they may be two tables. Remove one.",
        ),
        (
            {"table": "a..b"},
            (
                "sources.t.table: this does not name a table. Write it as catalog.database.name, without quotes. "
                "found=a..b"
            ),
        ),
        (
            {"path": "/in", "starting": {"snapshot": 1}},
            "sources.t.starting.snapshot is for Iceberg tables. Remove it. format=delta",
        ),
        (
            {"path": "/in", "starting": {"version": 1, "timestamp": "2026-01-01"}},
            (
                "sources.t.starting takes exactly one of version, snapshot and timestamp. Keep one. "
                "given=version, timestamp"
            ),
        ),
        (
            {"path": "/in", "max-records-per-epoch": 1},
            "sources.t.max-records-per-epoch is for Iceberg tables. Remove it. format=delta",
        ),
        (
            {"path": "/in", "options": {"maxFilesPerTrigger": 1}},
            "sources.t.options.maxFilesPerTrigger is set by the source itself. Use max-files-per-epoch of the source.",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(source: dict[str, Any], message: str) -> None:
    assert refused(sources={"t": {"format": "delta", **source}}) == message


def test_a_format_that_is_misspelled_is_told() -> None:
    assert refused(sink={"format": "icebreg", "path": "/out"}).startswith(
        "sink.format cannot be icebreg. Did you mean iceberg?"
    )


def test_spark_is_given_what_the_formats_need() -> None:
    settings = connector_settings(job_spec_from_mapping(job()), spark_version="4.1.4")
    assert settings == {
        "spark.jars.packages": (
            "io.delta:delta-spark_4.1_2.13:4.4.0,org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
        ),
        "spark.sql.extensions": (
            "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    own = connector_settings(job_spec_from_mapping(job(spark={"jars.packages": ""})), spark_version="4.3.0")
    assert own == {key: value for key, value in settings.items() if key != "spark.jars.packages"}


def test_a_job_without_tables_is_given_nothing() -> None:
    plain = job(sources={"t": {"format": "parquet", "path": "/in"}}, sink={"format": "console"})
    assert connector_settings(job_spec_from_mapping(plain), spark_version="4.3.0") == {}


def test_a_spark_without_a_build_is_told_before_it_starts() -> None:
    spec = job_spec_from_mapping(job(sink={"format": "console"}))
    with pytest.raises(InvalidJobError) as caught:
        connector_settings(spec, spark_version="4.3.0")
    assert str(caught.value) == (
        "there is no build of Delta Lake for this version of Spark, and the job has a source or sink of that kind. "
        "Install a version that has one: pip install 'pyspark==4.1.*'. If you have a build, name it in "
        "`spark: {jars: ...}`. pyspark=4.3.0, versions with a build=4.1"
    )


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (
            (
                "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example DELETE) in the source table "
                "at version 3. This is currently not supported."
            ),
            "skipChangeCommits: true in the source's options",
        ),
        ("Cannot process overwrite snapshot: 516, to ignore", "streaming-skip-overwrite-snapshots: true in the source"),
        ("Cannot process delete snapshot: 516, to ignore", "streaming-skip-delete-snapshots: true in the source"),
        ("Cannot load current offset at snapshot 5, the snapshot was expired or removed", "Keep snapshots for longer"),
        (
            "Cannot find snapshot with ID 5",
            "If the job has no checkpoint yet, start it again: it reads the table as it is",
        ),
        (
            "Starting snapshot (exclusive) 5 is not a parent ancestor of end snapshot 7",
            "so what came after it cannot be",
        ),
        (
            'Cannot invoke "Long.longValue()" because the value of "org.apache.iceberg.Snapshot.parentId()" is null',
            "was rolled back to a snapshot before",
        ),
        ("Cannot find snapshot after 7: not an ancestor of table's current snapshot", "was rolled back to a snapshot"),
        (
            (
                "[DELTA_TIMESTAMP_GREATER_THAN_COMMIT] Timestamp 2026-11-29 02:13:37.589 is after the table's latest "
                "version (2026-11-29 02:13:37.557). Use a timestamp at or before 2026-11-29 02:13:37."
            ),
            "or name an earlier time in starting.timestamp. newest_commit=2026-11-29 02:13:37.557",
        ),
        (
            "[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 2. Available versions: [0, 1].",
            "Name one that it has in starting.version. starting.version=2, versions=[0, 1]",
        ),
        ("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading", "deleted and made anew"),
        ("[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] If you never deleted it", "commits of its log have expired"),
        (
            "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming read is not supported on tables",
            "a column of the Delta table of a source was renamed or dropped",
        ),
        ("[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 2", "Start it again: it goes on with"),
        (
            "org.apache.iceberg.exceptions.NotFoundException: Failed to open input stream for file: /t/data/1.parquet",
            "reads the table as it is now. file=/t/data/1.parquet",
        ),
    ],
)
def test_what_the_formats_say_is_explained(said: str, means: str) -> None:
    problem = lakehouse_problem(f"[STREAM_FAILED] Query terminated with exception: {said} SQLSTATE: XXKST")
    assert problem is not None
    assert means in str(problem)


def test_other_errors_are_not_of_tables() -> None:
    assert lakehouse_problem("[DIVIDE_BY_ZERO] Division by zero.") is None
