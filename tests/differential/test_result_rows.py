"""The rows that aggregates emit: conditions on results, in every mode, against plain Python. One job has all cases."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.testing import run_graph
from tests.differential.timelines import MODES_ON_SPARK, Mode
from tests.harness import SPARK, output_changes, output_rows, run, write_parquet

Record = dict[str, Any]
Bag = Counter[tuple[Any, ...]]

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
#: (minute, key, value): in the live epochs, a meets and leaves the condition, b and NULL come to meet it
EPOCHS: list[list[tuple[int, str | None, int | None]]] = [
    [(0, "a", 9), (1, "b", 1), (2, "c", None), (3, None, 2), (11, "a", 1)],
    [(12, "a", -8), (13, "b", 8), (14, None, 4), (15, "d", 7)],
    [(25, "b", 1), (26, "d", -7), (27, "a", 5), (39, "c", 0)],
]


def rows(epoch: Sequence[tuple[int, str | None, int | None]]) -> list[Record]:
    return [{"k": k, "v": v, "t": minute * 60_000_000} for minute, k, v in epoch]


def job(base: Path, mode: Mode) -> Job:
    source = Source.parquet(
        base / "in",
        schema="k string, v bigint, t timestamp",
        event_time="t",
        **({"bounded": True} if mode == "batch" else {"max_files_per_epoch": 1}),
    )
    made = Job(
        "rows",
        sources={"t": source},
        mode=mode,
        checkpoint_dir=None if mode == "batch" else base / "checkpoints",
        parallelism=2,
        backlog_emit="all" if mode == "batch" else None,
        spark=SPARK,
    )
    records = made.source("t")
    large = records.key_by("k", name="large").aggregate(s="sum(v)", n="count(*)", having="s > 5 -- or more")
    counts = large.key_by("n", name="counts").aggregate(keys="count(*)")
    windows = (
        records.key_by("k", name="windows").window(tumbling="10m").aggregate(n="count(*)", having="n > 1 OR k IS NULL")
    )
    again = windows.window(name="again", tumbling="20m").aggregate(windows="count(*)")
    total = large.aggregate(name="total", s="sum(s)", most="max(s)", keys="count(*)")
    half = total.sql("SELECT s / 2 AS half FROM total WHERE s > 0", name="half")
    named = windows.sql("SELECT concat(k, '!') AS name, n, window_end AS till FROM windows", name="named")
    facts = large.sql(
        "SELECT 'sum' AS fact, s AS number FROM total UNION ALL SELECT concat('sum of ', k), s FROM large",
        others=[total],
        name="facts",
    )
    streams = {"large": large, "counts": counts, "windows": windows, "again": again, "total": total, "half": half}
    for name, stream in streams.items():
        made = made.output(name, stream, Sink.parquet(base / "out" / name))
    made = made.output("named", named, Sink.parquet(base / "out" / "named"), key=["till", "name"])
    return made.output("facts", facts, Sink.parquet(base / "out" / "facts"), key="fact")


def expected() -> dict[str, Bag]:
    records = [record for epoch in EPOCHS for record in rows(epoch)]
    values, windows = defaultdict[Any, list[Any]](list), Counter[tuple[Any, int]]()
    for record in records:
        values[record["k"]].append(record["v"])
        windows[record["k"], record["t"] // 600_000_000] += 1
    known = {k: [v for v in own if v is not None] for k, own in values.items()}
    large = {k: (sum(own), len(values[k])) for k, own in known.items() if own and sum(own) > 5}
    kept = [(k, window, n) for (k, window), n in windows.items() if n > 1 or k is None]
    return {
        "large": Counter((k, *found) for k, found in large.items()),
        "counts": Counter(Counter(n for _, n in large.values()).items()),
        "windows": Counter((window, k, n) for k, window, n in kept),
        "total": Counter([(True, sum(s for s, _ in large.values()), max(s for s, _ in large.values()), len(large))]),
        "half": Counter([(True, sum(s for s, _ in large.values()) / 2)]),
        "named": Counter((None if k is None else f"{k}!", n, window + 1) for k, window, n in kept),
        "facts": Counter(
            [
                ("sum", sum(s for s, _ in large.values())),
                *((k if k is None else f"sum of {k}", s) for k, (s, _) in large.items()),
            ]
        ),
        "again": Counter(Counter(window // 2 for _, window, _ in kept).items()),
    }


def found(base: Path) -> dict[str, Bag]:
    def bag(output: str, *columns: str, minutes: int = 10) -> Bag:
        return Counter(
            tuple(
                int(row[name].timestamp()) // (60 * minutes) if name in ("window_start", "till") else row[name]
                for name in columns
            )
            for row in output_rows(base / "out" / output)
        )

    return {
        "large": bag("large", "k", "s", "n"),
        "counts": bag("counts", "n", "keys"),
        "windows": bag("windows", "window_start", "k", "n"),
        "again": bag("again", "window_start", "windows", minutes=20),
        "total": bag("total", "_all", "s", "most", "keys"),
        "half": bag("half", "_all", "half"),
        "named": bag("named", "name", "n", "till"),
        "facts": bag("facts", "fact", "number"),
    }


@pytest.mark.spark
@pytest.mark.parametrize("mode", MODES_ON_SPARK)
def test_all_modes_emit_the_rows_of_plain_python(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    arrivals = [
        partial(write_parquet, tmp_path / "in", f"{number}.parquet", pa.Table.from_pylist(rows(epoch), SCHEMA))
        for number, epoch in enumerate(EPOCHS)
    ]
    first = {"batch": len(arrivals), "mixed": 1, "streaming": 0}[mode]
    (tmp_path / "in").mkdir()
    for arrive in arrivals[:first]:
        arrive()
    run(job(tmp_path, mode), spark, feed=arrivals[first:], until=Until.DRAINED)
    assert found(tmp_path) == expected()
    columns = list(output_changes(tmp_path / "out" / "windows")[0])
    assert columns == ["window_start", "window_end", "k", "n", "_op", "_epoch"], "as without a condition"
    deleted = [row["k"] for row in output_changes(tmp_path / "out" / "large") if row["_op"] == "delete"]
    assert set(deleted) == (set() if mode == "batch" else {"a", "d"})


def test_two_rows_of_one_key_at_the_end_of_an_epoch_stop_the_job() -> None:
    source = Source.parquet("in", schema="k string, v bigint, t timestamp", event_time="t")
    made = Job("twice", sources={"t": source}, mode="batch")
    sums = made.source("t").key_by("k", "v", name="sums").aggregate(n="count(*)")
    counted = made.output("sums", sums, Sink.parquet("out"), key="k")
    first, second = ({"t": [{"k": "a", "v": v, "t": 0}]} for v in (1, 2))
    assert run_graph(counted, first).table("sums") == [{"k": "a", "v": 1, "n": 1}]
    with pytest.raises(InvalidJobError, match=r"key=\(k='a'\).* rows=one that the output has and \(2, 1\)"):
        run_graph(counted, first, live=[second])


@pytest.mark.spark
def test_a_comment_ends_with_the_text_that_a_job_gives_for_one_expression(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in", "0.parquet", pa.Table.from_pylist(rows(EPOCHS[0]), SCHEMA))
    source = Source.parquet(tmp_path / "in", schema="k string, v bigint, t timestamp", event_time="t", bounded=True)
    made = Job("comments", sources={"t": source}, mode="batch", parallelism=2, spark=SPARK)
    known = made.source("t").sql("SELECT k, v, t FROM previous WHERE v > 0 -- none", name="known")
    sums = known.key_by("upper(k) -- as shown AS large", "v > 1 -- not one AS many", name="sums").aggregate(
        s="sum(v + 0 -- none\n)", n="count(v) filter (where v > 1 -- many\n)", having="s > 0 -- any"
    )
    best = known.key_by("lower(k) -- as it is AS small", name="best").top(1, order_by="v + 1 -- best desc")
    select = ["left.k", "right.large", "left.v + 1 -- next AS next", "right.n * 2 -- twice AS twice"]
    pairs = known.join(sums, on="v = s", name="pairs", select=select)
    for name, stream in {"sums": sums, "best": best, "pairs": pairs}.items():
        key = ["k", "large", "next"] if name == "pairs" else ()
        made = made.output(name, stream, Sink.parquet(tmp_path / "out" / name), key=key)
    run(made, spark)

    def bag(output: str, *columns: str) -> Bag:
        return Counter(tuple(row[name] for name in columns) for row in output_rows(tmp_path / "out" / output))

    assert bag("sums", "large", "many", "s", "n") == Counter(
        [("A", True, 9, 1), ("A", False, 1, 0), ("B", False, 1, 0), (None, True, 2, 1)]
    )
    assert bag("best", "small", "v") == Counter([("a", 9), ("b", 1), (None, 2)])
    assert bag("pairs", "k", "large", "next", "twice") == Counter(
        [("a", "A", 10, 2), (None, None, 3, 2), *((k, large, 2, 0) for k in "ab" for large in "AB")]
    )


@pytest.mark.parametrize("key", [("k", "n"), "n"])
@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_running_results_are_only_for_outputs_that_have_the_rows_of_the_step(
    mode: Literal["batch", "mixed"], key: str | tuple[str, ...]
) -> None:
    source = Source.parquet("in", schema="k string, v bigint, t timestamp", event_time="t")
    folder = None if mode == "batch" else "checkpoints"
    made = Job("running", sources={"t": source}, mode=mode, checkpoint_dir=folder, backlog_emit="all")
    counts = made.source("t").key_by("k", name="counts").aggregate(n="count(*)")
    records = [(0, "a", 1), (1, "b", 1), (2, "a", 2), (3, None, None), (4, "a", 3), (5, "b", 2)]
    found = run_graph(made.output("counts", counts, Sink.parquet("out"), key=key), {"t": rows(records)})
    assert [row["_op"] for row in found.changes("counts")] == ["insert"] * 3
    assert {(row["k"], row["n"]) for row in found.table("counts")} == {("a", 3), ("b", 2), (None, 1)}
