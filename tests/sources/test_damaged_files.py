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
from tests.harness import SPARK, manifests, run

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
}


def damaged_job(base: Path, damage: str, mode: str, *, through_spark: bool) -> Job:
    kind, name, content = DAMAGES[damage]
    (base / "in").mkdir()
    (base / "in" / name).write_bytes(content())
    source: Any = {"json": Source.json, "csv": Source.csv, "parquet": Source.parquet}[kind]  # type: ignore[dict-item]
    job = Job(
        "damaged",
        sources={"t": source(base / "in", schema=DDL)},
        mode=mode,  # type: ignore[arg-type]
        checkpoint_dir=base / "checkpoints" if mode == "mixed" else None,
        spark=SPARK,
    )
    if through_spark:
        job = job.sql("SELECT k, v FROM t WHERE v >= 0")
    return job.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(base / "out"))


@pytest.mark.parametrize(("mode", "through_spark"), [("batch", True), ("mixed", False)], ids=["batch", "mixed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_what_to_do(
    spark: SparkSession, tmp_path: Path, damage: str, mode: str, through_spark: bool
) -> None:
    job = damaged_job(tmp_path, damage, mode, through_spark=through_spark)
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
    assert mode == "batch" or not manifests(tmp_path / "checkpoints")
