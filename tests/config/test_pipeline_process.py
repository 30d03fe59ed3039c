"""The answer of the process that reads a project, without Spark. tests/driver/test_pipelines.py has the projects."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import load_job, pipeline_process
from mixedmode.errors import InternalError, RetryableError
from tests.harness import write_text


def test_a_process_without_an_answer_is_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_process, "_MODULE", "this")  # prints a poem
    file = write_text(tmp_path, "job.py", "")
    with pytest.raises(InternalError, match=r"job\.py: the process that reads the project has ended .* exit_code=0"):
        load_job(file)


def test_an_error_of_the_process_keeps_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"error": "RetryableError", "text": "Java does not start. Wait."}
    monkeypatch.setattr(pipeline_process, "ask", lambda *_: answer)
    with pytest.raises(RetryableError, match=r"^Java does not start. Wait.$"):
        load_job(write_text(tmp_path, "job.py", ""))


def test_settings_of_the_command_replace_those_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_text(tmp_path, "spark-pipeline.yml", "")
    values: dict[str, Any] = {
        "name": "shop",
        "execution": {"runtime-mode": "batch"},
        "parallelism": 2,
        "sources": {"t_records_1": {"format": "json", "path": "/in", "schema": "k STRING"}},
        "steps": [{"name": "t", "from": ["t_records_1"], "sql": "SELECT * FROM t_records_1"}],
        "outputs": {"t": {"from": "t", "format": "parquet", "path": "out"}},
    }
    marks = {"": ["spark-pipeline.yml", 1], "steps[0]": ["tables/t.py", 7], "steps[0].sql": ["tables/t.py", 7]}
    monkeypatch.setattr(pipeline_process, "ask", lambda *_: {"values": values, "marks": marks})
    loaded = load_job(file, ["parallelism=3"])
    assert loaded.spec.parallelism == 3
    assert loaded.spec.outputs["t"].place == f"parquet {tmp_path}/out"
    assert loaded.where("steps", 0, "sql") == "tables/t.py:7: query t"
    assert loaded.where("parallelism") == "--set parallelism: parallelism"
