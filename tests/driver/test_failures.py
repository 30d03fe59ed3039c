"""Runs that fail on their data: one message of the right kind, nothing committed, nothing published, and a way on."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.config.sources import SourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, manifests, output_rows, run, write_json, write_parquet, write_text

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, at timestamp"
Steps = Callable[[Job], Job]
RECORD = (
    "a record of a source is not what its format and schema say, and nothing was committed. Correct the file, or "
    "correct `schema`. To go on without such lines of JSON or CSV, set `undecodable: dead-letter` on the source (a "
    "dimension has no such setting), which sends them to an output of their own. "
)
JSON = "A line of JSON (with the option multiLine, a file) holds one object or one array of objects and nothing else. "
FILE = (
    "a file of a source is not what its format and schema say, and nothing was committed. Correct or remove the file, "
    "or correct `schema`. "
)
VALUE = (
    "Spark cannot compute a value of a computed column, of a sql step or of an argument, and nothing was committed. "
    "Correct the SQL, let it return NULL for such a value, as try_cast does, or filter such records out in a sql step "
    "before it. "
)


def job(base: Path, source: SourceSpec, mode: str = "mixed") -> Job:
    return Job(
        "failing",
        sources={"t": source},
        mode="streaming" if mode == "streaming" else "batch" if mode == "batch" else "mixed",
        checkpoint_dir=None if mode == "batch" else base / "checkpoints",
        parallelism=2,
        spark=SPARK,
    )


def counted(steps: Job) -> Job:
    return steps.key_by("k").aggregate(n="count(*)", s="sum(v)")


def failure(spark: SparkSession, base: Path, steps: Job) -> str:
    """The message of a run that fails; nothing of it is to be seen."""
    with pytest.raises(InvalidJobError) as caught:
        run(steps.write(Sink.parquet(base / "out")), spark)
    assert not manifests(base / "checkpoints"), "nothing is committed"
    assert not list((base / "out").glob("part-*")), "nothing is published"
    return str(caught.value)


def log_of(base: Path) -> str:
    return f"log={base / 'checkpoints' / 'logs' / 'spark.log'}"


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('{"k": "a", "v": 1}\n{"k": "b", "v":\n', 'line=2, record={"k": "b", "v":'),
        (
            '{"k": "a", "v": 1}\n{"k": "b", "v": "two"}\n',
            'line=2, column=v, type_in_schema=bigint, record={"k": "b", "v": "two"}',
        ),
        (
            '{"k": "a", "v": 1}\n{"k": "b", "v": 9223372036854775808}\n',
            'line=2, column=v, type_in_schema=bigint, record={"k": "b", "v": 9223372036854775808}',
        ),
        ('\n\n{"k": "a", "v": 1}{"k": "b", "v": 2}\n', 'line=3, record={"k": "a", "v": 1}{"k": "b", "v": 2}'),
    ],
)
def test_a_malformed_json_record_is_one_message_with_its_file_and_line(
    spark: SparkSession, tmp_path: Path, text: str, record: str
) -> None:
    file = write_text(tmp_path / "in", "a.json", text)
    message = failure(spark, tmp_path, counted(job(tmp_path, Source.json(tmp_path / "in", schema=DDL))))
    assert message == f"{RECORD}{JSON}file=file://{file}, {record}"


@pytest.mark.parametrize("mode", ["batch", "streaming", "mixed"])
def test_text_behind_a_value_is_refused_in_each_mode_also_below_a_glob(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    write_text(tmp_path / "in" / "day=1", "a.json", '{"k": "a", "v": 1}\n')
    file = write_text(tmp_path / "in" / "day=2", "b c%.json", '{"k": "a", "v": 1}\n{"k": "b", "v": 2}, {"k": "c"}\n')
    source = Source.json(tmp_path / "in" / "day=*", schema=DDL)
    message = failure(spark, tmp_path, counted(job(tmp_path, source, mode)))
    url = quote(str(file), safe="/=")
    assert message == f'{RECORD}{JSON}file=file://{url}, line=2, record={{"k": "b", "v": 2}}, {{"k": "c"}}'


def test_a_corrected_file_lets_the_job_start_again(spark: SparkSession, tmp_path: Path) -> None:
    steps = counted(job(tmp_path, Source.json(tmp_path / "in", schema=DDL)))
    write_text(tmp_path / "in", "a.json", '{"k": "a", "v": 1}\n{"k": "b"\n')
    failure(spark, tmp_path, steps)
    write_text(tmp_path / "in", "a.json", '{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n')
    run(steps.write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 1, "s": 1}, {"k": "b", "n": 1, "s": 2}]


def test_a_permissive_source_reads_malformed_fields_as_null(spark: SparkSession, tmp_path: Path) -> None:
    write_text(tmp_path / "in", "a.json", '{"k": "a", "v": "x"}\n')
    source = Source.json(tmp_path / "in", schema=DDL, options={"mode": "PERMISSIVE"})
    run(counted(job(tmp_path, source)).write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 1, "s": None}]


def test_a_malformed_csv_record_is_one_message(spark: SparkSession, tmp_path: Path) -> None:
    file = write_text(tmp_path / "in", "a.csv", "k,v,at\na,1,2001-01-01 00:00:00\nb,two,2001-01-01 00:00:00\n")
    source = Source.csv(tmp_path / "in", schema=DDL, options={"header": True})
    message = failure(spark, tmp_path, counted(job(tmp_path, source)))
    assert message == (
        f"{RECORD}A line of CSV has one value for each column of `schema`, and each value fits its type. "
        f"file=file://{file}, line=3, column=v, type_in_schema=bigint, record=b,two,2001-01-01 00:00:00"
    )


def test_a_line_of_names_that_is_read_as_a_record_is_told_what_option_it_needs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The line has other names than the columns; a line with theirs is refused at the start."""
    file = write_text(tmp_path / "in", "a.csv", "key,v,at\na,1,2001-01-01 00:00:00\n")
    message = failure(spark, tmp_path, counted(job(tmp_path, Source.csv(tmp_path / "in", schema=DDL))))
    assert message.endswith(
        "If the first line of each file names the columns, set the option `header: true`. "
        f"file=file://{file}, line=1, column=v, type_in_schema=bigint, record=key,v,at"
    )


def test_a_parquet_file_of_other_types_is_named_by_the_map_task_that_reads_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": [1], "v": [1]}))
    message = failure(spark, tmp_path, counted(job(tmp_path, Source.parquet(tmp_path / "in", schema=DDL))))
    assert message == (
        "a column of a source file has another type than `schema` says, and reading it so would change values. Correct "
        "`schema`, or the file, or set schema-drift.wrong-type to nulls. Without `schema`, the types are those of the "
        f"files when the run began: start again if all files have the new type. file={file}, column=k, "
        "type_in_file=int64, type_in_schema=string"
    )


def test_a_file_that_is_no_parquet_is_named_by_the_map_task_that_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    file = write_text(tmp_path / "in", "a.parquet", "no Parquet at all, but long enough to be looked at")
    message = failure(spark, tmp_path, counted(job(tmp_path, Source.parquet(tmp_path / "in", schema=DDL))))
    assert message.startswith(
        "a file of a source cannot be read: it is damaged, cut short (still being written?) or in another format, and "
        "nothing was committed. Replace or remove it; move a file into the folder only when it is complete, or write "
        f"it under a name that begins with _ or a dot. file={file}, cause="
    )


def test_a_parquet_file_of_other_types_is_named_before_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": [1], "v": [1]}))
    message = failure(spark, tmp_path, counted(through_spark(tmp_path)))
    assert message.startswith("a column of a source file has another type than `schema` says")
    assert f"file={file}, column=k, type_in_file=int64, type_in_schema=string" in message


def test_a_file_that_is_no_parquet_is_named_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    file = write_text(tmp_path / "in", "a.parquet", "no Parquet at all, but long enough to be looked at")
    message = failure(spark, tmp_path, counted(through_spark(tmp_path)))
    assert message.startswith("a file of a source cannot be read: it is damaged, cut short (still being written?) or ")
    assert f"file=file://{file}, cause=java.lang.RuntimeException: file:{file} is not a Parquet file. " in message


def through_spark(base: Path) -> Job:
    """A job whose sql step has Spark read the files, because tasks do not compute this function."""
    return job(base, Source.parquet(base / "in", schema=DDL)).sql("SELECT * FROM t WHERE hash(*) IS NOT NULL")


@pytest.mark.parametrize("mode", ["mixed", "streaming", "batch"])
def test_a_record_without_event_time_is_refused_in_every_mode(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    rows = [{"k": "a", "v": 1, "at": "2001-01-01 00:00:00"}, {"k": "a", "v": 1}, {"k": "b", "v": 1}]
    write_json(tmp_path / "in", "a.json", rows)
    source = Source.json(tmp_path / "in", schema=DDL, event_time="at", bounded=mode == "batch")
    assert failure(spark, tmp_path, counted(job(tmp_path, source, mode))) == (
        "a record has no event time, so it has no place in time. Set the column for every record, filter such records "
        "out in a sql step, or remove `event-time` from the source. column=at, records_affected=2, records_looked_at=3"
    )


def test_records_without_event_time_may_be_filtered_out(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 1, "at": "2001-01-01 00:00:00"}, {"k": "a", "v": 1}])
    source = Source.json(tmp_path / "in", schema=DDL, event_time="at")
    steps = counted(job(tmp_path, source).sql("SELECT * FROM t WHERE at IS NOT NULL"))
    run(steps.write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 1, "s": 1}]


@pytest.mark.parametrize("mode", ["mixed", "batch"])
def test_a_sum_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    rows = [{"k": "a", "v": 2**63 - 1}, {"k": "a", "v": 1}, {"k": "b", "v": 1}]
    write_json(tmp_path / "in", "a.json", rows)
    source = Source.json(tmp_path / "in", schema=DDL, bounded=mode == "batch")
    assert failure(spark, tmp_path, counted(job(tmp_path, source, mode))) == (
        "steps[0].aggregate.s: sum is too large for its result type, and a wrong number would be worse than none. Cast "
        "the argument to a wider type in a sql step, for example CAST(x AS DECIMAL(38, 0)) or DOUBLE. "
        "result_type=int64, keys_affected=1"
    )


def test_a_sum_that_fits_in_the_end_is_right_although_parts_of_it_do_not(spark: SparkSession, tmp_path: Path) -> None:
    """In whatever order and slices the records come, also from one epoch to the next of a multi-step job."""
    rows = [{"k": "a", "v": v} for v in (2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5)]
    write_json(tmp_path / "in", "a.json", rows)
    steps = counted(job(tmp_path, Source.json(tmp_path / "in", schema=DDL)))
    run(steps.write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 5, "s": 3}]


def test_a_sum_that_grows_too_large_live_stops_before_its_epoch(spark: SparkSession, tmp_path: Path) -> None:
    steps = counted(job(tmp_path, Source.json(tmp_path / "in", schema=DDL))).write(Sink.parquet(tmp_path / "out"))
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 2**63 - 1}])
    run(steps, spark)
    write_json(tmp_path / "in", "b.json", [{"k": "a", "v": 1}])
    with pytest.raises(InvalidJobError, match=r"^steps\[0\]\.aggregate\.s: sum is too large for its result type"):
        run(steps, spark)
    assert [manifest.epoch for manifest in manifests(tmp_path / "checkpoints")] == [0]
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 1, "s": 2**63 - 1}]


@pytest.mark.parametrize(
    ("sql", "cause"),
    [
        ("SELECT k, 1 div (v - v) AS v FROM t", "Division by zero."),
        (
            "SELECT k, CAST(k AS BIGINT) AS v FROM t",
            'The value \'a\' of the type "STRING" cannot be cast to "BIGINT" because it is malformed.',
        ),
        ("SELECT k, v * 9223372036854775807 AS v FROM t", "overflow."),
    ],
)
def test_a_value_that_spark_cannot_compute_is_told(spark: SparkSession, tmp_path: Path, sql: str, cause: str) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 5}])
    source = Source.json(tmp_path / "in", schema=DDL, options={"allowComments": "true"})  # only Spark reads that
    message = failure(spark, tmp_path, counted(job(tmp_path, source).sql(sql)))
    # Spark 4.1 names the type of what overflows
    assert message.replace("cause=long overflow", "cause=overflow").startswith(f"{VALUE}cause={cause}"), message
    assert message.endswith(log_of(tmp_path))


def test_sql_that_may_give_two_rows_for_one_key_ends_before_the_first_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 5}])
    steps = counted(job(tmp_path, Source.json(tmp_path / "in", schema=DDL)))
    doubled = steps.sql("SELECT k, explode(array(n, s)) AS x FROM previous")
    assert failure(spark, tmp_path, doubled).startswith(
        "steps[1].sql: the sql after the last key-by may return several rows for one key, and the output has one row "
        "per "
    )
