"""Rows for tests of a GROUP BY in SQL, with NULLs, and without fractions that depend on the order of a sum."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

DDL = "k string, v bigint, w decimal(8,2), s string, `odd name` int, at timestamp"
START = datetime(2024, 1, 1, tzinfo=UTC)


def records(count: int) -> list[dict[str, Any]]:
    """Records of ten hours, in no order."""
    chosen = random.Random(count)
    return [
        {
            "k": chosen.choice(["a", "b", "it's", None]),
            "v": chosen.choice([1, 2, 3, -4, None]),
            "w": chosen.choice([None, 1, 250]),
            "s": chosen.choice(["x", "y", "a`b"]),
            "odd name": chosen.choice([0, 1]),
            "at": START + timedelta(minutes=chosen.randrange(600)),
        }
        for _ in range(count)
    ]


ROWS = [{**row, "w": None if row["w"] is None else f"{row['w']}.50"} for row in records(120)]


@contextmanager
def cached_table(spark: SparkSession) -> Iterator[DataFrame]:
    """ROWS as a table of Spark, which is computed once."""
    text = DDL.replace("w decimal(8,2)", "w string")
    frame = spark.createDataFrame(ROWS, text).selectExpr(
        "k", "v", "CAST(w AS decimal(8,2)) AS w", "s", "`odd name`", "at"
    )
    frame = frame.cache()
    frame.count()
    yield frame
    frame.unpersist()


def shown(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of a row; the zone of a time does not count."""
    return tuple(str(plain(value)) for name, value in row.items() if not name.startswith("_"))


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
