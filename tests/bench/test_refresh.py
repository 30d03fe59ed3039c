"""Results are measured again by the command that each of them names."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode_bench.refresh import RESULT, refresh
from tests.docs.results import FOLDER

EXAMPLE = json.loads((FOLDER / "flights.json").read_text())


def result(folder: Path, name: str, command: str) -> None:
    (folder / name).write_text(json.dumps({**EXAMPLE, "command": command}))


def command_of(file: Path) -> str:
    return str(json.loads(file.read_text())["command"])


def test_each_command_runs_again_and_a_file_is_replaced_when_its_run_is_whole(tmp_path: Path) -> None:
    result(tmp_path, "a.json", "mixedmode bench live --rounds 2")
    result(tmp_path, "b.json", "mixedmode bench wide 'x y'")
    result(tmp_path, "c.json", "mixedmode bench skewed")
    ran: list[list[str]] = []

    def run(words: Sequence[str]) -> int:
        ran.append(list(words[: words.index("--out")]))
        result(Path(words[words.index("--out") + 1]), RESULT, f"mixedmode bench of now, {len(ran)}")
        return 0 if len(ran) < 3 else 1

    said: list[str] = []
    with pytest.raises(RetryableError) as caught:
        refresh(tmp_path, tmp_path / "data", said.append, run)
    assert ran == [["live", "--rounds", "2"], ["wide", "x y"], ["skewed"]]
    assert [command_of(tmp_path / f"{name}.json")[-1] for name in "abc"] == ["1", "2", "d"]
    assert "file=" in str(caught.value)
    assert said[1] == "2 of 3: b.json: mixedmode bench wide 'x y'"


def test_a_folder_without_results_and_a_result_of_another_program_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="no result to measure again"):
        refresh(tmp_path, None, print)
    result(tmp_path, "a.json", "rm -r x")
    with pytest.raises(InvalidJobError, match="names no command of the benchmark"):
        refresh(tmp_path, None, print)
