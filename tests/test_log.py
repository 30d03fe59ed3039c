"""Log lines: one line per record, whatever it holds, and no secret; importing mixedmode configures nothing."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.log import (
    FIELDS,
    FORMAT_VARIABLE,
    LEVEL_VARIABLE,
    RUN,
    JsonLines,
    LogFormat,
    LogLevel,
    TextLines,
    lines_on_stderr,
    log_in_task,
    of_tasks,
)
from mixedmode.secrets import resolve

AT_SECONDS = 1_767_225_600.25  # 2026-01-01 00:00:00.250 UTC


def record(message: str, values: dict[str, Any], error: BaseException | None = None) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, None)
    made = logging.LogRecord(RUN, logging.INFO, "run.py", 1, message.replace("%", "%%"), (), trace)
    made.created = AT_SECONDS
    setattr(made, FIELDS, values)
    return made


def test_a_record_is_a_line_of_text() -> None:
    assert TextLines().format(record("epoch committed", {"epoch": 12, "late": 0})) == (
        "2026-01-01 00:00:00.250 UTC INFO  mixedmode.run: epoch committed, epoch=12, late=0"
    )


def test_a_record_is_an_object_of_json() -> None:
    assert json.loads(JsonLines().format(record("epoch committed", {"epoch": 12, "level": "of the sea"}))) == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "INFO",
        "logger": "mixedmode.run",
        "message": "epoch committed",
        "epoch": 12,
    }


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text())))
def test_a_record_is_one_line_whatever_it_holds(message: str, values: dict[str, Any]) -> None:
    made = record(message, values)
    for line in (TextLines().format(made), JsonLines().format(made)):
        assert len(line.splitlines()) == 1
    document = json.loads(JsonLines().format(made))
    assert document["message"] == made.getMessage()


def test_a_traceback_follows_the_line_of_text_and_is_in_the_line_of_json() -> None:
    made = record("failed", {}, ValueError("two\nlines"))
    assert TextLines().format(made).splitlines()[1:] == ["ValueError: two", "lines"]
    assert json.loads(JsonLines().format(made))["traceback"] == "ValueError: two\nlines"


def test_no_line_has_a_secret_wherever_the_record_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'a "quoted"\nsecret'
    monkeypatch.setenv("LOG_TEST_SECRET", secret)
    resolve("${env:LOG_TEST_SECRET}")
    made = record(f"at {secret}", {"url": f"x{secret}", "urls": [{"one": secret}]}, ValueError(secret))
    text, document = TextLines().format(made), json.loads(JsonLines().format(made))
    assert "quoted" not in text
    assert "quoted" not in str(document)
    assert text.count("${env:LOG_TEST_SECRET}") == 4
    assert document["message"] == "at ${env:LOG_TEST_SECRET}"


@contextmanager
def standard_error() -> Iterator[io.StringIO]:
    with redirect_stderr(io.StringIO()) as written:
        yield written


def test_lines_are_written_during_the_block_and_everything_is_as_before_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(FORMAT_VARIABLE, raising=False)
    tree, root = logging.getLogger("mixedmode"), logging.getLogger()
    before = (tree.level, list(root.handlers))
    environment = dict(os.environ)
    with standard_error() as written:
        with lines_on_stderr(LogFormat.JSON, LogLevel.INFO, leaves_out=("mixedmode.left_out",)):
            logging.getLogger("mixedmode.driver").info("yes")
            logging.getLogger("mixedmode.driver").debug("no")
            logging.getLogger("mixedmode.left_out").error("no")
            logging.getLogger("another.library").info("no")
            logging.getLogger("another.library").warning("yes")
            assert of_tasks() == {FORMAT_VARIABLE: "json", LEVEL_VARIABLE: "info"}
            assert dict(os.environ) == environment, "programs that this one starts would have its options"
        logging.getLogger("mixedmode.driver").error("no")
    found = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(one["logger"], one["message"]) for one in found] == [
        ("mixedmode.driver", "yes"),
        ("another.library", "yes"),
    ]
    assert (tree.level, list(root.handlers)) == before
    assert of_tasks()[FORMAT_VARIABLE] == "text"


def test_options_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "text")
    monkeypatch.setenv(LEVEL_VARIABLE, "error")
    with standard_error(), lines_on_stderr(LogFormat.JSON, LogLevel.DEBUG):
        assert of_tasks() == {FORMAT_VARIABLE: "json", LEVEL_VARIABLE: "debug"}
    assert of_tasks() == {FORMAT_VARIABLE: "text", LEVEL_VARIABLE: "error"}


def test_tasks_have_the_level_that_a_program_gives_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LEVEL_VARIABLE, raising=False)
    tree = logging.getLogger("mixedmode")
    before = tree.level
    try:
        for level, expected in ((logging.DEBUG, "debug"), (logging.ERROR, "error"), (logging.INFO + 1, "warning")):
            tree.setLevel(level)
            assert of_tasks()[LEVEL_VARIABLE] == expected
    finally:
        tree.setLevel(before)


@pytest.mark.parametrize(("level", "expected"), [("info", ["told", "warned"]), ("nonsense", ["warned"])])
def test_a_process_of_tasks_logs_as_its_environment_says(
    level: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    monkeypatch.setenv(LEVEL_VARIABLE, level)
    tree, root = logging.getLogger("mixedmode"), logging.getLogger()
    before, handlers = tree.level, list(root.handlers)
    try:
        with standard_error() as written:
            log_in_task()
            logging.getLogger("mixedmode.tasks").info("told")
            logging.getLogger("mixedmode.tasks").warning("warned")
    finally:
        tree.setLevel(before)
        root.handlers[:] = handlers
    assert [json.loads(line)["message"] for line in written.getvalue().splitlines()] == expected


def test_importing_mixedmode_installs_no_handler_and_its_warnings_are_not_printed() -> None:
    program = (
        "import logging, mixedmode, mixedmode.log\n"
        "assert not logging.getLogger().handlers\n"
        "assert [type(one) for one in logging.getLogger('mixedmode').handlers] == [logging.NullHandler]\n"
        "logging.getLogger('mixedmode.driver').error('nobody asked for it')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
