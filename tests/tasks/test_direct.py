"""Map tasks that read Parquet themselves: the same answer as through Spark, and every row of every file once."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.checkpoint.moved_inputs import spark_url
from mixedmode.checkpoint.types import SourceLog
from mixedmode.connectors.files import parquet_files
from mixedmode.connectors.files.file_slices import FileSlice
from mixedmode.connectors.files.parquet_files import (
    file_bytes,
    path_of_text,
    path_of_url,
    read_slices,
    records_about,
)
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.sinks.table import current_table
from mixedmode.spark.folder import NewInput, SparkFolder
from mixedmode.tasks import single_stage
from tests.harness import run, write_parquet


def test_records_are_estimated_only_where_footers_tell_them(tmp_path: Path) -> None:
    other = tmp_path / "a.json"
    other.write_text('{"k": 1}\n')
    assert records_about([(str(other), 9)]) is None
    assert records_about([]) is None
    many = [(str(tmp_path / f"{number}.parquet"), 0) for number in range(70)]
    for path, _ in many:
        pq.write_table(pa.table({"k": range(50)}), path)
    assert records_about([(path, file_bytes(path)) for path, _ in many]) == 70 * 50


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1))
def test_a_path_is_read_from_both_spellings_of_spark(name: str) -> None:
    assert path_of_url(f"{spark_url('/in')}/{quote(name, safe='')}") == f"/in/{name}"
    assert path_of_text(f"file:/in/{name}") == f"/in/{name}"


COLUMNS = pa.table(
    {
        "k": pa.array([1, 2, 1, None, 2], pa.int16()),
        "text": pa.array(["b", None, "a", "é", "c"]).dictionary_encode(),
        "price": pa.array(
            [Decimal("1.50"), None, Decimal("-2.25"), Decimal("9.99"), Decimal("0.00")], pa.decimal128(9, 2)
        ),
        "ratio": pa.array([0.5, float("nan"), None, -0.0, 2.5], pa.float32()),
        "day": pa.array([date(2024, 1, d) for d in range(1, 6)]),
        "flag": pa.array([True, None, False, True, True]),
        "raw": pa.array([b"\x00", b"", None, b"\xff", b"x"]),
        "at": pa.array([datetime(2024, 1, d, 12, tzinfo=UTC) for d in range(1, 6)], pa.timestamp("us", "UTC")),
        "wall": pa.array([datetime(2024, 1, d, 12) for d in range(1, 6)], pa.timestamp("ms")),  # noqa: DTZ001
    }
)
DDL = (
    "K long, text string, price decimal(12,2), ratio double, day date, flag boolean, raw binary, at timestamp, "
    "wall timestamp, absent string"
)
ONLY_SPARK = "SELECT * FROM t WHERE initcap(text) IS NULL OR true"  # Spark alone computes it
OUTPUTS = {
    "n": "count(*)",
    "texts": "max(text)",
    "revenue": "sum(price)",
    "ratios": "min(ratio)",
    "days": "max(day)",
    "flags": "bool_or(flag)",
    "raws": "max(raw)",
    "latest": "max(at)",
    "walls": "max(wall)",
    "first_text": "first(text)",
    "absents": "count(absent)",
}


def job(folder: Path, name: str, *, sql: str | None = None) -> Job:
    source = Source.parquet(folder / "in", schema=DDL, event_time="at")
    built = Job(name, sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=folder / name)
    built = built if sql is None else built.sql(sql)
    return built.key_by("k").aggregate(OUTPUTS).write(Sink.parquet(folder / f"{name}-out"))


def answer(folder: Path, name: str) -> list[dict[str, object]]:
    table = current_table(str(folder / f"{name}-out"))
    assert table is not None
    return [{key: repr(value) for key, value in row.items()} for row in table.rows.to_pylist()]


@pytest.fixture(params=["one stage", "map tasks and a shuffle"])
def stages_of_an_epoch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which an epoch can run; the input of these tests is small enough for either."""
    if request.param == "map tasks and a shuffle":
        monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
    return str(request.param)


@pytest.mark.usefixtures("stages_of_an_epoch")
@pytest.mark.parametrize("int96", [False, True], ids=["times as Arrow writes them", "times as Spark does"])
def test_the_answer_is_the_one_that_spark_reads(tmp_path: Path, spark: SparkSession, *, int96: bool) -> None:
    (tmp_path / "in").mkdir()
    columns = COLUMNS if not int96 else COLUMNS.drop_columns(["wall"])
    pq.write_table(columns, tmp_path / "in" / "a.parquet", row_group_size=2, use_deprecated_int96_timestamps=int96)
    direct, through_spark = job(tmp_path, "direct"), job(tmp_path, "through_spark", sql=ONLY_SPARK)
    assert analyse(spark, direct.spec, direct.where).plan.direct
    assert not analyse(spark, through_spark.spec, through_spark.where).plan.direct
    for one in (direct, through_spark):
        run(one, spark)
    assert answer(tmp_path, "direct") == answer(tmp_path, "through_spark")


def test_one_task_combines_the_rows_of_all_cores(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_stage, "INPUT_BYTES_MAX", -1)
    monkeypatch.setattr("mixedmode.executor.epoch_run.cores", lambda _session: 4)
    (tmp_path / "in").mkdir()
    rows = pa.table({"k": range(3_000), "v": [k % 7 / 2 for k in range(3_000)]})
    for number in range(4):
        write_parquet(tmp_path / "in", f"{number}.parquet", rows.slice(number))
    source = Source.parquet(tmp_path / "in", schema="k long, v double")
    built = Job("machine", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=tmp_path / "machine")
    outputs = {"n": "count(*)", "highest": "max(v)"}
    (event,) = run(built.key_by("k").aggregate(outputs).write(Sink.parquet(tmp_path / "machine-out")), spark).committed
    assert event.records == 4 * 3_000 - 6
    assert "divide" in event.profile, "lanes divide their rows by key"
    found = answer(tmp_path, "machine")
    assert {row["k"]: (row["n"], row["highest"]) for row in found} == {
        repr(k): (repr(min(k, 3) + 1), repr(k % 7 / 2)) for k in range(3_000)
    }


@pytest.mark.usefixtures("stages_of_an_epoch")
def test_files_that_arrive_later_are_read_once_each(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", "a b.parquet", COLUMNS)
    one = job(tmp_path, "direct")
    recording = run(one, spark, feed=[lambda: write_parquet(tmp_path / "in", "c=1.parquet", COLUMNS)])
    assert [event.records for event in recording.committed] == [5, 5]
    assert {row["k"]: row["n"] for row in answer(tmp_path, "direct")} == {"None": "2", "1": "4", "2": "4"}


def test_which_files_an_epoch_reads_is_known_without_asking_spark(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past Spark's compaction of its list of files, which it does every ten entries; and after a restart."""
    (tmp_path / "in").mkdir()
    told: list[list[str]] = []

    def remembered(folder: SparkFolder, before: Sequence[SourceLog], offsets: str, lines: Sequence[int]) -> NewInput:
        new = new_input(folder, before, offsets, lines)
        told.append([file.url for file in new.files[0]])
        return new

    new_input = SparkFolder.new_input
    monkeypatch.setattr(SparkFolder, "new_input", remembered)
    write_parquet(tmp_path / "in", "a.parquet", COLUMNS)
    write_parquet(tmp_path / "in", "b.parquet", COLUMNS)
    later = [f"{number:02}.parquet" for number in range(11)]
    feed = [partial(write_parquet, tmp_path / "in", name, COLUMNS) for name in later]
    first = run(job(tmp_path, "direct"), spark, feed=feed)
    write_parquet(tmp_path / "in", "last.parquet", COLUMNS)
    second = run(job(tmp_path, "direct"), spark)
    names = [[Path(uri).name for uri in files] for files in told]
    assert sorted(names[0]) == ["a.parquet", "b.parquet"]
    assert names[1:] == [[name] for name in [*later, "last.parquet"]]
    assert [event.records for event in first.committed + second.committed] == [10, *[5] * 12]


@pytest.mark.usefixtures("stages_of_an_epoch")
def test_an_epoch_says_where_its_time_went(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", "a.parquet", COLUMNS)
    (event,) = run(job(tmp_path, "direct"), spark).committed
    of_driver = {name: seconds for name, seconds in event.profile.items() if name.startswith("driver: ")}
    of_tasks = {name: seconds for name, seconds in event.profile.items() if name not in of_driver}
    stages = {"read input", "fold", "make blocks", "collect blocks", "sort", "process", "write state", "store output"}
    assert stages <= of_tasks.keys()
    assert min(event.profile.values()) >= 0
    assert 0 < sum(of_driver.values()) <= event.seconds
    slots = 2  # tasks that run at once
    assert 0 < sum(of_tasks.values()) <= slots * of_driver["driver: tasks"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"options": {"mergeSchema": "true"}}, "an option of Spark's reader may change what is read"),
        ({"path": "partitioned"}, "a partition column is in no file"),
    ],
)
def test_what_only_spark_can_read_is_left_to_spark(
    tmp_path: Path, spark: SparkSession, settings: dict[str, object], reason: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "partitioned" / "day=1").mkdir(parents=True)
    values = {"path": "in", "schema": DDL, "event_time": "at", **settings}
    source = Source.parquet(tmp_path / str(values.pop("path")), **values)  # type: ignore[arg-type]  # one mapping
    built = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c")
    planned = built.key_by("k").aggregate(n="count(*)").write(Sink.console())
    assert analyse(spark, planned.spec, planned.where).plan.direct == {}, reason


def test_a_column_of_another_type_is_refused_and_nothing_is_committed(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in").mkdir()
    path = write_parquet(tmp_path / "in", "a.parquet", COLUMNS)
    source = Source.parquet(tmp_path / "in", schema="k long, text long")
    wrong = (
        Job("direct", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "direct")
        .key_by("k")
        .aggregate(total="sum(text)")
        .write(Sink.parquet(tmp_path / "out"))
    )
    with pytest.raises(InvalidJobError) as caught:
        run(wrong, spark)
    assert str(caught.value) == (
        "a column of a source file has another type than `schema` says, and reading it so would change values. Correct "
        "`schema`, or the file, or set schema-drift.wrong-type to nulls. Without `schema`, the types are those of the "
        "files when the run began: start again if all files have the new type. "
        f"file={path}, column=text, type_in_file=string, type_in_schema=int64"
    )
    assert not (tmp_path / "direct" / "manifests").exists()


NUMBERS = [1, 2, None]
STORED: dict[str, pa.Array | pa.ChunkedArray] = {
    **{str(kind): pa.array(NUMBERS, kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): pa.array(NUMBERS, kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "greatest": pa.array([255, 200, None], pa.uint8()),
    "most": pa.array([2**64 - 1, 2**63, None], pa.uint64()),
    "float": pa.array([0.1, None, float("nan")], pa.float32()),
    "double": pa.array([0.1, None, float("nan")]),
    **{name: COLUMNS[name].slice(0, 3) for name in ("text", "price", "day", "flag", "raw", "at", "wall")},
    "view": pa.array(["a", None, "é"], pa.string_view()),
    "bytes view": pa.array([b"a", None, b""], pa.binary_view()),
    "three bytes": pa.array([b"abc", None, b"\xff\x00\x01"], pa.binary(3)),
    "json": pa.array(['{"a":1}', None, "2"], pa.json_()),
    "wide": pa.array([Decimal("1.25000"), None, Decimal("-99999.00000")], pa.decimal128(20, 5)),
}
DECLARED: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    **{f"decimal({p},{s})": pa.decimal128(p, s) for p, s in ((9, 2), (10, 0), (12, 2), (12, 4), (20, 0), (30, 5))},
}


def test_a_column_of_another_type_is_read_as_spark_reads_it_or_refused(tmp_path: Path, spark: SparkSession) -> None:
    """Every type in a file with every declared type. Spark also reads some that change values; tasks refuse those."""
    path, ours, schema = tmp_path / "a.parquet", dict[str, list[object]](), []
    pairs = {f"c{number}": pair for number, pair in enumerate(product(STORED, DECLARED))}
    pq.write_table(pa.table({name: STORED[stored] for name, (stored, _) in pairs.items()}), path)
    for name, (_, declared) in pairs.items():
        with suppress(InvalidJobError):
            (batch,) = read_slices([FileSlice.whole(str(path))], [ReadColumn(name, DECLARED[declared], name)])
            ours[name] = batch.column(0).to_pylist()
            schema.append(f"{name} {declared}")
    read = spark.read.schema(", ".join(schema)).parquet(str(path)).toArrow()
    expected = {name: repr(read.column(name).to_pylist()) for name in ours}
    assert {name: repr(values) for name, values in ours.items()} == expected
    accepted = [pairs[name] for name in ours]
    assert len(accepted) == 64
    assert {("uint32", "bigint"), ("raw", "string"), ("at", "timestamp_ntz"), ("int64", "decimal(20,0)")} <= {*accepted}
    assert not {("int64", "double"), ("uint8", "tinyint"), ("int16", "tinyint"), ("day", "int")} & {*accepted}


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error_and_kills_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "BATCH_ROWS", 10_000)
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"v": range(100_000)}), path, row_group_size=10_000)
    batches = read_slices([FileSlice.whole(str(path))], [ReadColumn("v", name="v", data_type=pa.int64())])
    next(batches)
    with path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(InvalidJobError, match="it is damaged, cut short"):
        list(batches)


@pytest.mark.parametrize("names", [("K", "k"), ("k", "k"), ("k", "K", "k")])
def test_a_column_whose_name_a_file_has_several_times_is_refused(tmp_path: Path, names: Sequence[str]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([n]) for n in range(len(names) + 1)], names=[*names, "v"]), path)
    slices = [FileSlice.whole(str(path))]
    (batch,) = read_slices(slices, [ReadColumn("V", pa.int64(), "v")])
    assert batch.to_pydict() == {"v": [len(names)]}
    with pytest.raises(
        InvalidJobError, match=rf"^a file of a source has several columns .* columns={', '.join(names)}$"
    ):
        list(read_slices(slices, [ReadColumn("k", pa.int64(), "k")]))


INSTANT = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "values", [pa.array([5]), pa.array(["x"]), pa.array([INSTANT], pa.timestamp("us", "UTC"))], ids=str
)
def test_a_part_of_a_nested_column_does_not_change_a_column_of_its_name(tmp_path: Path, values: pa.Array) -> None:
    inner = pa.array([{"v": INSTANT}], pa.struct([("v", pa.timestamp("us", "UTC"))]))
    pq.write_table(
        pa.table({"nested": inner, "v": values}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True
    )
    slices = [FileSlice.whole(str(tmp_path / "a.parquet"))]
    (batch,) = read_slices(slices, [ReadColumn("v", values.type, "v")])
    assert batch.column(0).equals(values)
    if not pa.types.is_timestamp(values.type):
        with pytest.raises(InvalidJobError, match="has another type than `schema` says"):
            list(read_slices(slices, [ReadColumn("v", pa.timestamp("us", "UTC"), "v")]))


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_text("not a table")
    with pytest.raises(InvalidJobError, match=r"^a file of a source cannot be read: .* file=\S*/in/a\.parquet, cause="):
        run(job(tmp_path, "direct"), spark)
