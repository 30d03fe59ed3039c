"""Jobs in the background: start, status, stop, logs and list, with real processes that stand in for a run."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.pause import PauseRecord
from mixedmode.checkpoint.types import JobIdentity
from mixedmode.cli import processes
from mixedmode.cli.background import follow_log, last_lines
from mixedmode.cli.processes import JobProcess, ProcessPlace, began_of
from mixedmode.config import load_job
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.log import FORMAT_VARIABLE, LEVEL_VARIABLE
from tests.checkpoint.committed import Checkpoints
from tests.cli.shell import command, lines
from tests.cli.test_log_options import JOB
from tests.harness import checkpoint_log

#: ignores its arguments, but for printing them, and ends at SIGTERM
RUN = """#!/bin/sh
echo "runs $*"
echo "level ${MIXEDMODE_LOG_LEVEL:-not set}"
trap 'echo finishes; exit 0' TERM
echo ready >> {ready}
while :; do sleep 0.02; done
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in (FORMAT_VARIABLE, LEVEL_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("mixedmode.cli.doctor.require_environment", lambda _folders: None)
    (tmp_path / "in").mkdir()
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("runtime-mode: batch", f"runtime-mode: mixed, checkpointing: {{dir: {tmp_path}/ckpt}}"))
    os.mkfifo(tmp_path / "ready")
    stands_in(tmp_path, monkeypatch, RUN.replace("{ready}", str(tmp_path / "ready")))
    yield file
    with contextlib.suppress(InvalidJobError):
        found = place(file).read()
        if found is not None:
            found.send(signal.SIGKILL)


def stands_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a script be the program that `start` runs, and let no warning tell that it goes on."""
    program = folder / "program"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(subprocess.Popen, "__del__", lambda _self: None)


def place(file: Path) -> ProcessPlace:
    return ProcessPlace.of(load_job(file).spec)


def started(file: Path, *options: str) -> list[str]:
    """Start the job, and wait until its process is ready for signals."""
    found = lines(command("start", file, "--wait", "0", *options))
    assert (file.parent / "ready").read_text() == "ready\n"
    return found


def test_a_run_does_not_take_the_folder_of_a_job_in_the_background(job: Path) -> None:
    """It did: the job in the background stopped at its next commit, and a run until idle ended soon after."""
    started(job)
    found = place(job).read()
    assert found is not None
    result = command("run", job, "--until-idle")
    assert result.exit_code == InvalidJobError.exit_code
    assert "the job already runs in the background. Stop it first with `mixedmode stop`" in result.stderr
    assert f"process={found.pid}" in result.stderr
    assert found.is_running
    place(job).write(replace(found, pid=os.getpid(), began=str(began_of(os.getpid()))))
    place(job).check_free()  # the process that `start` has begun is the job itself
    place(job).write(found)


def test_a_job_is_started_seen_and_stopped(job: Path) -> None:
    (said,) = started(job, "--set", "parallelism=1", "--serve", "0")
    process = place(job).read()
    assert process is not None
    assert said == f"{process.job}: started, process {process.pid}. Its log: {job.parent}/ckpt/logs/run.log"
    assert os.getsid(process.pid) == process.pid, "it outlives the terminal"
    arguments = f"runs -m mixedmode run {job} --set parallelism=1 --serve 0 --log-format text"
    assert lines(command("logs", job)) == [arguments, "level not set"]
    found = lines(command("status", job))
    assert found[0].startswith(f"{process.job}: running, process {process.pid} since ")
    assert found[1] == "no checkpoint yet"
    assert [word in lines(command("list"))[1] for word in (process.job, "running", str(process.pid))] == [True] * 3
    again = command("start", job)
    assert (again.exit_code, "already runs in the background" in again.stderr) == (2, True)
    assert lines(command("stop", job)) == [f"{process.job}: stopped, process {process.pid}"]
    ended = command("status", job)
    assert (ended.exit_code, "not running" in ended.stdout) == (3, True)
    assert lines(command("logs", job, "-n", "1")) == ["finishes"]
    assert "stopped" in lines(command("list"))[1]
    assert lines(command("stop", job)) == [f"{process.job}: does not run in the background"]


def test_the_status_has_the_newest_checkpoint_and_a_pause(job: Path) -> None:
    name = load_job(job).spec.name
    Checkpoints(job.parent / "ckpt", JobIdentity(name, 128, {})).commit(0)
    PauseRecord(checkpoint_log(job.parent / "ckpt").store).create(0)
    started(job)
    found = lines(command("status", job))
    assert found[0].startswith(f"{name}: paused, process ")
    assert found[1].startswith("a pause was asked for at 1970-01-01 00:00:00 UTC")
    assert found[2].startswith("newest checkpoint: epoch 0, ")
    document = json.loads(command("status", job, "--json").stdout)
    assert (document["is_running"], document["is_paused"], document["newest_epoch"]) == (True, True, 0)
    (job.parent / "ckpt" / paths.manifest_path(0)).write_bytes(b"{")  # type: ignore[arg-type]
    assert "the manifest of a checkpoint cannot be used" in command("status", job).stdout


def test_stop_takes_a_savepoint_of_the_last_epoch(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken:
        epoch = 7

    taken: list[str] = []

    def take(_spec: object, to: str) -> type[Taken]:
        taken.append(to)
        return Taken

    monkeypatch.setattr("mixedmode.driver.savepoints.take_savepoint", take)
    started(job)
    assert lines(command("stop", job, "--savepoint", "/kept"))[1] == "savepoint of epoch 7: /kept"
    assert taken == ["/kept"]
    assert not place(job).read().is_running  # type: ignore[union-attr]


def test_a_job_is_not_stopped_for_a_savepoint_that_cannot_be_taken(job: Path) -> None:
    started(job)
    taken = job.parent / "taken"
    taken.mkdir()
    (taken / paths.SAVEPOINT).touch()
    for folder, reason in (
        (taken, "there is a savepoint in this folder already"),
        (job.parent / "ckpt", "or one in it or around it"),
    ):
        result = command("stop", job, "--savepoint", str(folder))
        assert (result.exit_code, reason in result.stderr) == (2, True), result.stderr
        assert place(job).read().is_running  # type: ignore[union-attr]


def test_a_job_that_does_not_end_in_time_is_not_killed(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"#!/bin/sh\ntrap '' TERM\necho ready >> {job.parent}/ready\nwhile :; do sleep 0.02; done\n"
    stands_in(job.parent, monkeypatch, script)
    started(job)
    result = command("stop", job, "--timeout", "0")
    assert (result.exit_code, "still processes its epoch" in result.stderr) == (1, True)
    assert place(job).read().is_running  # type: ignore[union-attr]


def test_a_job_that_ends_at_once_is_reported_with_the_end_of_its_log(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_in(job.parent, monkeypatch, "#!/bin/sh\necho before\necho 'the topic does not exist' >&2\nexit 1\n")
    for _ in range(2):
        result = command("start", job, "--wait", "10")
        assert result.exit_code == 1
        assert "the topic does not exist" in result.stderr
        assert result.stderr.count("before") == 1, "only of this start"
    assert lines(command("logs", job)) == ["before", "the topic does not exist"] * 2
    stands_in(job.parent, monkeypatch, "#!/bin/sh\necho done\n")
    assert lines(command("start", job, "--wait", "10"))[1:] == ["done"]


@pytest.mark.parametrize("options", [["--sevre", "80"], ["--log-level", "loud"], ["--until-idle=3"]])
def test_a_wrong_option_of_run_starts_nothing(job: Path, options: list[str]) -> None:
    assert command("start", job, *options).exit_code == 2
    assert place(job).read() is None


def test_a_batch_job_and_one_that_was_never_started_are_told(job: Path) -> None:
    assert lines_of_status(job)[0].endswith("was never started in the background")
    assert "never started with `mixedmode start`" in command("logs", job).stderr
    assert lines(command("list")) == ["no job was started in the background: mixedmode start JOB"]
    job.write_text(JOB)
    assert "only a job with a checkpoint folder" in command("start", job).stderr


def lines_of_status(job: Path) -> list[str]:
    result = command("status", job)
    assert result.exit_code == 3
    return result.stdout.splitlines()


def test_a_number_that_another_process_has_now_is_not_the_job(job: Path) -> None:
    started(job)
    found = place(job).read()
    assert found is not None
    other = replace(found, began=found.began + "0")
    assert not other.is_running
    assert not other.send(signal.SIGKILL)
    assert found.is_running, "it got no signal"
    place(job).write(other)
    assert lines(command("stop", job)) == [f"{found.job}: does not run in the background"]
    assert found.send(signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(found.pid, 0)
    assert (began_of(found.pid), found.send(signal.SIGTERM)) == (None, False)


def test_a_process_that_has_ended_and_is_not_collected_yet_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert began_of(child.pid) is None


def test_a_process_has_one_beginning_and_another_process_has_another() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert began_of(os.getpid()) == began_of(os.getpid()) != None  # noqa: E711
        assert began_of(child.pid) != began_of(os.getpid())
        if Path("/bin/ps").exists():
            assert processes._began_by_ps(child.pid)


def test_a_job_of_another_machine_is_left_alone(job: Path) -> None:
    began = began_of(os.getpid())
    assert began is not None
    (job.parent / "ckpt").mkdir()
    place(job).write(JobProcess("totals", os.getpid(), began, f"not-{socket.gethostname()}", 0))
    assert "was started on another machine" in lines_of_status(job)[0]
    assert "Stop it there" in command("stop", job).stderr


def test_of_two_starts_at_the_same_time_one_is_refused(job: Path) -> None:
    with (
        place(job).starting(),
        pytest.raises(RetryableError, match=r"another `mixedmode start` of this job is under way"),
        place(job).starting(),
    ):
        pass
    with place(job).starting():
        pass


def test_a_damaged_record_is_named_by_every_command(job: Path) -> None:
    """It may be that of a job that runs: it was taken for no record, so `start` began the job a second time."""
    started(job)
    found = place(job).read()
    assert found is not None
    record = job.parent / "ckpt" / "process.json"
    whole = record.read_bytes()
    other_types = b'{"job": 3, "pid": "x", "began": null, "host": 3, "started_ms": "z"}'
    other_number = whole.replace(b'"pid":', b'"pid":-')
    for damaged in (b"", b"{", b"[]", b"\xff", whole[:-9], other_types, other_number):
        record.write_bytes(damaged)
        for name in ("start", "status", "stop"):
            result = command(name, job)
            assert (result.exit_code, "nobody knows whether the job runs" in result.stderr) == (1, True), result.output
            assert result.stderr.rstrip().endswith(f"`mixedmode start` writes a new one. file={record}")
        row = lines(command("list"))[1].split()
        assert row[:3] == ["unknown", "record", "damaged"]
    record.unlink()
    found.send(signal.SIGKILL)
    assert "was never started" in lines_of_status(job)[0]
    assert lines(command("list")) == ["no job was started in the background: mixedmode start JOB"]


def test_a_damaged_entry_of_the_list_is_named(job: Path) -> None:
    started(job)
    (entry,) = (job.parent / "state" / "mixedmode" / "jobs").glob("*.json")
    whole = entry.read_bytes()
    for damaged in (b"", b"{", b"3", b"null", b"[]", b"[1, 2]", b'["a"]', b'{"a": 1}', b"\xff", b"[" * 100_000):
        entry.write_bytes(damaged)
        result = command("list")
        assert lines(result) == ["no job was started in the background: mixedmode start JOB"]
        assert "an entry of the list of jobs is damaged, so a job is missing from the list. Its" in result.stderr
        assert str(entry) in result.stderr
    entry.write_bytes(whole)
    assert "running" in lines(command("list"))[1]


def test_a_job_with_its_checkpoints_in_an_object_store_has_its_log_on_this_machine(job: Path) -> None:
    job.write_text(job.read_text().replace(f"{job.parent}/ckpt", "s3://bucket/ckpt"))
    found = place(job)
    assert found.log.is_relative_to(job.parent / "state" / "mixedmode")
    with pytest.raises(InvalidJobError, match="only a job with a checkpoint folder"):
        ProcessPlace.of(load_job(job, ["execution.runtime-mode=batch", "execution.checkpointing.dir=null"]).spec)


def test_a_job_whose_log_was_deleted_is_seen_and_stopped(job: Path) -> None:
    started(job)
    place(job).log.unlink()
    found = command("logs", job)
    assert (found.exit_code, "or its log was deleted. Only the next start makes a new one" in found.stderr) == (2, True)
    assert "running" in lines(command("status", job))[0]
    assert "stopped" in lines(command("stop", job))[0]


def test_a_log_is_followed_also_when_a_new_one_replaces_it(tmp_path: Path) -> None:
    log, said = tmp_path / "run.log", list[str]()
    steps = iter(
        [
            lambda: log.write_text("one\n"),
            lambda: log.write_text("one\ntwo\n"),
            lambda: (log.rename(tmp_path / "run.log.1"), log.write_text("three\nand a longer line\n")),
            threading.Event,
        ]
    )

    def goes_on() -> bool:
        step = next(steps, None)
        if step is not None:
            step()
        return step is not None

    follow_log(log, 0, said.append, goes_on=goes_on)
    assert "".join(said) == "one\ntwo\nthree\nand a longer line\n"
    assert last_lines(log, 1) == ["and a longer line"]
    assert last_lines(log, 0) == last_lines(tmp_path / "none", 3) == []


@pytest.mark.soak  # the other tests have a process that stands in for it
@pytest.mark.spark
def test_a_real_run_is_started_in_the_background_and_its_end_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sales.json").write_text('{"shop": "a", "price": 3}')
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("runtime-mode: batch", "runtime-mode: mixed, checkpointing: {dir: ./ckpt}"))
    found = lines(command("start", file, "--wait", "300", "--until-idle"))
    assert "started, and ended already" in found[0]
    assert any("epoch committed" in line for line in found)
    assert lines_of_status(file)[1].startswith("newest checkpoint: epoch 0, ")


@pytest.mark.parametrize("is_file", [True, False])
def test_a_start_that_cannot_be_listed_is_a_start_with_a_warning(
    job: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    state = job.parent / "state"
    if is_file:
        state.write_text("")
    else:
        (state / "mixedmode").mkdir(parents=True)
        (state / "mixedmode" / "jobs").symlink_to("elsewhere")
    result = command("start", job, "--wait", "0")
    (job.parent / "ready").read_text()
    assert (result.exit_code, "started, process" in result.stdout) == (0, True)
    assert "`mixedmode list` does not show it" in result.stderr
    assert f"state_folder={state}/mixedmode, cause=" in result.stderr
    assert lines(command("list")) == ["no job was started in the background: mixedmode start JOB"]
    assert "stopped, process" in lines(command("stop", job))[0]


def test_a_start_that_cannot_be_recorded_ends_its_process(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def fail(_place: ProcessPlace, process: JobProcess) -> None:
        begun.append(process.pid)
        msg = "the disk is full"
        raise RetryableError(msg)

    monkeypatch.setattr(ProcessPlace, "write", fail)
    result = command("start", job)
    assert (result.exit_code, "the disk is full" in result.stderr) == (1, True)
    assert began_of(begun[0]) is None


def test_only_a_start_makes_the_folder_of_states(job: Path) -> None:
    job.write_text(job.read_text().replace(f"{job.parent}/ckpt", "memory:///background"))
    place(job).read()
    command("list")
    assert not (job.parent / "state").exists()
    with place(job).starting():
        assert place(job).log.parent.is_dir()
    assert stat.S_IMODE((job.parent / "state" / "mixedmode").stat().st_mode) == 0o700
