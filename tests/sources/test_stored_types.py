"""A column of Parquet has the type that the source says, or one that Spark reads as the same values; else an error."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.files.parquet_files import read_files, wrong_type
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.job_plan import ReadColumn
from tests.harness import SPARK, output_rows, run

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())
MOMENT, EPOCH = datetime(1999, 12, 31, 23, 59, 59, 999000, UTC), datetime(1970, 1, 1, tzinfo=UTC)
#: {type in a file: values of it}
STORED: dict[pa.DataType, list[Any]] = {
    **{kind: [0, 2 ** (kind.bit_width - ("u" not in str(kind))) - 1] for kind in INTEGERS},
    pa.float32(): [0.5, -1.25],
    pa.float64(): [0.1, -1e300],
    pa.bool_(): [True, False],
    pa.string(): ["", "a"],
    pa.binary(): [b"", b"a"],
    pa.decimal128(5, 2): [Decimal("1.25"), Decimal("-999.99")],
    pa.decimal128(20, 0): [Decimal(0), Decimal(10**19)],
    pa.date32(): [date(1970, 1, 2), date(1600, 1, 1)],
    pa.timestamp("ms"): [MOMENT, EPOCH],
    pa.timestamp("us", "UTC"): [MOMENT, EPOCH],
}
#: {type that a source says: the same to Spark}
WANTED = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.decimal128(7, 2): "decimal(7,2)",
    pa.decimal128(20, 0): "decimal(20,0)",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def column(kind: pa.DataType, values: list[Any], *, nested: bool) -> pa.Array:
    return pa.array([[value] for value in values], pa.list_(kind)) if nested else pa.array(values, kind)


@pytest.mark.spark
@pytest.mark.parametrize("nested", [False, True])
def test_spark_reads_what_is_not_refused_as_tasks_do(spark: SparkSession, tmp_path: Path, nested: bool) -> None:
    compared = 0
    for number, (wanted, name) in enumerate(WANTED.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        of_source = pa.list_(wanted) if nested else wanted
        taken: dict[str, pa.Array] = {}
        for at, (stored, values) in enumerate(STORED.items()):
            file = tmp_path / f"{number}-{at}.parquet"
            found = column(stored, values, nested=nested)
            pq.write_table(pa.table({"c": found}), file)
            if wrong_type(str(file), [pa.field("c", of_source)]) is None:
                taken[f"c{at}"] = found
        pq.write_table(pa.table(taken), folder / "all.parquet")
        kind = f"array<{name}>" if nested else name
        rows = spark.read.schema(", ".join(f"{c} {kind}" for c in taken)).parquet(str(folder)).toArrow()
        for c, found in taken.items():
            read = [value.as_py() for value in rows.column(c)]
            if nested:
                assert [pa.scalar(*one, type=wanted) for one in read] == [
                    pa.scalar(*one, type=found.type.value_type).cast(wanted) for one in found.to_pylist()
                ]
            else:
                (of_tasks,) = read_files([str(folder / "all.parquet")], [ReadColumn(c, wanted, c)])
                assert read == of_tasks.column(0).to_pylist(), (wanted, found.type)
            compared += 1
    assert compared > len(WANTED), "also types that differ are compared"


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.int32(), pa.int8()),
        (pa.uint16(), pa.int16()),
        (pa.uint32(), pa.float64()),
        (pa.date32(), pa.int64()),
        (pa.timestamp("ms"), pa.int64()),
        (pa.decimal128(5, 2), pa.binary()),
        (pa.list_(pa.int32()), pa.list_(pa.int8())),
        (pa.list_(pa.string()), pa.string()),
        (pa.string(), pa.list_(pa.string())),
        (pa.struct([pa.field("a", pa.string())]), pa.map_(pa.string(), pa.string())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int16())),
        (pa.struct([pa.field("A", pa.list_(pa.int32()))]), pa.struct([pa.field("a", pa.list_(pa.int8()))])),
    ],
)
def test_types_that_spark_would_read_as_other_values_are_told(
    tmp_path: Path, stored: pa.DataType, wanted: pa.DataType
) -> None:
    pq.write_table(pa.table({"V": pa.array([], stored)}), tmp_path / "a.parquet")
    told = wrong_type(str(tmp_path / "a.parquet"), [pa.field("other", pa.string()), pa.field("v", wanted)])
    assert told is not None
    assert told.startswith("a column of a source file has another type than `schema` says, and reading it so would")
    assert "column=v, type_in_file=" in told
    assert told.endswith(f", type_in_schema={wanted}")


def test_a_file_that_arrow_cannot_open_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    for name in ("a.parquet", "gone.parquet"):
        assert wrong_type(str(tmp_path / name), [pa.field("v", pa.int8())]) is None


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["batch", "mixed"])
def test_a_job_whose_files_spark_reads_refuses_them_too(spark: SparkSession, tmp_path: Path, mode: Any) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": ["a"], "v": pa.array([1], pa.int8())}), tmp_path / "in" / "1.parquet")
    checkpoints: dict[str, Any] = {} if mode == "batch" else {"checkpoint_dir": tmp_path / "checkpoints"}
    source = Source.parquet(tmp_path / "in", schema="k string, v tinyint")
    job = Job("j", sources={"s": source}, mode=mode, spark=SPARK, **checkpoints)
    job = job.sql("SELECT sha2(k, 256) AS k, v FROM s").key_by("k").aggregate(s="sum(v)")
    complete = job.write(Sink.parquet(tmp_path / "out"))
    run(complete, spark)
    assert [row["s"] for row in output_rows(tmp_path / "out")] == [1]
    pq.write_table(pa.table({"k": ["a"], "v": pa.array([300], pa.int32())}), tmp_path / "in" / "2.parquet")
    with pytest.raises(InvalidJobError, match="type_in_file=int32, type_in_schema=int8"):
        run(complete, spark)
