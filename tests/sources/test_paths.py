"""Input whose folders and files have odd names: in every mode, exactly the rows of exactly the files that are named."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config.load import load_job
from mixedmode.connectors.files.source import FileSource
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from mixedmode.sources.source import Admission
from tests.harness import SPARK, output_rows, run, write_json, write_parquet

pytestmark = pytest.mark.spark

#: of folders and of files
NAMES = [
    *("plain", "a b", "a%20b", "a+b", "a#b", "a?b", "ünï€", "new\nline", "a,b", "{a,b}", "run[12]", "br[ack]{ets}"),
    *("back\\slash", "star*", "^x", "[!a]", "a;b&c='\"", "$(x)|y"),
]
FOLDERS = [name for name in NAMES if "\n" not in name]  # a path of a job holds no line break
DDL = "k string, v bigint"


def ids(base: Path, name: str, start: int) -> list[int]:
    """Put a file of each name in a folder of that name; its ids."""
    for number, file in enumerate(NAMES):
        write_json(base / name / "in", f"{file}.json", [{"id": start + number}])
    return list(range(start, start + len(NAMES)))


def source_in(spark: SparkSession, path: Path) -> FileSource:
    return FileSource(spark, Source.json(path, schema="id int"), where="sources.t")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows. Spark analyses the whole plan at each call, so a chain of calls would take long."""
    for number, frame in enumerate(frames):
        frame.createOrReplaceTempView(f"part_{number}")
    return frames[0].sparkSession.sql(" UNION ALL ".join(f"TABLE part_{number}" for number in range(len(frames))))


def test_batch_and_stream_read_each_file_of_a_folder_once_whatever_the_names_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All streams are one query: a union, in one epoch. Folders that the names would match as patterns are there."""
    expected = [row for number, name in enumerate(FOLDERS) for row in ids(tmp_path, name, 1000 * number)]
    for other in ("run1", "run2", "starx", "axb", "a", "b", "brae", "bracket"):
        write_json(tmp_path / other / "in", "x.json", [{"id": -1}])
    write_json(tmp_path / "run[12]" / "in" / "nested", "x.json", [{"id": -2}])
    sources = [source_in(spark, tmp_path / name / "in") for name in FOLDERS]
    found: list[int] = []
    batch = union([source.batch() for source in sources])
    stream = union([source.stream(Admission()) for source in sources])
    assert sorted(row.id for row in batch.collect()) == expected
    writer = stream.writeStream.foreachBatch(lambda frame, _: found.extend(row.id for row in frame.collect()))
    checkpoints = f"file://{tmp_path}/check[12]points"
    writer.option("checkpointLocation", checkpoints).trigger(availableNow=True).start().awaitTermination()
    assert sorted(found) == expected


@pytest.mark.parametrize("folder", ["run[12]", "br[ack]{ets}", "back\\slash", "a%20b #?"])
def test_a_job_file_in_an_odd_folder_reads_and_writes_there(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    base = tmp_path / folder
    write_parquet(base / "in", "x%20y.parquet", pa.table({"k": ["a"], "v": [1]}))
    write_parquet(base / "in", "x y.parquet", pa.table({"k": ["a"], "v": [2]}))
    for other in ("run1", "brae"):
        write_parquet(tmp_path / other / "in", "x.parquet", pa.table({"k": ["wrong"], "v": [1]}))
    job = {
        "name": "odd",
        "execution": {"runtime-mode": "mixed", "checkpointing": {"interval": "1s", "dir": "ck"}},
        "spark": SPARK,
        "sources": {"t": {"format": "parquet", "path": "in"}},
        "steps": [{"key-by": "k", "aggregate": {"n": "count(*)", "s": "sum(v)"}}],
        "sink": {"format": "parquet", "path": "out"},
    }
    (base / "job.yaml").write_text(json.dumps(job), encoding="utf-8")
    loaded = load_job(base / "job.yaml")
    options = RunOptions(until=Until.IDLE, session=spark)
    run_job(loaded.spec, loaded.where, options)
    assert output_rows(base / "out") == [{"k": "a", "n": 2, "s": 3}]
    for number in (1, 2):
        write_parquet(base / "in", f"{number}[1].parquet", pa.table({"k": ["a"], "v": [3]}))
    run_job(loaded.spec, loaded.where, options)
    assert output_rows(base / "out") == [{"k": "a", "n": 4, "s": 9}]


@pytest.mark.parametrize("mode", ["batch", "mixed"])
@pytest.mark.parametrize("name", ["one.json", "a b,{c}[1].json"])
def test_a_path_may_be_one_file(spark: SparkSession, tmp_path: Path, mode: str, name: str) -> None:
    write_json(tmp_path / "in", name, [{"k": "a", "v": 1}, {"k": "a", "v": 2}])
    write_json(tmp_path / "in", "other.json", [{"k": "b", "v": 1}])
    source = Source.json(tmp_path / "in" / name, schema=DDL)
    checkpoints = tmp_path / "ck" if mode == "mixed" else None
    job = Job("one", sources={"t": source}, mode=mode, checkpoint_dir=checkpoints, spark=SPARK)  # type: ignore[arg-type]
    run(job.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 2, "s": 3}]


def test_a_file_that_comes_live_under_an_odd_name_stops_the_epoch_and_the_next_start_reads_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": "a", "v": 1}])
    source = Source.json(tmp_path / "in", schema=DDL)
    job = Job("late", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "ck", spark=SPARK)
    steps = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))
    run(steps, spark)

    def two() -> None:
        write_json(tmp_path / "in", "b.json", [{"k": "a", "v": 1}])
        write_json(tmp_path / "in", "c[1].json", [{"k": "a", "v": 1}])

    with pytest.raises(RetryableError, match="Start the job again: it then reads each file once"):
        run(steps, spark, feed=[two])
    run(steps, spark)
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 3}]


def test_partitions_in_an_odd_folder_keep_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        for name in ("x.json", "y[1].json"):
            write_json(tmp_path / "run[12]" / f"day={day}", name, [{"k": "a"}])
    source = Source.json(tmp_path / "run[12]", schema="k string, day int")
    job = Job("parts", sources={"t": source}, mode="streaming", checkpoint_dir=tmp_path / "ck", spark=SPARK)
    run(job.key_by("day").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out")), spark)
    assert output_rows(tmp_path / "out") == [{"day": 1, "n": 2}, {"day": 2, "n": 2}]


@pytest.mark.parametrize(("path", "told"), [("in", "no file in this folder"), ("in/*.json", "no file matches")])
def test_a_job_that_begins_without_input_says_so(spark: SparkSession, tmp_path: Path, path: str, told: str) -> None:
    (tmp_path / "in").mkdir()
    source = Source.json(tmp_path / path, schema=DDL)
    job = Job("empty", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "ck", spark=SPARK)
    observer = run(job.sql("SELECT * FROM t").write(Sink.parquet(tmp_path / "out")), spark)
    (notice,) = observer.notices
    assert told in notice
    assert str(tmp_path / path) in notice


def test_files_in_folders_below_are_told_unless_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    nested = write_json(tmp_path / "in[1]" / "2024[1]", "a.json", [{"id": 1}])
    write_json(tmp_path / "in[1]" / "_hidden", "a.json", [{"id": 2}])
    write_json(tmp_path / "parts" / "id=1", "a.json", [{"k": "x"}])
    (notice,) = source_in(spark, tmp_path / "in[1]").notices()
    assert notice.startswith("sources.t: files in folders below this path are not read.")
    assert notice.endswith(f"path={tmp_path / 'in[1]'}, file={nested}")
    recursive = Source.json(tmp_path / "in[1]", schema="id int", options={"recursiveFileLookup": True})
    assert not list(FileSource(spark, recursive, where="sources.t").notices())
    assert not list(source_in(spark, tmp_path / "in[1]" / "*").notices())
    assert not list(source_in(spark, tmp_path / "parts").notices())


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing", "no such file or directory"),
        ("nothing/*.json", "no such folder before the pattern"),
        ("nothing/in[1]", "no such folder before the pattern"),
        ("a:b/*.json", "a path with a colon"),
        ("_hidden.json", "names begin with _ or a dot"),
    ],
)
def test_a_path_of_which_nothing_could_ever_be_read_is_refused(
    spark: SparkSession, tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "a:b").mkdir()
    (tmp_path / "_hidden.json").write_text("{}", encoding="utf-8")
    job = Job("none", sources={"t": Source.json(tmp_path / path, schema=DDL)}, mode="batch", spark=SPARK)
    built = job.sql("SELECT * FROM t").write(Sink.console())
    with pytest.raises(InvalidJobError, match=reason):
        analyse(spark, built.spec, built.where)
