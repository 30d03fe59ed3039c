"""The data of the workloads that are not Nexmark's: Parquet files, the same in every run.

A file is a function of (seed, its number) and the size. Nothing of it is kept in the repository, and
every figure of one run is taken on the same bytes. A table is a folder of FILES files, `events` or `flights`.

Timed events are spread evenly over SPAN_US and come in order but for DISORDER_US: an event is never that much older
than one that came before it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from mixedmode_bench.workload import Size

EVENTS, FLIGHTS = "events", "flights"  # tables
FLIGHTS_DDL = "date timestamp, origin string, destination string, delay long, distance long"
FILES = 8  # of a table; Spark's streaming query takes one of them per micro-batch
VERSION = 1  # of all that is written here; files that another version wrote are written anew

START_US = 1_700_000_040_000_000  # 2023-11-14T22:14:00Z, the start of a minute
SPAN_US = 4 * 3600 * 1_000_000  # of all timed events: 240 windows of a minute
DISORDER_S = 10
ZIPF_EXPONENT = 1.1  # of the skewed keys: with a million of them, the most frequent one has an eighth of the events

LARGE_EPOCHS, SMALL_EPOCHS = 5, 10  # of the feed, after a first large one
_LARGE_EPOCH = 25  # times a small one

WORD_LETTERS = 8
_WORDS = 26**WORD_LETTERS
_WORD_STEP = 2_654_435_769  # odd and no multiple of 13, so that no two numbers give the same word
_FIRST_NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Tony", "Radia")
_CITIES = ("Amsterdam", "Berlin", "Cairo", "Denver", "Edinburgh", "Florence", "Geneva", "Hanoi", "Istanbul", "Jakarta")

Integers = np.ndarray[Any, np.dtype[np.int64]]


def write_counts(folder: Path, size: Size) -> None:
    """`k long, v double`: keys drawn evenly from `size.keys`, values from [0, 1)."""
    _write_events(folder, size, 1, lambda rng, n: _event_table(rng.integers(0, size.keys, n), rng))


def write_words(folder: Path, size: Size) -> None:
    """`word string`: drawn evenly from `size.keys` words of eight letters."""
    _write_events(folder, size, 2, lambda rng, n: pa.table({"word": words(rng.integers(0, size.keys, n))}))


def write_skewed(folder: Path, size: Size) -> None:
    """`k long, v double`: the key of rank r is drawn with a weight of 1 / r ** ZIPF_EXPONENT."""
    weights = np.cumsum(np.arange(1, size.keys + 1, dtype=np.float64) ** -ZIPF_EXPONENT)

    def table(rng: np.random.Generator, n: int) -> pa.Table:
        ranks = np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
        return _event_table(np.minimum(ranks, size.keys - 1), rng)  # rounding may lead beyond the last one

    _write_events(folder, size, 3, table)


def write_wide(folder: Path, size: Size) -> None:
    """Twenty columns: the key, `t0` to `t7` text, `d0` to `d5` double, `n0` to `n3` long, and `ts`, a time."""
    _write_events(folder, size, 4, lambda rng, n: _wide(rng, n, size.keys))


def write_timed(folder: Path, size: Size) -> None:
    """`k long, v double, ts timestamp`: as `write_counts`, the files one after the other in time."""
    first = 0
    for number, n in enumerate(_sizes(size.events, FILES)):
        rng = np.random.default_rng([5, number])
        table = _event_table(rng.integers(0, size.keys, n), rng)
        in_order = START_US + np.arange(first, first + n) * SPAN_US // size.events
        times = pa.array(in_order - rng.integers(0, DISORDER_S * 1_000_000, n), pa.timestamp("us", "UTC"))
        _write(folder / EVENTS, f"timed-{number:04d}", table.append_column("ts", times))
        first += n


def write_each_key_once(folder: Path, size: Size) -> None:
    """`k long, v double`: one event for each of `size.keys` keys, in no order; what state a live job begins with."""
    shuffled = np.random.default_rng([6, FILES]).permutation(size.keys)
    start = 0
    for number, n in enumerate(_sizes(size.keys, FILES)):
        rng = np.random.default_rng([6, number])
        _write(folder / EVENTS, f"state-{number:04d}", _event_table(shuffled[start : start + n], rng))
        start += n


def write_feed(folder: Path, size: Size) -> list[Path]:
    """A file for each live epoch, in their order: 1 + LARGE_EPOCHS large ones, and SMALL_EPOCHS small ones, of
    `size.events` together (500,000 and 20,000 each of 3.2 million). Keys are drawn evenly from `size.keys`.
    """
    small = max(1, size.events // ((1 + LARGE_EPOCHS) * _LARGE_EPOCH + SMALL_EPOCHS))
    large = max(1, (size.events - SMALL_EPOCHS * small) // (1 + LARGE_EPOCHS))
    counts = [large] * (1 + LARGE_EPOCHS) + [small] * SMALL_EPOCHS
    files = []
    for number, n in enumerate(counts):
        rng = np.random.default_rng([7, number])
        files.append(_write(folder, f"feed-{number:04d}", _event_table(rng.integers(0, size.keys, n), rng)))
    return files


def write_flights(source: Path, folder: Path, size: Size) -> None:
    """Lines of JSON of FLIGHTS_DDL: the flights of the lines in `source`, again and again until there are
    `size.events` of them; each time as much later as they take.
    """
    flights = pa.concat_tables(_read_flights(file) for file in sorted(source.glob("*.jsonl")))
    dates = flights.column("date").cast(pa.int64())
    span_us = pc.max(dates).as_py() - pc.min(dates).as_py() + 1
    first = 0
    for number, n in enumerate(_sizes(size.events, FILES)):
        places = np.arange(first, first + n)
        taken = flights.take(pa.array(places % flights.num_rows))
        moved = pc.add(taken.column("date").cast(pa.int64()), pa.array(places // flights.num_rows * span_us))
        taken = taken.set_column(0, "date", moved.cast(pa.timestamp("us", "UTC")))
        _write_lines(folder / FLIGHTS / f"flights-{number:04d}.json", taken)
        first += n


def words(numbers: Integers) -> pa.Array:
    """(n,) int64 below 2 ** 31 -> (n,) string: a word of eight letters for each number, another one for another number.

    Neighbouring numbers have words that look nothing like each other.
    """
    rest = numbers * _WORD_STEP % _WORDS
    letters = np.empty((len(numbers), WORD_LETTERS), np.uint8)
    for place in range(WORD_LETTERS - 1, -1, -1):
        rest, letters[:, place] = np.divmod(rest, 26)
    letters += ord("a")
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * WORD_LETTERS
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(letters))


def _wide(rng: np.random.Generator, n: int, keys: int) -> pa.Table:
    """Rows as of an order: texts of 4 to 40 characters, of few values and of many; sums of quarters are exact."""
    numbers = [rng.integers(0, most, n) for most in (8, 10, 1_000, 100_000)]
    name = pa.array(_FIRST_NAMES).take(pa.array(numbers[0]))
    city = pa.array(_CITIES).take(pa.array(numbers[1]))
    product, order = (pa.array(column).cast(pa.string()) for column in numbers[2:])
    texts = (
        name,
        city,
        _joined("product-", product),
        _joined("order-", order, "-", product),
        _joined("to ", name, ", ", order, " Long Street, ", city),
        words(numbers[3]),
        _joined(city, "/", name),
        _joined("paid by card ", order),
    )
    columns = {"k": pa.array(rng.integers(0, keys, n))}
    columns |= {f"t{number}": text for number, text in enumerate(texts)}
    columns |= {f"d{number}": pa.array(rng.integers(0, 4_000, n) / 4) for number in range(6)}
    columns |= {f"n{number}": pa.array(rng.integers(-1_000_000, 1_000_000, n)) for number in range(4)}
    columns["ts"] = pa.array(START_US + rng.integers(0, SPAN_US, n), pa.timestamp("us", "UTC"))
    return pa.table(columns)


def _joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _event_table(keys: Integers, rng: np.random.Generator) -> pa.Table:
    return pa.table({"k": pa.array(keys), "v": pa.array(rng.random(len(keys)))})


def _read_flights(file: Path) -> pa.Table:
    """The flights of a file of JSON lines; their local times are taken for UTC."""
    found = pj.read_json(file)
    dates = found.column("date").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    columns = {"date": dates} | {name: found.column(name) for name in ("origin", "destination", "delay", "distance")}
    return pa.table(columns)


def _write_events(folder: Path, size: Size, seed: int, table: Callable[[np.random.Generator, int], pa.Table]) -> None:
    for number, n in enumerate(_sizes(size.events, FILES)):
        _write(folder / EVENTS, f"events-{number:04d}", table(np.random.default_rng([seed, number]), n))


def _write(folder: Path, name: str, rows: pa.Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.parquet"
    pq.write_table(rows, file, compression="snappy")
    return file


def _write_lines(file: Path, rows: pa.Table) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    dates = pc.strftime(rows.column("date"), "%Y-%m-%dT%H:%M:%SZ")
    numbers = (rows.column(name).cast(pa.string()) for name in ("delay", "distance"))
    texts = [rows.column(name) for name in ("origin", "destination")]
    parts = ('{"date":"', dates, '","delay":', next(numbers), ',"distance":', next(numbers), ',"origin":"', texts[0])
    lines = _joined(*parts, '","destination":"', texts[1], '"}')
    file.write_text("\n".join(lines.to_pylist()) + "\n", encoding="utf-8")


def _sizes(total: int, parts: int) -> list[int]:
    """`parts` nearly equal sizes that add up to `total`."""
    return [(part + 1) * total // parts - part * total // parts for part in range(parts)]
