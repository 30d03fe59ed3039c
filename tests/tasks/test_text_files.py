"""Jobs over JSON and CSV whose lines the map tasks parse have the answer of the same jobs with Spark as the reader."""

import gzip
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config import SourceSpec
from mixedmode.connectors.files import text_slices
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.spark.damaged import WRONG_RECORD
from mixedmode.tasks import single_stage
from tests.harness import manifests, output_rows, run

pytestmark = pytest.mark.spark
Format = Literal["json", "csv"]

DDL = "k long, v double, s string, at timestamp, b boolean"
PLAIN: Mapping[Format, bytes] = {
    "json": b"".join(
        b'{"k":%d,"v":%d.25,"s":"s%d","at":"2001-09-08 22:%02d:00","b":true,"x":[{"y":1}]}\n' % (n % 5, n, n % 3, n)
        for n in range(60)
    ),
    "csv": b"k,v,s,at,b\n"
    + b"".join(b"%d,%d.25,s%d,2001-09-08 22:%02d:00,true\n" % (n % 5, n, n % 3, n) for n in range(60)),
}
#: forms that tasks leave to Spark
UNUSUAL: Mapping[Format, bytes] = {
    "json": b"""{'k':1, "v":2, "s":{"a":1}, "at":"2001-09-08 22:10:00 Europe/Berlin"}\n"""
    b"""[{"k":2,"at":"2001-09-08T22:10:00Z"},{"k":3,"v":-0,"at":"2001-09-08"}]\n\n""",
    "csv": b'k,v,s,at,b\n1,2d,"a ""b""",2001-9-8 22:10:00 Europe/Berlin,TRUE\n\n+2,,,2001-09-08,\n',
}


def source(folder: Path, form: Format) -> SourceSpec:
    if form == "json":
        return Source.json(folder, schema=DDL, event_time="at")
    return Source.csv(folder, schema=DDL, options={"header": "true"}, event_time="at")


def windowed(folder: Path, form: Format, mode: Literal["batch", "mixed"]) -> Job:
    job = Job("j", sources={"t": source(folder / "in", form)}, mode=mode, parallelism=2, checkpoint_dir=folder / "c")
    keyed = job.sql("SELECT k, v * 2 AS v, s, at FROM t WHERE k IS NULL OR k <> 4").key_by("k", "s")
    windows = keyed.window(tumbling="30m").aggregate(n="count(*)", v="sum(v)", last="max(at)")
    return windows.write(Sink.parquet(folder / "out"))


def unkeyed(folder: Path, form: Format, mode: Literal["batch", "mixed"]) -> Job:
    job = Job("j", sources={"t": source(folder / "in", form)}, mode=mode, checkpoint_dir=folder / "c")
    return job.sql("SELECT k + 1 AS k, s, at, v FROM t WHERE b OR b IS NULL").write(Sink.parquet(folder / "out"))


def is_read_by_tasks(job: Job, spark: SparkSession) -> bool:
    return bool(analyse(spark, job.spec, job.where).plan.direct)


@pytest.mark.parametrize(
    ("form", "make"),
    [
        ("json", windowed),
        ("csv", unkeyed),
        pytest.param("csv", windowed, marks=pytest.mark.soak),
        pytest.param("json", unkeyed, marks=pytest.mark.soak),
    ],
)
def test_the_answer_does_not_depend_on_who_parses_the_lines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Format, make: object
) -> None:
    assert callable(make)
    monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
    monkeypatch.setattr(text_slices, "_BLOCK_BYTES", 300)
    found = {}
    for name in ("tasks", "Spark"):
        folder = tmp_path / name
        (folder / "in").mkdir(parents=True)
        (folder / "in" / f"0.{form}").write_bytes(PLAIN[form])
        (folder / "in" / f"1.{form}.gz").write_bytes(gzip.compress(PLAIN[form].replace(b"\n", b"\r\n")))
        job = make(folder, form, "mixed")
        if name == "Spark":
            monkeypatch.setattr("mixedmode.analysis.direct_reads.only_spark_parses", lambda *_args: "a test")
        assert is_read_by_tasks(job, spark) == (name == "tasks")
        write = (folder / "in" / f"2.{form}").write_bytes
        seen = run(job, spark, feed=[partial(write, UNUSUAL[form])])
        marks = [(one.watermark_us, one.records_in) for one in manifests(folder / "c")]
        found[name] = (
            [event.records for event in seen.committed],
            marks,
            sorted(output_rows(folder / "out"), key=repr),
        )
    assert found["tasks"] == found["Spark"]
    assert len(found["tasks"][2]) > 10


@pytest.mark.parametrize("mode", [pytest.param("batch", marks=pytest.mark.soak), "mixed"])
def test_a_wrong_record_is_named_as_by_spark(
    spark: SparkSession, tmp_path: Path, mode: Literal["batch", "mixed"]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_bytes(PLAIN["json"] + b'{"k":1}}\n')
    with pytest.raises(InvalidJobError) as caught:
        run(windowed(tmp_path, "json", mode), spark)
    message = str(caught.value)
    assert message.startswith(WRONG_RECORD), message
    assert message.endswith('in/a.json, line=61, record={"k":1}}'), message


def test_explain_says_who_parses_the_lines(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    job = windowed(tmp_path, "csv", "mixed")
    own = "  read by     the map tasks themselves (k, v, s, at, b), an epoch with unusual lines by Spark"
    assert own in explained(job, spark)
    nested = Source.json(tmp_path / "in", schema="k long, list array<int>")
    job = Job("j", sources={"t": nested}, mode="batch").key_by("k").aggregate(n="count(*)").write(Sink.console())
    assert (
        "  read by     Spark (because the source has a column of a type that only Spark parses: list array<int>)"
    ) in explained(job, spark)


def explained(job: Job, spark: SparkSession) -> list[str]:
    return explain_plan(job.spec, analyse(spark, job.spec, job.where).plan, cores=2).splitlines()
