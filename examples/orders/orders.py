# ruff: noqa: INP001, S608, T201  (a script, which prints; its SQL is made of names of its own)
"""The example's data, and the answer: a shop's history in Parquet, its live orders in Kafka, totals in plain Python.

    python examples/orders/orders.py prepare     the history, and a topic that begins two days before its end
    python examples/orders/orders.py feed        live orders into the topic, for a while
    python examples/orders/orders.py check       the table in PostgreSQL, compared with plain Python

Orders are one sequence by number, made by `mixedmode.demo.orders`. The history is its beginning, the
topic all the rest, and both have the two days between: as in life, one does not end exactly where the other begins.

KAFKA_SERVERS and POSTGRES_URL in the environment say where the servers are.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mixedmode.demo.orders import HISTORY_END_US, Shop, history, make_orders

FOLDER = Path("run/orders")
TOPIC, PARTITIONS = "orders", 2
SCHEMA, TABLE = "shop", "customer_totals"
SHOP = Shop(customers=20_000)
TOPIC_BEGINS = datetime(2025, 12, 30, tzinfo=UTC)  # the job file's seam is a day later
BLOCK = 50  # live orders that are made, and sent, at a time
TIMEOUT_S = 30.0
ROWS_SHOWN = 5

Order = dict[str, Any]
Total = tuple[int, Decimal]  # orders, revenue


def prepare(folder: Path, *, orders: int) -> None:
    """A new history, a new topic and an empty schema; what an earlier run left is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    history(folder / "history", orders=orders, files=4, shop=SHOP)
    _new_topic()
    early = [order for order in _in_history(folder) if order["ordered_at"] >= TOPIC_BEGINS]
    _produce(early)
    with psycopg.connect(os.environ["POSTGRES_URL"]) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    print(
        f"history: {orders:,} orders in {folder / 'history'}; the last {len(early):,} of them are in the topic as well"
    )


def feed(folder: Path, *, orders: int, per_second: int) -> None:
    """Live orders, which go on where the history ends. Their number and rate say how long it takes."""
    first = sum(pq.read_metadata(path).num_rows for path in _history_files(folder))
    step_us, started = 1e6 / per_second, time.monotonic()
    for done in range(0, orders, BLOCK):
        time.sleep(max(0.0, started + done / per_second - time.monotonic()))
        start_us = HISTORY_END_US + int(done * step_us)
        count = min(BLOCK, orders - done)
        block = make_orders(SHOP, first_order=first + done, count=count, start_us=start_us, step_us=step_us)
        _produce(block.to_pylist())
    print(f"feed: {orders:,} live orders are in the topic")


def check(folder: Path, *, wait_s: float = 0.0) -> bool:
    """Return whether the table equals the totals of plain Python, or does so within `wait_s`; print its first rows."""
    expected, until = totals(folder), time.monotonic() + wait_s
    found = table()
    while found != expected and time.monotonic() < until:
        time.sleep(1)
        found = table()
    print(f"{'customer':>10} {'orders':>8} {'revenue':>14}")
    for customer, (orders, revenue) in sorted(found.items(), key=lambda row: -row[1][1])[:ROWS_SHOWN]:
        print(f"{customer:>10} {orders:>8} {revenue:>14}")
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    for customer in wrong[:ROWS_SHOWN]:
        print(f"customer {customer}: expected {expected.get(customer)}, found {found.get(customer)}")
    print(f"check: {len(found):,} customers, {len(wrong)} of them differ from plain Python")
    return not wrong


def table() -> dict[int, Total]:
    """Return the totals that the job has written so far."""
    try:
        with psycopg.connect(os.environ["POSTGRES_URL"]) as connection:
            rows = connection.execute(f"SELECT customer_id, orders, revenue FROM {SCHEMA}.{TABLE}").fetchall()
    except psycopg.errors.UndefinedTable:  # the job makes it
        return {}
    return {customer: (orders, revenue) for customer, orders, revenue in rows}


def totals(folder: Path) -> dict[int, Total]:
    """The totals of each customer who has paid for one, each order counted once wherever it is found."""
    by_number = {order["order_id"]: order for order in (*_in_history(folder), *_in_topic())}
    amounts: dict[int, list[Decimal]] = defaultdict(list)
    for order in by_number.values():
        if order["status"] == "paid":
            amounts[order["customer_id"]].append(order["amount"])
    return {customer: (len(paid), sum(paid, Decimal(0))) for customer, paid in amounts.items()}


def _history_files(folder: Path) -> list[Path]:
    return sorted((folder / "history").glob("*.parquet"))


def _in_history(folder: Path) -> Iterator[Order]:
    for path in _history_files(folder):
        yield from pq.read_table(path).to_pylist()


def _in_topic() -> Iterator[Order]:
    """All orders that the topic has now."""
    settings = {"bootstrap.servers": os.environ["KAFKA_SERVERS"], "group.id": "check", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "the broker does not answer"
        if message.error() is not None:
            ended += 1
            continue
        value = message.value()
        assert value is not None, message.offset()
        order = json.loads(value)
        yield {**order, "amount": Decimal(order["amount"])}
    consumer.close()


def _new_topic() -> None:
    admin = AdminClient({"bootstrap.servers": os.environ["KAFKA_SERVERS"], "log_level": 3})
    if TOPIC in admin.list_topics(timeout=TIMEOUT_S).topics:
        admin.delete_topics([TOPIC])[TOPIC].result(TIMEOUT_S)
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])[TOPIC].result(TIMEOUT_S)
            return
        except KafkaException:  # the old one is still being deleted
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _produce(orders: Sequence[Order]) -> None:
    """Send orders as JSON, by customer; the broker has acknowledged them on return."""
    for order in orders:
        fields = {**order, "amount": str(order["amount"]), "ordered_at": order["ordered_at"].isoformat()}
        at_ms = int(order["ordered_at"].timestamp() * 1000)
        _producer().produce(TOPIC, json.dumps(fields), key=str(order["customer_id"]), timestamp=at_ms)
    left = _producer().flush(TIMEOUT_S)
    assert left == 0, f"{left} orders were not acknowledged"


_producers: list[Producer] = []


def _producer() -> Producer:
    if not _producers:
        _producers.append(Producer({"bootstrap.servers": os.environ["KAFKA_SERVERS"], "linger.ms": 5}))
    return _producers[0]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Data and answer of the example.")
    parser.add_argument("what", choices=["prepare", "feed", "check"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument(
        "--orders", type=int, help="of the history (default: 300,000), or of the feed, at most (60,000)"
    )
    parser.add_argument("--per-second", type=int, default=1_000, help="live orders (default: %(default)s)")
    parser.add_argument("--wait", type=float, default=0, help="seconds in which the check may come true (default: 0)")
    chosen = parser.parse_args()
    for name in ("KAFKA_SERVERS", "POSTGRES_URL"):
        if name not in os.environ:
            sys.exit(f"{name} is not set. Start the servers with `make services`, then: . run/services/services.env")
    if chosen.what == "prepare":
        prepare(chosen.folder, orders=chosen.orders or 300_000)
    elif chosen.what == "feed":
        feed(chosen.folder, orders=chosen.orders or 60_000, per_second=chosen.per_second)
    elif not check(chosen.folder, wait_s=chosen.wait):
        sys.exit(1)


if __name__ == "__main__":
    main()
