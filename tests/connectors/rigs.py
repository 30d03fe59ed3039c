"""One job over each connector: how records get in, and what a reader finds outside.

A rig hides the connector, so that one contract (test_contract.py) holds for all of them.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from mixedmode.connectors.kafka.jars import kafka_connector
from tests.differential.oracle import Call, Row, Table, aggregate, keyed
from tests.harness import SPARK, output_rows, write_json, write_parquet, write_text
from tests.services.fixtures import Database, Kafka, Record

SCHEMA_DDL = "k string, v long, at timestamp"
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
START = datetime(2001, 1, 1, tzinfo=UTC)
SEAM = START + timedelta(days=1)  # records of the first day are history where a source has both
CALLS = {"n": Call("count"), "total": Call("sum", "v"), "most": Call("max", "v")}

Settings = dict[str, Any]  # a section of a job file
Put = Callable[[Sequence[Row]], object]


@dataclass(frozen=True)
class SourcePart:
    """A source, and how records get into it. `spark`: settings that it needs in a process of its own."""

    settings: Settings
    put: Put
    spark: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SinkPart:
    """A sink, and the rows that are in its place now: the newest of each key. `spark` as for sources."""

    settings: Settings
    rows: Callable[[], Sequence[Row]]
    spark: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Rig:
    """A job file over a source and a sink, and all records that it was given."""

    folder: Path
    source: SourcePart
    sink: SinkPart
    given: list[Row] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def job_file(self, mode: str = "mixed") -> Path:
        """Counts and sums by key, of two branches of the source; both leave the records of one key, c, out."""
        job = {
            "name": "contract",
            "execution": {
                "runtime-mode": mode,
                "checkpointing": {"interval": "100ms", "dir": "./checkpoints", "num-retained": 5},
                "interval-during-backlog": "100ms" if mode == "streaming" else 0,
            },
            "parallelism": 2,
            "pipeline": {"max-parallelism": 8},
            "spark": {**SPARK, **self.source.spark, **self.sink.spark},
            "sources": {"t": self.source.settings},
            "steps": [
                {"name": "low", "from": "t", "sql": "SELECT k, v FROM t WHERE v < 5 AND k <> 'c'"},
                {"name": "high", "from": "t", "sql": "SELECT k, v FROM t WHERE v >= 5 AND k <> 'c'"},
                {"name": "both", "from": ["low", "high"], "sql": "SELECT * FROM low UNION ALL SELECT * FROM high"},
                {"key-by": ["k"], "aggregate": {name: str_of(call) for name, call in CALLS.items()}},
            ],
            "sink": self.sink.settings,
        }
        return write_text(self.folder, "job.yaml", yaml.safe_dump(job, sort_keys=False))

    def put(self, rows: Sequence[Row]) -> None:
        self.source.put(rows)
        self.given += rows

    def answer(self) -> Table:
        return aggregate([row for row in self.given if row["k"] != "c"], ["k"], CALLS)

    def table(self) -> Table:
        return keyed(self.sink.rows(), ["k"])


def str_of(call: Call) -> str:
    return f"{call.function}({call.argument or '*'})"


def records(piece: int, count: int = 40) -> list[Row]:
    """Some records; the pieces from 1 on are of later days, each of its own."""
    return [
        {
            "k": "abcdef"[number * (piece + 3) % 6],
            "v": number - 7,
            "at": START + timedelta(days=2 * piece, minutes=number),
        }
        for number in range(count)
    ]


def json_text(row: Row) -> str:
    return json.dumps({**row, "at": f"{row['at']:%F %T}"})


# --- sources ---------------------------------------------------------------------------------------------------------


def json_files(folder: Path, _request: pytest.FixtureRequest) -> SourcePart:
    def put(rows: Sequence[Row]) -> None:
        number = len(list((folder / "in").glob("*.json")))
        write_json(folder / "in", f"{number:04}.json", [json.loads(json_text(row)) for row in rows])

    (folder / "in").mkdir()
    return SourcePart({"format": "json", "path": "./in", "schema": SCHEMA_DDL, "event-time": "at"}, put)


def csv_files(folder: Path, _request: pytest.FixtureRequest) -> SourcePart:
    def put(rows: Sequence[Row]) -> None:
        number = len(list((folder / "in").glob("*.csv")))
        lines = "".join(f"{row['k']},{row['v']},{row['at']:%F %T}\n" for row in rows)
        write_text(folder / "in", f"{number:04}.csv", lines)

    (folder / "in").mkdir()
    return SourcePart({"format": "csv", "path": "./in", "schema": SCHEMA_DDL, "event-time": "at"}, put)


def parquet_files(folder: Path, _request: pytest.FixtureRequest) -> SourcePart:
    def put(rows: Sequence[Row]) -> None:
        number = len(list((folder / "in").glob("*.parquet")))
        write_parquet(folder / "in", f"{number:04}.parquet", pa.Table.from_pylist(list(rows), SCHEMA))

    (folder / "in").mkdir()
    return SourcePart({"format": "parquet", "path": "./in", "schema": SCHEMA_DDL, "event-time": "at"}, put)


def kafka_topic(folder: Path, request: pytest.FixtureRequest) -> SourcePart:
    kafka: Kafka = request.getfixturevalue("kafka")
    topic = kafka.new_topic(partitions=3)
    return SourcePart(
        {**topic_settings(kafka, topic), "event-time": "at"}, lambda rows: produce(kafka, topic, rows), kafka_jars()
    )


def history_and_topic(folder: Path, request: pytest.FixtureRequest) -> SourcePart:
    def put(rows: Sequence[Row]) -> None:
        write_parquet(folder / "history", "1.parquet", pa.Table.from_pylist(list(rows), SCHEMA))

    (folder / "history").mkdir()
    history = {"format": "parquet", "path": "./history", "schema": SCHEMA_DDL}
    return before_topic(request, history, put, spark=kafka_jars())


def before_topic(
    request: pytest.FixtureRequest, history: Settings, put_history: Put, *, spark: Mapping[str, Any]
) -> SourcePart:
    """The first day in a history, and all days in Kafka, so that each side holds records of the other one."""
    kafka: Kafka = request.getfixturevalue("kafka")
    topic = kafka.new_topic(partitions=2)

    def put(rows: Sequence[Row]) -> None:
        produce(kafka, topic, rows)
        before = [row for row in rows if row["at"] < SEAM]
        if before:
            put_history([*before, {"k": "a", "v": 1_000_000, "at": SEAM}])  # the last: only Kafka's word counts for it

    seam = {"timestamp": f"{SEAM:%FT%TZ}"}
    settings = {"history": history, "live": topic_settings(kafka, topic), "seam": seam, "event-time": "at"}
    return SourcePart(settings, put, spark)


def topic_settings(kafka: Kafka, topic: str) -> Settings:
    return {
        "format": "kafka",
        "bootstrap-servers": kafka.bootstrap_servers,
        "topics": [topic],
        "value": {"format": "json", "schema": SCHEMA_DDL},
    }


def produce(kafka: Kafka, topic: str, rows: Sequence[Row]) -> None:
    kafka.produce(topic, [Record(json_text(row).encode(), key=row["k"].encode()) for row in rows])


def kafka_jars() -> dict[str, str]:
    return {"jars": ",".join(map(str, kafka_connector()))}


PYTHON_SOURCE = """\
import json
from pathlib import Path

import pyarrow as pa

from mixedmode.connectors import CustomSource


class Numbered(CustomSource):
    def __init__(self, folder):
        self.folder = Path(folder)

    def schema(self):
        return "k string, v long, at timestamp"

    def latest(self):
        return len(list(self.folder.glob("*.json"))) or None

    def splits(self, start, end):
        return list(range(start or 0, end))

    def read(self, split):
        rows = [json.loads(line) for line in (self.folder / f"{split:04}.json").read_text().splitlines()]
        times = pa.array([row["at"] for row in rows]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        yield pa.record_batch([[row["k"] for row in rows], [row["v"] for row in rows], times], names=["k", "v", "at"])
"""


def python_class(folder: Path, request: pytest.FixtureRequest) -> SourcePart:
    files = json_files(folder, request)
    write_text(folder, "numbered.py", PYTHON_SOURCE)
    settings = {"format": "custom", "class": "numbered:Numbered", "args": {"folder": str(folder / "in")}}
    return SourcePart({**settings, "event-time": "at"}, files.put)


SOURCES: dict[str, Callable[[Path, pytest.FixtureRequest], SourcePart]] = {
    "json": json_files,
    "csv": csv_files,
    "parquet": parquet_files,
    "kafka": kafka_topic,
    "history-and-kafka": history_and_topic,
    "custom": python_class,
}


# --- sinks -----------------------------------------------------------------------------------------------------------


def json_output(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    return SinkPart({"format": "json", "path": "./out"}, lambda: output_rows(folder / "out"))


def parquet_output(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    return SinkPart({"format": "parquet", "path": "./out"}, lambda: output_rows(folder / "out"))


def csv_output(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    return SinkPart({"format": "csv", "path": "./out"}, lambda: output_rows(folder / "out"))


def partitioned_output(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    settings = {"format": "parquet", "path": "./out", "partition-by": ["k"], "max-file-size": "1KB"}
    return SinkPart({**settings, "success-marker": True}, lambda: output_rows(folder / "out"))


def sqlite_table(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    def rows() -> list[Row]:
        with closing(sqlite3.connect(folder / "shop.db")) as connection:
            found = connection.execute("SELECT k, n, total, most FROM totals").fetchall()
        return [dict(zip(("k", *CALLS), row, strict=True)) for row in found]

    return SinkPart({"format": "sqlite", "path": "./shop.db", "table": "totals"}, rows)


def postgres_table(folder: Path, request: pytest.FixtureRequest) -> SinkPart:
    database: Database = request.getfixturevalue("database")
    table = f"totals {folder.name}"

    def rows() -> list[Row]:
        found = database.sql(f'SELECT k, n, total, most FROM "{table}"')
        return [dict(zip(("k", *CALLS), row, strict=True)) for row in found]

    return SinkPart({"format": "postgres", "url": database.url, "table": table}, rows)


def topic_output(folder: Path, request: pytest.FixtureRequest) -> SinkPart:
    """The newest record of each key. A record that was sent again says so by its headers, and holds the same."""
    kafka: Kafka = request.getfixturevalue("kafka")
    topic = kafka.new_topic(partitions=2)

    def rows() -> list[Row]:
        sent: dict[tuple[bytes | None, ...], bytes | None] = {}
        newest: dict[str, Row] = {}
        for record in kafka.consume(topic):
            headers = dict(record.headers)
            place = tuple(headers[f"mixedmode-{name}"] for name in ("generation", "epoch", "sequence"))
            assert sent.setdefault(place, record.value) == record.value, place
            assert record.key is not None
            assert record.value is not None, "no key is deleted here"
            newest[json.loads(record.key)["k"]] = json.loads(record.value)
        return list(newest.values())

    settings = {"format": "kafka", "bootstrap-servers": kafka.bootstrap_servers, "topic": topic}
    return SinkPart(settings, rows, kafka_jars())


PYTHON_SINK = """\
import json
from pathlib import Path

from mixedmode.connectors import CustomSink


class Journal(CustomSink):
    def __init__(self, folder):
        self.folder = Path(folder)

    def open(self, job, output, columns, key_columns):
        self.folder.mkdir(exist_ok=True)

    def publish(self, epoch, batches):
        rows = [row for batch in batches for row in batch.to_pylist()]
        (self.folder / f"{epoch:08}.json").write_text(json.dumps(rows))

    def roll_back(self, after):
        for path in self.folder.iterdir():
            if int(path.stem) > after:
                path.unlink()
"""


def python_journal(folder: Path, _request: pytest.FixtureRequest) -> SinkPart:
    write_text(folder, "journal.py", PYTHON_SINK)

    def rows() -> list[Row]:
        changes = [row for path in sorted((folder / "journal").iterdir()) for row in json.loads(path.read_text())]
        return list({row["k"]: {name: row[name] for name in ("k", *CALLS)} for row in changes}.values())

    return SinkPart({"format": "custom", "class": "journal:Journal", "args": {"folder": str(folder / "journal")}}, rows)


SINKS: dict[str, Callable[[Path, pytest.FixtureRequest], SinkPart]] = {
    "json": json_output,
    "parquet": parquet_output,
    "csv": csv_output,
    "partitioned": partitioned_output,
    "sqlite": sqlite_table,
    "postgres": postgres_table,
    "kafka": topic_output,
    "custom": python_journal,
}

PLAIN = "json"
#: Every format once on each side. What a source does does not depend on the sink, so no pair is there for itself.
RIGS = [
    (PLAIN, PLAIN),
    ("csv", "csv"),
    ("parquet", "parquet"),
    (PLAIN, "partitioned"),
    (PLAIN, "sqlite"),
    ("history-and-kafka", "postgres"),
    ("kafka", "kafka"),
    ("custom", "custom"),
]
#: every connector once on each side: files of another format are read, staged and published by the same code
CONNECTORS = [(source, sink) for source, sink in RIGS if not {"csv", "parquet"} & {source, sink}]
#: each source of these once
CONNECTED = [(source, PLAIN) for source in dict.fromkeys(source for source, _ in CONNECTORS)]


def rig(request: pytest.FixtureRequest, source: str, sink: str, folder: Path) -> Rig:
    folder.mkdir()
    return Rig(folder, SOURCES[source](folder, request), SINKS[sink](folder, request))
