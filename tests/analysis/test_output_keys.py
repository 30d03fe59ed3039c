"""The key of an output: that of the last keyed step, or one that the rows of its inputs have."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.job import Job, Sink
from tests.analysis.two_sources import sources

pytestmark = pytest.mark.spark

COUNTS = "(SELECT k, x, count(*) AS n FROM s GROUP BY k, x)"
TOTALS = "(SELECT k, sum(x) AS total FROM r GROUP BY k)"
BEST = f"(SELECT *, row_number() OVER (ORDER BY n DESC) AS place FROM {COUNTS})"
OF_K = f"(SELECT *, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS place FROM {COUNTS})"


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        (f"SELECT * FROM {BEST} WHERE place <= 3", ("place",)),
        (f"SELECT n, x, k FROM {BEST} WHERE place <= 3", ("k", "x")),
        (f"SELECT k, n, place FROM {OF_K} WHERE place <= 3", ("k", "place")),
        (f"SELECT k, n, place FROM {OF_K} WHERE place = 1", ("k", "place")),
        (f"SELECT k, n FROM {OF_K} WHERE place = 1", ("k",)),
        (f"SELECT x, k, n FROM {OF_K} WHERE place <= 3", ("k", "x")),
        (f"SELECT k AS a, x AS b, n FROM {COUNTS} ORDER BY n DESC LIMIT 3", ("a", "b")),
        (f"SELECT c.k, x, n, total FROM {COUNTS} c LEFT JOIN {TOTALS} t ON c.k = t.k", ("k", "x")),
        (f"SELECT t.k, x, n, total FROM {COUNTS} c JOIN {TOTALS} t ON c.k = t.k", ("k", "x")),
        (f"SELECT c.k, x, t.k AS other FROM {COUNTS} c JOIN {TOTALS} t ON c.n = t.total", ("k", "x", "other")),
        (f"SELECT k, x FROM {COUNTS} c WHERE EXISTS (SELECT * FROM r WHERE r.k = c.k)", ("k", "x")),
        (
            "SELECT k, x, n FROM s JOIN (SELECT k, count(*) AS n FROM r GROUP BY k) USING (k) GROUP BY ALL",
            ("k", "x", "n"),
        ),
        ("SELECT k, grouping_id() AS g, count(*) AS n FROM s GROUP BY ROLLUP(k)", ("k", "g")),
        ("SELECT k, x FROM s EXCEPT SELECT k, x FROM r", ("k", "x")),
    ],
)
def test_the_key_of_an_output_follows_from_its_text(
    spark: SparkSession, folder: Path, sql: str, key: tuple[str, ...]
) -> None:
    (folder / "in").mkdir()
    job = Job("keys", sources=sources(), mode="batch").sql(sql).write(Sink.parquet("out"))
    (result,) = analyse(spark, job.spec, job.where).plan.results.values()
    assert result.key_columns == key
