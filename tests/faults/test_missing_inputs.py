"""Input files that are gone before they are read again: the start says which, and changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.go_back import spark_listing
from mixedmode.checkpoint.types import Epoch
from mixedmode.checkpoint.verify import Verifier
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.file_lengths import file_lengths
from tests.checkpoint.folders import damage
from tests.faults.in_process import dies_at
from tests.faults.jobs import FaultJob
from tests.faults.test_damage import contents
from tests.harness import SPARK, Recording, checkpoint_log, manifests, output_rows, run, write_json, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture(scope="module")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FaultJob:
    job = FaultJob(tmp_path_factory.mktemp("inputs") / "a folder")
    text = job.file.read_text().replace("{interval: 100ms,", "{interval: 100ms, num-retained: 100,")
    write_text(job.folder, job.file.name, text)
    job.add("history", 500)
    run(job.job, spark, feed=[lambda: job.add("live 1", 100), lambda: job.add("live 2", 100)])
    return job


def refused_until_restored(spark: SparkSession, job: FaultJob, gone: Path) -> Recording:
    kept = gone.read_bytes()
    gone.unlink()
    before = contents(job)
    recording = Recording()
    with pytest.raises(CorruptStateError) as refused:
        run(job.job, spark, observer=recording)
    assert str(refused.value).startswith("input files that the job has to read are gone: ")
    url = f"file://{gone}".replace(" ", "%20")
    assert f"missing=1, planned=1, files={url}" in str(refused.value)
    assert not recording.went_back
    assert contents(job) == before, "nothing was changed"
    gone.write_bytes(kept)
    recording = run(job.job, spark)
    job.check()
    return recording


def test_going_back_is_refused_while_a_file_that_would_be_read_again_is_gone(
    spark: SparkSession, job: FaultJob
) -> None:
    newest = manifests(job.checkpoints)[-1]
    damage(job.checkpoints / newest.operators[-1].runs[-1].path, "flipped")
    (event,) = refused_until_restored(spark, job, job.folder / "in" / "live 2.json").went_back
    assert event.to == newest.epoch - 1


def test_an_epoch_under_way_is_not_repeated_without_its_files(spark: SparkSession, job: FaultJob) -> None:
    epoch = Epoch(manifests(job.checkpoints)[-1].epoch + 1)
    job.add("under way", 70)
    dies_at(job.job, spark, "before-manifest", epoch)
    assert not refused_until_restored(spark, job, job.folder / "in" / "under way.json").went_back
    assert manifests(job.checkpoints)[-1].epoch == epoch


def test_a_job_may_ask_for_files_that_are_gone_to_be_passed_over(spark: SparkSession, job: FaultJob) -> None:
    rows = list(job.rows)
    job.add("given up", 10)
    dies_at(job.job, spark, "before-manifest", manifests(job.checkpoints)[-1].epoch + 1)
    (job.folder / "in" / "given up.json").unlink()
    job.rows[:] = rows
    text = job.file.read_text()
    write_text(job.folder, job.file.name, text.replace("spark: {", "spark: {sql.files.ignoreMissingFiles: true, "))
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        run(job.job, spark)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
        write_text(job.folder, job.file.name, text)
    job.check()


def test_files_outside_of_the_local_disk_are_asked_for_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    there = write_json(tmp_path, "a b.json", [{"n": 1}])
    urls = [f"file:{there}".replace(" ", "%20"), f"file:{tmp_path}/gone.json", f"file://{tmp_path}/gone.json"]
    assert file_lengths(spark, urls, {"fs.some.option": "1"}) == {urls[0]: there.stat().st_size}


def test_the_manifest_knows_the_log_of_each_source_also_of_one_that_is_read_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With a clock beside them, and past Spark's compaction of a log."""
    job = two_sources(tmp_path)
    feed: list[Callable[[], object]] = [_arrival(tmp_path, number) for number in range(12)]
    write_json(tmp_path / "a", "first.json", [{"k": "x", "at": "2001-01-01 00:00:00"}])
    run(job, spark, feed=feed)
    committed = manifests(tmp_path / "checkpoints")
    with_files = [log for log in committed[-1].source_logs if log.end is not None]
    assert [(log.source, log.files) for log in with_files] == [(0, 7), (1, 6)]
    log = checkpoint_log(tmp_path / "checkpoints")
    verifier = Verifier(log, {}, reads=True, spark_listing=spark_listing(log), goings_back=())
    assert verifier.damages(committed[-1]) == ()
    for checksum in (tmp_path / "checkpoints" / "spark").rglob(".*.crc"):
        checksum.unlink()
    entry = tmp_path / "checkpoints" / paths.spark_source_path(1, 0)
    entry.write_text(entry.read_text().replace("b/0", "b/8"))
    again = Verifier(log, {}, reads=True, spark_listing=spark_listing(log), goings_back=())
    assert {found.what for found in again.damages(committed[-1])} == {"spark"}


def two_sources(folder: Path) -> Job:
    for name in ("a", "b"):
        (folder / name).mkdir()
    sources = {
        name: Source.json(str(folder / name), schema="k string, at timestamp", event_time="at", idle_timeout="1h")
        for name in ("a", "b")
    }
    return (
        Job(
            "two",
            sources=sources,
            mode="mixed",
            interval_during_backlog=0,
            checkpoint_interval="100ms",
            checkpoint_dir=str(folder / "checkpoints"),
            parallelism=1,
        )
        .sql("SELECT * FROM a UNION ALL SELECT * FROM b")
        .key_by("k")
        .aggregate(n="count(*)")
        .write(Sink.parquet(str(folder / "out")))
    )


def _arrival(folder: Path, number: int) -> Callable[[], object]:
    name = "ba"[number % 2]
    return lambda: write_json(folder / name, f"{number}.json", [{"k": "x", "at": f"2001-01-01 00:00:{number:02}"}])


@pytest.mark.parametrize("option", ["cleanSource", "SOURCEARCHIVEDIR"])
def test_options_that_remove_what_may_be_read_again_are_refused(
    spark: SparkSession, tmp_path: Path, option: str
) -> None:
    (tmp_path / "in").mkdir()
    source = Source.json(str(tmp_path / "in"), schema="k string", options={option: "delete"})
    job = Job("clean", sources={"s": source}, checkpoint_dir=str(tmp_path / "checkpoints"))
    job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(str(tmp_path / "out")))
    with pytest.raises(InvalidJobError) as refused:
        run(job, spark)
    assert "the job may have to read the file again, when it goes back to an older checkpoint" in str(refused.value)
    assert str(refused.value).endswith(f"option={option}")


def test_a_folder_of_a_partition_gets_another_name_after_its_epoch_was_planned(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    write_text(folder / "city=Ulm", "a.json", '{"v": 1}\n')
    source = Source.json(folder, schema="v int, city string")

    def a_job(**settings: str) -> Job:
        job = Job("j", sources={"t": source}, mode="mixed", checkpoint_dir=tmp_path / "c", spark={**SPARK, **settings})
        return job.sql("SELECT city, v FROM t").write(Sink.parquet(tmp_path / "out"))

    job = a_job()
    run(job, spark)
    write_text(folder / "city=K%C3%B6ln", "b.json", '{"v": 2}\n')
    with pytest.raises(InvalidJobError, match="Rename the folder with the characters"):
        run(job, spark)
    (folder / "city=K%C3%B6ln").rename(folder / "city=Köln")
    with pytest.raises(CorruptStateError, match=r"have new names, which is new input.*ignoreMissingFiles: true"):
        run(job, spark)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        run(a_job(**{"sql.files.ignoreMissingFiles": "true"}), spark)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    write_text(folder / "city=Ulm", "c.json", '{"v": 3}\n')
    run(job, spark)
    rows = output_rows(tmp_path / "out")
    assert sorted((row["city"], row["v"]) for row in rows) == [("Köln", 2), ("Ulm", 1), ("Ulm", 3)]
