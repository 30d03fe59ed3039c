"""Input files with other columns than declared: each setting, in each format, in the backlog and live."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.config.drift import Drift
from mixedmode.connectors.files.parquet_files import read_files
from mixedmode.connectors.files.source import FileSource
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.spark.errors import explained
from tests.harness import SPARK, output_rows, run, write_parquet, write_text

DDL = "k string, v bigint"
Rows = list[dict[str, Any]]
ROWS: Rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
#: what drifts in a file, the setting that it is about, and what is read of it where it may
CASES: dict[str, tuple[Rows, str, str, Rows]] = {
    "new": ([{"k": "c", "v": 3, "extra": "x"}], "new-column", "ignore", [{"k": "c", "v": 3}]),
    "missing": ([{"k": "c"}], "missing-column", "nulls", [{"k": "c", "v": None}]),
    "wrong": ([{"k": "c", "v": "many"}], "wrong-type", "nulls", [{"k": "c", "v": None}]),
}
STRICT = {"new-column": "fail", "missing-column": "fail", "wrong-type": "fail"}
KINDS = ["parquet", "json", "csv header", "csv"]
#: what a message says of the column, where it says something else than its name
COLUMN = {("new", "csv"): "column=the 1 after the last one"}


def write(folder: Path, kind: str, name: str, rows: Rows) -> Path:
    """A file in the format of a kind."""
    file_format = kind.split(" ", maxsplit=1)[0]
    if file_format == "parquet":
        return write_parquet(folder, f"{name}.parquet", pa.Table.from_pylist(rows))
    if file_format == "json":
        return write_text(folder, f"{name}.json", "".join(f"{json.dumps(row)}\n" for row in rows))
    lines = [",".join(rows[0])] if "header" in kind else []
    lines += [",".join(map(str, row.values())) for row in rows]
    return write_text(folder, f"{name}.csv", "\n".join(lines) + "\n")


def source_of(folder: Path, kind: str, drift: Mapping[str, str] | None, **settings: Any) -> FileSourceSpec:
    makes: dict[str, Any] = {"parquet": Source.parquet, "json": Source.json, "csv": Source.csv}
    options = {"header": True} if "header" in kind else {}
    given = {"schema": DDL, **settings, "options": {**options, **settings.get("options", {})}}
    source: FileSourceSpec = makes[kind.split(" ", maxsplit=1)[0]](folder, schema_drift=drift, **given)
    return source


def read(spark: SparkSession, source: FileSourceSpec) -> Rows:
    """Rows in the order of k; Raises as a run would."""
    try:
        found = [row.asDict() for row in FileSource(spark, source, where="job").batch().collect()]
    except PySparkException as error:
        raise explained(error, log_file="spark.log") from error
    return sorted(found, key=lambda row: repr(row["k"]))


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_each_way_to_differ_fails_or_is_harmless_as_it_is_set(
    tmp_path: Path, spark: SparkSession, kind: str, case: str
) -> None:
    rows, setting, lenient, expected = CASES[case]
    write(tmp_path, kind, "a", ROWS)
    path = write(tmp_path, kind, "b", rows)
    others_fail = {**STRICT, setting: lenient}
    assert read(spark, source_of(tmp_path, kind, others_fail)) == [*ROWS, *expected]
    with pytest.raises(InvalidJobError) as caught:
        read(spark, source_of(tmp_path, kind, {setting: "fail"}))
    message = str(caught.value)
    assert str(path) in message
    assert f"schema-drift.{setting}" in message
    assert COLUMN.get((case, kind), f"column={'extra' if case == 'new' else 'v'}") in message
    assert "nothing was committed" in message or "would change values" in message


@pytest.mark.parametrize("case", CASES)
def test_map_tasks_that_read_parquet_themselves_heed_the_settings(tmp_path: Path, case: str) -> None:
    rows, setting, lenient, expected = CASES[case]
    path = str(write(tmp_path, "parquet", "b", rows))

    def by(setting_value: str) -> Rows:
        drift = Drift(**{setting.replace("-", "_"): setting_value}, declared=("k", "v"))  # type: ignore[arg-type]
        columns = [ReadColumn("k", pa.string(), "k", drift), ReadColumn("v", pa.int64(), "v", drift)]
        return [row for batch in read_files([path], columns) for row in batch.to_pylist()]

    assert by(lenient) == expected
    with pytest.raises(InvalidJobError, match=f"file={path}, column="):
        by("fail")


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "case"), [("parquet direct", "new"), ("csv header", "missing"), ("json", "wrong")])
def test_live_drift_ends_its_epoch_and_the_job_goes_on_with_another_setting(
    tmp_path: Path, spark: SparkSession, kind: str, case: str
) -> None:
    def job(drift: Mapping[str, str]) -> Job:
        built = Job(
            "drift",
            sources={"t": source_of(tmp_path / "in", kind, drift)},
            mode="mixed",
            parallelism=2,
            checkpoint_dir=tmp_path / "checkpoints",
            spark=SPARK,
        )
        steps = built if kind == "parquet direct" else built.sql("SELECT * FROM t WHERE hash(*) IS NOT NULL")
        return steps.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(tmp_path / "out"))

    write(tmp_path / "in", kind, "a", ROWS)
    before = [{"k": "a", "n": 1, "s": 1}, {"k": "b", "n": 1, "s": 2}]
    with pytest.raises(InvalidJobError, match=f"schema-drift.{CASES[case][1]}"):
        run(job(STRICT), spark, feed=[lambda: write(tmp_path / "in", kind, "b", CASES[case][0])])
    assert output_rows(tmp_path / "out") == before, "the backlog is there, the epoch is not"
    run(job({CASES[case][1]: CASES[case][2]}), spark)
    assert output_rows(tmp_path / "out") == [*before, {"k": "c", "n": 1, "s": 3 if case == "new" else None}]


# --- the finer points of text ----------------------------------------------------------------------------------------


@pytest.mark.spark
def test_csv_is_read_by_the_names_in_the_first_line(tmp_path: Path, spark: SparkSession) -> None:
    """In another order, with more columns, with line ends in texts, and with Spark's own options for values."""
    write_text(tmp_path, "a.csv", 'x;V;k\n1;2;"a;b"\n2;;""\n3;n/a;"say ""c""\nd"\n')
    write_text(tmp_path, "b.csv", "k\ne\n")
    write_text(tmp_path, "c.csv", "k;v\n")
    write_text(tmp_path, "d.csv", "")
    options = {"sep": ";", "multiLine": True, "nullValue": "n/a", "escape": '"'}
    found = read(spark, source_of(tmp_path, "csv header", {}, options=options))
    assert found == [
        {"k": "", "v": None},
        {"k": "a;b", "v": 2},
        {"k": "e", "v": None},
        {"k": 'say "c"\nd', "v": None},
    ]


@pytest.mark.spark
@pytest.mark.parametrize("ddl", ["k string, v string", "k string", "v double, k string"])
def test_texts_of_csv_keep_their_blanks(tmp_path: Path, spark: SparkSession, ddl: str) -> None:
    """The rows are those of Spark's reader: with blanks around a text, texts of blanks, and quotes or commas in one."""
    cells = [" a", "a ", "\ta", " ", "", "  1", "#", "NaN", "-0", "é", '" a"', '"a,b "', '""', '"a ""b"" "', '"\t"']
    count = len(ddl.split(", "))
    lines = [",".join(pair[:count]) for pair in itertools.product(cells, cells)]
    write_text(tmp_path, "a.csv", "".join(f"{line}\n" for line in lines))
    options = {"escape": '"'}
    read_by_spark = spark.read.format("csv").schema(ddl).options(columnPruning="false", **options).load(str(tmp_path))
    source = source_of(tmp_path, "csv", {"wrong-type": "nulls"}, schema=ddl, options=options)
    found = FileSource(spark, source, where="here").batch()
    assert sorted(map(repr, found.collect())) == sorted(map(repr, read_by_spark.collect()))


@pytest.mark.spark
def test_a_line_with_more_values_than_names_is_never_read(tmp_path: Path, spark: SparkSession) -> None:
    path = write_text(tmp_path, "a.csv", "k,v\na,1\nb,2,3\n")
    with pytest.raises(InvalidJobError) as caught:
        read(spark, source_of(tmp_path, "csv header", {"wrong-type": "nulls"}))
    assert str(caught.value) == (
        "a line of a source file has another number of values than its first line has names, and nothing was "
        f"committed. Correct the file. file={path}, line=3, record=b,2,3, values=3, names=2, log=spark.log"
    )


@pytest.mark.spark
def test_lines_without_names_may_have_more_or_fewer_values(tmp_path: Path, spark: SparkSession) -> None:
    write_text(tmp_path, "a.csv", "a,1\nb\nc,3,x\n")
    assert read(spark, source_of(tmp_path, "csv", {})) == [
        {"k": "a", "v": 1},
        {"k": "b", "v": None},
        {"k": "c", "v": 3},
    ]


@pytest.mark.spark
def test_a_line_that_is_no_json_fails_whatever_is_set(tmp_path: Path, spark: SparkSession) -> None:
    path = write_text(tmp_path, "a.json", '{"k": "a", "v": 1}\n\n{"k": "b", "v"\n')
    with pytest.raises(InvalidJobError) as caught:
        read(spark, source_of(tmp_path, "json", {"wrong-type": "nulls"}))
    assert str(caught.value) == (
        "a line of a source file is not a JSON object, and nothing was committed. Correct or remove it; with "
        f"schema-drift, each line is one object in UTF-8, with double quotes. file=file://{path}, "
        'record={"k": "b", "v", log=spark.log'
    )


@pytest.mark.spark
def test_json_that_is_not_utf8_fails(tmp_path: Path, spark: SparkSession) -> None:
    write_text(tmp_path, "a.json", "").write_bytes(b'{"k": "a\xff", "v": 1}\n')
    with pytest.raises(InvalidJobError, match=r"is not a JSON object, .* record=\{\"k\": \"a\ufffd\""):
        read(spark, source_of(tmp_path, "json", {"wrong-type": "nulls"}))


@pytest.mark.spark
def test_drift_is_found_though_no_column_is_used(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, "json", "a", [{"k": "a", "v": 1, "extra": 1}])
    with pytest.raises(PySparkException, match="column=extra"):
        FileSource(spark, source_of(tmp_path, "json", STRICT), where="job").batch().count()


# --- what cannot be had ----------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("parquet", {"options": {"mergeSchema": True}}, "do not know this option of Spark's reader. Remove it"),
        ("json", {"options": {"multiLine": True}}, "do not know this option of Spark's reader. Remove it"),
        ("csv", {"options": {"comment": "#"}}, "do not know this option of Spark's reader. Remove it"),
        ("parquet", {"schema": "k string, v array<int>"}, "cannot be told inside of nested columns of Parquet"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(
    tmp_path: Path, spark: SparkSession, kind: str, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidJobError, match=reason):
        FileSource(spark, source_of(tmp_path, kind, STRICT, **settings), where="job.yaml:3: sources.t")


@pytest.mark.spark
def test_folders_of_partitions_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "day=1").mkdir()
    with pytest.raises(InvalidJobError, match="the source has folders of partitions, whose columns no file has"):
        FileSource(spark, source_of(tmp_path, "parquet", STRICT), where="job")


@pytest.mark.spark
def test_files_in_an_object_store_are_refused_but_for_json(spark: SparkSession) -> None:
    spec = source_of(Path("in"), "parquet", STRICT).model_copy(update={"path": "s3a://bucket/in"})
    with pytest.raises(InvalidJobError, match="tasks open parquet files themselves"):
        FileSource(spark, spec, where="job")


def test_parquet_without_a_schema_has_no_drift(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="schema_drift has no effect without schema"):
        Source.parquet(tmp_path, schema_drift={"new-column": "fail"})
