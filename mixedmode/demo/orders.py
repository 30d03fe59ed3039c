"""Orders of a fictional shop: a deterministic, vectorised generator, and a history of orders as Parquet files.

Order n is due at a fixed event time, and a block of orders is a function of (seed, first order, count) alone. So
history and feed are one sequence in two parts, and a test that repeats a block gets the same bytes.

Invariants (tests/demo/test_orders.py):
  I1  make_orders is a pure function of its arguments
  I2  order ids are consecutive, and no order is more than LATENESS_US behind the latest order before it
  I3  a file appears under its final name only when it is complete, and Spark ignores its earlier name
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HISTORY_START_US = 1_640_995_200_000_000  # 2022-01-01 00:00 UTC
HISTORY_END_US = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC; the feed continues from here
LATENESS_US = 30_000_000
HOT_CUSTOMERS = 50  # place HOT_SHARE of all orders; the others are spread evenly
HOT_SHARE = 0.05
FIRST_CUSTOMER_ID = 1_000

STATUSES = {"paid": 0.88, "refunded": 0.05, "cancelled": 0.04, "pending": 0.03}
COUNTRIES = {"DE": 0.21, "FR": 0.17, "GB": 0.15, "US": 0.15, "PL": 0.10, "ES": 0.08, "NL": 0.06, "SE": 0.05, "PT": 0.03}

_COLUMNS: dict[str, pa.DataType] = {
    "order_id": pa.int64(),
    "customer_id": pa.int64(),
    "amount": pa.decimal128(12, 2),
    "status": pa.string(),
    "country": pa.string(),
    "ordered_at": pa.timestamp("us", tz="UTC"),
}
SCHEMA = pa.schema([pa.field(name, data_type, nullable=False) for name, data_type in _COLUMNS.items()])


@dataclass(frozen=True, slots=True)
class Shop:
    """The fixed properties of a shop. The same shop produces the same orders."""

    customers: int = 200_000
    seed: int = 2022


def make_orders(shop: Shop, *, first_order: int, count: int, start_us: int, step_us: float) -> pa.Table:
    """Return `count` orders with ids from `first_order`. There are no NULLs; the columns are those of SCHEMA.

    Order k of them (0-based) is due at start_us + k * step_us, and its event time is up to LATENESS_US earlier. So the
    orders are nearly, but not fully, in order of time.
    """
    assert count >= 0, count
    assert shop.customers > 0, shop
    rng = np.random.default_rng([shop.seed, first_order])
    due_us = start_us + (np.arange(count) * step_us).astype(np.int64)
    ordered_at = due_us - rng.integers(0, LATENESS_US, count, dtype=np.int64)
    columns = [
        pa.array(np.arange(first_order, first_order + count, dtype=np.int64)),
        pa.array(_customer_ids(rng, count, shop.customers)),
        _amounts(rng, count),
        _words(rng, count, STATUSES),
        _words(rng, count, COUNTRIES),
        pa.array(ordered_at).cast(SCHEMA.field("ordered_at").type),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def history(directory: Path, *, orders: int = 2_000_000, files: int = 8, shop: Shop | None = None) -> int:
    """Write `orders` orders, spread evenly over HISTORY_START_US to HISTORY_END_US, as `files` Parquet files. Return
    their size in bytes. The same arguments produce files with the same rows.
    """
    step_us = (HISTORY_END_US - HISTORY_START_US) / max(orders, 1)
    directory.mkdir(parents=True, exist_ok=True)
    written = 0
    for index, (first, count) in enumerate(_blocks(orders, files)):
        start_us = HISTORY_START_US + int(first * step_us)
        block = make_orders(shop or Shop(), first_order=first, count=count, start_us=start_us, step_us=step_us)
        written += write_orders(block, directory / f"history-{index:04d}.parquet")
    return written


def write_orders(orders: pa.Table, path: Path) -> int:
    """Write one Parquet file that appears under its name atomically; return its size in bytes. Until it is complete,
    its name in the same folder begins with a dot, which file sources skip.
    """
    partial = path.with_name(f".{path.name}.partial")
    pq.write_table(
        orders,
        partial,
        compression="snappy",
        use_dictionary=["status", "country"],
        store_decimal_as_integer=True,  # 8 bytes, and fastest for Spark's vectorised reader
        write_statistics=["ordered_at"],
    )
    size = partial.stat().st_size
    partial.replace(path)
    return size


def _blocks(total: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of `parts` nearly equal blocks that cover 0..total; empty blocks are omitted."""
    for part in range(parts):
        first, end = part * total // parts, (part + 1) * total // parts
        if end > first:
            yield first, end - first


def _customer_ids(rng: np.random.Generator, count: int, customers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Draw customers evenly, except that HOT_SHARE of them come from HOT_CUSTOMERS, spread over the whole range of
    ids.
    """
    hot = min(HOT_CUSTOMERS, customers)
    drawn = rng.integers(0, customers, count, dtype=np.int64)
    is_hot = rng.random(count, dtype=np.float32) < HOT_SHARE
    drawn[is_hot] = drawn[is_hot] % hot * (customers // hot)
    return FIRST_CUSTOMER_ID + drawn


def _amounts(rng: np.random.Generator, count: int) -> "pa.Array[Any]":
    """Draw prices: most between 10 and 100, a few in the thousands, none below 0.01."""
    cents = np.exp(rng.standard_normal(count, dtype=np.float32) * 0.9 + 8.2).astype(np.int64) + 1
    words = np.zeros((count, 2), dtype="<i8")  # decimal128 is a 16-byte little-endian integer; the high half stays 0
    words[:, 0] = cents
    return pa.Array.from_buffers(SCHEMA.field("amount").type, count, [None, pa.py_buffer(words.data)])


def _words(rng: np.random.Generator, count: int, shares: dict[str, float]) -> "pa.Array[Any]":
    """Draw words by their shares, through a table of 1,000 slots: one integer draw per row."""
    slots = np.repeat(np.arange(len(shares), dtype=np.int8), [round(share * 1000) for share in shares.values()])
    codes = slots[rng.integers(0, len(slots), count, dtype=np.int16)]
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(shares))).dictionary_decode()
