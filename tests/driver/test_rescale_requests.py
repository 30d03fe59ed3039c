"""Asking a job to rescale: what is refused and why, and what is said of what is asked for. No Spark."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.rescale import NOTHING, Subtasks
from mixedmode.checkpoint.rescale_log import RescaleLog
from mixedmode.checkpoint.types import Generation, JobIdentity, ListState, Redistribution
from mixedmode.cli.app import app
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.rescaling import Rescaling
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.checkpoint.examples import a_manifest
from tests.harness import ManualClock, Recording, checkpoint_log

WHEN = "It counts from the next live epoch on, or from the next start of the job if it does not run."


def a_job(folder: Path, **settings: Any) -> Job:
    defaults: dict[str, Any] = {"mode": "mixed", "checkpoint_dir": folder, "max_parallelism": 13, "parallelism": 2}
    job = Job(**{"name": "j", "sources": {"s": Source.parquet("/s")}, **defaults, **settings})
    job = job.key_by("a").aggregate(n="count(*)")
    return job.key_by("n", name="by_n", parallelism=3).aggregate(m="count(*)").write(Sink.console())


def started(folder: Path, *, name: str = "j", max_parallelism: int = 13) -> Path:
    checkpoint_log(folder).create_identity(JobIdentity(name, max_parallelism, {}))
    return folder


def test_a_job_that_never_started_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        a_job(tmp_path).rescale(4)
    assert str(caught.value) == (
        "the job has never been started with this checkpoint folder, so there is nothing to rescale. Set `parallelism` "
        f"in the job file, or start the job first. folder={tmp_path}"
    )


def test_a_batch_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        a_job(started(tmp_path), mode="batch").rescale(4)
    assert str(caught.value) == (
        "a batch job cannot be rescaled while it runs: it is one epoch, and keeps nothing. Set `parallelism` in the "
        "job file. name=j"
    )


def test_a_job_of_sql_alone_is_refused(tmp_path: Path) -> None:
    job = Job("j", sources={"s": Source.parquet("/s")}, mode="mixed", checkpoint_dir=tmp_path, max_parallelism=13)
    started(tmp_path)
    with pytest.raises(InvalidJobError) as caught:
        job.sql("SELECT * FROM s").write(Sink.console()).rescale(4)
    assert str(caught.value) == (
        "the job has no step with subtasks, so there is nothing to rescale: Spark runs its sql. name=j"
    )


def test_a_sql_step_is_known_by_the_states_that_the_job_was_started_with(tmp_path: Path) -> None:
    job = Job("j", sources={"s": Source.parquet("/s")}, mode="mixed", checkpoint_dir=tmp_path, max_parallelism=13)
    job = job.sql("SELECT k FROM s JOIN names ON s.k = names.k", name="named")
    job = job.sql("SELECT k, count(*) AS n FROM named x JOIN named y USING (k) GROUP BY k").write(
        Sink.console(), key="k"
    )
    operators = {name: {"kind": "any"} for name in ("sql-2", "sql-2-input", "sql-20")}
    checkpoint_log(tmp_path).create_identity(JobIdentity("j", 13, operators))
    for step in ("sql-2", "sql-2-input"):
        assert ask_to_rescale(job.spec, 4, step=step).request.wanted.steps[step] == 4
    for step in ("named", "sql-20", "sql-2-inputs"):
        with pytest.raises(InvalidJobError, match=f"Steps: sql-2, sql-2-input. found={step}$"):
            job.rescale(4, step=step)


def test_another_job_in_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        a_job(started(tmp_path, name="other")).rescale(4)
    assert str(caught.value) == (
        "the checkpoint folder is that of another job. Name the job file that it was started with. name=j, "
        f"stored=other, folder={tmp_path}"
    )


def test_another_max_parallelism_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        a_job(started(tmp_path, max_parallelism=128)).rescale(4)
    assert str(caught.value) == (
        "pipeline.max-parallelism is not the one that the job was started with, and fixes the key group of every key "
        "for the life of its state. Put it back. found=13, stored=128"
    )


@pytest.mark.parametrize(
    ("parallelism", "why"),
    [(14, "more subtasks than key groups: some would never receive data"), (0, "no subtask at all")],
)
def test_more_subtasks_than_key_groups_and_none_are_refused(tmp_path: Path, parallelism: int, why: str) -> None:
    for step in (None, "by_n"):
        with pytest.raises(InvalidJobError) as caught:
            a_job(started(tmp_path)).rescale(parallelism, step=step)
        assert str(caught.value) == (
            f"the job cannot be rescaled to {why}. Ask for 1 to 13, its max-parallelism, which is fixed for the life "
            f"of its state. found={parallelism}"
        )
    a_job(tmp_path).rescale(13)


def test_a_step_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        a_job(started(tmp_path)).rescale(4, step="by-n")
    assert str(caught.value) == (
        "there is no step of this name that has subtasks. Did you mean by_n? Steps: aggregate-1, by_n. found=by-n"
    )


@pytest.mark.parametrize("redistribution", ["split", None])
def test_a_step_whose_lists_would_be_lost_is_refused(tmp_path: Path, redistribution: Redistribution) -> None:
    lists = ListState("aggregate-1", redistribution, (("a",), ("b",)))
    manifest = replace(a_manifest(), job="j", max_parallelism=13, list_states=(lists,))
    checkpoint_log(started(tmp_path)).commit(manifest, CommitPermit(manifest.epoch, Generation(1)))
    job = a_job(tmp_path)
    job.rescale(4, step="by_n")
    if redistribution is not None:
        job.rescale(4)
        return
    with pytest.raises(InvalidJobError) as caught:
        job.rescale(4)
    assert str(caught.value) == (
        "step 'aggregate-1' keeps a list per subtask, and its function does not say what becomes of the lists when "
        "their number changes, so some would be lost. Rescale the other steps by name, with --step, or first ask for 2 "
        "subtasks of this one by name. found=4"
    )
    job.rescale(2, step="aggregate-1")
    job.rescale(4)


def test_what_is_asked_for_is_stored_with_what_the_job_file_says_and_told(tmp_path: Path) -> None:
    job, log = a_job(started(tmp_path)), RescaleLog(checkpoint_log(tmp_path).store)
    told = str(ask_to_rescale(job.spec, 4, clock=ManualClock(5_000)))
    assert told == f"subtasks asked for: 4\nsteps with a number of their own keep it: by_n 3\n{WHEN}"
    request = log.newest()
    assert request is not None
    assert (request.wanted, request.configured) == (Subtasks(4), Subtasks(2, {"by_n": 3}))
    assert (request.is_automatic, request.reason, request.created_ms) == (False, "", 5_000)
    told = str(ask_to_rescale(job.spec, 1, step="by_n"))
    assert told == f"subtasks asked for: 4, of step by_n 1\n{WHEN}"
    told = str(ask_to_rescale(job.spec, None))
    assert told == f"withdrawn: the job has the parallelism that the job file says\n{WHEN}"
    request = log.newest()
    assert request is not None
    assert (request.number, request.wanted) == (3, NOTHING)


def test_the_command_asks_and_its_mistakes_are_told(tmp_path: Path) -> None:
    job = a_job(started(tmp_path / "checkpoints"))
    file = tmp_path / "job.yaml"
    file.write_text(job.to_yaml(), encoding="utf-8")

    def command(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["rescale", str(file), *arguments])
        return result.exit_code, result.output

    assert command("4") == (0, f"subtasks asked for: 4\nsteps with a number of their own keep it: by_n 3\n{WHEN}\n")
    assert command("2", "--step", "by_n")[1].startswith("subtasks asked for: 4, of step by_n 2\n")
    assert command("--reset")[1].startswith("withdrawn: ")
    code, output = command("14")
    assert code == 2
    assert "more subtasks than key groups" in output
    for wrong in ((), ("4", "--reset"), ("--reset", "--step", "by_n")):
        code, output = command(*wrong)
        assert code == 2
        assert "give either a number of subtasks, with --step if you like, or --reset alone" in " ".join(
            output.replace("│", " ").split()
        )


def test_a_request_that_could_not_be_read_is_read_before_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Recording()
    rescaling = Rescaling(a_job(started(tmp_path)).spec, checkpoint_log(tmp_path), told)
    ask_to_rescale(a_job(tmp_path).spec, 4)

    def subtasks() -> int | None:
        return rescaling.subtasks(is_initial_backlog=False).job

    def fail(*_: object) -> None:
        msg = "the store does not answer"
        raise RetryableError(msg)

    for method in ("get", "numbers"):
        with monkeypatch.context() as patched:
            patched.setattr(RescaleLog, method, fail)
            assert [subtasks(), subtasks()] == [2, 2]
    assert subtasks() == 4
    unread = "requests to rescale cannot be read, so the parallelism stays. They are read again before the next epoch."
    assert told.ignored == [f"{unread} the store does not answer"], "once for each error"
