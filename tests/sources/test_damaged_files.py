"""Damaged input files, as Spark and Arrow really report them: the file is named, with what to do, in one message."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, manifests, output_rows, run

pytestmark = pytest.mark.spark

DDL = "k string, v bigint"
ROWS = 20_000
JSON = "".join(f'{{"k": "k{i % 7}", "v": {i}}}\n' for i in range(ROWS)).encode()
CSV = "".join(f"k{i % 7},{i}\n" for i in range(ROWS)).encode()


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [f"k{i % 7}" for i in range(ROWS)], "v": list(range(ROWS))}), sink)
    return bytes(sink.getvalue().to_pybytes())


def spoilt(data: bytes) -> bytes:
    """The same number of bytes, with other ones in the middle."""
    third = len(data) // 3
    return data[:third] + b"\x00\xff" * (third // 2) + data[third + 2 * (third // 2) :]


#: {the damage: (format, the file's name, its bytes)}
DAMAGES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "truncated gzip of JSON": ("json", "a b.json.gz", lambda: zipped(JSON)[:-2000]),
    "gzip of JSON without its last bytes": ("json", "a b.json.gz", lambda: zipped(JSON)[:-4]),
    "spoilt gzip of JSON": ("json", "a b.json.gz", lambda: spoilt(zipped(JSON))),
    "no gzip, but named so, of JSON": ("json", "a b.json.gz", lambda: JSON),
    "truncated gzip of CSV": ("csv", "a b.csv.gz", lambda: zipped(CSV)[:-2000]),
    "no gzip, but named so, of CSV": ("csv", "a b.csv.gz", lambda: CSV),
    "truncated Parquet": ("parquet", "a b.parquet", lambda: parquet()[:-200]),
    "Parquet of garbage": ("parquet", "a b.parquet", lambda: b"\x01\x02garbage" * 1000),
    "Parquet of garbage between its marks": ("parquet", "a b.parquet", lambda: b"PAR1" + b"\x07" * 5000 + b"PAR1"),
    "Parquet with spoilt pages": ("parquet", "a b.parquet", lambda: spoilt(parquet())),
    "empty Parquet": ("parquet", "a b.parquet", lambda: b""),
    "empty gzip of JSON": ("json", "a b.json.gz", lambda: b""),
    "empty gzip of CSV": ("csv", "a b.csv.gz", lambda: b""),
}
EMPTY = [damage for damage in DAMAGES if damage.startswith("empty")]


def damaged_job(base: Path, damage: str, mode: str, *, through_spark: bool) -> Job:
    kind, name, content = DAMAGES[damage]
    (base / "in").mkdir()
    (base / "in" / name).write_bytes(content())
    if damage in EMPTY:  # Spark skips an empty file without a message, so a whole file beside it hides the loss
        (base / "in" / f"c.{kind}").write_bytes({"json": JSON, "csv": CSV, "parquet": parquet()}[kind])
    return summed_job(base, kind, mode, through_spark=through_spark)


def summed_job(base: Path, kind: str, mode: str, *, through_spark: bool) -> Job:
    sources: dict[str, Any] = {"json": Source.json, "csv": Source.csv, "parquet": Source.parquet}
    job = Job(
        "damaged",
        sources={"t": sources[kind](base / "in", schema=DDL)},
        mode=mode,  # type: ignore[arg-type]
        checkpoint_dir=base / "checkpoints" if mode != "batch" else None,
        spark=SPARK,
    )
    if through_spark:
        job = job.sql("SELECT k, v FROM t WHERE v >= 0 AND hash(k) IS NOT NULL")
    return job.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(base / "out"))


#: each damage is read once, in turns by Spark and by tasks; `make soak` has both
READ = [
    pytest.param(damage, *how, id=f"{damage}-{how[0]}", marks=() if number % 2 == turn % 2 else pytest.mark.soak)
    for number, damage in enumerate(DAMAGES)
    for turn, how in enumerate([("batch", True), ("mixed", False)])
]


@pytest.mark.parametrize(("damage", "mode", "through_spark"), READ)
def test_a_damaged_file_is_named_with_what_to_do(
    spark: SparkSession, tmp_path: Path, damage: str, mode: str, through_spark: bool
) -> None:
    check_named(spark, tmp_path, damage, mode, through_spark=through_spark)


@pytest.mark.parametrize(("mode", "through_spark"), [("batch", False), ("mixed", True), ("streaming", True)])
@pytest.mark.parametrize("damage", EMPTY)
def test_an_empty_file_is_named_however_the_files_are_read(
    spark: SparkSession, tmp_path: Path, damage: str, mode: str, through_spark: bool
) -> None:
    check_named(spark, tmp_path, damage, mode, through_spark=through_spark)


def test_files_that_spark_ignores_by_name_and_lines_of_no_bytes_are_no_damage(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also not those that Spark lists and does not read: `_metadata`, and files in folders below."""
    schema = pq.read_schema(pa.BufferReader(parquet()))
    for mode, kind in [("batch", "parquet"), ("mixed", "parquet"), ("batch", "csv"), ("mixed", "json")]:
        base = tmp_path / f"{mode}-{kind}"
        folder = base / "in"
        folder.mkdir(parents=True)
        (folder / f"c.{kind}").write_bytes({"json": JSON, "csv": CSV, "parquet": parquet()}[kind])
        for name in ("_SUCCESS", ".c.crc", "_metadata.parquet", "d._COPYING_"):
            (folder / name).write_bytes(b"")
        if kind == "parquet":
            (folder / f"c.{kind}").rename(folder / f"[c].{kind}")  # Spark then searches folders recursively
            (folder / "below").mkdir()
            (folder / "below" / "d.parquet").write_bytes(parquet())
            pq.write_metadata(schema, folder / "_metadata")
            pq.write_table(pa.table({"k": ["k9"], "v": [9]}), folder / "_metadata_of_us.parquet")
        else:
            (folder / f"empty.{kind}").write_bytes(b"")
        run(summed_job(base, kind, mode, through_spark=False), spark)
        assert sum(row["n"] for row in output_rows(base / "out")) == ROWS


def check_named(spark: SparkSession, base: Path, damage: str, mode: str, *, through_spark: bool) -> None:
    """Run a job over a damaged file, and check what the error says."""
    job = damaged_job(base, damage, mode, through_spark=through_spark)
    with pytest.raises(InvalidJobError) as caught:
        run(job, spark)
    text = str(caught.value)
    name = DAMAGES[damage][1]
    assert name in text or name.replace(" ", "%20") in text, text
    assert "a file of a source cannot be read: it is damaged, cut short" in text, text
    assert "Replace or remove it; move a file into the folder only when it is complete" in text
    assert "\n" not in text
    assert "Traceback" not in text
    assert "\tat " not in text
    assert mode == "batch" or not manifests(base / "checkpoints")
