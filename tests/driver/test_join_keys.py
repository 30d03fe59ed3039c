"""Keys of different but comparable types: each kind of join compares them as Spark's own join does."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_rows, run, write_parquet

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
LEFT = {"k": pa.int32(), "c": pa.decimal128(5, 1), "f": pa.float32(), "d": pa.date32(), "s": pa.int32()}
RIGHT = {"k": pa.int64(), "c": pa.decimal128(12, 3), "f": pa.int32(), "d": pa.timestamp("us", "UTC"), "s": pa.string()}
#: values of each column on both sides, of which the n-th are equal for Spark, or neither is; the last are no numbers
VALUES: dict[str, tuple[list[object], list[object]]] = {
    "k": ([1, -2, None], [1, -2, 2**40]),
    "c": ([Decimal("1.5"), Decimal("9999.9"), None], [Decimal("1.500"), Decimal("9999.900"), Decimal("1.501")]),
    "f": ([1.0, 2.5, None], [1, 3, None]),
    "d": ([date(2026, 1, 1), date(2026, 1, 2), None], [START, START + timedelta(hours=1), None]),
    "s": ([1, 20, None], ["01", "20 ", None]),
}
KINDS = ("regular", "as_of", "interval")
#: each kind, and each column; `make soak` has all of them together
BY_DEFAULT = {(kind, column) for kind, columns in zip(KINDS, ("kcfds", "cs", "fd"), strict=True) for column in columns}
EVERY = {(kind, column) for kind in KINDS for column in LEFT}


def table(columns: dict[str, pa.DataType], side: int) -> pa.Table:
    """Each value of each column once, beside NULLs of the others, with an id."""
    rows = [{name: value, "of": name} for name in columns for value in VALUES[name][side]]
    fields = [pa.field(name, data_type) for name, data_type in columns.items()]
    own = [("of", pa.string()), ("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
    numbered = [{**row, "id": number, "at": START} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=pa.schema([*fields, *own]))


@pytest.fixture(params=[pytest.param("true", id="ansi"), pytest.param("false", id="not-ansi", marks=pytest.mark.soak)])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Without ANSI, Spark compares text with numbers as numbers of their type."""
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize(
    "tried", [pytest.param(BY_DEFAULT, id="some"), pytest.param(EVERY, id="every", marks=pytest.mark.soak)]
)
def test_keys_of_different_types_are_equal_where_spark_says_so(
    spark: SparkSession, tmp_path: Path, tried: set[tuple[str, str]]
) -> None:
    for name, found in (("a", table(LEFT, 0)), ("b", table(RIGHT, 1))):
        write_parquet(tmp_path / name, "0.parquet", found)
    sources = {name: Source.parquet(tmp_path / name, event_time="at", bounded=True) for name in ("a", "b")}
    job = Job("typed", sources=sources, mode="batch", spark=SPARK)
    a, b = job.source("a"), job.source("b")
    select = ["left.id", "right.id AS other", "left.at"]
    for column in LEFT:
        on = [column, "of"]
        joins = {
            "as_of": a.as_of_join(b, on=on, type="inner", tie_break="id", select=select),
            "interval": a.interval_join(b, on=on, within=("0s", "0s"), event_time="at2", select=select),
            "regular": a.join(b, on=on, select=select),
        }
        for kind in KINDS:
            if (kind, column) in tried:
                name = f"{kind}_{column}"
                job = job.output(name, joins[kind], Sink.parquet(tmp_path / "out" / name))
    run(job, spark)
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in ("a", "b")}
    for column in LEFT:
        joined = frames["a"].alias("a").join(frames["b"].alias("b"), _same(column), "inner")
        expected = Counter((row[0], row[1]) for row in joined.selectExpr("a.id", "b.id").collect())
        assert expected, column
        for kind in (one for one in KINDS if (one, column) in tried):
            found = Counter((row["id"], row["other"]) for row in output_rows(tmp_path / "out" / f"{kind}_{column}"))
            assert found == expected, f"{kind} by {column}"


def _same(column: str) -> Column:
    return F.expr(f"a.{column} = b.{column} AND a.of = b.of")
