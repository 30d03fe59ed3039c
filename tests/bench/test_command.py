"""`mixedmode bench` on the command line: usage, exit codes, the result, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.shell import command, lines

WORKLOAD = "tests.bench.toys:TINY"


def bench(tmp_path: Path, toy: str, *more: str) -> list[str | Path]:
    folders = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    return [
        "bench",
        WORKLOAD,
        "--modes",
        "none",
        "--peers",
        f"tests.bench.toys:{toy}",
        "--rounds",
        "1",
        *folders,
        *more,
    ]


def test_it_measures_says_so_and_writes_the_result(tmp_path: Path) -> None:
    shown = lines(command(*bench(tmp_path, "Plain")))
    assert shown[1] == "tiny: 100 events, 7 keys; counts and sums of a few rows"
    assert [line.split()[0] for line in shown[2:6]] == ["data", "started", "cold", "1"]
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["command"].startswith(f"mixedmode bench {WORKLOAD} --modes none --peers tests.bench.toys:Plain")
    assert (tmp_path / "out" / "index.html").exists()
    again = lines(command("bench", "--show", tmp_path / "out" / "result.json", "--out", tmp_path / "again"))
    assert [line for line in again if "every value" not in line] == [line for line in shown[6:] if "every" not in line]


@pytest.mark.parametrize(
    ("toy", "message"),
    [("Wrong", "a wrong answer: 1 row other than"), ("Dies", "ended in `run`, with exit code 3")],
)
def test_a_wrong_answer_and_a_worker_that_dies_are_exit_code_1(toy: str, message: str, tmp_path: Path) -> None:
    result = command(*bench(tmp_path, toy))
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count-sums"], "there is no workload of this name. Did you mean count-sum? "),
        (["--peers", "spark"], "there is no peer of this name. "),
        (["--modes", "none", "--peers", "none"], "there is nobody to measure. "),
        (["--show", "nothing.json"], "the result file cannot be read: No such file or directory. "),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = command("bench", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_list_names_workloads_and_contestants() -> None:
    shown = lines(command("bench", "--list"))
    first = [line.split()[0] for line in shown if line]
    assert first[:2] == ["workload", "count-sum"]
    assert first.index("scaling") < first.index("contestant") < first.index("mixed") < first.index("duckdb")


@pytest.mark.soak
def test_ctrl_c_ends_all_contestants_and_removes_what_they_wrote(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    words = [sys.executable, "-m", "mixedmode", *map(str, bench(tmp_path, "Hangs"))]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "started" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
        below = psutil.Process(process.pid).children(recursive=True)
        assert below
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate()
    assert (process.returncode, errors) == (130, "")
    assert "stopped: all contestants were ended" in said
    _, left = psutil.wait_procs(below, timeout=5)  # that of multiprocessing ends a moment after its parent
    assert not [child for child in left if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not list((tmp_path / "tmp").glob("mixedmode-bench-*"))
