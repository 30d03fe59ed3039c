"""`mixedmode reset`: the job file that it writes, and what it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from mixedmode.config import load_job
from mixedmode.errors import RetryableError
from tests.cli.shell import command, lines
from tests.cli.test_log_options import JOB


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    file = tmp_path / "totals.yaml"
    file.write_text(JOB.replace("runtime-mode: batch", "runtime-mode: mixed, checkpointing: {dir: ./ckpt}"))
    return file


def test_the_file_beside_the_job_is_the_job_with_a_new_folder_and_the_old_folder_stays(job: Path) -> None:
    (job.parent / "ckpt").mkdir()
    (job.parent / "ckpt" / "job.json").write_text("{}")
    text = job.read_text()
    printed = "\n".join(lines(command("reset", job, "--to", "earliest")))
    assert "mixedmode run" in printed
    written = load_job(job.with_name("totals_2.yaml")).spec
    assert written.execution.checkpointing.dir == str(job.parent / "ckpt_2")
    assert written.sources == load_job(job).spec.sources
    assert (job.read_text(), (job.parent / "ckpt" / "job.json").read_text()) == (text, "{}")


def test_the_next_free_suffix_is_chosen_and_a_taken_one_is_refused(job: Path) -> None:
    (job.parent / "ckpt_2").mkdir()
    (job.parent / "ckpt_2" / "job.json").write_text("{}")
    assert command("reset", job, "--to", "earliest").exit_code == 0
    assert [path.name for path in sorted(job.parent.glob("*.yaml"))] == ["totals.yaml", "totals_3.yaml"]
    result = command("reset", job, "--to", "earliest", "--suffix", "_3")
    assert result.exit_code == 2
    assert "there is such a job already" in result.output
    assert command("reset", job, "--to", "earliest", "--suffix", "-3").exit_code == 2


def test_the_file_beside_a_job_in_sql_is_a_job_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "totals.sql"
    file.write_text(
        "SET execution.checkpointing.dir = ckpt; CREATE TEMPORARY VIEW t (k STRING) USING json OPTIONS (path 'in');"
        "CREATE STREAMING TABLE totals TBLPROPERTIES (path 'out') AS SELECT k, count(*) AS n FROM STREAM t GROUP BY k"
    )
    assert lines(command("reset", file, "--to", "earliest"))[-1].endswith("totals_2.yaml")
    before, written = load_job(file).spec, load_job(tmp_path / "totals_2.yaml").spec
    assert (written.name, written.steps) == (before.name, before.steps)
    assert written.outputs["totals"].place != before.outputs["totals"].place


def test_a_point_that_a_source_cannot_start_from_writes_nothing(job: Path) -> None:
    result = command("reset", job, "--to", "latest")
    assert result.exit_code == 2
    assert "this source has no position in time" in result.output
    assert not job.with_name("totals_2.yaml").exists()


def test_resets_at_the_same_time_write_a_file_each(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one ended with a stack trace."""
    job.with_name("totals_2.yaml").write_text("of another reset")
    monkeypatch.setattr(Path, "exists", lambda _path: False)  # before the other one has written its file
    assert command("reset", job, "--to", "earliest").exit_code == 0
    assert job.with_name("totals_2.yaml").read_text() == "of another reset"
    assert load_job(job.with_name("totals_3.yaml")).spec.name == "totals"


def test_a_full_disk_leaves_no_part_of_a_job_file(job: Path) -> None:
    """A file that is cut off between two steps is a job file, too."""
    code = (
        "import resource, sys; from mixedmode.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, "reset", job, "--to", "earliest"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == RetryableError.exit_code
    assert "a file would be larger than this process, or the file system, allows" in done.stderr
    assert f"path={job.with_name('totals_2.yaml')}" in done.stderr
    assert [path.name for path in job.parent.glob("*.yaml")] == ["totals.yaml"]
