"""The queries as a user of Spark would write them: in batch, and as streaming queries where Spark can do them.

Spark runs the other queries by the SQL of their answers: APPENDING as streaming queries, too.
Columns, their order and what happens to ties are those of the job files. A streaming query emits a window when the
watermark has passed it, in append mode; what has no window replaces its row, in update mode.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode_bench.nexmark.functions import count_char
from mixedmode_bench.workload import Frames, SparkStreaming

DISORDER = "4 seconds"
Query = Callable[[Frames], DataFrame]


def hot_items(frames: Frames) -> DataFrame:
    """Query 5."""
    counts = _bounds_and(_counts(frames["bid"]), "auction", "num")
    most = counts.groupBy("window_start", "window_end").agg(F.max("num").alias("num"))
    return counts.join(most, ["window_start", "window_end", "num"]).select(
        "window_start", "window_end", "auction", "num"
    )


def highest_bids_of_windows(frames: Frames) -> DataFrame:
    """Query 7."""
    highest = frames["bid"].groupBy(F.window("dateTime", "10 seconds")).agg(F.max("price").alias("price")).alias("h")
    within = "b.dateTime BETWEEN h.window.end - INTERVAL 10 SECONDS AND h.window.end"
    both = frames["bid"].alias("b").join(highest, F.expr(f"b.price = h.price AND {within}"))
    return both.select("b.auction", "b.bidder", "b.price", "b.dateTime", "b.extra")


def sessions(frames: Frames) -> DataFrame:
    """Query 11."""
    by_session = frames["bid"].groupBy(F.session_window("dateTime", "10 seconds").alias("window"), "bidder")
    return _bounds_and(by_session.agg(F.count("*").alias("bid_count")), "bidder", "bid_count")


def bidding_statistics(frames: Frames) -> DataFrame:
    """Query 15. In batch only: a streaming query of Spark has no distinct counts."""
    counts = [*_per_rank("count(*)", "bids"), *_per_rank("count(DISTINCT bidder)", "bidders")]
    counts += _per_rank("count(DISTINCT auction)", "auctions")
    return _with_day(frames["bid"]).groupBy("day").agg(*counts)


def auction_statistics(frames: Frames) -> DataFrame:
    """Query 17."""
    prices = [F.expr(f"{name}(price) AS {name}_price") for name in ("min", "max", "avg", "sum")]
    return _with_day(frames["bid"]).groupBy("auction", "day").agg(*_per_rank("count(*)", "bids"), *prices)


def last_bids(frames: Frames) -> DataFrame:
    """Query 18."""
    bid = F.struct("price", "channel", "url", "dateTime", "extra")
    last = frames["bid"].groupBy("auction", "bidder").agg(F.max_by(bid, "dateTime").alias("bid"))
    return last.select("auction", "bidder", "bid.*")


def appending(query: Query) -> SparkStreaming:
    """The query over a stream of bids with a watermark; each row is emitted once."""
    return SparkStreaming(lambda frames: query({"bid": frames["bid"].withWatermark("dateTime", DISORDER)}), "append")


def _counts(bid: DataFrame) -> DataFrame:
    return bid.groupBy(F.window("dateTime", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("num"))


def _bounds_and(windows: DataFrame, *columns: str | Column) -> DataFrame:
    return windows.select(F.expr("window.start AS window_start"), F.expr("window.end AS window_end"), *columns)


def _with_day(bid: DataFrame) -> DataFrame:
    return bid.withColumn("day", F.date_format("dateTime", "yyyy-MM-dd"))


def _per_rank(function: str, name: str) -> list[Column]:
    """The function over all bids, and over those of each range of the price."""
    ranks = enumerate(("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"), 1)
    filtered = [f"{function} FILTER (WHERE {condition}) AS rank{rank}_{name}" for rank, condition in ranks]
    return [F.expr(column) for column in (f"{function} AS total_{name}", *filtered)]


def new_sellers(frames: Frames) -> DataFrame:
    """Query 8."""
    window = F.window("dateTime", "10 seconds").alias("window")
    people = frames["person"].groupBy(window, "id", "name").count().alias("p")
    sellers = frames["auction"].groupBy(window, "seller").count().alias("a")
    both = people.join(sellers, F.expr("p.id = a.seller AND p.window = a.window"))
    return both.selectExpr("p.id", "p.name", "p.window.start AS starttime")


def winning_bids(frames: Frames) -> DataFrame:
    """Query 9."""
    order = Window.partitionBy("a.id").orderBy(F.desc("b.price"), "b.dateTime")
    bid = ("b.auction", "b.bidder", "b.price", "b.dateTime AS bid_dateTime", "b.extra AS bid_extra")
    ranked = _offers(frames).withColumn("rank", F.row_number().over(order)).where("rank = 1")
    return ranked.selectExpr("a.*", *bid)


def channel_statistics(frames: Frames) -> DataFrame:
    """Query 16. In batch only, as query 15."""
    counts = [F.expr("max(minute) AS minute"), *_per_rank("count(*)", "bids")]
    counts += [*_per_rank("count(DISTINCT bidder)", "bidders"), *_per_rank("count(DISTINCT auction)", "auctions")]
    bids = _with_day(frames["bid"]).withColumn("minute", F.date_format("dateTime", "HH:mm"))
    return bids.groupBy("channel", "day").agg(*counts)


def logged(frames: Frames) -> DataFrame:
    """Query 10, without its folders: a contestant's table is written as one."""
    parts = ("date_format(dateTime, 'yyyy-MM-dd') AS dt", "date_format(dateTime, 'HH:mm') AS hm")
    return frames["bid"].selectExpr("auction", "bidder", "price", "dateTime", "extra", *parts)


def calculated(frames: Frames) -> DataFrame:
    """Query 14."""
    hour = F.hour("dateTime")
    by_day = F.when((hour >= 8) & (hour <= 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime")
    some = frames["bid"].where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
    return some.select(
        "auction",
        "bidder",
        F.expr("CAST(0.908 * price AS DECIMAL(23, 3)) AS price"),
        by_day.otherwise("otherTime").alias("bidTimeType"),
        "dateTime",
        "extra",
        count_char("extra", F.lit("c")).alias("c_counts"),
    )


def _offers(frames: Frames) -> DataFrame:
    """Bids with their auctions, while these are open."""
    open_then = F.expr("a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires")
    return frames["auction"].alias("a").join(frames["bid"].alias("b"), open_then)


#: by the name of the job file
BATCH: Mapping[str, Query] = {
    "q5": hot_items,
    "q7": highest_bids_of_windows,
    "q8": new_sellers,
    "q9": winning_bids,
    "q10": logged,
    "q11": sessions,
    "q14": calculated,
    "q15": bidding_statistics,
    "q16": channel_statistics,
    "q17": auction_statistics,
    "q18": last_bids,
}
STREAMING: Mapping[str, SparkStreaming] = {
    "q10": SparkStreaming(logged, "append"),
    "q14": SparkStreaming(calculated, "append"),
    "q11": appending(sessions),
    "q17": SparkStreaming(auction_statistics),
    "q18": SparkStreaming(last_bids),
}
APPENDING = frozenset({"q0", "q1", "q2", "q21", "q22"})
