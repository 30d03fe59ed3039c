"""The output and exit code of a command that cannot go on: one message, no stack trace, and 2 or 1.

A run in this process has the context manager of the command line around it, which prints the message.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession

from mixedmode.cli.messages import errors_as_messages
from tests.faults.jobs import FaultJob
from tests.faults.processes import SECONDS_MAX, finished, running
from tests.harness import manifests, run, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder")


def change(job: FaultJob, old: str, new: str) -> None:
    text = job.file.read_text()
    assert old in text
    write_text(job.folder, job.file.name, text.replace(old, new))


def test_a_wrong_key_is_told_and_nothing_is_written(
    spark: SparkSession, job: FaultJob, capsys: pytest.CaptureFixture[str]
) -> None:
    change(job, "parallelism: 2", "paralelism: 2")
    code, errors = ended(spark, job, capsys)
    assert code == 2
    prefix = f"error InvalidJobError\n{job.file}:5: paralelism is not a known key. Did you mean parallelism? Known "
    assert errors.startswith(prefix), errors
    assert errors.count("\n") == 2, "one message"
    assert not job.checkpoints.exists()


def test_a_missing_job_file_is_told(tmp_path: Path) -> None:
    code, output, errors = finished("run", tmp_path / "nowhere.yaml")
    assert (code, output) == (2, "")
    assert errors == (
        f"error InvalidJobError\n{tmp_path / 'nowhere.yaml'}: there is no such file. Check the path. "
        f"directory={Path.cwd()}\n"
    )


def ended(spark: SparkSession, job: FaultJob, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return exit code and standard error of a run in this process that cannot go on."""
    with pytest.raises(typer.Exit) as ended, errors_as_messages():
        run(job.job, spark)
    return ended.value.exit_code, capsys.readouterr().err


def test_sql_that_spark_refuses_is_one_message_with_its_line(
    spark: SparkSession, job: FaultJob, capsys: pytest.CaptureFixture[str]
) -> None:
    change(job, "  - key-by: [shop]", "  - sql: SELECT shop, cost FROM sales\n  - key-by: [shop]")
    code, errors = ended(spark, job, capsys)
    assert code == 2
    lines = errors.splitlines()
    assert lines[0] == "error InvalidJobError"
    assert lines[1].startswith(
        f"{job.file}:12: steps[0].sql: Spark refuses this SQL. cause=A column, variable, or function parameter with "
        "name `cost` cannot be resolved. Did you mean one of the following? ["
    )
    assert lines[1].endswith("; line 1 pos 13")
    assert len(lines) == 2, "one message"


def test_a_malformed_record_is_one_message_and_nothing_is_committed(
    spark: SparkSession, job: FaultJob, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_text(job.folder / "in", "bad.json", '{"shop": "a", "item": 1, "price": 1}\n{"shop": \n')
    code, errors = ended(spark, job, capsys)
    assert code == 2
    assert errors == (
        "error InvalidJobError\na record of a source is not what its format and schema say, and nothing was committed. "
        "Correct the file, or correct `schema`. To go on without such lines of JSON or CSV, set `undecodable: "
        "dead-letter` on the source (a dimension has no such setting), which sends them to an output of their own. "
        "A line of JSON (with the option multiLine, a file) holds one object or one array of objects and nothing else. "
        f'file=file://{str(file).replace(" ", "%20")}, line=2, record={{"shop": \n'
    )
    assert not manifests(job.checkpoints)


def test_a_damaged_checkpoint_is_a_failed_run(
    spark: SparkSession, job: FaultJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.add("history", 100)
    run(job.job, spark)
    manifest = job.checkpoints / "manifests" / "0000000000.json"
    manifest.write_text(manifest.read_text()[:-20])
    code, errors = ended(spark, job, capsys)
    assert code == 1
    lines = errors.splitlines()
    assert lines[0] == "error CorruptStateError"
    assert str(manifest) in lines[1]
    assert len(lines) == 2, "one message"


def test_a_low_limit_of_open_files_is_one_message(job: FaultJob) -> None:
    run_limited = f"ulimit -n 128 && exec {shlex.quote(sys.executable)} -m mixedmode run {shlex.quote(str(job.file))}"
    ended = subprocess.run(["bash", "-c", run_limited], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr == (
        "error RetryableError\nthis process may not open more files. Raise the limit (`ulimit -n 4096`), then start "
        "again; a job resumes. open_files_max=128\n"
    )


def test_too_little_memory_for_spark_is_one_message(job: FaultJob) -> None:
    code, _, errors = finished("run", job.file, "--set", "spark.driver.memory=300m")
    assert code == 2
    kind, message = errors.splitlines()
    assert kind == "error InvalidJobError"
    assert message.startswith("Spark does not start with the settings of this job. Correct the one that the cause is ")
    assert "Insufficient driver memory: System memory " in message
    assert message.endswith(" must be at least 471859200."), "what Spark needs is told"


def test_a_run_that_is_refused_while_spark_starts_leaves_no_process_and_no_file(job: FaultJob, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running("run", job.file, "--cert", "of no server", environment={"TMPDIR": str(temporary)}) as driver:
        driver.process.wait(SECONDS_MAX)
        assert not [process for process in driver.session() if "java" in process.name()], "Spark's JVM has ended"
        code, _, errors = driver.wait()
    assert (code, errors.splitlines()[0]) == (2, "error InvalidJobError")
    assert [folder.name for folder in temporary.iterdir()] == [f"mixedmode-{os.getuid()}"], "PySpark's folder is gone"
