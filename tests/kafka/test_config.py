"""Settings of Kafka sources and sinks that are refused before a broker is asked."""

from typing import Any

import pytest

from mixedmode.connectors.kafka.sink_spec import KafkaSinkSpec
from mixedmode.connectors.kafka.source_spec import KafkaSourceSpec
from tests.config.refusals import messages

SOURCE: dict[str, Any] = {"format": "kafka", "bootstrap-servers": "b:1", "value": {"format": "text"}}
SINK: dict[str, Any] = {"format": "kafka", "bootstrap-servers": "b:1"}


@pytest.mark.parametrize("name", ["a, b", "a,b", " a", "a ", "a/b", "ä", "a" * 250, "${env:TOPIC}"])
def test_the_name_of_a_topic_is_one_that_kafka_has(name: str) -> None:
    """Spark would divide it at its commas, and leave out its spaces."""
    (of_sink,) = messages(KafkaSinkSpec, {**SINK, "topic": name})
    (of_source,) = messages(KafkaSourceSpec, {**SOURCE, "topics": name})
    (of_list,) = messages(KafkaSourceSpec, {**SOURCE, "topics": ["a", name]})
    for text, place in ((of_sink, "topic"), (of_source, "topics[0]"), (of_list, "topics[1]")):
        assert text.startswith(f"{place} is not the name of a topic: "), text
        assert text.endswith(f"found={name}"), text


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "a" * 249])
def test_names_that_kafka_has_are_accepted(name: str) -> None:
    assert KafkaSinkSpec.model_validate({**SINK, "topic": name}).topic == name
    assert KafkaSourceSpec.model_validate({**SOURCE, "topics": name}).topics == (name,)


def test_a_transaction_that_spark_would_not_begin_is_refused() -> None:
    (text,) = messages(KafkaSinkSpec, {**SINK, "topic": "a", "options": {"kafka.Transactional.id": "1"}})
    assert text.startswith("options has kafka.transactional.id, but Spark's producers begin no transaction")
