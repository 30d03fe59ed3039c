"""Joins of two inputs: trades with the quote in force, events that are near each other, and rows with one key.

Both tables are in order of time but for DISORDER_S. A key of a table has its events spread evenly over the time.
"""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.config import SourceSpec
from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Frames, Mode, Size, SparkStreaming, Workload, answers_in, in_spark

TRADES, QUOTES = "trades", "quotes"
LIVE_TRADES = "live_trades"  # in the first folder by name, to which a feed adds
_TRADES_PER_QUOTE, _TRADES_PER_ROW = 10, 5
_LIVE_PARTS = 16  # of the trades of as-of-live: one for the backlog, then one for each live epoch
_SCHEMA = "k long, v double, seq long, ts timestamp"
#: a quarter of the time on both sides, so that an event of one table has half as many partners as a key has events
_REACH_S = events.SPAN_US // 4_000_000


def write_quotes(folder: Path, size: Size) -> None:
    """`size.events` trades and a tenth as many quotes: `k long, v double, seq long, ts timestamp`."""
    _write(folder / TRADES, 11, size.events, size.keys)
    _write(folder / QUOTES, 12, max(1, size.events // _TRADES_PER_QUOTE), size.keys)


def write_pairs(folder: Path, size: Size) -> None:
    """As write_quotes, as many of both."""
    _write(folder / TRADES, 13, size.events, size.keys)
    _write(folder / QUOTES, 14, size.events, size.keys)


def write_rows(folder: Path, size: Size) -> None:
    """As write_quotes, a fifth as many of the second table."""
    _write(folder / TRADES, 15, size.events, size.keys)
    _write(folder / QUOTES, 16, max(1, size.events // _TRADES_PER_ROW), size.keys)


def write_live_quotes(folder: Path, size: Size) -> None:
    """A quote for each of `size.keys` keys, before all trades, and one at the end; a few trades to begin with.

    The quote at the end is after all trades, so that only they move the watermark.
    """
    columns = {"k": np.random.default_rng(17).permutation(size.keys), "seq": np.arange(size.keys)}
    times = np.append(np.full(size.keys - 1, events.START_US), events.START_US + 2 * events.SPAN_US)
    _write_table(folder / QUOTES, "quotes", {**columns, "v": np.arange(size.keys) / size.keys}, times)
    _write_live_trades(folder / LIVE_TRADES, "trades-first", 18, (0, size.events // _LIVE_PARTS), size)


def write_live_trades(folder: Path, size: Size) -> list[Path]:
    """A file of trades for each live epoch, in the order of their times."""
    borders = [size.events * part // _LIVE_PARTS for part in range(1, _LIVE_PARTS + 1)]
    return [
        _write_live_trades(folder, f"trades-{number:04d}", 19 + number, part, size)
        for number, part in enumerate(pairwise(borders))
    ]


def _write_live_trades(folder: Path, name: str, seed: int, part: tuple[int, int], size: Size) -> Path:
    rng, numbers = np.random.default_rng(seed), np.arange(*part)
    columns = {"k": rng.integers(0, size.keys, len(numbers)), "seq": numbers, "v": rng.random(len(numbers))}
    return _write_table(folder, name, columns, events.START_US + 1 + numbers * events.SPAN_US // size.events)


def _write_table(folder: Path, name: str, columns: Mapping[str, npt.NDArray[Any]], times: npt.NDArray[Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", "UTC"))}).select(["k", "v", "seq", "ts"])
    pq.write_table(table, folder / f"{name}.parquet", store_schema=False)
    return folder / f"{name}.parquet"


def _write(folder: Path, seed: int, rows: int, keys: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    borders = [rows * number // events.FILES for number in range(events.FILES + 1)]
    for number, (first, end) in enumerate(pairwise(borders)):
        rng = np.random.default_rng([seed, number])
        n = end - first
        in_order = events.START_US + np.arange(first, end) * events.SPAN_US // rows
        times = in_order - rng.integers(0, events.DISORDER_S * 1_000_000, n)
        table = pa.table(
            {
                "k": rng.integers(0, keys, n),
                "v": rng.random(n),
                "seq": np.arange(first, end),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"part-{number:04d}.parquet", store_schema=False)


def _sources(data: Path, trades: str, disorder_s: int) -> dict[str, SourceSpec]:
    return {
        name: Source.parquet(data / name, schema=_SCHEMA, event_time="ts", out_of_orderness=f"{disorder_s}s")
        for name in (trades, QUOTES)
    }


def _job(data: Path, work: Path, mode: Mode, trades: str = TRADES, disorder_s: int = events.DISORDER_S) -> Job:
    return Job("bench", sources=_sources(data, trades, disorder_s), mode=mode, checkpoint_dir=work / "checkpoints")


def _as_of(data: Path, work: Path, mode: Mode, trades: str = TRADES, disorder_s: int = events.DISORDER_S) -> Job:
    job = _job(data, work, mode, trades, disorder_s)
    select = ["left.seq", "left.k", "left.v", "left.ts", "right.v AS quote"]
    priced = job.source(trades).as_of_join(
        job.source(QUOTES), on="k", type="left", tie_break="seq", select=select, name="priced"
    )
    return job.output("priced", priced, Sink.parquet(answers_in(work)))


def _interval(data: Path, work: Path, mode: Mode) -> Job:
    job = _job(data, work, mode)
    pairs = job.source(TRADES).interval_join(
        job.source(QUOTES),
        on="k",
        within=(f"-{_REACH_S}s", f"{_REACH_S}s"),
        select=["left.seq", "right.seq AS other", "left.k", "left.v", "right.v AS w"],
        name="pairs",
    )
    return job.output("pairs", pairs, Sink.parquet(answers_in(work)))


def _rows_job(data: Path, work: Path, mode: Mode) -> Job:
    """Return a job whose sources have no event time."""
    sources = {name: Source.parquet(data / name, schema=_SCHEMA) for name in (TRADES, QUOTES)}
    return Job("bench", sources=sources, mode=mode, checkpoint_dir=work / "checkpoints")


def _regular(data: Path, work: Path, mode: Mode) -> Job:
    job = _rows_job(data, work, mode)
    select = ["left.seq", "right.seq AS other", "left.k", "left.v", "right.v AS w"]
    pairs = job.source(TRADES).join(job.source(QUOTES), on="k", select=select, name="pairs")
    return job.output("pairs", pairs, Sink.parquet(answers_in(work)))


def _regular_left(data: Path, work: Path, mode: Mode) -> Job:
    job = _rows_job(data, work, mode)
    rows = job.source(TRADES).join(job.source(QUOTES), on="k", type="left", select=["left.k", "right.v AS w"])
    counted = rows.key_by("k", name="counted").aggregate(n="count(*)", matched="count(w)")
    return job.output("counted", counted, Sink.parquet(answers_in(work)))


def _as_of_in_spark(frames: Frames) -> DataFrame:
    """As a user of Spark writes it: both tables in one, and the last quote before each row."""
    trades = frames[TRADES].select("k", "ts", F.lit(1).alias("side"), "seq", "v", F.lit(None).cast("double").alias("q"))
    quotes = frames[QUOTES].select("k", "ts", F.lit(0).alias("side"), "seq", F.lit(None).cast("double"), F.col("v"))
    before = Window.partitionBy("k").orderBy("ts", "side", "seq").rowsBetween(Window.unboundedPreceding, 0)
    joined = trades.union(quotes).withColumn("quote", F.last("q", ignorenulls=True).over(before))
    return joined.where("side = 1").select("seq", "k", "v", "ts", "quote")


def _interval_in_a_stream(frames: Frames) -> DataFrame:
    timed = {name: frame.withWatermark("ts", f"{events.DISORDER_S} seconds") for name, frame in frames.items()}
    return in_spark(_INTERVAL)(timed)


_INTERVAL = f"""
    SELECT l.seq, r.seq AS other, l.k, l.v, r.v AS w
    FROM {TRADES} l JOIN {QUOTES} r ON l.k = r.k
     AND r.ts BETWEEN l.ts - INTERVAL {_REACH_S} SECONDS AND l.ts + INTERVAL {_REACH_S} SECONDS
"""
_REGULAR = f"SELECT l.seq, r.seq AS other, l.k, l.v, r.v AS w FROM {TRADES} l JOIN {QUOTES} r ON l.k = r.k"
_REGULAR_LEFT = f"""
    SELECT l.k, count(*) AS n, count(r.v) AS matched FROM {TRADES} l LEFT JOIN {QUOTES} r ON l.k = r.k GROUP BY l.k
"""

AS_OF = Workload(
    name="as-of",
    title="each trade with the quote of its key that is in force at its time, ten trades a quote",
    size=Size(10_000_000, 10_000),
    write=write_quotes,
    job=_as_of,
    key=("seq",),
    answer=f"""
        WITH versions AS (SELECT k, ts, arg_max(v, seq) AS quote FROM {QUOTES} GROUP BY k, ts)
        SELECT t.seq, t.k, t.v, t.ts, q.quote
        FROM {TRADES} t ASOF LEFT JOIN versions q ON t.k = q.k AND t.ts >= q.ts
    """,
    version=events.VERSION,
    spark_batch=_as_of_in_spark,
    may_lack=f"""
        epoch_us(ts) >= (SELECT min(newest) FROM (
            SELECT max(epoch_us(ts)) AS newest FROM {TRADES} UNION ALL SELECT max(epoch_us(ts)) FROM {QUOTES}
        )) - {events.DISORDER_S * 1_000_000}
    """,
)

AS_OF_LIVE = Workload(
    name="as-of-live",
    title="the same live: a quote for each key, then epochs of trades, in order",
    size=Size(3_200_000, 1_000_000),
    write=write_live_quotes,
    job=partial(_as_of, trades=LIVE_TRADES, disorder_s=0),
    key=("seq",),
    answer=AS_OF.answer.replace(f"FROM {TRADES} t", f"FROM {LIVE_TRADES} t"),
    version=events.VERSION,
    may_lack=f"seq >= (SELECT max(seq) FROM {LIVE_TRADES})",
    feed=write_live_trades,
)

INTERVAL = Workload(
    name="interval",
    title="pairs of events of two tables with one key, at most an hour apart: about five partners an event",
    size=Size(5_000_000, 500_000),
    write=write_pairs,
    job=_interval,
    key=("seq", "other"),
    answer=_INTERVAL,
    version=events.VERSION,
    spark_batch=in_spark(_INTERVAL),
    spark_streaming=SparkStreaming(_interval_in_a_stream, "append"),
)

REGULAR = Workload(
    name="regular",
    title="pairs of rows of two tables with one key, whenever they came: about one partner a row",
    size=Size(5_000_000, 1_000_000),
    write=write_rows,
    job=_regular,
    key=("seq", "other"),
    answer=_REGULAR,
    version=events.VERSION,
    spark_batch=in_spark(_REGULAR),
    spark_streaming=SparkStreaming(in_spark(_REGULAR), "append"),
    flink="regular-join",
    data="regular",
)

REGULAR_LEFT = Workload(
    name="regular-left",
    title="rows of one table with those of another that have their key, or none: counted by key, so changes go on",
    size=Size(5_000_000, 1_000_000),
    write=write_rows,
    job=_regular_left,
    key=("k",),
    answer=_REGULAR_LEFT,
    version=events.VERSION,
    spark_batch=in_spark(_REGULAR_LEFT),
    data="regular",
)
