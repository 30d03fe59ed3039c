"""Options of Kafka sources and sinks that Spark's connector and Kafka's clients would ignore."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.config.spelling import nearest
from mixedmode.connectors.kafka.sink_spec import OURS_IN_SINKS, KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import OURS_IN_SOURCES, KafkaSourceSpec
from mixedmode.errors import InvalidJobError

__all__ = ["check_options", "meant"]

_CLIENTS = "kafka."  # settings of the clients begin with it
#: options of Spark's connector, in lower case, beside those that our settings set
_OF_SPARK = frozenset(
    {
        *("minpartitions", "groupidprefix", "kafka.group.id", "kafkaconsumer.polltimeoutms"),
        *("fetchoffset.numretries", "fetchoffset.retryintervalms"),
    }
)


def check_options(session: SparkSession, section: KafkaSourceSpec | KafkaSinkSpec) -> None:
    """Raise InvalidJobError for options that misspell one of Spark's or of Kafka's clients, or lack their prefix.

    Other unknown names may be of a class that a client loads, such as an interceptor.
    """
    if not section.options:
        return
    misspelt = meant(section.options, _names_of_clients(session))
    if misspelt:
        msg = (
            "`options` has names that neither Spark's Kafka connector nor Kafka's clients know, and they ignore them. "
            f"Did you mean {', '.join(misspelt.values())}? found={', '.join(misspelt)}"
        )
        raise InvalidJobError(msg)


def meant(options: Iterable[str], names_of_clients: Iterable[str]) -> dict[str, str]:
    """Return {misspelt option: the option that is meant}.  names_of_clients: settings, without the prefix `kafka.`."""
    clients = {f"{_CLIENTS}{name}" for name in names_of_clients}
    of_spark = _OF_SPARK | OURS_IN_SOURCES.keys() | OURS_IN_SINKS.keys()
    found = dict[str, str]()
    for option in options:
        if option not in clients and option.lower() not in of_spark:  # only for Spark's own, case does not count
            with_prefix = f"{_CLIENTS}{option}"
            near = with_prefix if with_prefix in clients else nearest(option, clients | of_spark)
            found |= {} if near is None else {option: near}
    return found


@lru_cache(maxsize=1)
def _names_of_clients(session: SparkSession) -> frozenset[str]:
    """Return the names of all settings of Kafka's clients; none if Spark's connector is not loaded."""
    clients: Any = session._jvm.org.apache.kafka.clients  # type: ignore[union-attr] # noqa: SLF001 - no public name
    try:
        classes = (clients.consumer.ConsumerConfig, clients.producer.ProducerConfig, clients.admin.AdminClientConfig)
        texts = [str(one.configNames().toString()) for one in classes]  # one by one, each name is two calls of the JVM
        return frozenset(name for text in texts for name in text.strip("[]").split(", "))
    except TypeError:  # a name that is no class cannot be called
        return frozenset()
