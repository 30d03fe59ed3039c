"""Orders in a topic: what the tests of Kafka produce, the job that sums them up, and the answer in plain Python."""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK
from tests.services.fixtures import Kafka, Record

DDL = "id long, customer string, amount long, at timestamp"
START = datetime(2024, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


@dataclass
class Orders:
    """A topic of orders, and all that was ever produced to it."""

    kafka: Kafka
    topic: str
    produced: list[Row] = field(default_factory=list)
    _random: Random = field(default_factory=lambda: Random(5))
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def new(cls, kafka: Kafka, partitions: int = 2) -> "Orders":
        return cls(kafka, kafka.new_topic(partitions))

    def add(self, count: int, *, partition: int | None = None, is_new: bool = False) -> list[Row]:
        """So many orders, keyed by customer unless they go to one partition; the broker has them on return.

        is_new: the topic or the partition is, so that a producer that runs does not know it yet.
        """
        rows = self.rows(count)
        records = [self.record(row, partition=partition) for row in rows]
        if is_new:
            with self.kafka.producing() as producing:
                producing.send(self.topic, records)
        else:
            self.kafka.produce(self.topic, records)
        self.produced += rows
        return rows

    def rows(self, count: int) -> list[Row]:
        return [
            {
                "id": number,
                "customer": f"customer {self._random.randrange(40)}",
                "amount": self._random.randrange(-50, 100),
                "at": START + timedelta(seconds=number),
            }
            for number in itertools.islice(self._ids, count)
        ]

    def record(self, row: Row, *, partition: int | None = None, timestamp_ms: int | None = None) -> Record:
        value = json.dumps({**row, "at": row["at"].isoformat()}).encode()
        return Record(value, key=row["customer"].encode(), partition=partition, timestamp_ms=timestamp_ms)

    def source(self, **settings: Any) -> SourceSpec:
        more = {"value": "json", "schema": DDL, **settings}
        return Source.kafka(self.topic, bootstrap_servers=self.kafka.bootstrap_servers, **more)

    def answer(self) -> dict[str, Row]:
        return totals(self.produced)


def totals(rows: Iterable[Row]) -> dict[str, Row]:
    """{customer: its row}, as `summed` gives it."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["customer"]].append(row["amount"])
    return {name: {"customer": name, "orders": len(of), "total": sum(of)} for name, of in found.items()}


def job(base: Path, source: SourceSpec, *, mode: Any = "mixed", **settings: Any) -> Job:
    """A job over one source, `t`; without steps and sink."""
    more: dict[str, Any] = (
        {} if mode == "batch" else {"checkpoint_dir": base / "checkpoints", "checkpoint_interval": "100ms"}
    )
    return Job("orders", sources={"t": source}, mode=mode, parallelism=2, spark=SPARK, **more, **settings)


def summed(steps: Job, sink: SinkSpec) -> Job:
    return steps.key_by("customer").aggregate(orders="count(*)", total="sum(amount)").write(sink)


def parquet(base: Path) -> SinkSpec:
    return Sink.parquet(base / "out")


def by_customer(rows: Sequence[Row]) -> dict[str, Row]:
    found = {row["customer"]: {name: row[name] for name in ("customer", "orders", "total")} for row in rows}
    assert len(found) == len(rows), "a key twice"
    return found
