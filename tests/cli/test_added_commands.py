"""Commands that other distributions add to the command line."""

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from mixedmode.cli import commands


def app_with(points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setattr(commands, "entry_points", lambda group: [p for p in points if p.group == group])
    app = typer.Typer()
    app.command("run")(lambda: None)
    commands.add_commands(app)
    return app


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, commands.GROUP)


def greeting() -> None:
    """Greet."""
    typer.echo("hello")


def test_a_command_of_another_distribution_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_with([point("greet", f"{__name__}:greeting")], monkeypatch)
    result = CliRunner().invoke(app, ["greet"])
    assert (result.exit_code, result.stdout) == (0, "hello\n")


@pytest.mark.parametrize("arguments", [["bench", "count-sum", "--rounds", "2"], ["services", "--folder", "x"]])
def test_without_their_distribution_commands_say_how_to_install_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CliRunner().invoke(app_with([], monkeypatch), arguments)
    assert result.exit_code == 2
    assert "mixedmode-bench, and it is not installed. Install it" in result.stderr


def test_a_command_that_cannot_be_loaded_breaks_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_with([point("bench", "no_such_module:bench")], monkeypatch)
    assert CliRunner().invoke(app, ["run"]).exit_code == 0
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 2
    assert "command=bench, entry_point=no_such_module:bench, cause=No module named" in result.stderr
