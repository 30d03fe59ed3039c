"""A job reads formats, globs, several sources, files that are not quite alike, and awkward names."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.errors import RetryableError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, manifests, output_rows, run, write_json, write_parquet, write_text

pytestmark = pytest.mark.spark

DDL = "k string, v bigint"


def job(base: Path, **sources: SourceSpec) -> Job:
    settings: dict[str, Any] = {"mode": "mixed", "parallelism": 2, "checkpoint_dir": base / "checkpoints"}
    return Job("sources", sources=sources, spark=SPARK, **settings)


def counted(steps: Job, base: Path) -> Job:
    return steps.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(base / "out"))


def test_csv_files_may_begin_with_a_line_of_names(spark: SparkSession, tmp_path: Path) -> None:
    write_text(tmp_path / "in", "a.csv", "k,v\na,1\nb,\n,3\n")
    source = Source.csv(tmp_path / "in", schema=DDL, options={"header": True})
    more = [lambda: write_text(tmp_path / "in", "b.csv", 'k,v\n"a",4\n')]
    run(counted(job(tmp_path, t=source), tmp_path), spark, feed=more)
    assert output_rows(tmp_path / "out") == [
        {"k": "a", "n": 2, "s": 5},
        {"k": "b", "n": 1, "s": None},
        {"k": None, "n": 1, "s": 3},
    ]


def test_a_glob_takes_the_files_that_match(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "use-1.json", [{"k": "a", "v": 1}])
    write_json(tmp_path / "in", "other.json", [{"k": "b", "v": 1}])
    source = Source.json(tmp_path / "in" / "use-*.json", schema=DDL)
    more = [lambda: write_json(tmp_path / "in", "use-2.json", [{"k": "a", "v": 2}])]
    run(counted(job(tmp_path, t=source), tmp_path), spark, feed=more)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 2, "s": 3}]


def test_hidden_files_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 1}])
    write_text(tmp_path / "in", ".b.json", "half a reco")
    write_text(tmp_path / "in", "_c.json", "half a reco")
    run(counted(job(tmp_path, t=Source.json(tmp_path / "in", schema=DDL)), tmp_path), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 1, "s": 1}]


def test_two_sources_of_different_formats_become_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "old", "a.json", [{"k": "a", "v": 1, "at": "2001-01-01 00:00:00"}])
    (tmp_path / "new").mkdir()
    old = Source.json(tmp_path / "old", schema=f"{DDL}, at timestamp", event_time="at")
    new = Source.csv(tmp_path / "new", schema="at timestamp, v int, k string", event_time="at", out_of_orderness="1h")
    steps = job(tmp_path, old=old, new=new).sql("SELECT k, v, at FROM old UNION ALL SELECT k, v, at FROM new")
    more = [lambda: write_text(tmp_path / "new", "b.csv", "2001-01-01 05:00:00,2,a\n2001-01-01 04:00:00,3,b\n")]
    observer = run(counted(steps, tmp_path), spark, feed=more)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 2, "s": 3}, {"k": "b", "n": 1, "s": 3}]
    assert [(e.epoch, e.strategy, e.records) for e in observer.committed] == [(0, "sorted", 1), (1, "streaming", 2)]
    found = manifests(tmp_path / "checkpoints")
    # nothing goes by the watermark, so rows do not tell their source
    assert [{name: source.records for name, source in m.sources.items()} for m in found] == [
        {"old+new": 1},
        {"old+new": 3},
    ]


def test_a_later_parquet_file_may_have_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A column that is not there is NULL, one that is not asked for is not read, and their order does not matter."""
    write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": ["a"], "v": [1]}))
    other = pa.table({"extra": [True], "k": pa.array(["a"], pa.dictionary(pa.int8(), pa.string()))})
    source = Source.parquet(tmp_path / "in", schema=DDL)
    more = [lambda: write_parquet(tmp_path / "in", "b.parquet", other)]
    run(counted(job(tmp_path, t=source), tmp_path), spark, feed=more)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 2, "s": 1}]


def test_names_may_be_awkward(spark: SparkSession, tmp_path: Path) -> None:
    """Spaces, umlauts and SQL words: in folders, in the names of job, step and source, and in columns."""
    base = tmp_path / "ein Ordner für Prüfungen"
    rows = pa.table({"group": ["a", "b", "a"], "von wem?": [1, 2, 3], "a.b": [1, 1, 1], "`tick`": [5, 5, 5]})
    write_parquet(base / "die Eingabe", "a b.parquet", rows)
    write_parquet(base / "die Eingabe", "c%20d.parquet", rows)
    source = Source.parquet(base / "die Eingabe")
    named = Job(
        "Prüfung: 100% 'sauber' / neu",
        sources={"select_": source},
        mode="mixed",
        parallelism=2,
        checkpoint_dir=base / "die Zustände",
        spark=SPARK,
    )
    steps = named.sql("SELECT * FROM select_ WHERE `von wem?` < 3", name="from_")
    steps = steps.key_by("group", "a.b", "`tick`", name="order").aggregate(
        {"summe": "sum(`von wem?`)", "die größte Zahl": "max(`von wem?` + `a.b`)"}
    )
    steps = steps.sql("SELECT * FROM `order`")
    run(
        steps.write(Sink.parquet(base / "die Ausgabe")),
        spark,
        feed=[lambda: write_parquet(base / "die Eingabe", "später.parquet", rows)],
    )
    assert output_rows(base / "die Ausgabe") == [
        {"group": "a", "a.b": 1, "`tick`": 5, "summe": 3, "die größte Zahl": 2},
        {"group": "b", "a.b": 1, "`tick`": 5, "summe": 6, "die größte Zahl": 3},
    ]


@pytest.mark.parametrize("where", ["", "WHERE k RLIKE '.'"], ids=["tasks", "spark"])
@pytest.mark.parametrize("before", [[], ["a.json"]])
def test_the_first_folder_of_partitions_that_comes_live_needs_a_start(
    spark: SparkSession, tmp_path: Path, before: list[str], where: str
) -> None:
    """RLIKE is left to Spark, which then reads the files; without it, tasks read them."""
    (tmp_path / "in").mkdir()
    for name in before:
        write_json(tmp_path / "in", name, [{"k": "a", "v": 1}])
    read = job(tmp_path, t=Source.json(tmp_path / "in", schema=DDL)).sql(f"SELECT * FROM t {where}")
    steps = counted(read, tmp_path)
    with pytest.raises(RetryableError, match=r"^the first folder of partitions .* Start the job again: it resumes"):
        run(steps, spark, feed=[lambda: write_json(tmp_path / "in" / "day=1", "b.json", [{"k": "b", "v": 2}])])
    run(steps, spark)
    found = {row["k"]: row["s"] for row in output_rows(tmp_path / "out")}
    assert found == {**({"a": 1} if before else {}), "b": 2}
