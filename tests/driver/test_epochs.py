"""The life of a job: backlog, flip, live, stop, resume, drain; what is committed when, and who may go on from it."""

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint.gc import collect_orphans
from mixedmode.config.sources import SourceSpec
from mixedmode.driver.events import EpochStarted, Event, PhaseBegan
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.harness import (
    SPARK,
    ManualClock,
    Recording,
    checkpoint_log,
    manifests,
    output_changes,
    output_rows,
    run,
    write_json,
)

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, at timestamp"
HISTORY = [{"k": "a", "v": 1, "at": "2001-01-01 00:00:00"}, {"k": "b", "v": 2, "at": "2001-01-01 02:00:00"}]
LIVE = [{"k": "a", "v": 10, "at": "2001-01-01 01:00:00"}, {"k": "c", "v": 20, "at": "2001-01-01 03:00:00"}]
AFTER_HISTORY = [{"k": "a", "n": 1, "s": 1}, {"k": "b", "n": 1, "s": 2}]
AFTER_LIVE = [{"k": "a", "n": 2, "s": 11}, {"k": "b", "n": 1, "s": 2}, {"k": "c", "n": 1, "s": 20}]


class Folder:
    """The files of one test's job."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.out = base / "out"
        self.checkpoints = base / "checkpoints"
        self.inputs = base / "in"
        self.inputs.mkdir()

    def source(self, **settings: Any) -> SourceSpec:
        return Source.json(self.inputs, schema=DDL, event_time="at", out_of_orderness="30m", **settings)

    def settings(self, **settings: Any) -> Job:
        defaults: dict[str, Any] = {
            "sources": {"t": self.source()},
            "mode": "mixed",
            "parallelism": 2,
            "max_parallelism": 8,
            "checkpoint_dir": self.checkpoints,
            "checkpoint_interval": "50ms",
        }
        return Job(**{"name": "epochs", "spark": SPARK, **defaults, **settings})

    def job(self, **settings: Any) -> Job:
        return self.settings(**settings).key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(self.out))

    def add_history(self) -> None:
        write_json(self.inputs, "history.json", HISTORY)

    def add_live(self) -> None:
        write_json(self.inputs, "live.json", LIVE)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class Watching(Recording):
    """A recording that also calls back."""

    def __init__(
        self, *, on_start: Callable[[EpochStarted], object] = id, on_live: Callable[[], object] = list
    ) -> None:
        super().__init__()
        self._on_start = on_start
        self._on_live = on_live

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, EpochStarted):
            self._on_start(event)
        if event == PhaseBegan("live"):
            self._on_live()


def test_there_is_no_checkpoint_before_the_flip_and_exactly_one_at_it(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    seen = []

    def look(when: object) -> None:
        seen.append((when, len(manifests(folder.checkpoints)), len(output_files(folder))))

    observer = Watching(on_start=lambda event: look(f"epoch {event.epoch}"), on_live=lambda: look("flip"))
    run(folder.job(), spark, observer=observer)
    assert seen == [("epoch 0", 0, 0), ("flip", 1, len(output_files(folder)))]
    (flip,) = observer.flips
    assert flip.after_epoch == 0
    assert observer.phases == ["starting", "catching up", "live", "ended"]
    (manifest,) = manifests(folder.checkpoints)
    assert (manifest.epoch, manifest.is_backlog, manifest.strategy, manifest.previous) == (0, True, "sorted", None)
    assert output_rows(folder.out) == AFTER_HISTORY


def output_files(folder: Folder) -> list[Path]:
    return sorted(folder.out.glob("part-*"))


def test_what_an_epoch_did_is_told_and_committed(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    clock = ManualClock(1_234_567_890_123)
    observer = run(folder.job(), spark, clock=clock, feed=[folder.add_live])
    backlog, live = observer.committed
    assert [(e.epoch, e.is_backlog, e.strategy, e.records, e.rows_out, e.pairs) for e in (backlog, live)] == [
        (0, True, "sorted", 2, 2, 2),
        (1, False, "streaming", 2, 2, 2),
    ]
    assert [event.epoch for event in observer.started] == [0, 1]
    first, second = manifests(folder.checkpoints)
    assert [(m.records_in, m.rows_out, m.pairs, m.created_ms) for m in (first, second)] == [
        (2, 2, 2, 1_234_567_890_123)
    ] * 2
    assert (second.previous, second.job, second.max_parallelism) == (0, "epochs", 8)
    assert live.state_bytes == sum(run.bytes for operator in second.operators for run in operator.runs)
    assert [operator.operator_id for operator in second.operators] == ["aggregate-1"]
    assert first.operators[0].runs == second.operators[0].runs[: len(first.operators[0].runs)], "deltas are added"


def test_the_watermark_stays_behind_the_newest_event_time_and_never_goes_back(
    spark: SparkSession, folder: Folder
) -> None:
    folder.add_history()
    early = [{"k": "a", "v": 1, "at": "1999-01-01 00:00:00"}]
    feed = [folder.add_live, lambda: write_json(folder.inputs, "early.json", early)]
    run(folder.job(), spark, feed=feed)
    progress = [manifest.sources["t"] for manifest in manifests(folder.checkpoints)]
    assert [p.records for p in progress] == [2, 4, 5]
    assert [p.max_event_time_us for p in progress] == [micros(2), micros(3), micros(3)]
    assert [p.watermark_us for p in progress] == [micros(1, 30), micros(2, 30), micros(2, 30)]


def micros(hour: int, minute: int = 0) -> int:
    return int(datetime(2001, 1, 1, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000


def test_event_times_before_1970_and_at_its_beginning_move_the_watermark_too(
    spark: SparkSession, folder: Folder
) -> None:
    """In one epoch, in several blocks of one subtask."""
    times = ["1969-12-31 22:00:00", "1970-01-01 00:00:00", "1969-12-31 23:00:00"]
    for number, time in enumerate(times):
        write_json(folder.inputs, f"{number}.json", [{"k": "a", "v": 1, "at": time}])
    run(folder.job(parallelism=1), spark)
    (manifest,) = manifests(folder.checkpoints)
    assert manifest.sources["t"].max_event_time_us == 0


def test_a_job_without_event_time_has_no_watermark(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    observer = run(folder.job(sources={"t": Source.json(folder.inputs, schema=DDL)}), spark)
    assert [event.watermark_us for event in observer.committed] == [None]
    assert manifests(folder.checkpoints)[0].sources["t"].watermark_us is None


def test_without_history_the_job_is_live_at_once(spark: SparkSession, folder: Folder) -> None:
    observer = run(folder.job(), spark, feed=[folder.add_live])
    assert [flip.after_epoch for flip in observer.flips] == [None]
    assert [(e.epoch, e.is_backlog, e.strategy) for e in observer.committed] == [(0, False, "streaming")]


def test_an_empty_directory_gives_an_empty_output_and_no_checkpoint(spark: SparkSession, folder: Folder) -> None:
    observer = run(folder.job(), spark)
    assert not observer.committed
    assert not manifests(folder.checkpoints)
    assert output_rows(folder.out) == []


def test_a_restart_with_nothing_new_changes_nothing(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark, feed=[folder.add_live])
    before = snapshot(folder)
    observer = run(folder.job(), spark)
    assert not observer.committed
    assert not observer.flips
    assert snapshot(folder) == before


def snapshot(folder: Folder) -> dict[str, bytes]:
    """Every file of the output and of the checkpoints that says what the state is."""
    kept = [*folder.out.rglob("*"), *(folder.checkpoints / "manifests").rglob("*")]
    kept += [*(folder.checkpoints / "runs").rglob("*"), folder.checkpoints / "job.json"]
    return {str(path): path.read_bytes() for path in kept if path.is_file()}


REFUSED = (
    "the job is not the one whose state is in the checkpoint folder, and can neither read that state nor go on from "
    "it: "
)
WAY_OUT = (
    ". Put the setting back, or take a savepoint with it and restore the changed job from that (docs/savepoints.md "
    "says what may change), or give the job a new execution.checkpointing.dir (it then starts from the beginning of "
    "its sources). latest_epoch=0"
)


def test_a_job_of_another_name_or_max_parallelism_is_refused(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark)
    assert refused(spark, folder.job(name="other")) == f"{REFUSED}the name was 'epochs' and is 'other'{WAY_OUT}"
    assert refused(spark, folder.job(max_parallelism=9)) == (
        f"{REFUSED}pipeline.max-parallelism was 8 and is 9 (it fixes the key group of every key for the life of a job)"
        f"{WAY_OUT}"
    )


def test_a_job_whose_state_would_be_read_wrongly_is_refused(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark)
    sink = Sink.parquet(folder.out)
    changed = folder.settings().key_by("k").aggregate(n="count(*)", s="max(v)").write(sink)
    message = refused(spark, changed)
    assert message.startswith(
        f'{REFUSED}step \'aggregate-1\' was changed (calls.s was "sum(v)" and is "max(v)", registers'
    )
    assert message.endswith(WAY_OUT)
    other_key = folder.settings().key_by("v").aggregate(n="count(*)", s="sum(v)").write(sink)
    assert 'keys[0].name was "k" and is "v", keys[0].type was "string" and is "int64"' in refused(spark, other_key)
    added = folder.settings().key_by("k").aggregate(n="count(*)", s="sum(v)").key_by("n").aggregate(m="count(*)")
    assert refused(spark, added.write(sink)) == f"{REFUSED}step 'aggregate-2' was added{WAY_OUT}"
    named = folder.settings().key_by("k", name="other").aggregate(n="count(*)", s="sum(v)").write(sink)
    assert refused(spark, named) == (f"{REFUSED}step 'aggregate-1' was removed; step 'other' was added{WAY_OUT}")


def test_a_job_whose_rows_could_not_be_rolled_back_is_refused(spark: SparkSession, folder: Folder) -> None:
    """Another WHERE over the rows of a keyed step would leave rows in the output that no later epoch could remove."""

    def filtered(condition: str) -> Job:
        steps = folder.settings().sql("SELECT * FROM t").key_by("k").aggregate(n="count(*)", s="sum(v)")
        return steps.sql(f"SELECT *\n  FROM previous WHERE {condition}").write(Sink.parquet(folder.out))

    folder.add_history()
    run(filtered("s > 1"), spark)
    assert refused(spark, filtered("s > 2")) == (
        f"{REFUSED}step 'upsert-sink' was changed (sql[0] was \"SELECT * FROM previous WHERE s > 1\" and is "
        f'"SELECT * FROM previous WHERE s > 2"){WAY_OUT}'
    )
    folder.add_live()
    run(filtered("s > 1  "), spark)
    assert output_rows(folder.out) == AFTER_LIVE, "spaces do not count"


def test_a_job_whose_first_and_last_would_go_by_another_time_is_refused(spark: SparkSession, folder: Folder) -> None:
    ddl = f"{DDL}, arrived timestamp"

    def by(event_time: str, aggregate: str) -> Job:
        source = Source.json(folder.inputs, schema=ddl, event_time=event_time)
        return folder.settings(sources={"t": source}).key_by("k").aggregate(x=aggregate).write(Sink.parquet(folder.out))

    write_json(folder.inputs, "a.json", [{**row, "arrived": row["at"]} for row in HISTORY])
    run(by("at", "last(v)"), spark)
    message = refused(spark, by("arrived", "last(v)"))
    assert message.endswith(f'(event-time was "at" and is "arrived"){WAY_OUT}')


def test_sql_before_the_first_key_by_may_change_at_a_restart(spark: SparkSession, folder: Folder) -> None:
    """Records already counted stay as they were; Spark reads the new ones instead of the map tasks."""
    folder.add_history()
    run(folder.job(), spark)
    folder.add_live()
    steps = folder.settings().sql("SELECT k, v * 100 AS v, at FROM t WHERE lower(k) <> 'c'").key_by("k")
    run(steps.aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(folder.out)), spark)
    assert output_rows(folder.out) == [{"k": "a", "n": 2, "s": 1001}, {"k": "b", "n": 1, "s": 2}]


def test_the_watermark_stays_where_it_is_when_a_source_gets_another_name(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark)
    write_json(folder.inputs, "early.json", [{"k": "a", "v": 10, "at": "1999-01-01 00:00:00"}])
    run(folder.job(sources={"renamed": folder.source()}), spark)
    assert manifests(folder.checkpoints)[-1].watermark_us == micros(1, 30)


def test_other_sources_than_those_of_the_checkpoint_are_refused(spark: SparkSession, folder: Folder) -> None:
    """Spark knows a source by its number, so one that takes another's place would be taken for read, or read again."""
    write_json(folder.base / "a", "a.json", HISTORY)
    write_json(folder.base / "b", "b.json", LIVE)

    def reading(sql: str, *names: str) -> Job:
        sources = {name: Source.json(folder.base / name, schema=DDL) for name in names}
        steps = folder.settings(sources=sources).sql(sql)
        return steps.key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(folder.out))

    run(reading("SELECT * FROM a UNION ALL SELECT * FROM b", "a", "b"), spark)
    assert output_rows(folder.out) == AFTER_LIVE
    swapped = reading("SELECT * FROM a UNION ALL SELECT * FROM b", "b", "a")
    others = f"{REFUSED}the sources, or the steps and outputs that read them, are others"
    order = '(sources[0] was "a" and is "b", sources[1] was "b" and is "a")'
    assert refused(spark, swapped) == f"{others} {order}{WAY_OUT}"
    assert refused(spark, reading("SELECT * FROM a", "a")) == f"{others}{WAY_OUT}"


def test_a_source_that_was_moved_is_refused(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark)
    moved = folder.inputs.rename(folder.base / "moved")
    write_json(moved, "live.json", LIVE)
    message = refused(spark, folder.job(sources={"t": Source.json(moved, schema=DDL, event_time="at")}))
    assert message.startswith(
        "the sources of the job are not those that its checkpoint has read: one was added, removed, or moved to "
        "another path, and Spark cannot go on from that. Put `sources` back, or give the job a new "
        "execution.checkpointing.dir and output (it then starts from the beginning of its sources). "
        "cause=Wrong basePath "
    )


def test_what_arrives_during_the_backlog_is_live(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    arriving = Watching(on_start=lambda event: folder.add_live() if event.epoch == 0 else None)
    run(folder.job(), spark, observer=arriving)
    assert [(e.epoch, e.is_backlog, e.records) for e in arriving.committed] == [(0, True, 2), (1, False, 2)]
    assert output_rows(folder.out) == AFTER_LIVE


def refused(spark: SparkSession, job: Job) -> str:
    with pytest.raises(InvalidJobError) as caught:
        run(job, spark)
    return str(caught.value)


def test_another_output_folder_or_another_job_s_is_refused(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark)
    fresh = folder.job(checkpoint_dir=folder.base / "new")
    assert refused(spark, fresh) == (
        "the output folder holds the output of an earlier run whose checkpoints are not here, and the two would be "
        "mixed. Give this output a new path, empty the folder, or put the old checkpointing.dir back. "
        f"folder={folder.out}"
    )
    other = folder.job(name="other", checkpoint_dir=folder.base / "other")
    assert refused(spark, other) == (
        "the output folder holds the output of another job, or of this one with other columns, and files of both would "
        "be mixed: job was 'epochs' and is 'other'. Give this output a new path, or put the setting back. "
        f"folder={folder.out}"
    )
    moved = folder.settings().key_by("k").aggregate(n="count(*)", s="sum(v)").write(Sink.parquet(folder.base / "moved"))
    assert refused(spark, moved) == (
        "the job goes on from a checkpoint, and the output it has written so far is not in this folder. Put the old "
        "path of this output back, or move its whole folder to the new path. "
        f"folder={folder.base / 'moved'}"
    )


def test_a_batch_run_replaces_the_output_of_the_one_before(spark: SparkSession, folder: Folder) -> None:
    batch = folder.job(mode="batch", checkpoint_dir=None, sources={"t": folder.source(bounded=True)})
    folder.add_history()
    run(batch, spark)
    assert output_rows(folder.out) == AFTER_HISTORY
    folder.add_live()
    run(batch, spark)
    assert output_rows(folder.out) == AFTER_LIVE
    assert {row["_epoch"] for row in output_changes(folder.out)} == {0}
    assert not list(folder.out.glob("_staging/*"))


def test_automatic_mode_is_batch_when_every_source_is_bounded(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(mode=None, sources={"t": folder.source(bounded=True)}), spark)
    assert not manifests(folder.checkpoints), "batch keeps no state"
    shutil.rmtree(folder.out)
    observer = run(folder.job(mode="automatic"), spark)
    assert [flip.after_epoch for flip in observer.flips] == [0]


def test_a_stop_in_the_backlog_finishes_it_and_the_next_start_goes_on(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    stop = threading.Event()
    observer = Watching(on_start=lambda _event: stop.set())
    run_job(folder.job().spec, folder.job().where, options(spark, observer, stop))
    assert [manifest.epoch for manifest in manifests(folder.checkpoints)] == [0]
    assert observer.phases == ["starting", "catching up", "ended"], "it never went live"
    assert [flip.after_epoch for flip in observer.flips] == [0], "but the backlog is over"
    folder.add_live()
    again = run(folder.job(), spark)
    assert [(e.epoch, e.is_backlog) for e in again.committed] == [(1, False)]
    assert output_rows(folder.out) == AFTER_LIVE


def test_a_stop_before_the_first_epoch_commits_nothing_and_the_next_start_has_a_backlog(
    spark: SparkSession, folder: Folder
) -> None:
    folder.add_history()
    stop = threading.Event()
    stop.set()
    observer = Recording()
    run_job(folder.job().spec, folder.job().where, options(spark, observer, stop))
    assert not manifests(folder.checkpoints)
    assert not observer.flips
    folder.add_live()
    again = run(folder.job(), spark)
    assert (again.committed[0].epoch, again.committed[0].is_backlog) == (0, True)
    assert output_rows(folder.out) == AFTER_LIVE


def options(spark: SparkSession, observer: Recording, stop: threading.Event) -> RunOptions:
    return RunOptions(until=Until.STOPPED, observers=[observer], session=spark, clock=ManualClock(), stop=stop)


def test_a_live_job_takes_what_comes_until_it_is_stopped(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    stop = threading.Event()
    observer = Recording(feed=[folder.add_live], on_commit=lambda event: stop.set() if event.epoch == 1 else None)
    run_job(folder.job().spec, folder.job().where, options(spark, observer, stop))
    assert output_rows(folder.out) == AFTER_LIVE
    assert [(e.epoch, e.is_backlog, e.strategy) for e in observer.committed] == [
        (0, True, "sorted"),
        (1, False, "streaming"),
    ]


def test_draining_ends_the_input_for_good(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark, until=Until.DRAINED, feed=[folder.add_live])
    assert output_rows(folder.out) == AFTER_LIVE
    write_json(folder.inputs, "too-late.json", LIVE)
    observer = run(folder.job(), spark)
    assert observer.phases == ["starting", "over", "ended"]
    assert output_rows(folder.out) == AFTER_LIVE


def test_bounded_sources_end_a_mixed_job_by_themselves(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    bounded = folder.job(sources={"t": folder.source(bounded=True)})
    run(bounded, spark, until=Until.STOPPED)
    assert output_rows(folder.out) == AFTER_HISTORY
    assert run(bounded, spark).phases == ["starting", "over", "ended"]


def test_a_run_that_meets_a_newer_start_stops_without_committing(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    observer = Watching(on_start=lambda _event: checkpoint_log(folder.checkpoints).claim_generation())
    with pytest.raises(FencedError) as caught:
        run(folder.job(), spark, observer=observer)
    assert str(caught.value) == (
        "a newer start of this job has taken over its checkpoint folder, so this one stops without committing its "
        "epoch. Nothing is lost: the other one goes on. If both were started by mistake, stop the one that is not "
        "wanted. epoch=0, own_generation=1, newest_generation=2, "
        f"newest_host={socket.gethostname()}, newest_process={os.getpid()}"
    )
    assert not manifests(folder.checkpoints)
    assert output_rows(folder.out) == []
    run(folder.job(), spark)
    assert output_rows(folder.out) == AFTER_HISTORY
    collect_orphans(checkpoint_log(folder.checkpoints), sinks=[])
    named = {run.path for run in manifests(folder.checkpoints)[-1].operators[0].runs}
    assert runs_of(folder) == named, "what the fenced run left is gone"


def runs_of(folder: Folder) -> set[str]:
    return {path.relative_to(folder.checkpoints).as_posix() for path in folder.checkpoints.glob("runs/*/*.sst")}


def test_a_damaged_run_is_told_and_not_read(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(parallelism=1), spark)
    (path,) = sorted(runs_of(folder))
    damaged = folder.checkpoints / path
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    shutil.rmtree(replicas())
    folder.add_live()
    with pytest.raises(CorruptStateError) as caught:
        run(folder.job(parallelism=1, checkpoint_verification="sizes"), spark)
    assert str(caught.value) == (
        "a committed run of the state is missing or damaged, so the state cannot be read. Nothing of this epoch was "
        "committed. Start the job again with execution.checkpointing.verify: checksums (which is the default): it goes "
        "back to the newest checkpoint that is whole. "
        f"run={folder.checkpoints}/{path}, is_there=True, bytes_committed={damaged.stat().st_size}"
    )
    assert output_rows(folder.out) == AFTER_HISTORY
    with pytest.raises(
        CorruptStateError, match=r"^no checkpoint is whole, so .* checkpoint 0: a run of the state has ch"
    ):
        run(folder.job(parallelism=1), spark)
    assert output_rows(folder.out) == AFTER_HISTORY


def replicas() -> Path:
    """Return the folder in which subtasks of this test process keep their local copies of the state."""
    (found,) = Path(tempfile.gettempdir()).glob("mixedmode-*/replicas")
    return found


def test_after_a_lost_manifest_its_epoch_is_read_again(spark: SparkSession, folder: Folder) -> None:
    folder.add_history()
    run(folder.job(), spark, feed=[folder.add_live])
    after_live = output_rows(folder.out)
    (folder.checkpoints / "manifests" / "0000000001.json").unlink()
    recording = run(folder.job(), spark)
    assert [event.to for event in recording.went_back] == [0]
    assert [event.epoch for event in recording.committed] == [1]
    assert output_rows(folder.out) == after_live


def rows_of(pairs: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"k": key, "v": value, "at": "2001-01-01 00:00:00"} for key, value in pairs]


def test_the_state_of_many_epochs_is_merged_and_stays_right(spark: SparkSession, folder: Folder) -> None:
    """Keys come, change and go over 14 epochs; before the last four, the subtasks lose their local copies."""
    pairs = [[(f"k{(7 * epoch + i) % 11}", (epoch * i) % 5 - 2) for i in range(4)] for epoch in range(14)]

    def job() -> Job:
        streaming = {"sources": {"t": folder.source(max_files_per_epoch=1)}, "mode": "streaming", "parallelism": 1}
        steps = folder.settings(checkpoints_retained=3, **streaming).sql("SELECT k, v FROM t")
        steps = steps.key_by("k").aggregate(s="sum(v)").sql("SELECT * FROM previous WHERE s > 0")
        return steps.key_by("s").aggregate(ks="count(*)", last_k="max(k)").write(Sink.parquet(folder.out))

    for part in (range(10), range(10, 14)):
        for epoch in part:
            write_json(folder.inputs, f"{epoch:02}.json", rows_of(pairs[epoch]))
        run(job(), spark)
        shutil.rmtree(replicas())
    sums: dict[str, int] = {}
    for key, value in (pair for batch in pairs for pair in batch):
        sums[key] = sums.get(key, 0) + value
    groups: dict[int, list[str]] = {}
    for key, total in sums.items():
        groups.setdefault(total, []).append(key)
    positive = sorted((total, keys) for total, keys in groups.items() if total > 0)
    assert output_rows(folder.out) == [{"s": s, "ks": len(keys), "last_k": max(keys)} for s, keys in positive]
    retained = manifests(folder.checkpoints)
    assert [manifest.epoch for manifest in retained] == [11, 12, 13]
    assert all(len(operator.runs) < 10 for operator in retained[-1].operators), "runs are merged as they gather"
    named = {run.path for manifest in retained for operator in manifest.operators for run in operator.runs}
    assert runs_of(folder) == named, "merged runs go once no checkpoint names them"
