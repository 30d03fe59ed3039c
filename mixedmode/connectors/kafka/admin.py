"""Asks the brokers for the ids of topics (KIP-516) and for their first offsets.

The client is the one that Spark's connector brings.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.errors import kafka_problem, without_connector
from mixedmode.secrets import hidden
from mixedmode.sources.kafka_offsets import Offsets

__all__ = ["first_offsets", "topic_ids", "with_patience"]

#: how long a start looks for a topic; the client's default is one minute, several times
_CALL, _REQUEST = "kafka.default.api.timeout.ms", "kafka.request.timeout.ms"
_CALL_MS, _REQUEST_MS = 15_000, 10_000
_AGAIN = {"fetchOffset.numRetries": "1"}
_CLIENT = "kafka."  # options of Kafka's clients begin with it


def with_patience(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's connector that wait less long for a topic, unless the job sets how long itself.

    Kafka's client wants a call to take at least as long as a request. It refuses itself what is no number.
    """
    if _CALL in options:
        return {**_AGAIN, **options}
    request = options.get(_REQUEST, str(_REQUEST_MS))
    call_ms = max(_CALL_MS, int(request)) if request.isascii() and request.isdigit() else _CALL_MS
    return {**_AGAIN, **options, _REQUEST: request, _CALL: str(call_ms)}


def topic_ids(session: SparkSession, options: Mapping[str, str], topics: Collection[str]) -> dict[str, str]:
    """Return {topic: its id} of those of the topics that exist.  options: those of Spark's connector, resolved.

    A topic of a broker that is older than KIP-516 has no id, and is left out. Raise InvalidJobError for a refused
    login, RetryableError if no broker answers.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public name for the client of Spark's connector
    with _client(jvm, options, topics) as client:
        names = jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        answers = client.describeTopics(names).topicNameValues()
        none = jvm.org.apache.kafka.common.Uuid.ZERO_UUID.toString()
        ids = {topic: _id_in(answers[topic]) for topic in topics}
    return {topic: one for topic, one in ids.items() if one is not None and one != none}


def first_offsets(
    session: SparkSession, options: Mapping[str, str], partitions: Mapping[str, Collection[int]]
) -> Offsets:
    """Return the first offset that each of some existing partitions still has.  options and errors: as of topic_ids."""
    jvm: Any = session._jvm  # noqa: SLF001 - as above
    with _client(jvm, options, partitions) as client:
        wanted = jvm.java.util.HashMap()
        places = {
            (topic, number): jvm.org.apache.kafka.common.TopicPartition(topic, number)
            for topic, numbers in partitions.items()
            for number in numbers
        }
        for place in places.values():
            wanted.put(place, jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())
        answers = client.listOffsets(wanted)
        found: dict[str, dict[int, int]] = {}
        for (topic, number), place in places.items():
            found.setdefault(topic, {})[number] = answers.partitionResult(place).get().offset()
    return found


@contextmanager
def _client(jvm: Any, options: Mapping[str, str], topics: Collection[str]) -> Iterator[Any]:
    """Return a client of the brokers for the block, whose errors become those of this program, with the topics."""
    try:
        client = jvm.org.apache.kafka.clients.admin.Admin.create(_client_settings(jvm, options))
        try:
            yield client
        finally:
            client.close(jvm.java.time.Duration.ZERO)
    except Py4JJavaError as error:
        named = ", ".join(topics)
        found = kafka_problem(str(error)) or without_connector(f"topic {named}", error)
        raise type(found)(hidden(f"{found}, topic={named}")) from error


def _client_settings(jvm: Any, options: Mapping[str, str]) -> Any:
    """Return the settings of Kafka's client as Spark makes them, also where Spark has a token for the brokers."""
    settings = jvm.java.util.HashMap()
    for name, value in with_patience(options).items():
        if name.lower().startswith(_CLIENT):
            settings.put(name[len(_CLIENT) :], value)
    as_scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(settings)
    updater = jvm.org.apache.spark.kafka010.KafkaConfigUpdater("topic ids", as_scala)
    return updater.setAuthenticationConfigIfNeeded().build()


def _id_in(answer: Any) -> str | None:
    """Return the id in the answer of a broker about a topic; None if the topic does not exist."""
    try:
        return str(answer.get().topicId().toString())
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is not None and cause.getClass().getSimpleName() == "UnknownTopicOrPartitionException":
            return None
        raise
