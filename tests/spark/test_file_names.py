"""Names of files are UTF-8 to Spark's JVM, whatever the locale is, and a process in which they are not is refused."""

import locale
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.spark import file_names
from mixedmode.spark.file_names import check_file_names, utf8_locale
from tests.harness import output_rows, write_json

JOB = """\
name: names
execution: {runtime-mode: mixed, checkpointing: {dir: ./checkpoints}}
sources: {s: {format: json, path: in, schema: "k string"}}
steps: [{key-by: k, aggregate: {n: count(*)}}]
sink: {format: parquet, path: ./out}
"""


@pytest.mark.parametrize(
    ("encoding", "expected"), [("UTF-8", "de_DE"), ("ANSI_X3.4-1968", "C.UTF-8"), ("?", "C.UTF-8")]
)
def test_only_a_locale_without_utf8_is_replaced_and_only_for_the_block(
    monkeypatch: pytest.MonkeyPatch, encoding: str, expected: str
) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    monkeypatch.setenv("LC_ALL", "de_DE")
    with utf8_locale():
        assert os.environ["LC_ALL"] == expected
    assert os.environ["LC_ALL"] == "de_DE"
    monkeypatch.delenv("LC_ALL")
    with utf8_locale():
        assert os.environ.get("LC_ALL", "de_DE") == expected
    assert "LC_ALL" not in os.environ


@pytest.mark.parametrize(
    ("python", "java", "told"),
    [("utf-8", "UTF-8", ""), ("utf-8", "ANSI_X3.4-1968", "Spark's JVM"), ("iso8859-1", "UTF-8", "Python")],
)
def test_a_process_with_another_encoding_is_refused(
    monkeypatch: pytest.MonkeyPatch, python: str, java: str, told: str
) -> None:
    system = SimpleNamespace(getProperty={"sun.jnu.encoding": java}.get)
    session: Any = SimpleNamespace(sparkContext=None)
    monkeypatch.setattr(file_names, "java_class", lambda _, name: {"java.lang.System": system}[name])
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: python)
    uncached = check_file_names.__wrapped__
    if not told:
        uncached(session)
        return
    with pytest.raises(InvalidJobError, match=rf"^names of files are not UTF-8 to {told}, .*LC_ALL=C\.UTF-8"):
        uncached(session)


@pytest.mark.spark
@pytest.mark.soak  # tests/faults/test_two_drivers.py has a run in the locale C
def test_in_the_locale_c_a_job_reads_files_with_any_names(tmp_path: Path) -> None:
    for name in ("a", "é", "日本"):
        write_json(tmp_path / "in", f"{name}.json", [{"k": "k"}])
    (tmp_path / "job.yaml").write_text(JOB)
    command = [sys.executable, "-m", "mixedmode", "run", "job.yaml", "--until-idle"]
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=240)
    assert [(row["k"], row["n"]) for row in output_rows(tmp_path / "out")] == [("k", 3)]
