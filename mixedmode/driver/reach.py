"""Checks the external systems of a job: topics of Kafka, databases of PostgreSQL, and the library for PostgreSQL.

The checks run before the start claims a generation or commits. All systems are checked, so one report has all problems.
"""

import re
from collections.abc import Iterator, Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.analysis.problems import collecting
from mixedmode.config import JobSpec
from mixedmode.config.document import Path
from mixedmode.connectors.history.spec import HistoryAndLiveSpec
from mixedmode.connectors.kafka.errors import kafka_problem, without_connector
from mixedmode.connectors.kafka.sink import TOPIC_PATIENCE
from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.connectors.postgres.sink import postgres_table
from mixedmode.connectors.postgres.spec import PostgresSinkSpec
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.plan.keyed_operators import Where
from mixedmode.secrets import hidden, resolve, resolve_all
from mixedmode.sinks.tables.database import Database, LostConnectionError

#: messages with which PostgreSQL refuses a login; the server has answered, so a repeat would not help
_REFUSED_LOGIN = re.compile(
    r"password authentication failed|no password supplied|role \S+ does not exist|database \S+ does not exist"
    r"|no pg_hba\.conf entry|is not permitted to log in|permission denied for database"
)


def library_problems(spec: JobSpec, where: Where) -> list[MixedmodeError]:
    """Return a problem for each output whose library is not installed."""
    found: list[MixedmodeError] = []
    for path, sink in spec.sinks.items():
        if isinstance(sink, PostgresSinkSpec):
            with collecting(found, where=where(*path)):
                postgres_table(sink)
    return found


def connection_problems(session: SparkSession, spec: JobSpec, where: Where) -> list[MixedmodeError]:
    """Return a problem for each topic or database that does not exist, cannot be reached, or refuses the login."""
    found: list[MixedmodeError] = []
    for path, source in _kafka_sources(spec):
        topics = {"subscribePattern": source.topic_pattern} if source.topic_pattern else None
        topics = topics or {"subscribe": ",".join(source.topics)}
        with collecting(found, where=where(*path)):
            _ask_kafka(session, source.bootstrap_servers, source.options, topics)
    for path, sink in spec.sinks.items():
        if isinstance(sink, KafkaSinkSpec):
            with collecting(found, where=where(*path)):
                _ask_kafka(session, sink.bootstrap_servers, sink.options, {"subscribe": sink.topic})
        if isinstance(sink, PostgresSinkSpec):
            with collecting(found, where=where(*path)):
                ask_database(postgres_table(sink))
    return found


def ask_database(database: Database) -> None:
    """Log in and out. Raise InvalidJobError if the login is refused, RetryableError if the server does not answer."""
    try:
        with database.transaction():
            pass
    except LostConnectionError as error:
        cause = hidden(str(error))
        if _REFUSED_LOGIN.search(cause):
            msg = (
                "the database refuses this login. Correct user, password or database in `url`. "
                f"cause={cause}, table={database.place}"
            )
            raise InvalidJobError(msg) from error
        msg = (
            "the database cannot be reached. See that it runs, and that host and port in `url` are right; then start "
            f"again. cause={cause}, table={database.place}"
        )
        raise RetryableError(msg) from error


def _kafka_sources(spec: JobSpec) -> Iterator[tuple[Path, KafkaSourceSpec]]:
    for name, source in spec.sources.items():
        if isinstance(source, KafkaSourceSpec):
            yield ("sources", name), source
        if isinstance(source, HistoryAndLiveSpec) and isinstance(source.live, KafkaSourceSpec):
            yield ("sources", name, "live"), source.live


def _ask_kafka(session: SparkSession, servers: str, given: Mapping[str, str], topics: Mapping[str, str]) -> None:
    options = {"kafka.bootstrap.servers": resolve(servers), **resolve_all(given), **topics}
    if not options.keys() & TOPIC_PATIENCE.keys():  # these options depend on each other, so the job sets all or none
        options |= TOPIC_PATIENCE
    try:
        # Spark's planning asks the brokers for the partitions; no record is read
        session.read.format("kafka").options(**options).load().rdd.getNumPartitions()
    except (PySparkException, Py4JJavaError) as error:  # Spark's planning raises the error of the client as it is
        named = ", ".join(topics.values())
        found = kafka_problem(str(error)) or without_connector(f"topic {named}", error)
        text = str(found)
        raise type(found)(hidden(text if named in text else f"{text}, topic={named}")) from error
