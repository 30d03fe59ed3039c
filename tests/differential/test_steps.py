"""Several keyed steps, and sql between and after them: rows are retracted, move between groups, and disappear.

The oracle starts over from all rows each time, so it knows nothing of retraction. One row of the second step is one
key of the first, and its group is computed from its changing sum, so keys move between groups as records arrive.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job, Source
from tests.differential.cases import Rows, parquet_piece
from tests.differential.oracle import Call, Table, Where, aggregate, differences, keyed
from tests.differential.stories import Mode, Story, case_folder, epochs_of, local_cases, play, table_after
from tests.harness import SPARK_CASES, output_rows
from tests.operators.ordered import in_order

SCHEMA = pa.schema([("k", pa.string()), ("j", pa.int32()), ("v", pa.int64()), ("d", pa.float64())])
DDL = "k string, j int, v bigint, d double"


@dataclass(frozen=True)
class Chain:
    """A job and the same in plain Python."""

    steps: Callable[[Job], Job]
    answer: Callable[[Rows], Table]
    key_by: list[str]


def _rows_of(table: Table) -> Rows:
    return list(table.values())


def _first_step(rows: Rows) -> Rows:
    return _rows_of(aggregate(rows, ["k", "j"], {"n": Call("count"), "s": Call("sum", "v"), "top": Call("max", "v")}))


def _grouped(rows: Rows) -> Rows:
    """SELECT s % 3 AS bucket ... WHERE s >= 0: the group of a row moves as its sum does, and it may leave."""
    kept = [row for row in _first_step(rows) if row["s"] is not None and row["s"] >= 0]
    return [{"bucket": row["s"] % 3, "n": row["n"], "s": row["s"], "top": row["top"], "k": row["k"]} for row in kept]


FIRST = {"n": "count(*)", "s": "sum(v)", "top": "max(v)"}
BUCKETS = "SELECT s % 3 AS bucket, n, s, top, k FROM previous WHERE s >= 0"


def _invertible(job: Job) -> Job:
    job = job.key_by("k", "j").aggregate(FIRST).sql(BUCKETS)
    return job.key_by("bucket").aggregate(keys="count(*)", n="sum(n)", s="sum(s)", mean="avg(s)")


def _invertible_answer(rows: Rows) -> Table:
    calls = {"keys": Call("count"), "n": Call("sum", "n"), "s": Call("sum", "s"), "mean": Call("avg", "s")}
    return aggregate(_grouped(rows), ["bucket"], calls)


def _multiset(job: Job) -> Job:
    job = job.key_by("k", "j").aggregate(FIRST).sql(BUCKETS)
    return job.key_by("bucket").aggregate(low="min(s)", high="max(top)", last_k="max(k)", spread="stddev_pop(s)")


def _multiset_answer(rows: Rows) -> Table:
    calls = {
        "low": Call("min", "s"),
        "high": Call("max", "top"),
        "last_k": Call("max", "k"),
        "spread": Call("stddev_pop", "s"),
    }
    return aggregate(_grouped(rows), ["bucket"], calls)


def _filtered_after(job: Job) -> Job:
    job = job.sql("SELECT *, v * 2 AS twice FROM t WHERE v <> 2").key_by("k").aggregate(n="count(*)", s="sum(twice)")
    return job.sql("SELECT k, s, n, upper(k) AS big FROM previous WHERE n % 2 = 1")


def _filtered_after_answer(rows: Rows) -> Table:
    kept = [{**row, "twice": row["v"] * 2} for row in rows if row["v"] is not None and row["v"] != 2]
    sums = aggregate(kept, ["k"], {"n": Call("count"), "s": Call("sum", "twice")})
    return keyed(
        [
            {"k": row["k"], "s": row["s"], "n": row["n"], "big": None if row["k"] is None else row["k"].upper()}
            for row in sums.values()
            if row["n"] % 2 == 1
        ],
        ["k"],
    )


def _three_steps(job: Job) -> Job:
    job = job.key_by("k", "j").aggregate(s="sum(v)", d="max(d)")
    job = job.key_by("k").aggregate(js="count(*)", s="sum(s)", d="min(d)")
    job = job.key_by("js").aggregate(ks="count(*)", low="min(s)", total="sum(d)")
    return job.sql("SELECT * FROM previous WHERE ks < 3")


def _three_steps_answer(rows: Rows) -> Table:
    first = aggregate(rows, ["k", "j"], {"s": Call("sum", "v"), "d": Call("max", "d")})
    second = aggregate(_rows_of(first), ["k"], {"js": Call("count"), "s": Call("sum", "s"), "d": Call("min", "d")})
    third = aggregate(
        _rows_of(second), ["js"], {"ks": Call("count"), "low": Call("min", "s"), "total": Call("sum", "d")}
    )
    return {key: row for key, row in third.items() if row["ks"] < 3}


def _kept(job: Job) -> Job:
    job = job.key_by("k", "j").aggregate(
        s="sum(v)", vs="collect_list(v, 3)", ds="count(distinct d) filter (where v > 0)"
    )
    job = job.sql("SELECT size(vs) AS bucket, vs, ds, s, k FROM previous")
    job = job.key_by("bucket").aggregate(
        ks="count(distinct k)",
        names="collect_set(k, 2)",
        best="max_by(k, s) filter (where ds > 0)",
        half="approx_percentile(s, 0.5)",
        about="approx_count_distinct(s)",
        sums="collect_list(s, 4)",
    )
    return job.sql("SELECT *, size(sums) AS many FROM previous")


def _kept_answer(rows: Rows) -> Table:
    positive = Where("v > 0", lambda row: row["v"] is not None and row["v"] > 0)
    first = {
        "s": Call("sum", "v"),
        "vs": Call("collect_list", "v", number=3),
        "ds": Call("count_distinct", "d", where=positive),
    }
    pairs = [{**row, "bucket": len(row["vs"])} for row in _rows_of(aggregate(rows, ["k", "j"], first))]
    calls = {
        "ks": Call("count_distinct", "k"),
        "names": Call("collect_set", "k", number=2),
        "best": Call("max_by", "k", by="s", where=Where("ds > 0", lambda row: row["ds"] > 0)),
        "half": Call("approx_percentile", "s", number=0.5),
        "about": Call("approx_count_distinct", "s"),
        "sums": Call("collect_list", "s", number=4),
    }
    table = aggregate(pairs, ["bucket"], calls)
    return {key: {**row, "many": len(row["sums"])} for key, row in table.items()}


def _ranks(job: Job) -> Job:
    job = job.sql("SELECT k, v, abs(v) AS size FROM t WHERE v IS NOT NULL")
    job = job.key_by("k").top(2, order_by=["size % 4 desc", "V"])
    return job.sql("SELECT k, rank, v, upper(k) AS big FROM previous WHERE v <> 2")


def _ranks_answer(rows: Rows) -> Table:
    sized = [
        {"k": row["k"], "v": row["v"], "size": abs(row["v"]), "by": abs(row["v"]) % 4}
        for row in rows
        if row["v"] is not None
    ]
    best = _ranked(sized, "k", 2, [("by", True, False), ("v", False, True)])
    return keyed(
        [
            {name: row[name] for name in ("k", "rank", "v")} | {"big": None if row["k"] is None else row["k"].upper()}
            for row in best
            if row["v"] != 2
        ],
        ["k", "rank"],
    )


CHAINS = {
    "ranks": Chain(_ranks, _ranks_answer, ["k", "rank"]),
    "invertible": Chain(_invertible, _invertible_answer, ["bucket"]),
    "multiset": Chain(_multiset, _multiset_answer, ["bucket"]),
    "filtered after": Chain(_filtered_after, _filtered_after_answer, ["k"]),
    "three steps": Chain(_three_steps, _three_steps_answer, ["js"]),
    "kept values": Chain(_kept, _kept_answer, ["bucket"]),
}


def _two_steps(second: dict[str, str], *key_by: str) -> Callable[[Job], Job]:
    return lambda job: job.key_by("k", "j").aggregate(FIRST).key_by(*key_by).aggregate(second)


def _two_steps_answer(second: dict[str, Call], *key_by: str) -> Callable[[Rows], Table]:
    return lambda rows: aggregate(_first_step(rows), key_by, second)


def _three_steps_alone(job: Job) -> Job:
    job = job.key_by("k", "j").aggregate(s="sum(v)", d="max(d)")
    job = job.key_by("k").aggregate(js="count(*)", s="sum(s)", d="min(d)")
    return job.key_by("js").aggregate(ks="count(*)", low="min(s)", total="sum(d)")


def _three_steps_alone_answer(rows: Rows) -> Table:
    first = aggregate(rows, ["k", "j"], {"s": Call("sum", "v"), "d": Call("max", "d")})
    second = aggregate(_rows_of(first), ["k"], {"js": Call("count"), "s": Call("sum", "s"), "d": Call("min", "d")})
    calls = {"ks": Call("count"), "low": Call("min", "s"), "total": Call("sum", "d")}
    return aggregate(_rows_of(second), ["js"], calls)


INVERTIBLE = {
    "keys": ("count(*)", Call("count")),
    "rows": ("sum(n)", Call("sum", "n")),
    "mean": ("avg(top)", Call("avg", "top")),
}
KEPT = {
    "low": ("min(s)", Call("min", "s")),
    "last_k": ("max(k)", Call("max", "k")),
    "spread": ("stddev_pop(s)", Call("stddev_pop", "s")),
    "ks": ("count(distinct k)", Call("count_distinct", "k")),
    "names": ("collect_set(k, 2)", Call("collect_set", "k", number=2)),
    "best": ("max_by(k, s)", Call("max_by", "k", by="s")),
    "half": ("approx_percentile(s, 0.5)", Call("approx_percentile", "s", number=0.5)),
    "sums": ("collect_list(s, 4)", Call("collect_list", "s", number=4)),
}


def _chain(calls: dict[str, tuple[str, Call]], *key_by: str) -> Chain:
    texts, answers = ({name: call[i] for name, call in calls.items()} for i in (0, 1))
    return Chain(_two_steps(texts, *key_by), _two_steps_answer(answers, *key_by), [*key_by])  # type: ignore[arg-type]


def _ranked(rows: Rows, key_by: str, n: int, by: list[tuple[str, bool, bool]]) -> Rows:
    """The best rows of each key, with their rank after the key. Ties go by the columns of a row, in their order."""
    found: Rows = []
    for key in {row[key_by] for row in rows}:
        own = [row for row in rows if row[key_by] == key]
        names = [name for name in own[0] if name != key_by]
        values = [tuple(row[name] for name in names) for row in own]
        best = in_order(values, [(names.index(name), descending, first) for name, descending, first in by])[:n]
        found += [{key_by: key, "rank": at, **dict(zip(names, row, strict=True))} for at, row in enumerate(best, 1)]
    return found


def _top_of_a_step(job: Job) -> Job:
    return job.key_by("k", "j").aggregate(FIRST).key_by("n").top(2, order_by=["s desc nulls first", "k"])


def _top_of_a_step_answer(rows: Rows) -> Table:
    return keyed(_ranked(_first_step(rows), "n", 2, [("s", True, True), ("k", False, True)]), ["n", "rank"])


def _step_over_top(job: Job) -> Job:
    job = job.key_by("k").top(2, order_by="v desc")
    return job.key_by("rank").aggregate(ks="count(*)", s="sum(v)", low="min(j)", d="max(d)")


def _step_over_top_answer(rows: Rows) -> Table:
    calls = {"ks": Call("count"), "s": Call("sum", "v"), "low": Call("min", "j"), "d": Call("max", "d")}
    rows = [{name: row[name] for name in SCHEMA.names} for row in rows]  # a case has the columns in any order
    return aggregate(_ranked(rows, "k", 2, [("v", True, False)]), ["rank"], calls)


def _last_of_a_step(job: Job) -> Job:
    return job.key_by("k", "j").aggregate(FIRST).key_by("n").deduplicate(keep="last", tie_break=["s", "k"])


def _last_of_a_step_answer(rows: Rows) -> Table:
    best = _ranked(_first_step(rows), "n", 1, [("s", True, False), ("k", True, False)])
    return keyed([{name: value for name, value in row.items() if name != "rank"} for row in best], ["n"])


#: without SQL, so that they need no Spark; a row moves from group to group as its sum or its count does
LOCAL_CHAINS = {
    "invertible by sum": _chain(INVERTIBLE, "s"),
    "invertible by count and top": _chain(INVERTIBLE, "n", "top"),
    "kept values by count": _chain(KEPT, "n"),
    "kept values by top": _chain(KEPT, "top"),
    "three steps": Chain(_three_steps_alone, _three_steps_alone_answer, ["js"]),
    "top of a step": Chain(_top_of_a_step, _top_of_a_step_answer, ["n", "rank"]),
    "a step over top": Chain(_step_over_top, _step_over_top_answer, ["rank"]),
    "the last of a step": Chain(_last_of_a_step, _last_of_a_step_answer, ["n"]),
}


def _rows() -> st.SearchStrategy[Rows]:
    row = st.fixed_dictionaries(
        {
            "k": st.none() | st.sampled_from(["a", "b", "c", ""]),
            "j": st.none() | st.integers(0, 2),
            "v": st.none() | st.integers(-3, 3),
            "d": st.none() | st.sampled_from([0.5, -1.0, 2.25]),
        }
    )
    return st.lists(row, max_size=30)


@dataclass(frozen=True)
class Way:
    """Rows, and a way in which a chain may meet them."""

    rows: Rows
    borders: list[int]
    flip: int
    mode: Mode
    parallelism: int


@st.composite
def ways(draw: st.DrawFn) -> Way:
    rows = draw(_rows())
    return Way(
        rows=rows,
        borders=[0, *sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3))), len(rows)],
        flip=draw(st.integers(0, 4)),
        mode=draw(st.sampled_from(["mixed", "mixed", "streaming", "batch"])),
        parallelism=draw(st.sampled_from([1, 2, 3])),
    )


@local_cases(0.12)
@given(chain=st.sampled_from(sorted(LOCAL_CHAINS)), way=ways())
def test_a_chain_of_steps_gives_the_answer_of_starting_over(chain: str, way: Way) -> None:
    with case_folder() as folder:
        check(LOCAL_CHAINS[chain], way, None, folder)


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(chain=st.sampled_from(sorted(CHAINS)), way=ways())
def test_a_chain_of_steps_with_sql_gives_the_answer_of_starting_over(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, chain: str, way: Way
) -> None:
    check(CHAINS[chain], way, spark, tmp_path_factory.mktemp("case"))


#: sums of key a over the epochs: 1, 2, 4, -5, 0, so its group in CHAINS goes 1, 2, 1, none, 0
MOVING = Way([{"k": "a", "j": 0, "v": v, "d": 0.5} for v in (1, 1, 2, -9, 5)], [0, 1, 2, 3, 4, 5], 1, "mixed", 2)


@pytest.mark.spark
@pytest.mark.parametrize(
    "chain",
    [
        "filtered after",
        "three steps",
        *(pytest.param(chain, marks=pytest.mark.soak) for chain in ("ranks", "invertible", "kept values", "multiset")),
    ],
)
def test_a_key_moves_between_groups_and_back_and_leaves(spark: SparkSession, tmp_path: Path, chain: str) -> None:
    check(CHAINS[chain], MOVING, spark, tmp_path)


@pytest.mark.parametrize("chain", sorted(LOCAL_CHAINS))
def test_a_key_moves_between_groups_without_sql(tmp_path: Path, chain: str) -> None:
    check(LOCAL_CHAINS[chain], MOVING, None, tmp_path)


def check(chain: Chain, way: Way, spark: SparkSession | None, base: Path) -> None:
    """Run the chain, and compare the table after each epoch with the answer over the rows so far."""
    pieces = [
        parquet_piece(f"{number:03}", way.rows[start:end], SCHEMA)
        for number, (start, end) in enumerate(itertools.pairwise(way.borders))
    ]
    story = Story(pieces, min(way.flip, len(pieces)), partial(Source.parquet, schema=DDL))
    outcome = play(story, way.mode, chain.steps, spark, base, max_parallelism=16, parallelism=way.parallelism)
    arrived = 0
    for epoch, count in enumerate(epochs_of(story, way.mode)):
        arrived += count
        found = table_after(outcome, epoch, chain.key_by)
        assert not differences(chain.answer(way.rows[: way.borders[arrived]]), found), (way.mode, epoch)
    assert not differences(chain.answer(way.rows), keyed(output_rows(outcome.out), chain.key_by)), "current_table"
