"""Jobs on Spark with a table for a result: killed, overtaken, gone back; one answer.

The job of the kills deletes rows too. Each mode with a table is in tests/connectors.
"""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.crash_points import CrashPoint
from mixedmode.driver import epochs
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.errors import FencedError, InvalidJobError
from mixedmode.job import Job, Source
from tests.faults.in_process import dies_at
from tests.faults.processes import finished, killed_at
from tests.harness import ManualClock, checkpoint_log, manifests, run, write_json, write_text
from tests.services.fixtures import Database
from tests.tables.jobs import TableJob, password_of
from tests.tables.places import Place

pytestmark = pytest.mark.spark


@pytest.fixture
def job(place: Place, scratch_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableJob:
    if place.url:
        monkeypatch.setenv("TABLES_PASSWORD", password_of(place.url))
    return TableJob(tmp_path / "a folder", place=place)


def test_the_newest_checkpoint_is_lost_and_its_epoch_is_written_again(spark: SparkSession, job: TableJob) -> None:
    job.add("history", 1_000)
    run(job.job, spark, feed=[lambda: job.add("live", 300)])
    (job.checkpoints / "manifests" / "0000000001.json").unlink()
    job.add("later", 300)
    recording = run(job.job, spark)
    assert [one.to for one in recording.went_back] == [0]
    job.check()


def test_keys_of_epochs_that_are_left_do_not_stay_in_the_table(spark: SparkSession, sqlite_place: Place) -> None:
    """A table by count: after each record its one key has another count, so each epoch leaves a key behind."""
    place = sqlite_place
    arrive = (str(number) for number in range(100))

    def add(count: int) -> None:
        write_json(place.folder / "in", next(arrive), [{"k": "one"}] * count)

    def job(folder: str) -> Job:
        source = Source.json(place.folder / "in", schema="k string")
        built = Job("counts", sources={"records": source}, mode="mixed", checkpoint_dir=place.folder / folder)
        counts = built.key_by("k").aggregate(n="count(*)").sql("SELECT n AS bucket, k FROM previous")
        return counts.key_by("bucket").aggregate(ks="count(*)").write(place.spec())

    add(4)
    run(job("first"), spark)
    savepoint = place.folder / "savepoint"
    create_savepoint(checkpoint_log(place.folder / "first"), ObjectStore(savepoint), now_ms=1)
    add(1)
    run(job("first"), spark)
    assert place.rows() == [(5, 1)]
    second = job("second")
    assert restore_savepoint(str(savepoint), second.spec, second.where, session=spark).outputs == ("",)
    assert place.rows() == [(4, 1)], "as it was when the savepoint was taken"
    add(1)
    run(second, spark)
    assert place.rows() == [(6, 1)]
    newest = manifests(place.folder / "second")[-1].epoch
    (place.folder / "second" / "manifests" / f"{newest:010}.json").write_bytes(b"damaged")
    add(1)
    assert len(run(second, spark).went_back) == 1
    assert place.rows() == [(7, 1)]
    with pytest.raises(InvalidJobError, match="was taken over by another run"):
        run(job("first"), spark)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("kind", "point", "epoch"),
    [
        pytest.param("postgres", "after-manifest", 0, marks=pytest.mark.soak),  # tests/connectors has it
        ("postgres", "table-applied", 1),
        ("sqlite", "table-committed", 1),
    ],
)
def test_a_kill_around_the_transaction(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    scratch_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    point: CrashPoint,
    epoch: int,
) -> None:
    place: Place = request.getfixturevalue(f"{kind}_place")
    if place.url:
        monkeypatch.setenv("TABLES_PASSWORD", password_of(place.url))
    job = TableJob(tmp_path / "a folder", place=place)
    job.add("history", 1_000)
    if epoch:
        run(job.job, spark)
        job.add("live", 300)
    before = job.table() if epoch else []
    if point == "table-applied":  # a transaction is open
        killed_at(job.file, point, epoch)
    else:
        dies_at(job.job, spark, point, epoch)
    assert len(manifests(job.checkpoints)) == epoch + 1, "the epoch was committed"
    is_there = point == "table-committed"
    assert (job.table() != before) is is_there if epoch else not is_there
    job.add("later", 300)
    run(job.job, spark)
    job.check()
    if place.url:
        assert not files_with(password_of(place.url), job.folder), "no log of a process, no checkpoint"


@pytest.mark.faults
@pytest.mark.soak
def test_a_driver_that_stood_still_before_its_publication_is_fenced_by_a_newer_one(
    postgres_place: Place, spark: SparkSession, tmp_path: Path, scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one is a process of its own, which publishes the older one's epoch, and the next one.

    test_table_sink.py and tests/faults/test_two_drivers.py have the two halves of it by default.
    """
    monkeypatch.setenv("TABLES_PASSWORD", password_of(postgres_place.url))
    job = TableJob(tmp_path / "a folder", place=postgres_place)
    job.add("history", 500)
    overtaken = list[int]()

    def stand_still(point: CrashPoint, epoch: int) -> None:
        if point == "after-manifest" and not overtaken:
            job.add("live", 300)
            code, _, errors = finished("run", job.file, "--until-idle")
            assert code == 0, errors
            overtaken.append(epoch)

    monkeypatch.setattr(epochs, "reach", stand_still)
    with pytest.raises(FencedError, match="a newer generation of this job has written to its table"):
        run(job.job, spark)
    assert overtaken == [0]
    assert [manifest.generation for manifest in manifests(job.checkpoints)] == [1, 2]
    job.check()


def test_a_second_batch_run_replaces_the_rows_of_the_first(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    write_json(tmp_path / "in", "a.json", [{"k": f"k{i % 13}", "n": i} for i in range(500)])
    answer = [(f"k{k}", len(ns), sum(ns)) for k in range(13) for ns in [[i for i in range(500) if i % 13 == k]]]
    source = Source.json(tmp_path / "in", schema="k string, n long", bounded=True)
    job = Job("batch", sources={"s": source}, mode="batch", parallelism=2)
    for _ in range(2):
        run(job.key_by("k").aggregate(count="count(*)", total="sum(n)").write(place.spec()), spark)
        assert place.rows() == sorted(answer, key=str)


def test_a_job_without_a_key_adds_each_row_once(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    source = Source.json(tmp_path / "in", schema="n long")
    job = Job("plain", sources={"s": source}, checkpoint_dir=str(tmp_path / "checkpoints"), parallelism=2)
    plain = job.sql("SELECT n * 10 AS n FROM s").write(place.spec())
    for epoch in range(3):
        write_json(tmp_path / "in", f"{epoch}.json", [{"n": epoch}, {"n": epoch}])
        run(plain, spark)
    assert place.rows() == [(epoch * 10, epoch) for epoch in range(3) for _ in range(2)]


LEAVING = """\
from mixedmode.process import KeyedProcessFunction, OperatorAttributes, Ttl, ValueState

WEEK_US = 7 * 24 * 3600 * 1_000_000


class Leaving(KeyedProcessFunction):
    attributes = OperatorAttributes(uses_clock=True)
    visits = ValueState(int, default=0, ttl=Ttl("7d"))

    def process_element(self, record, context):
        self.visits.value += 1
        context.timers.register_processing_time_timer(context.processing_time + WEEK_US + 1)
        yield {"user": context.current_key, "visits": self.visits.value, "step": context.processing_time}

    def on_timer(self, timestamp, context):
        if self.visits.value == 0:
            yield {"user": context.current_key, "visits": 0, "step": timestamp}
"""
LEAVING_JOB = """\
name: leaving
execution.checkpointing: {interval: 50ms, dir: ./checkpoints}
parallelism: 2
sources:
  s: {format: json, path: ./in, schema: user string}
steps:
  - {key-by: user, process: "leaving:Leaving", output: "user string, visits long, step long"}
  - {key-by: user, aggregate: {visits: "max_by(visits, step)"}}
  - sql: SELECT user, visits FROM previous WHERE visits > 0
sink: SINK
"""
DAY_MS = 24 * 3600 * 1_000


def test_rows_of_keys_whose_state_has_expired_leave_the_table(
    spark: SparkSession, sqlite_place: Place, tmp_path: Path
) -> None:
    """The function's timer finds no state any more and says so; the filter downstream turns that into a delete."""
    place = sqlite_place
    write_text(tmp_path, "leaving.py", LEAVING)
    sink = place.spec().model_dump(include={"format", "path", "url", "table"}, exclude_none=True)
    job_file = write_text(tmp_path, "job.yaml", LEAVING_JOB.replace("SINK", json.dumps(sink)))
    clock = ManualClock()
    days = [(0.0, ["ann", "bob", "cas"]), (5.0, ["bob"]), (10.0, ["dan"]), (12.5, ["bob"])]
    expected = [
        {"ann": 1, "bob": 1, "cas": 1},
        {"ann": 1, "bob": 2, "cas": 1},
        {"bob": 2, "dan": 1},
        {"bob": 1, "dan": 1},
    ]
    start_ms = clock.time_ms
    for (day, users), rows in zip(days, expected, strict=True):
        clock.time_ms = start_ms + int(day * DAY_MS)
        write_json(tmp_path / "in", f"{day:04.1f}.json", [{"user": user} for user in users])
        run(Job.from_file(job_file), spark, clock=clock)
        assert dict(place.rows()) == rows, day


def test_a_row_that_the_table_refuses_is_told_and_the_password_never(
    spark: SparkSession, database: Database, tmp_path: Path, scratch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = password_of(database.url)
    monkeypatch.setenv("TABLES_PASSWORD", password)
    database.sql(
        "CREATE TABLE totals (shop text PRIMARY KEY, items bigint, best bigint CHECK (best < 0), income bigint)"
    )
    job = TableJob(tmp_path / "a folder", place=Place("postgres", tmp_path, database.url))
    job.add("history", 100)
    with pytest.raises(InvalidJobError) as refused:
        run(job.job, spark)
    text = str(refused.value)
    assert re.search(r"the table refuses a row: .*totals_best_check.*row=\{shop: 'shop \d+', items: ", text)
    assert re.search(r"table=postgres 127\.0\.0\.1:\d+/test_\S+ public\.totals$", text.strip())
    assert password not in text
    assert not files_with(password, job.folder), "no checkpoint"
    assert password not in (scratch_folder / "spark.log").read_text(encoding="utf-8")


def files_with(password: str, folder: Path) -> list[Path]:
    """Return the files below a folder that hold the password."""
    return [path for path in folder.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
