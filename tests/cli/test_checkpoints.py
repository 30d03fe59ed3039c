"""`mixedmode checkpoints` shows watermarks and the end of the input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.rescale import RescaleRequest, Subtasks
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, ListState, Manifest, OperatorState, RunFile, SourceProgress
from mixedmode.cli.checkpoints import checkpoint_report, operator_table, verification_report
from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.tasks.task_state import live_entries
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.checkpoint.examples import IDENTITY, a_manifest
from tests.checkpoint.folders import FakeJob, damage
from tests.cli.shell import with_zones
from tests.differential.test_time_in_chains import ON_SPARK, Step, by_key, earliest, play, tumbling
from tests.harness import manifests

SECOND_US = 1_000_000


def report(folder: Path, manifests: list[Manifest]) -> list[str]:
    log = CheckpointLog(ObjectStore(folder))
    log.create_identity(IDENTITY)
    for manifest in manifests:
        log.commit(manifest, CommitPermit(manifest.epoch, manifest.generation))
    console = Console(width=200)
    with console.capture() as capture:
        console.print(checkpoint_report(folder))
    return with_zones([line.rstrip() for line in capture.get().splitlines()])


@pytest.mark.parametrize(
    ("watermark_us", "shown"),
    [
        (None, "none"),
        (MIN_TIME_US, "none"),
        (-SECOND_US, "1969-12-31 23:59:59 UTC"),
        (951_782_400 * SECOND_US + 999_999, "2000-02-29 00:00:00 UTC"),
        (253_402_300_800 * SECOND_US, "10000-01-01 00:00:00 UTC"),
        (MAX_TIME_US, "end of input"),
    ],
)
def test_the_watermark_of_the_job_is_shown(tmp_path: Path, watermark_us: int | None, shown: str) -> None:
    (line,) = (x for x in report(tmp_path, [replace(a_manifest(), watermark_us=watermark_us)]) if "sorted" in x)
    assert f"  {shown}  " in line


def test_the_watermarks_of_steps_that_some_sources_reach_are_shown(tmp_path: Path) -> None:
    manifest = replace(a_manifest(), watermark_us=None, step_watermarks={"windows": 0})
    lines = report(tmp_path, [manifest])
    assert lines[lines.index(f"watermarks after epoch {manifest.epoch}") + 2 :] == [
        "windows     1970-01-01 00:00:00 UTC",
        "all others  none",
    ]


def test_the_sources_that_were_in_backlog_are_shown_where_others_were_not(tmp_path: Path) -> None:
    known = {"a": SourceProgress(1, None, None), "b+c": SourceProgress(1, None, None)}
    shown = {("a", "b", "c"): "yes", ("a", "c"): "yes: a, c", ("b",): "yes: b"}
    for number, (names, cell) in enumerate(shown.items()):
        manifest = replace(a_manifest(), is_backlog=True, sources=known, backlog_sources=names)
        (line,) = (x for x in report(tmp_path / str(number), [manifest]) if "sorted" in x)
        assert f"  {cell}  " in line


def test_a_job_whose_input_has_ended_is_said_to_have_ended(tmp_path: Path) -> None:
    assert report(tmp_path, [a_manifest()])[0] == "airport-delays: 1 checkpoint, max-parallelism 128"
    final = replace(a_manifest(1), is_final=True, offsets="", watermark_us=MAX_TIME_US)
    shown = report(tmp_path, [final])
    assert shown[0] == "airport-delays: 2 checkpoints, max-parallelism 128; its input has ended"
    (line,) = (x for x in shown if "streaming" in x)
    assert line.split()[9:12] == ["end", "of", "input"], "there are no offsets to show"


def test_the_lists_of_steps_without_a_key_are_shown(tmp_path: Path) -> None:
    lists = ListState("packets", "split", (("a" * 1024,), ())), ListState("fixed", None, (("b" * 4, "c" * 4),))
    shown = report(tmp_path, [replace(a_manifest(), list_states=lists)])
    at = shown.index("lists after epoch 0")
    assert [line.split() for line in shown[at + 1 : at + 4]] == [
        ["operator", "redistribution", "subtasks", "items", "bytes"],
        ["packets", "split", "2", "1", "1.0", "KiB"],
        ["fixed", "none", "1", "2", "8", "B"],
    ]
    assert "lists after epoch 0" not in report(tmp_path, [a_manifest(1)])


def test_the_subtasks_of_each_epoch_and_step_are_shown_and_what_was_asked_for(tmp_path: Path) -> None:
    manifest = replace(a_manifest(), parallelism=3)
    (step,) = manifest.operators
    steps = replace(step, parallelism=3), replace(step, operator_id="own", parallelism=5)
    shown = report(tmp_path, [replace(manifest, operators=steps)])
    (epoch,) = (line for line in shown if " sorted " in line)
    assert epoch.split()[:5] == ["0", "yes", "sorted", "3", "1,000"]
    assert [line.split()[:2] for line in shown if line.startswith(("step-1", "own"))] == [["step-1", "3"], ["own", "5"]]
    assert not [line for line in shown if "asked for" in line]
    asked = RescaleRequest(0, Subtasks(4, {"own": 2}), Subtasks(), is_automatic=True, reason="busy", created_ms=1_000)
    RescaleLog(ObjectStore(tmp_path)).add(lambda _newest: asked)
    assert report(tmp_path, [])[-1] == "subtasks asked for at 1970-01-01 00:00:01 UTC: 4, of step own 2: busy"


def test_verifying_tells_what_is_damaged_of_each_checkpoint(tmp_path: Path) -> None:
    job = FakeJob(tmp_path, 4)
    job.log.create_identity(IDENTITY)
    run, manifest = job.path("run", 3), job.path("manifest", 1)
    damage(run, "flipped")
    damage(manifest, "cut", where=100)
    lines = verification_report(tmp_path / "checkpoints").splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("damaged: checkpoint 3: a run of the state has changed, checksum=")
    assert lines[0].endswith(f", file={run}")
    assert lines[1].startswith("damaged: checkpoint 1: the manifest of a checkpoint cannot be used: it is cut short")
    assert lines[2] == "2 of 4 checkpoints are whole, as far as outputs are not concerned"


def a_run(start: int, end: int, **changes: Any) -> RunFile:
    return replace(RunFile(f"r{start}", 0, 10, 5, start, end, "0" * 16), **changes)


@pytest.mark.parametrize(
    ("runs", "is_said"),
    [
        ((a_run(0, 64), a_run(64, 128)), False),
        ((a_run(0, 64), a_run(0, 64, state_id=1)), False),
        ((a_run(0, 128), a_run(0, 64)), True),
        ((a_run(0, 64, deletions=1), a_run(64, 128)), True),
        ((a_run(0, 64, clipped_from=(0, 128)), a_run(64, 128)), True),
    ],
)
def test_entries_that_may_be_more_than_the_live_keys_are_told_as_that(runs: tuple[RunFile, ...], is_said: bool) -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(operator_table(replace(a_manifest(3), operators=(OperatorState("totals", {}, runs, 2),))))
    assert ("Entries are not live keys" in capture.get()) == is_said


@pytest.mark.parametrize(("chain", "live"), [([by_key()], 4), ([tumbling(10)], 0), ([earliest()], 4)])
def test_live_entries_are_counted_once_whatever_the_runs_hold(tmp_path: Path, chain: list[Step], live: int) -> None:
    """Four keys are aggregated; windows are over at the end of the input, and only their deletions are left."""
    play(replace(ON_SPARK, restores={0: 3, 1: 1}), "mixed", chain, tmp_path, None)
    newest = manifests(tmp_path / "checkpoints")[-1]
    store = ObjectStore(tmp_path / "checkpoints")
    (operator,) = newest.operators
    assert live_entries(store, operator, max_parallelism=newest.max_parallelism) == live
    assert sum(run.entries for run in operator.runs) > live, "a key counts in several runs"
    console = Console(width=200)
    with console.capture() as capture:
        console.print(checkpoint_report(tmp_path / "checkpoints", counts=True))
    heading, row = capture.get().splitlines()[-2:]
    assert dict(zip(heading.split(), row.split(), strict=False))["live"] == str(live)
    assert "Entries are not live keys" not in capture.get()


def shown(folder: Path, *, counts: bool = False) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(checkpoint_report(folder / "checkpoints", counts=counts))
    return capture.get()


def test_checkpoints_that_a_live_job_drops_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = FakeJob(tmp_path, epochs=3)
    job.log.create_identity(IDENTITY)
    listings = iter([(Epoch(0), Epoch(1)), (Epoch(1), Epoch(2))])
    for epoch in (0, 1):
        (tmp_path / "checkpoints" / paths.manifest_path(Epoch(epoch))).unlink()
    monkeypatch.setattr(CheckpointLog, "epochs", lambda _log: next(listings))
    told = shown(tmp_path)
    assert "1 checkpoint," in told
    assert "state after epoch 2" in told
    assert job.log.get(Epoch(2)) is not None


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_run_that_is_gone_while_it_is_counted_was_dropped_or_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    """The epoch is dropped while its entries are counted, after the next one was committed."""
    job, counted = FakeJob(tmp_path, epochs=1), list[int]()
    job.log.create_identity(IDENTITY)

    def count(store: ObjectStore, operator: OperatorState, *, max_parallelism: int) -> int:
        counted.append(len(operator.runs))
        if len(counted) > 1 and is_dropped:
            return 42
        job.run_epoch()
        if is_dropped:
            store.delete([paths.manifest_path(Epoch(0))])
        msg = f"a committed run is missing. max_parallelism={max_parallelism}"
        raise CorruptStateError(msg)

    monkeypatch.setattr("mixedmode.cli.checkpoints.live_entries", count)
    if not is_dropped:
        with pytest.raises(CorruptStateError, match="a committed run is missing"):
            shown(tmp_path, counts=True)
        return
    told = shown(tmp_path, counts=True)
    assert "state after epoch 1" in told
    assert " 42 " in told


def test_a_job_that_drops_checkpoints_faster_than_they_are_counted_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = FakeJob(tmp_path, epochs=1)
    job.log.create_identity(IDENTITY)

    def count(store: ObjectStore, _operator: OperatorState, *, max_parallelism: int) -> int:
        job.run_epoch()
        store.delete([paths.manifest_path(Epoch(job.newest - 1))])
        raise CorruptStateError(str(max_parallelism))

    monkeypatch.setattr("mixedmode.cli.checkpoints.live_entries", count)
    with pytest.raises(RetryableError, match=r"num-retained.* folder=.*checkpoints, attempts=5$"):
        shown(tmp_path, counts=True)


def test_a_checkpoint_that_a_live_job_drops_while_it_is_verified_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeJob(tmp_path, epochs=2)
    (tmp_path / "checkpoints" / paths.manifest_path(Epoch(0))).unlink()
    listings = iter([(Epoch(0), Epoch(1)), (Epoch(1),)])
    monkeypatch.setattr(CheckpointLog, "epochs", lambda _log: next(listings))
    told = verification_report(tmp_path / "checkpoints")
    assert told == "1 of 1 checkpoints are whole, as far as outputs are not concerned"
