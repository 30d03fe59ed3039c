"""Plain readers of an output folder see the right table: DuckDB, pandas, Spark and Python, for Parquet and for JSON."""

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job, Sink, Source
from tests.differential.cases import Rows
from tests.differential.oracle import Call, Table, aggregate, differences, keyed
from tests.differential.stories import fold
from tests.harness import SPARK, output_changes, output_rows, run, write_parquet

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
HISTORY: Rows = [{"k": k, "v": v} for k, v in [("a", 1), ("b", 2), (None, 3), ("a", 4), ("c", None)]]
LIVE: list[Rows] = [
    [{"k": "a", "v": 10}, {"k": "d", "v": 20}],
    [{"k": None, "v": 5}, {"k": "d", "v": -20}],
]
ROWS = [*HISTORY, *LIVE[0], *LIVE[1]]
CALLS = {"n": Call("count"), "s": Call("sum", "v")}
NEWEST = """
    SELECT k, n, s FROM {files}
    QUALIFY row_number() OVER (PARTITION BY k ORDER BY _epoch DESC) = 1 AND _op <> 'delete'
"""


def job(base: Path) -> Job:
    source = Source.parquet(base / "in", schema="k string, v bigint")
    return Job(
        "outputs",
        sources={"t": source},
        mode="mixed",
        parallelism=2,
        checkpoint_dir=base / "checkpoints",
        spark=SPARK,
    )


def add(base: Path, name: str, rows: Rows, schema: pa.Schema = SCHEMA) -> None:
    write_parquet(base / "in", f"{name}.parquet", pa.Table.from_pylist(rows, schema))


def play(written: Job, base: Path, spark: SparkSession) -> None:
    """History, and two live epochs."""
    add(base, "history", HISTORY)
    feed = [lambda i=i, rows=rows: add(base, f"live{i}", rows) for i, rows in enumerate(LIVE)]
    run(written, spark, feed=feed)


def expected() -> Table:
    return aggregate(ROWS, ["k"], CALLS)


def by_duckdb(query: str) -> Rows:
    relation = duckdb.connect().sql(query)
    assert relation is not None, query
    rows: Rows = relation.to_arrow_table().to_pylist()
    return rows


def test_duckdb_pandas_and_spark_read_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    steps = job(tmp_path).key_by("k").aggregate(n="count(*)", s="sum(v)")
    play(steps.write(Sink.parquet(tmp_path / "out")), tmp_path, spark)
    query = NEWEST.format(files=f"read_parquet('{tmp_path}/out/*.parquet')")
    assert not differences(expected(), keyed(by_duckdb(query), ["k"])), "DuckDB"
    changes = output_changes(tmp_path / "out")
    by_spark = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    assert _as_bag(by_spark) == _as_bag(changes), "Spark reads the same rows"
    by_pandas = pd.read_parquet(tmp_path / "out")
    assert len(by_pandas) == len(changes) == 4 + 2 + 2
    assert Counter(by_pandas["_op"]) == {"insert": 5, "update": 3}
    assert list(by_pandas.columns) == ["k", "n", "s", "_op", "_epoch"]


def test_json_lines_hold_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    steps = job(tmp_path).key_by("k").aggregate(n="count(*)", s="sum(v)")
    play(steps.write(Sink.json(tmp_path / "out")), tmp_path, spark)
    files = sorted((tmp_path / "out").glob("part-*.json"))
    changes = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert not differences(expected(), fold(changes, ["k"]))
    assert not differences(expected(), keyed(output_rows(tmp_path / "out"), ["k"])), "current_table"
    query = NEWEST.format(files=f"read_json('{tmp_path}/out/*.json')")
    assert not differences(expected(), keyed(by_duckdb(query), ["k"])), "DuckDB"


def test_json_of_every_type_is_read_back_as_what_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Values that look like other types, and files in which a column is NULL throughout."""
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("day", pa.date32()),
            ("t", pa.timestamp("us", "UTC")),
            ("m", pa.decimal128(20, 4)),
            ("x", pa.binary()),
            ("d", pa.float64()),
            ("f", pa.bool_()),
        ]
    )
    ddl = "k string, day date, t timestamp, m decimal(20,4), x binary, d double, f boolean"
    full = {
        "day": date(2001, 2, 3),
        "t": datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
        "m": Decimal("12345678901234.5678"),
        "x": b"\0\xff",
        "d": 0.1,
        "f": True,
    }
    rows = [
        {"k": "2001-01-01", **full},
        {"k": "1", **full, "d": float("nan"), "t": datetime(1969, 1, 1, tzinfo=UTC), "m": Decimal(1)},
        {"k": "true", **full, "d": float("-inf"), "x": b""},
        {"k": None, **dict.fromkeys(full)},
    ]
    source = Source.parquet(tmp_path / "in", schema=ddl)
    calls = {name: f"max({name})" for name in full}
    typed = Job(
        "types",
        sources={"t": source},
        mode="mixed",
        checkpoint_dir=tmp_path / "checkpoints",
        parallelism=1,
        spark=SPARK,
    )
    written = typed.key_by("k").aggregate(calls).write(Sink.json(tmp_path / "out"))
    add(tmp_path, "0", rows[:1], schema)
    feed = [lambda i=i, row=row: add(tmp_path, f"{i}", [row], schema) for i, row in enumerate(rows[1:], 1)]
    run(written, spark, feed=feed)
    found = keyed(output_rows(tmp_path / "out"), ["k"])
    assert not differences(keyed(rows, ["k"]), found)


@pytest.mark.parametrize("mode", ["batch", "mixed", "streaming"])
def test_a_job_without_a_keyed_step_passes_every_row_on_once(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    is_batch = mode == "batch"
    source = Source.parquet(tmp_path / "in", schema="k string, v bigint", bounded=is_batch)
    rows_job = Job(
        "rows",
        sources={"t": source},
        mode="batch" if is_batch else "mixed" if mode == "mixed" else "streaming",
        checkpoint_dir=None if is_batch else tmp_path / "checkpoints",
        parallelism=2,
        spark=SPARK,
    )
    written = rows_job.sql("SELECT upper(k) AS big, v * 2 AS twice FROM t WHERE v <> 2").write(
        Sink.parquet(tmp_path / "out")
    )
    if is_batch:
        add(tmp_path, "all", ROWS)
        run(written, spark)
    else:
        play(written, tmp_path, spark)
    rows: Rows = [
        {"big": None if row["k"] is None else row["k"].upper(), "twice": row["v"] * 2}
        for row in ROWS
        if row["v"] is not None and row["v"] != 2
    ]
    changes = output_changes(tmp_path / "out")
    assert {row["_op"] for row in changes} == {"insert"}
    assert {row["_epoch"] for row in changes} == ({0} if is_batch else {0, 1, 2})
    assert _as_bag({k: row[k] for k in ("big", "twice")} for row in changes) == _as_bag(rows)
    assert _as_bag(output_rows(tmp_path / "out")) == _as_bag(rows), "its table is all of its rows"


def test_the_console_shows_each_epoch_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play(job(tmp_path).key_by("k").aggregate(n="count(*)").write(Sink.console()), tmp_path, spark)
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("epoch")] == [
        "epoch 0: 4 rows",
        "epoch 1: 2 rows",
        "epoch 2: 2 rows",
    ]
    assert "  k=a  n=3  _op=update" in shown.splitlines()


def _as_bag(rows: Any) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)
