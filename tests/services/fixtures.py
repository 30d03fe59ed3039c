"""A Kafka broker and a PostgreSQL server for tests, real ones, on loopback; each starts when a test first asks for it.

`kafka` and `postgres` are shared by the test process: a test takes topics and databases of its own
(`kafka.new_topic()`, `database`). One that stops or kills a server takes `own_kafka` or `own_postgres`. Where Kafka's
jars or PostgreSQL cannot be had, the tests are skipped, and say why.

    def test_what_is_produced_is_read(kafka: Kafka) -> None:
        topic = kafka.new_topic(partitions=2)
        kafka.produce(topic, [Record(b"1", key=b"a", partition=0)])       # by another process; acknowledged on return
        (record,) = kafka.consume(topic)                                  # all that there is, by partition and offset
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mixedmode.errors import RetryableError
from mixedmode_services.kafka import KafkaBroker, kafka_broker
from mixedmode_services.postgres import PostgresServer, find_binaries

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PRODUCE = Path(__file__).with_name("produce.py")
TIMEOUT_S = 30.0
_QUIET = {"log_level": 0}  # a broker that is away is what some tests are about

_serial = itertools.count(1)

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Record:
    """A record to produce; where it says nothing, Kafka decides. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Consumed:
    """A record as Kafka has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


@dataclass
class Kafka:
    """A broker, and what tests do with one."""

    broker: KafkaBroker
    _producer: "Producing | None" = field(default=None, repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def new_topic(self, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str:
        """The name of a new, empty topic."""
        name = f"topic-{os.getpid()}-{next(_serial)}"
        self.create_topic(name, partitions, config=config)
        return name

    def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> None:
        from confluent_kafka.cimpl import NewTopic

        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin, deadline = self._admin(), time.monotonic() + 60
        _all_done(admin.create_topics([wanted]))
        while name not in admin.list_topics(timeout=60).topics:  # the broker hears of it a moment later
            assert time.monotonic() < deadline, name

    def configure_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Set these options of a topic that exists."""
        from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
        from confluent_kafka.admin._resource import ResourceType

        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
        ]
        admin = self._admin()
        wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _all_done(admin.incremental_alter_configs([wanted]))

    def add_partitions(self, topic: str, total: int) -> None:
        """So many partitions as of now."""
        from confluent_kafka.cimpl import NewPartitions

        admin = self._admin()
        _all_done(admin.create_partitions([NewPartitions(topic, total)]))

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()
        _all_done(admin.delete_topics([topic]))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete records of partitions before these offsets, as if they had expired."""
        from confluent_kafka import TopicPartition

        admin = self._admin()
        _all_done(admin.delete_records([TopicPartition(topic, p, offset) for p, offset in before.items()]))

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        """Produce them, by a separate process, which stays for the next call; the broker has acknowledged them all."""
        if self._producer is None:
            self._producer = Producing(self.bootstrap_servers)
        self._producer.send(topic, records)

    @contextmanager
    def producing(self) -> Iterator["Producing"]:
        """A producing process of one's own, for a thread beside the test."""
        producing = Producing(self.bootstrap_servers)
        try:
            yield producing
        finally:
            producing.close()

    def consume(self, topic: str) -> list[Consumed]:
        """All that the topic has now, by partition and offset; of transactions, what was committed."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "tests",
            "enable.auto.commit": False,
            **_QUIET,
        }
        more = {"isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        consumer = Consumer({**settings, **more})
        try:
            partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            consumed: list[Consumed] = []
            at_end: set[int | None] = set()
            while at_end != set(partitions):
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"the broker did not answer, topic={topic}"
                error = message.error()
                if error is None:
                    consumed.append(_consumed(message))
                    continue
                assert error.name() == "_PARTITION_EOF", error
                at_end.add(message.partition())
        finally:
            consumer.close()
        return sorted(consumed, key=lambda record: (record.partition, record.offset))

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """[first, end) of the offsets of each partition."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "tests", **_QUIET})
        try:
            partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
            return {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
                for partition in sorted(partitions)
            }
        finally:
            consumer.close()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def _admin(self) -> "AdminClient":
        """To be kept until what it was asked for is done: it takes that along when it goes."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **_QUIET})


class Producing:
    """A process that produces what it is sent."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PRODUCE), bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, topic: str, records: Iterable[Record]) -> int:
        """Returns when the broker has acknowledged them; how many that makes since the process has started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.writelines(as_line(topic, record) for record in records)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the producing process has ended, with {self._process.wait()}; it has said why"
        return int(answer)

    def close(self) -> None:
        self._process.communicate()


@dataclass(frozen=True)
class Database:
    """A database of a test's own."""

    name: str
    url: str

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Runs it in a connection and a transaction of its own; the rows that it gives, if any."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []


@dataclass
class Postgres:
    """A server, and what tests do with one."""

    server: PostgresServer

    @contextmanager
    def new_database(self) -> Iterator[Database]:
        """An empty database, which is dropped afterwards, whoever is connected to it."""
        name = f"test_{os.getpid()}_{next(_serial)}"
        self._run(f'CREATE DATABASE "{name}"')
        yield Database(name, self.server.url(name))
        if self.server.is_running:
            self._run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _run(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


def as_line(topic: str, record: Record) -> str:
    """A record for produce.py: one line of JSON, with bytes as base64."""
    fields = {
        "topic": topic,
        "key": _encoded(record.key),
        "value": _encoded(record.value),
        "headers": [(name, _encoded(value)) for name, value in record.headers],
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
    }
    return json.dumps(fields) + "\n"


def need_kafka() -> None:
    """Skip the test where Kafka cannot be had."""
    skip_without(kafka_broker)


def need_postgres() -> None:
    """Skip the test where PostgreSQL cannot be had."""
    skip_without(find_binaries)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """The broker that every test shares."""
    with _kafka() as kafka:
        yield kafka


@pytest.fixture
def own_kafka() -> Iterator[Kafka]:
    """A broker for a test that stops or kills it; 3 s to start."""
    with _kafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server that every test shares."""
    with _postgres() as postgres:
        yield postgres


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server for a test that stops it or lets it crash; 1 s to start."""
    with _postgres() as postgres:
        yield postgres


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    """An empty database of the shared server."""
    with postgres.new_database() as database:
        yield database


@contextmanager
def _kafka() -> Iterator[Kafka]:
    need_kafka()
    with open_folder() as folder, KafkaBroker(folder) as broker:
        kafka = Kafka(broker)
        try:
            yield kafka
        finally:
            kafka.close()


@contextmanager
def _postgres() -> Iterator[Postgres]:
    need_postgres()
    with open_folder() as folder, PostgresServer(folder, unsafe=True) as server:
        yield Postgres(server)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users can pass through, unlike pytest's: root starts PostgreSQL as one of them."""
    root = "/tmp" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="mixedmode-services-", dir=root))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def skip_without(get: Any) -> None:
    """Skip the test where what `get` fetches cannot be had."""
    try:
        get()
    except RetryableError as error:
        pytest.skip(str(error))


def _all_done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def _consumed(message: Any) -> Consumed:
    return Consumed(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=message.headers() or [],
        timestamp_ms=message.timestamp()[1],
    )


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
