"""Checks that topics exist, and that the brokers answer and take the login."""

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.connectors.kafka.admin import with_patience
from mixedmode.connectors.kafka.errors import kafka_problem, without_connector
from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from mixedmode.secrets import hidden, resolve, resolve_all


def check_topics(session: SparkSession, section: KafkaSourceSpec | KafkaSinkSpec) -> None:
    """Raise InvalidJobError for a topic that does not exist or a refused login, RetryableError if nobody answers."""
    if isinstance(section, KafkaSinkSpec):
        topics = {"subscribe": section.topic}
    elif section.topic_pattern:
        topics = {"subscribePattern": section.topic_pattern}
    else:
        topics = {"subscribe": ",".join(section.topics)}
    _ask_kafka(session, section.bootstrap_servers, section.options, topics)


def _ask_kafka(session: SparkSession, servers: str, given: Mapping[str, str], topics: Mapping[str, str]) -> None:
    options = with_patience({"kafka.bootstrap.servers": resolve(servers), **resolve_all(given), **topics})
    try:
        # Spark's planning asks the brokers for the partitions; no record is read
        session.read.format("kafka").options(**options).load().rdd.getNumPartitions()
    except (PySparkException, Py4JJavaError) as error:  # Spark's planning raises the error of the client as it is
        named = ", ".join(topics.values())
        found = kafka_problem(str(error)) or without_connector(f"topic {named}", error)
        text = str(found)
        raise type(found)(hidden(text if named in text else f"{text}, topic={named}")) from error
