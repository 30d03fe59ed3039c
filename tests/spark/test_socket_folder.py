"""The folder for sockets has a short name, whatever the temporary folder is called, and nobody else can enter it."""

import atexit
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mixedmode.checkpoint.private_folder import is_private, own_subfolder
from mixedmode.spark import socket_folder as module

SOCKET = "." + "x" * 36 + ".sock"  # as long as Spark's names
MACOS_BYTES_MAX = 103


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, Path], Path]]:
    """Make a folder for sockets, when the temporary folder is the first and the short one is the second."""
    made: list[Callable[[], None]] = []

    def make(temporary: Path, short: Path) -> Path:
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        monkeypatch.setattr(module, "_SHORT", short)
        monkeypatch.setattr(atexit, "register", made.append)
        return module.socket_folder.__wrapped__()

    yield make
    for close in made:
        close()


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="m") as name:
        yield Path(name)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / ("long" * 15)
    path.mkdir()
    return path


def test_it_is_in_the_temporary_folder_if_that_has_a_short_name(
    folder: Callable[[Path, Path], Path], short: Path, long: Path
) -> None:
    assert folder(short, long).is_relative_to(short)


def test_it_is_in_the_short_folder_if_not(folder: Callable[[Path, Path], Path], short: Path, long: Path) -> None:
    made = folder(long, short)
    assert made.is_relative_to(short)
    assert is_private(made)
    assert is_private(made.parent)
    assert len(str(made / SOCKET)) <= MACOS_BYTES_MAX


@pytest.mark.parametrize("why", ["missing", "writable by others", "long"])
def test_it_is_an_error_of_the_system_if_there_is_no_such_folder(
    folder: Callable[[Path, Path], Path], short: Path, long: Path, why: str
) -> None:
    match why:
        case "missing":
            second = short / "missing"
        case "writable by others":
            second = short
            own_subfolder(second).chmod(0o777)
        case _:
            second = long
    with pytest.raises(OSError, match="short enough"):
        folder(long, second)
