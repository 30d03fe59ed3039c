"""Steps with map in jobs on Spark: list state over restarts at other parallelisms; refusals; failures."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.run import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.map.items import ItemCodec
from tests.driver.job_folder import JobFolder, record
from tests.faults.in_process import dies_at
from tests.harness import ManualClock, manifests, output_changes, run

pytestmark = pytest.mark.spark

HERE = "tests.driver.map_functions"
CHAIN = (1, 2, 4, 3, 1)
NUMBERED = "k string, v bigint, at timestamp, number bigint"


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


def packets(job: Job, **settings: Any) -> Job:
    return job.map(f"{HERE}:Packets", output="packet string, n bigint", name="packets", **settings)


def kept(folder: JobFolder, operator_id: str) -> list[list[Any]]:
    """Return the items that the subtasks of a step keep in the latest checkpoint."""
    states = {state.operator_id: state.lists for state in manifests(folder.checkpoints)[-1].list_states}
    return [ItemCodec(Any).unpack(items) for items in states[operator_id]]


def given_and_waiting(folder: JobFolder) -> list[str]:
    """Every record that went into the packets: those of packets that were given, and those that wait for one."""
    given = [name for row in output_changes(folder.out) for name in row["packet"].split()]
    return sorted(given + [name for items in kept(folder, "packets") for name in items])


def test_lists_survive_restarts_at_any_parallelism(spark: SparkSession, folder: JobFolder) -> None:
    """After each start, every record is in a packet or waits on one subtask (split), and has a number of its own that
    no other record has (union), of which each subtask keeps one item, however often the union was given out.
    """
    added = 0
    for parallelism in CHAIN:
        folder.add(*(record(f"r{added + number}") for number in range(11)))
        added += 11
        numbered = folder.job(parallelism=parallelism).map(f"{HERE}:Numbering", output=NUMBERED, name="numbered")
        job = packets(numbered.sql("SELECT concat(k, '#', number) AS k FROM numbered"))
        folder.run(job.sql("SELECT packet FROM packets"), spark)
        assert [len(kept(folder, step)) for step in ("numbered", "packets")] == [parallelism] * 2
        assert [len(items) for items in kept(folder, "numbered")] == [1] * parallelism
        names, numbers = zip(*(record.split("#") for record in given_and_waiting(folder)), strict=True)
        assert sorted(names) == sorted(f"r{number}" for number in range(added))
        assert len(set(numbers)) == added
    assert [state.redistribution for state in manifests(folder.checkpoints)[-1].list_states] == ["union", "split"]


def test_keys_and_windows_may_follow_and_the_event_time_goes_through(spark: SparkSession, folder: JobFolder) -> None:
    """The flip, a live epoch at another parallelism, and the end of the input, which leaves the lists as they are.

    Each subtask of an epoch runs once, although several actions go by what it gives.
    """
    opened = folder.base / "opened"
    opened.mkdir()
    folder.add(record("a", 1, hour=0.1), record("b", 2, hour=0.2), record("a", 3, hour=1.5))
    keyed = folder.job().map(f"{HERE}:Numbering", output=NUMBERED, args={"opened": str(opened)}).key_by("k")
    job = (
        keyed.window(tumbling="1h")
        .aggregate(n="count(*)", numbers="collect_set(number, 9)")
        .write(Sink.parquet(folder.out))
    )

    def more() -> None:
        ask_to_rescale(job.spec, 3)
        folder.add(record("b", 4, hour=1.6), record("c", 5, hour=2.5))

    recording = run(job, spark, until=Until.DRAINED, clock=ManualClock(), feed=[more])
    rows = [(row["k"], row["window_start"].hour, row["n"], row["_epoch"]) for row in output_changes(folder.out)]
    assert sorted(rows) == [("a", 0, 1, 0), ("a", 1, 1, 1), ("b", 0, 1, 0), ("b", 1, 1, 1), ("c", 2, 1, 2)]
    assert len({number for row in output_changes(folder.out) for number in row["numbers"]}) == 5
    assert [event.records for event in recording.committed] == [3, 2, 0]
    backlog, live, final = manifests(folder.checkpoints)
    assert (backlog.is_backlog, live.is_backlog, final.is_final) == (True, False, True)
    runs = sorted(path.name.rpartition("-")[0] for path in opened.iterdir())
    assert runs == ["0-0", "0-1", "1-0", "1-1", "1-2"], "each subtask of each epoch with input, once"
    assert final.list_states == live.list_states != backlog.list_states


def test_a_list_that_nobody_may_hand_on_keeps_the_job_at_its_parallelism(
    spark: SparkSession, folder: JobFolder
) -> None:
    def job(parallelism: int, own: int | None = None) -> Job:
        base = folder.job(parallelism=parallelism)
        return base.map(f"{HERE}:Fixed", output="k string, n bigint", parallelism=own)

    folder.add(record("a"), record("b"), record("c"))
    folder.run(job(2), spark)
    folder.add(record("d"))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(job(3), spark)
    assert str(caught.value) == (
        "step 'map-1' keeps a list per subtask, and its function does not say what becomes of the lists when their "
        "number changes, so some would be lost. Declare `redistribution` in the class: 'split' deals the items out, "
        "'union' gives all of them to each subtask. Or put the parallelism back. parallelism=3, parallelism_stored=2"
    )
    assert len(manifests(folder.checkpoints)) == 1
    folder.run(job(3, own=2), spark)
    assert sum(count for (count,) in kept(folder, "map-1")) == 4
    assert sorted(row["n"] for row in output_changes(folder.out)) in ([1, 1, 2, 2], [1, 1, 2, 3])


def test_an_epoch_that_is_not_committed_leaves_the_lists_as_they_were(spark: SparkSession, folder: JobFolder) -> None:
    """Once the function raises, once the driver is gone right before the commit, at another parallelism."""
    folder.add(record("a"), record("b"))
    folder.run(packets(folder.job()), spark)
    before = kept(folder, "packets")
    folder.add(record("c"), record("x"), record("d"))
    with pytest.raises(InvalidJobError) as caught:
        folder.run(packets(folder.job(), args={"fails_at": "x"}), spark)
    message = str(caught.value)
    assert message.startswith(
        "the map function raised ValueError: unlucky. Nothing of this epoch is committed. Correct the function and "
        'start again. operator=packets, method=map_record, record={"k": "x", "v": 0, "at": "2001-01-01 00:00:00+00:00"}'
    )
    assert "map_functions.py:" in message
    assert kept(folder, "packets") == before
    dies_at(packets(folder.job(parallelism=3)).write(Sink.parquet(folder.out)), spark, "before-manifest", 1)
    assert kept(folder, "packets") == before
    folder.run(packets(folder.job(parallelism=1)), spark)
    assert given_and_waiting(folder) == ["a", "b", "c", "d", "x"]


def test_several_functions_with_sql_between_them_in_batch(spark: SparkSession, folder: JobFolder) -> None:
    """Batch keeps nothing: the list begins empty, and what waits at the end is not given."""
    folder.add(*(record(name) for name in "abcdefg"))
    job = folder.job(mode="batch", checkpoint_dir=None, parallelism=1)
    upper = job.map(f"{HERE}:Upper", output="k string, v bigint, at timestamp", name="upper")
    chain = packets(upper.sql("SELECT concat(k, '!') AS k FROM upper"), args={"size": 2})
    folder.run(chain.sql("SELECT packet FROM previous"), spark)
    assert sorted(row["packet"] for row in output_changes(folder.out)) == ["A! B!", "C! D!", "E! F!"]
    assert not folder.checkpoints.exists()


def test_what_cannot_work_is_refused(spark: SparkSession, folder: JobFolder) -> None:
    folder.add(record("a"), record("b"), record("c"), record("d"))

    def refused(job: Job) -> str:
        with pytest.raises(InvalidJobError) as caught:
            folder.run(job, spark)
        return str(caught.value)

    job, out = folder.job(), "k string, n bigint"
    assert refused(job.map(f"{HERE}:Lonely", output=out)) == (
        "steps[0].map: the map function has a method snapshot and no method restore, so what one subtask keeps would "
        f"never come back. Write both, or neither. map={HERE}:Lonely"
    )
    assert refused(job.map(f"{HERE}:Missing", output=out)).startswith(
        "steps[0].map: the module has no map function of this name. "
    )
    assert refused(folder.job(backlog_parallelism=4).map(f"{HERE}:Fixed", output=out)) == (
        "steps[0].map: the function keeps a list per subtask, and does not say what becomes of the lists when their "
        "number changes, which it does in this job. Declare `redistribution` in the class as 'split' or 'union', or "
        f"let the step have one parallelism throughout. map={HERE}:Fixed, execution.backlog.parallelism=4, and 2 while "
        "live"
    )
    other = Source.json(folder.base / "other", schema="k string, v bigint, at timestamp", event_time="at")
    (folder.base / "other").mkdir()
    two = folder.job(sources={"t": folder.source(), "other": other}).sql(
        "SELECT * FROM t UNION ALL SELECT * FROM other"
    )
    mapped = two.map(f"{HERE}:Upper", output="k string, v bigint, at timestamp")
    assert refused(mapped.key_by("k").aggregate(n="count(*)")) == (
        "steps[1].map: a step with map takes one source where a keyed step follows, because its rows do not say "
        "which source they come from, and each source has a watermark of its own. Read one source, or leave the map "
        "step to a job of its own. sources=t, other"
    )
    spec = mapped.write(Sink.console()).spec
    assert analyse(spark, spec, mapped.where).plan.sources_read == ("t", "other"), "without a keyed step it may"
    lost = folder.job().map(f"{HERE}:Upper", output="k string, v bigint").key_by("k").window(tumbling="1h")
    message = refused(lost.aggregate(n="count(*)"))
    assert message.endswith(
        "has none. Set `event-time` on every source, and keep that column in the steps before this one. For windows of "
        "the time at which records are read, set `time: processing` in the window."
    )
    message = refused(job.map(f"{HERE}:WrongRow", output="k string, v bigint"))
    assert message.startswith(
        "what the map function emitted does not match the step's output: the field `v` is declared"
    )
    assert 'operator=map-1, method=map_record, record={"k": "b"' in message
    shutil.rmtree(folder.checkpoints)
    shutil.rmtree(folder.out)
    message = refused(job.map(f"{HERE}:Hoarder", output="packet string, n bigint", args={"size": 9}))
    assert message.startswith("the list state of a step is too large: it is written whole into the manifest of every")
    assert "use a keyed process function" in message
    assert not manifests(folder.checkpoints)


def test_a_step_with_a_list_is_part_of_the_job(spark: SparkSession, folder: JobFolder) -> None:
    """Removing it is refused; a function that keeps nothing may come and go."""
    folder.add(record("a"))
    folder.run(packets(folder.job()).sql("SELECT packet AS k FROM packets"), spark)
    identity = json.loads((folder.checkpoints / "job.json").read_text())["content"]
    assert identity["operators"] == {"packets": {"step": "map", "version": 1}}
    with pytest.raises(InvalidJobError, match="step 'packets' was removed"):
        folder.run(folder.job().sql("SELECT k FROM t"), spark)
    upper = folder.job().map(f"{HERE}:Upper", output="k string, v bigint, at timestamp")
    folder.run(packets(upper).sql("SELECT packet AS k FROM packets"), spark)
