"""Options of Kafka sources and sinks that Spark's connector and Kafka's clients would ignore."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.config.spelling import nearest
from mixedmode.connectors.kafka.sink_spec import OURS_IN_SINKS, KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import OURS_IN_SOURCES, KafkaSourceSpec
from mixedmode.errors import InvalidJobError

__all__ = ["OF_LIBRDKAFKA", "check_options", "meant", "names_of_clients"]

_CLIENTS = "kafka."  # settings of the clients begin with it
#: options of Spark's connector, in lower case, beside those that our settings set
_OF_SPARK = frozenset(
    {
        *("minpartitions", "groupidprefix", "kafka.group.id", "kafkaconsumer.polltimeoutms"),
        *("fetchoffset.numretries", "fetchoffset.retryintervalms"),
    }
)
#: {a setting of librdkafka, by which the clients of Python are made: what it is called here}
OF_LIBRDKAFKA: Mapping[str, str] = {
    "batch.num.messages": "kafka.batch.size",
    "compression.codec": "kafka.compression.type",
    "enable.ssl.certificate.verification": "kafka.ssl.endpoint.identification.algorithm",
    "fetch.message.max.bytes": "kafka.max.partition.fetch.bytes",
    "fetch.wait.max.ms": "kafka.fetch.max.wait.ms",
    "message.max.bytes": "kafka.max.request.size",
    "message.send.max.retries": "kafka.retries",
    "message.timeout.ms": "kafka.delivery.timeout.ms",
    "metadata.broker.list": "bootstrap-servers",
    "queue.buffering.max.kbytes": "kafka.buffer.memory",
    "queue.buffering.max.ms": "kafka.linger.ms",
    "request.required.acks": "kafka.acks",
    "sasl.mechanisms": "kafka.sasl.mechanism",
    "sasl.password": "kafka.sasl.jaas.config",
    "sasl.username": "kafka.sasl.jaas.config",
    "socket.timeout.ms": "kafka.request.timeout.ms",
    "ssl.ca.location": "kafka.ssl.truststore.location",
    "ssl.certificate.location": "kafka.ssl.keystore.location",
    "ssl.key.location": "kafka.ssl.keystore.location",
}


def check_options(session: SparkSession, section: KafkaSourceSpec | KafkaSinkSpec) -> None:
    """Raise InvalidJobError for options that misspell one of Spark's or of Kafka's clients, or lack their prefix.

    The same for settings of librdkafka. Other unknown names may be of a class that a client loads, such as an
    interceptor.
    """
    if not section.options:
        return
    misspelt = meant(section.options, names_of_clients(session))
    if misspelt:
        msg = (
            "`options` has names that neither Spark's Kafka connector nor Kafka's clients know, and they ignore them. "
            f"Did you mean {', '.join(dict.fromkeys(misspelt.values()))}? found={', '.join(misspelt)}"
        )
        raise InvalidJobError(msg)


def meant(options: Iterable[str], names_of_clients: Iterable[str]) -> dict[str, str]:
    """Return {misspelt option: the option that is meant}.  names_of_clients: settings, without the prefix `kafka.`."""
    clients = {f"{_CLIENTS}{name}" for name in names_of_clients}
    of_spark = _OF_SPARK | OURS_IN_SOURCES.keys() | OURS_IN_SINKS.keys()
    found = dict[str, str]()
    for option in options:
        if option not in clients and option.lower() not in of_spark:  # only for Spark's own, case does not count
            with_prefix = f"{_CLIENTS}{option.lower()}"
            near = with_prefix if with_prefix in clients else OF_LIBRDKAFKA.get(option.removeprefix(_CLIENTS))
            near = near or nearest(option, clients | of_spark)
            found |= {} if near is None else {option: near}
    return found


@lru_cache(maxsize=1)
def names_of_clients(session: SparkSession) -> frozenset[str]:
    """Return the names of all settings of Kafka's clients; none if Spark's connector is not loaded."""
    clients: Any = session._jvm.org.apache.kafka.clients  # type: ignore[union-attr] # noqa: SLF001 - no public name
    try:
        classes = (clients.consumer.ConsumerConfig, clients.producer.ProducerConfig, clients.admin.AdminClientConfig)
        texts = [str(one.configNames().toString()) for one in classes]  # one by one, each name is two calls of the JVM
        return frozenset(name for text in texts for name in text.strip("[]").split(", "))
    except TypeError:  # a name that is no class cannot be called
        return frozenset()
