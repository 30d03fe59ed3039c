"""A verification replays exactly the input of a checkpoint, and says which keys differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode import Job, Sink, Source
from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.source_log import log_of
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.cli.verify import verification_text
from mixedmode.config.graph import MAIN
from mixedmode.config.load import job_spec_from_mapping, load_job
from mixedmode.driver.comparison import Difference, Differences
from mixedmode.driver.verification import Verified, input_files, linked_input, refusal, replay_spec, verify_job
from mixedmode.errors import CorruptStateError, InvalidJobError
from tests.checkpoint.examples import a_manifest
from tests.harness import SPARK, write_json


def a_job(folder: Path, **settings: Any) -> Job:
    source = Source.json(folder / "in", schema="origin string, n long, at timestamp", event_time="at")
    given = {"sources": {"t": source}, "checkpoint_dir": folder / "checkpoints", "mode": "mixed", "spark": SPARK}
    return (
        Job("verified", **{**given, **settings}).key_by("origin").aggregate(n="sum(n)").write(Sink.json(folder / "out"))
    )


def entry(number: int, *files: Path) -> bytes:
    lines = [json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": number}) for file in files]
    return "\n".join(["v1", *lines]).encode()


def test_the_input_of_a_checkpoint_is_what_the_log_names_up_to_it(tmp_path: Path) -> None:
    files = [tmp_path / f"a file {number}.json" for number in range(3)]
    for file in files:
        file.write_text("{}")
    log = CheckpointLog(ObjectStore(tmp_path / "checkpoints"))
    entries = [entry(number, file) for number, file in enumerate(files)]
    for number, data in enumerate(entries):
        log.store.put(paths.spark_source_path(0, number), data)
    manifest = a_manifest(1)
    object.__setattr__(manifest, "source_logs", (log_of(entries[:2], 0, 1),))
    assert input_files(log, manifest) == {0: (str(files[0]), str(files[1]))}, "the third file is of a later epoch"
    files[0].unlink()
    with pytest.raises(InvalidJobError, match="files of its input are gone"):
        input_files(log, manifest)
    log.store.put(paths.spark_source_path(0, 0), entry(0, files[2]))
    with pytest.raises(CorruptStateError, match="log of the source is damaged"):
        input_files(log, manifest)


def test_linked_files_keep_the_folders_of_partitions_and_other_files_get_own_names(tmp_path: Path) -> None:
    inside = tmp_path / "in" / "day=1" / "x.json"
    outside = [tmp_path / name / "x.json" for name in ("a", "b")]
    for file in (inside, *outside):
        file.parent.mkdir(parents=True)
        file.write_text(str(file))
    linked_input([str(inside)], str(tmp_path / "in"), tmp_path / "one")
    assert (tmp_path / "one" / "day=1" / "x.json").read_text() == str(inside)
    linked_input([str(file) for file in outside], str(tmp_path / "*" / "x.json"), tmp_path / "two")
    assert sorted(file.read_text() for file in (tmp_path / "two").iterdir()) == sorted(map(str, outside))


def test_a_replay_writes_only_below_its_own_folder(tmp_path: Path) -> None:
    """The job has each place of a side output that there is."""
    numbers = iter(range(100))

    def sink(**more: str) -> dict[str, str]:
        return {"format": "json", "path": str(tmp_path / f"real-{next(numbers)}"), **more}

    def late() -> dict[str, Any]:
        return {"late": {"left": sink(), "right": sink()}}

    def fallible() -> dict[str, Any]:
        return {"output": "x string", "on-error": "dead-letter", "dead-letter": sink()}

    def function(tag: str) -> dict[str, Any]:
        return {**fallible(), "outputs": {tag: sink(schema="k string")}}

    pair = {"left": "a", "right": "b", "on": ["a.k = b.k"]}
    of_class = {**pair, "class": "jobs:Function"}
    casts = {"broadcast": {"c": {"from": "a", "key": "k"}}}
    keyed = {"from": "a", "key-by": ["k"]}
    lines = {"format": "json", "path": str(tmp_path / "in"), "schema": "k string, at timestamp", "event-time": "at"}
    steps = [
        {"name": "a", "sql": "SELECT * FROM t"},
        {"name": "b", "from": "t", "sql": "SELECT * FROM t"},
        {"name": "n", **keyed, "window": {"tumbling": "1h"}, "late": sink(), "aggregate": {"c": "count(*)"}},
        {"name": "called", **keyed, "async-map": "jobs:Function", **fallible()},
        {"name": "timed", **keyed, "process": "jobs:Function", **function("t1")},
        {"name": "co", "co-process": {**of_class, **casts, **late(), **function("t2")}},
        {"name": "cg", "co-group": {**of_class, **late(), **fallible(), "window": {"tumbling": "1h"}}},
        {"name": "joined", "join": {**pair, **late(), "within": ["-1h", "1h"], "select": ["a.k"]}},
        {"name": "all", "from": ["n", "called", "timed", "co", "cg", "joined"], "sql": "SELECT * FROM called"},
    ]
    spec = job_spec_from_mapping(
        {
            "name": "j",
            "sources": {"t": {**lines, "undecodable": "dead-letter", "dead-letter": sink()}},
            "steps": steps,
            "sink": sink(),
            "execution": {"runtime-mode": "streaming", "checkpointing": {"dir": str(tmp_path / "checkpoints")}},
        }
    )
    replay = replay_spec(spec, tmp_path / "scratch")
    assert set(replay.sinks) == set(spec.sinks)
    assert len(spec.sinks) == next(numbers), "the job has all of these sinks"
    places = [sink.folder for sink in replay.sinks.values()]
    places += [
        replay.execution.checkpointing.dir,
        *(one.place.removeprefix("json ") for one in replay.sources.values()),
    ]
    assert all(place is not None and place.startswith(str(tmp_path / "scratch")) for place in places)
    assert replay.execution.runtime_mode == "mixed"


def test_a_job_whose_input_cannot_be_read_again_is_refused(tmp_path: Path) -> None:
    assert refusal(a_job(tmp_path).spec) is None
    table = Source.delta(tmp_path / "table")
    assert "cannot be read again" in (refusal(a_job(tmp_path, sources={"t": table}).spec) or "")
    assert "no output in a folder of files" in (refusal(a_job(tmp_path).write(Sink.console()).spec) or "")


def test_the_report_names_each_key_and_both_values() -> None:
    first = (
        Difference({"k": "a"}, "missing", {"k": "a", "n": 1}, None),
        Difference({"k": "b"}, "unexpected", None, {"k": "b", "n": 2}),
        Difference({"k": "c"}, "different", {"k": "c", "n": 3, "m": 0}, {"k": "c", "n": 4, "m": 0}),
    )
    counts = "1 missing, 1 unexpected, 5 different (epoch 7, 3 input files, 9 keys)"
    lines = verification_text(Verified(7, 3, {MAIN: Differences(9, 1, 1, 5, first)})).splitlines()
    assert lines[:5] == [
        f"the table differs from a replay of its input: {counts}",
        "  k=a: not in the table; the replay has n=1",
        "  k=b: only in the table: n=2",
        "  k=c: the table has n=4; the replay has n=3",
        "  and 4 more",
    ]
    agree = Differences(9, 0, 0, 0, ())
    assert verification_text(Verified(7, 3, {MAIN: agree})).startswith("the table agrees")
    several = Verified(7, 3, {"days": agree, "hours": agree}, {"alerts": "kafka alerts"})
    assert verification_text(several).splitlines() == [
        "days: the table agrees with a replay of its input: epoch 7, 3 input files, 9 keys",
        "hours: the table agrees with a replay of its input: epoch 7, 3 input files, 9 keys",
        "alerts: not compared, as it is no folder of files. output=kafka alerts",
    ]


@pytest.mark.spark
def test_a_changed_table_is_found_and_an_unchanged_one_agrees(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    (tmp_path / "in").mkdir()
    job = a_job(tmp_path)
    for number, rows in enumerate(([("A", 1), ("B", 2)], [("A", 3)])):
        given = [{"origin": origin, "n": n, "at": "2024-01-01 00:00:00"} for origin, n in rows]
        write_json(tmp_path / "in", f"{number}.json", given)
        job.run(until="idle")
    write_json(tmp_path / "in", "later.json", [{"origin": "A", "n": 100, "at": "2024-01-01 00:00:00"}])
    (tmp_path / "job.yaml").write_text(job.to_yaml())
    loaded = load_job(tmp_path / "job.yaml")
    agreed = verify_job(loaded)
    assert (agreed.epoch, agreed.files, agreed.are_equal) == (1, 2, True)
    (tmp_path / "in" / "later.json").unlink()
    job.run(until="drained")
    agreed = verify_job(loaded)
    assert (agreed.epoch, agreed.files, agreed.are_equal) == (2, 2, True), "the last epoch reads no files"
    for file in (tmp_path / "out").glob("part-*.json"):
        written: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(f"{json.dumps({**row, 'n': 5} if row['n'] == 4 else row)}\n" for row in written))
    (one,) = verify_job(loaded).differences[MAIN].first
    assert (one.key, one.expected, one.found) == ({"origin": "A"}, {"origin": "A", "n": 4}, {"origin": "A", "n": 5})
