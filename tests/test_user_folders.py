"""The folders of this user's files, also in a container that knows neither the user nor a home folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mixedmode.errors import RetryableError
from mixedmode.user_folders import cache_folder, state_folder

FOLDERS = [(cache_folder, "XDG_CACHE_HOME", ".cache"), (state_folder, "XDG_STATE_HOME", ".local/state")]


@pytest.mark.parametrize(("folder", "variable", "in_home"), FOLDERS)
def test_a_variable_goes_before_the_home_folder(
    folder: Callable[[], Path], variable: str, in_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIXEDMODE_CACHE", raising=False)
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/somebody")
    assert folder() == Path("/somebody", in_home, "mixedmode")
    monkeypatch.setenv(variable, "/elsewhere")
    assert folder() == Path("/elsewhere/mixedmode")


@pytest.mark.parametrize(("folder", "variable", "in_home"), FOLDERS)
def test_a_user_without_a_home_folder_is_told_what_to_set(
    folder: Callable[[], Path], variable: str, in_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIXEDMODE_CACHE", variable):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as without HOME, for an unknown user
    with pytest.raises(RetryableError) as caught:
        folder()
    assert str(caught.value) == (
        f"this user has no home folder, as HOME is not set and the system knows no user of this id. Set HOME or "
        f"{variable} to a folder that this user can write to, then start again. uid={os.getuid()}"
    )
    monkeypatch.setenv(variable, f"/{in_home}")
    assert folder() == Path("/", in_home, "mixedmode")
