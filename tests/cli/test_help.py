"""The list of commands of `mixedmode --help`."""

import pytest

from tests.cli.shell import command, lines


def test_the_list_begins_with_running_a_job_and_cuts_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = lines(command("--help"))
    listed = [line.split(maxsplit=1) for line in shown[shown.index("Commands:") + 1 :]]
    assert [name for name, _ in listed[:3]] == ["run", "validate", "explain"]
    assert [text for _, text in listed if not text.endswith(".") or text.endswith("...")] == []
