"""Settings with values of the environment reach Spark's JVM, and its command line does not show them."""

import os
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkContext

from mixedmode.config import JobSpec
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import resolve
from mixedmode.spark import jvm
from mixedmode.spark.settings import own_settings, settings_of
from mixedmode.spark.shown_settings import as_properties, shown_settings
from tests.config.refusals import SMALLEST_JOB

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
SECRET = "s3cr3t of $a \\store:= #"


def properties(text: str) -> dict[str, str]:
    """Read a file as java.util.Properties does: https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html"""
    letters = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
    read = {}
    for line in text.split("\n")[:-1]:
        parts, characters = [""], iter(line)
        for one in characters:
            if one == "\\":
                following = next(characters)
                parts[-1] += letters.get(following, following)
            elif one == "=" and len(parts) == 1:
                parts.append("")
            else:
                parts[-1] += one
        read[parts[0]] = parts[1]
    return read


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))))
def test_properties_are_read_as_they_are_written(settings: dict[str, str]) -> None:
    assert properties(as_properties(settings)) == settings


def launched(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings on the command line of a JVM, and those that it reads from a file of its user."""
    seen: list[tuple[dict[str, str], dict[str, str]]] = []

    def launch(configuration: Any, _popen: object) -> None:
        arguments = shlex.split(os.environ.get(ARGUMENTS, ""))
        read: dict[str, str] = {}
        if "--properties-file" in arguments:
            file = Path(arguments[arguments.index("--properties-file") + 1])
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
            read = properties(file.read_text())
        seen.append((dict(configuration.getAll()), read))

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_jvm", None)  # a new process has none
    with Path(os.devnull).open("w+b") as output:
        jvm._gateway(settings, output)
    return seen[0]


@pytest.mark.parametrize("before", [None, "--verbose pyspark-shell"])
def test_no_command_line_shows_a_value_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str | None
) -> None:
    monkeypatch.setenv("STORE_KEY", SECRET)
    monkeypatch.delenv(ARGUMENTS, raising=False)
    if before is not None:
        monkeypatch.setenv(ARGUMENTS, before)
    spark = {"spark.master": "local[1]", "spark.hadoop.fs.s3a.secret.key": "${env:STORE_KEY}", "spark.x": "$x"}
    spec = JobSpec.model_validate({**SMALLEST_JOB, "spark": spark})
    assert own_settings(spec) == {**spark, "spark.hadoop.fs.s3a.secret.key": SECRET}
    settings = settings_of(spec, tmp_path)
    shown, read = launched(monkeypatch, settings)
    assert read == {"spark.hadoop.fs.s3a.secret.key": SECRET}
    assert {**shown, **read} == settings
    assert os.environ.get(ARGUMENTS) == before


@pytest.mark.parametrize(
    ("own", "begins"),
    [({}, "(?i)secret|"), ({"spark.redaction.regex": "zip.code"}, "zip.code|")],
    ids=["default", "own"],
)
def test_pages_of_spark_redact_what_comes_from_the_environment(
    own: dict[str, str], begins: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STORE_USER", "the-user")
    spark = {"spark.hadoop.store.user": "${env:STORE_USER}", **own}
    settings = settings_of(JobSpec.model_validate({**SMALLEST_JOB, "spark": spark}), tmp_path)
    assert settings["spark.redaction.regex"].startswith(begins)
    assert settings["spark.redaction.regex"].endswith(r"|spark\.hadoop\.store\.user")


def test_settings_without_a_secret_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve("")
    monkeypatch.delenv(ARGUMENTS, raising=False)
    with shown_settings({"spark.master": "local[1]"}) as shown:
        assert shown == {"spark.master": "local[1]"}
        assert ARGUMENTS not in os.environ


def test_a_variable_that_is_not_set_is_one_message(tmp_path: Path) -> None:
    spec = JobSpec.model_validate({**SMALLEST_JOB, "spark": {"spark.driver.memory": "${env:NOT_SET_ANYWHERE}"}})
    with pytest.raises(InvalidJobError, match=r"^spark: a setting needs a variable .* variable=NOT_SET_ANYWHERE$"):
        settings_of(spec, tmp_path)
