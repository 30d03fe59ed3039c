"""Produces records to Kafka, as a separate process: JSON lines on its input (`as_line`, tests/services/fixtures.py).

An empty line asks for an answer: all records so far are acknowledged by the broker, and their number is printed.
Run as `python tests/services/produce.py BOOTSTRAP_SERVERS`; it ends with its input.
"""

import base64
import json
import sys
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

QUEUE_MAX = 100_000  # records; librdkafka's default
TIMEOUT_S = 30.0


def main() -> None:
    producer = Producer({"bootstrap.servers": sys.argv[1], "linger.ms": 2, "acks": "all", "log_level": 0})
    failures: list[str] = []
    acknowledged = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures.append(str(error))

    for line in sys.stdin:
        if line.strip():
            if len(producer) >= QUEUE_MAX // 2:
                producer.poll(TIMEOUT_S)
            producer.produce(on_delivery=delivered, **arguments(json.loads(line)))
            producer.poll(0)
            continue
        left = producer.flush(TIMEOUT_S)
        if left or failures:
            sys.exit(f"{left} records were not acknowledged; {failures[:3]}")
        print(acknowledged, flush=True)  # noqa: T201  its answer
    producer.flush(TIMEOUT_S)


def arguments(record: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Producer.produce`. Bytes come as base64; Kafka chooses what is absent."""
    given: dict[str, Any] = {"topic": record["topic"], "key": decoded(record["key"]), "value": decoded(record["value"])}
    given["headers"] = [(name, decoded(value)) for name, value in record["headers"]]
    for name in ("partition", "timestamp"):
        if record[name] is not None:
            given[name] = record[name]
    return given


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


if __name__ == "__main__":
    main()
