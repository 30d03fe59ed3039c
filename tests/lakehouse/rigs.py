"""Rigs of the contract (tests/connectors) over tables of Delta Lake and Iceberg.

The test writes and reads the tables with the session that the job runs in, as any other program would;
in a process of its own, the job gets the same jars.
"""

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.connectors.rigs import (
    CALLS,
    PLAIN,
    SCHEMA_DDL,
    Rig,
    SinkPart,
    SourcePart,
    before_topic,
    json_files,
    json_output,
)
from tests.differential.oracle import Row
from tests.lakehouse.tables import FORMATS, SPARK, Format, add, rows_of

#: each format as a source and as a sink; and a history in it, with a topic as the live side
RIGS = [*itertools.product(FORMATS, FORMATS), *((f"{kind}-and-kafka", PLAIN) for kind in FORMATS)]


def rig(request: pytest.FixtureRequest, source: str, sink: str, folder: Path) -> Rig:
    """Needs `spark` and `jars` of this folder's conftest."""
    (folder / "db").mkdir(parents=True)
    return Rig(folder, _source(request, source, folder), _sink(request, sink, folder))


def _source(request: pytest.FixtureRequest, name: str, folder: Path) -> SourcePart:
    for kind in FORMATS:
        if name == kind:
            return _table_source(request, kind, folder)
        if name == f"{kind}-and-kafka":
            return _history_and_topic(request, kind, folder)
    return json_files(folder, request)


def _table_source(request: pytest.FixtureRequest, kind: Format, folder: Path) -> SourcePart:
    settings = {"format": kind, "path": "./db/in", "event-time": "at"}
    return SourcePart(settings, partial(_add, _spark(request), kind, folder / "db" / "in"), _jars(request))


def _history_and_topic(request: pytest.FixtureRequest, kind: Format, folder: Path) -> SourcePart:
    put = partial(_add, _spark(request), kind, folder / "db" / "history")
    return before_topic(request, {"format": kind, "path": "./db/history"}, put, spark=_jars(request))


def _sink(request: pytest.FixtureRequest, name: str, folder: Path) -> SinkPart:
    for kind in FORMATS:
        if name == kind:
            return _table_sink(request, kind, folder)
    return json_output(folder, request)


def _table_sink(request: pytest.FixtureRequest, kind: Format, folder: Path) -> SinkPart:
    def rows() -> list[Row]:
        found = rows_of(_spark(request), kind, folder / "db" / "out")
        return [{name: row[name] for name in ("k", *CALLS)} for row in found]

    return SinkPart({"format": kind, "path": "./db/out"}, rows, _jars(request))


def _add(spark: SparkSession, kind: Format, path: Path, rows: Sequence[Row]) -> None:
    add(spark, kind, path, [(row["k"], row["v"], row["at"]) for row in rows], SCHEMA_DDL)


def _spark(request: pytest.FixtureRequest) -> SparkSession:
    spark: SparkSession = request.getfixturevalue("spark")
    return spark


def _jars(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {**SPARK, "jars": request.getfixturevalue("jars")}
