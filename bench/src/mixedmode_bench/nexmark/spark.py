"""The queries as a user of Spark would write them: in batch, and as streaming queries where Spark can do them.

Columns, their order and what happens to ties are those of the job files. A streaming query gives a window when the
watermark has passed it, in append mode; what has no window replaces its row, in update mode.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode_bench.nexmark.functions import count_char
from mixedmode_bench.workload import Frames, SparkStreaming

DISORDER = "4 seconds"
Query = Callable[[Frames], DataFrame]


def pass_through(frames: Frames) -> DataFrame:
    """Query 0."""
    return frames["bid"].select("auction", "bidder", "price", "dateTime", "extra")


def in_euros(frames: Frames) -> DataFrame:
    """Query 1."""
    euros = "CAST(0.908 * price AS DECIMAL(23, 3)) AS price"
    return frames["bid"].selectExpr("auction", "bidder", euros, "dateTime", "extra")


def selected(frames: Frames) -> DataFrame:
    """Query 2."""
    return frames["bid"].where("auction % 123 = 0").select("auction", "price")


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


def with_side_input(frames: Frames) -> DataFrame:
    """Query 13."""
    joined = frames["bid"].join(F.broadcast(frames["side_input"]), F.expr("auction % 10000 = key"))
    return joined.select("auction", "bidder", "price", "dateTime", "value")


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


def highest_bids(frames: Frames) -> DataFrame:
    """Query 19. In batch only: a streaming query of Spark has no ranks."""
    order = Window.partitionBy("auction").orderBy(F.desc("price"), "bidder", "channel", "url", "dateTime", "extra")
    ranked = frames["bid"].withColumn("rank", F.row_number().over(order)).where("rank <= 10")
    return ranked.select("auction", "rank", "bidder", "price", "channel", "url", "dateTime", "extra")


def appending(query: Query) -> SparkStreaming:
    """The query over a stream of bids with a watermark; each row is given once."""
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


def local_sellers(frames: Frames) -> DataFrame:
    """Query 3."""
    items = frames["auction"].where("category = 10").alias("a")
    sellers = frames["person"].where("state IN ('OR', 'ID', 'CA')").alias("p")
    return items.join(sellers, F.expr("a.seller = p.id")).selectExpr("p.name", "p.city", "p.state", "a.id")


def average_prices(frames: Frames) -> DataFrame:
    """Query 4."""
    final = _offers(frames).groupBy("a.id", "a.category").agg(F.max("b.price").alias("final"))
    return final.groupBy("category").agg(F.avg("final").alias("average"))


def selling_prices(frames: Frames) -> DataFrame:
    """Query 6. In batch only: a streaming query of Spark has no ranks."""
    final = _offers(frames).groupBy("a.id", "a.seller", "a.expires").agg(F.max("b.price").alias("final"))
    order = Window.partitionBy("seller").orderBy(F.desc("expires"), F.desc("id"))
    last = final.withColumn("rank", F.row_number().over(order)).where("rank <= 10")
    return last.groupBy("seller").agg(F.avg("final").alias("average"))


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


def bids_with_auctions(frames: Frames) -> DataFrame:
    """Query 20."""
    both = (
        frames["bid"].alias("b").join(frames["auction"].where("category = 10").alias("a"), F.expr("b.auction = a.id"))
    )
    item = ("itemName", "description", "initialBid", "reserve", "dateTime AS opened", "expires", "seller", "category")
    return both.selectExpr("b.*", *(f"a.{column}" for column in (*item, "extra AS item_extra")))


def channel_numbers(frames: Frames) -> DataFrame:
    """Query 21."""
    found = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
    names = ("apple", "google", "facebook", "baidu")
    cases = " ".join(f"WHEN '{name}' THEN '{number}'" for number, name in enumerate(names))
    number = f"CASE lower(channel) {cases} ELSE {found} END AS channel_id"
    known = frames["bid"].where(f"lower(channel) IN {names} OR {found} <> ''")
    return known.selectExpr("auction", "bidder", "price", "channel", number)


def folders(frames: Frames) -> DataFrame:
    """Query 22."""
    parts = [f"split_part(url, '/', {number + 3}) AS dir{number}" for number in (1, 2, 3)]
    return frames["bid"].selectExpr("auction", "bidder", "price", "channel", *parts)


def logged(frames: Frames) -> DataFrame:
    """Query 10, without its folders: a contestant's table is written as one."""
    parts = ("date_format(dateTime, 'yyyy-MM-dd') AS dt", "date_format(dateTime, 'HH:mm') AS hm")
    return frames["bid"].selectExpr("auction", "bidder", "price", "dateTime", "extra", *parts)


def bids_by_clock(frames: Frames) -> DataFrame:
    """Query 12: a batch has one processing time."""
    return frames["bid"].groupBy("bidder").agg(F.count("*").alias("bid_count"))


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


def bids_of_sellers(frames: Frames) -> DataFrame:
    """Query 23."""
    bids = frames["bid"].alias("b").join(frames["person"].alias("p"), F.expr("b.bidder = p.id"))
    bid = ("b.bidder", "b.price", "b.channel", "b.url", "b.extra AS bid_extra")
    person = ("p.id AS person_id", "p.name", "p.emailAddress", "p.creditCard", "p.city", "p.state")
    item = ("a.itemName", "a.description", "a.initialBid", "a.reserve", "a.dateTime AS auction_dateTime", "a.expires")
    return bids.join(frames["auction"].alias("a"), F.expr("a.seller = b.bidder")).selectExpr(
        *bid, *person, "p.extra AS person_extra", *item, "a.seller", "a.category", "a.extra AS auction_extra"
    )


def _offers(frames: Frames) -> DataFrame:
    """Bids with their auctions, while these are open."""
    open_then = F.expr("a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires")
    return frames["auction"].alias("a").join(frames["bid"].alias("b"), open_then)


#: by the name of the job file
BATCH: Mapping[str, Query] = {
    "q0": pass_through,
    "q1": in_euros,
    "q2": selected,
    "q3": local_sellers,
    "q4": average_prices,
    "q5": hot_items,
    "q6": selling_prices,
    "q7": highest_bids_of_windows,
    "q8": new_sellers,
    "q9": winning_bids,
    "q10": logged,
    "q11": sessions,
    "q12": bids_by_clock,
    "q13": with_side_input,
    "q14": calculated,
    "q15": bidding_statistics,
    "q16": channel_statistics,
    "q17": auction_statistics,
    "q18": last_bids,
    "q19": highest_bids,
    "q20": bids_with_auctions,
    "q21": channel_numbers,
    "q22": folders,
    "q23": bids_of_sellers,
}
STREAMING: Mapping[str, SparkStreaming] = {
    "q0": SparkStreaming(pass_through, "append"),
    "q1": SparkStreaming(in_euros, "append"),
    "q2": SparkStreaming(selected, "append"),
    "q10": SparkStreaming(logged, "append"),
    "q14": SparkStreaming(calculated, "append"),
    "q11": appending(sessions),
    "q17": SparkStreaming(auction_statistics),
    "q18": SparkStreaming(last_bids),
    "q21": SparkStreaming(channel_numbers, "append"),
    "q22": SparkStreaming(folders, "append"),
}
