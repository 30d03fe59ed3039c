"""The command line prints a text as it was given."""

import io

import pytest

from mixedmode.cli.consoles import RunConsole, TextConsole, error_console, output_console


@pytest.mark.parametrize("kind", [TextConsole, RunConsole])
def test_names_of_emoji_in_a_text_stay_as_they_are(kind: type[TextConsole]) -> None:
    out = io.StringIO()
    kind(file=out).print("data/:x:/orders")
    assert out.getvalue() == "data/:x:/orders\n"


def test_every_console_prints_text_as_it_is() -> None:
    assert isinstance(output_console(), TextConsole)
    assert isinstance(output_console(RunConsole), TextConsole)
    assert isinstance(error_console(), TextConsole)
