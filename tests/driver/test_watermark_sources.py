"""The watermark follows the sources, whatever the SQL and the functions between them and the keyed step let pass.

Each case is played in the three modes, with a live part in two epochs, and compared with plain Python: the windows of
the records that pass, those of them that the greatest event time of all records has ended.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typing_extensions import override

from mixedmode.job import Job, Source
from mixedmode.operators.map import MapFunction
from tests.driver.test_windows import DDL, Folder, at, record, windows
from tests.harness import Row, manifests, output_rows, write_parquet

pytestmark = pytest.mark.spark

HERE = "tests.driver.test_watermark_sources"
#: epochs of records; of the live ones, none passes the steps below, which take v > 0
EPOCHS: list[list[Row]] = [
    [record("a", 1, 0.5), record("b", 2, 0.75), record("a", -1, 0.8)],
    [record("a", -1, 1.5), record("c", -1, 2.25)],
    [record("a", -1, 4.0)],
]


class PassesPositive(MapFunction):
    """The rows that the WHERE of the other cases lets pass."""

    @override
    def map_record(self, record: Mapping[str, Any]) -> Iterator[Row]:
        if record["v"] > 0:
            yield dict(record)


@dataclass(frozen=True)
class Case:
    """Steps that let no record pass for a while."""

    steps: Callable[[Job], Job]
    has_other_source: bool = False


CASES = {
    "a WHERE": Case(lambda job: job.sql("SELECT * FROM t WHERE v > 0")),
    "an empty list": Case(lambda job: job.sql("SELECT k, v, at, explode(if(v > 0, array(1), array())) AS one FROM t")),
    "inline of nothing": Case(
        lambda job: job.sql("SELECT k, v, at, inline(if(v > 0, array(struct(1 AS one)), array())) FROM t")
    ),
    "a branch": Case(
        lambda job: job.sql("SELECT k, v, at FROM t UNION ALL SELECT k, v, at FROM u WHERE v > 9"),
        has_other_source=True,
    ),
    "a map step": Case(lambda job: job.map(f"{HERE}:PassesPositive", output=DDL)),
    "a WHERE before a map step": Case(
        lambda job: job.sql("SELECT * FROM t WHERE v > 0").map(f"{HERE}:PassesPositive", output=DDL)
    ),
}


def passes(case: Case, row: Row) -> bool:
    return row["v"] > 0 or case.has_other_source


def expected(case: Case, *, up_to: float) -> list[tuple[object, ...]]:
    """Hours of the windows, key and count, of those that have ended."""
    hours = [(int(row["at"][11:13]), row["k"]) for epoch in EPOCHS for row in epoch if passes(case, row)]
    found = Counter(hours)
    return sorted(((h, h + 1, k, n) for (h, k), n in found.items() if h + 1 <= up_to), key=str)


#: like other cases, but for the name of Spark's function, or for both steps at once
ALIKE = ("inline of nothing", "a WHERE before a map step")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "mixed") for name in CASES if name not in ALIKE),
        ("a branch", "batch"),
        *(pytest.param(name, "mixed", marks=pytest.mark.soak) for name in ALIKE),
        pytest.param("a WHERE", "streaming", marks=pytest.mark.soak),
    ],
)
def test_windows_fire_as_the_source_moves_on_although_nothing_passes(
    spark: SparkSession, tmp_path: Path, name: str, mode: str
) -> None:
    case, folder = CASES[name], Folder(tmp_path)
    sources = {"t": folder.source()}
    other = tmp_path / "other"
    if case.has_other_source:
        other.mkdir()
        sources["u"] = folder.source(other)

    def arrive(epoch: list[Row]) -> None:
        folder.add(*epoch)
        if case.has_other_source:
            folder.add(*({**row, "v": -1} for row in epoch), to=other)

    steps = case.steps(folder.job(sources=sources, mode=mode)).key_by("k").window(tumbling="1h")
    job = steps.aggregate(n="count(*)")
    arrive(EPOCHS[0])
    if mode == "batch":
        for epoch in EPOCHS[1:]:
            arrive(epoch)
        folder.run(job, spark)
        assert windows(output_rows(folder.out), "k", "n") == expected(case, up_to=24)
        return
    folder.run(job, spark, feed=[lambda: arrive(EPOCHS[1])])
    assert folder.watermark == at(2.25)
    assert windows(output_rows(folder.out), "k", "n") == expected(case, up_to=2.25)
    arrive(EPOCHS[2])
    folder.run(job, spark)
    assert folder.watermark == at(4)
    assert windows(output_rows(folder.out), "k", "n") == expected(case, up_to=4)


def test_sql_and_settings_may_change_between_starts_although_sources_are_read_another_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Parquet is read by map tasks, by Spark, and twice by either; Spark's log has to go on through all of it."""
    folder = Folder(tmp_path)
    source = Source.parquet(folder.inputs, schema=DDL, event_time="at")
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    plain = folder.job(sources={"t": source})
    filtered = plain.sql("SELECT * FROM t WHERE v > 0 AND lower(k) = k")
    lagging = folder.job(sources={"t": source}, watermark_lag_threshold="1h").sql("SELECT k, v FROM t")
    found, counts = [], []
    for number, job in enumerate([plain, filtered, lagging, plain.sql("SELECT *, 1 AS one FROM t"), filtered, plain]):
        row = {"k": "a", "v": number % 2, "at": at(number)}
        write_parquet(folder.inputs, f"{number}.parquet", pa.Table.from_pylist([row], schema))
        folder.run(job.key_by("k").aggregate(n="count(*)"), spark)
        found.append(manifests(folder.checkpoints)[-1].watermark_us)
        counts += [row["n"] for row in output_rows(folder.out)]
    assert counts == [1, 2, 3, 4, 4, 5], "the record of epoch 4 does not pass"
    assert found[2] == int(at(2).timestamp() * 1e6), "the column is dropped, and the threshold goes by the source"


@pytest.mark.parametrize("by", ["tasks", "Spark"])
@pytest.mark.parametrize(
    "columns",
    ["at AS time", "date_trunc('HOUR', at) AS at, at AS time", "at AS time, at", "1 AS at, at AS time"],
    ids=["renamed", "replaced, and renamed", "copied", "replaced by a number"],
)
def test_the_watermark_goes_by_the_column_of_the_source_whatever_sql_names_it(
    spark: SparkSession, tmp_path: Path, columns: str, by: str
) -> None:
    folder = Folder(tmp_path)
    source = Source.parquet(folder.inputs, schema=DDL, event_time="at")
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    rows = [{"k": "a", "v": 1, "at": at(1.25)}, {"k": "b", "v": 1, "at": at(2.75)}]
    write_parquet(folder.inputs, "a.parquet", pa.Table.from_pylist(rows, schema))
    key = "k" if by == "tasks" else "lower(k) AS k"
    job = folder.job(sources={"t": source}, watermark_lag_threshold="1h").sql(f"SELECT {key}, {columns} FROM t")
    folder.run(job.key_by("k").aggregate(n="count(*)"), spark)
    assert folder.watermark == at(2.75)
    assert [row["n"] for row in output_rows(folder.out)] == [1, 1]
