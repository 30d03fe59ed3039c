"""Entries that Spark would pass over or wait for are errors, when a source is opened and when they arrive later."""

import os
import socket
from pathlib import Path

import pytest

from mixedmode.connectors.files.odd_entries import check_entries, check_regular
from mixedmode.errors import InvalidJobError


def checked(path: Path, *, is_recursive: bool = False) -> str:
    """Return the error of a path; "" if there is none."""
    try:
        check_entries(str(path), where="sources.s", is_recursive=is_recursive)
    except InvalidJobError as error:
        return str(error)
    return ""


def test_usual_entries_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "ünï€.json").touch()
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "ünï€.json")
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "round").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "ünï€.json", tmp_path / "*.json", tmp_path / "nothing"):
        assert checked(path, is_recursive=True) == ""


@pytest.mark.parametrize("name", [b"a\xff.json", b"caf\xe9.json", b"\xe9/a.json"])
def test_a_name_that_is_not_utf8_is_an_error(tmp_path: Path, name: bytes) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    file.parent.mkdir(exist_ok=True)
    file.touch()
    for path in (tmp_path, tmp_path / "*"):
        told = checked(path, is_recursive=True)
        assert told.startswith("sources.s: the name of a file or folder is not UTF-8, so Spark would pass over it")
        assert f"name={os.fsencode(tmp_path)!r}"[:-1] in told


def test_a_pipe_and_a_socket_are_errors_where_spark_would_read_them(tmp_path: Path) -> None:
    nested = tmp_path / "nested"
    nested.mkdir()
    os.mkfifo(nested / "p.json")
    assert checked(tmp_path) == "", "Spark does not look into the folder"
    assert (
        "sources.s: an entry of an input folder is a pipe, a socket or a device, and reading it might never end. "
        in (checked(tmp_path, is_recursive=True))
    )
    assert checked(nested).endswith(f"path={nested / 'p.json'}")
    (nested / "p.json").rename(nested / "_p.json")
    assert checked(nested) == "", "Spark passes over hidden names"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(nested / "s"))
        assert checked(nested).endswith(f"path={nested / 's'}")


def test_a_pipe_that_arrives_later_is_an_error_before_its_epoch(tmp_path: Path) -> None:
    pipe, empty = tmp_path / "a pipe.json", tmp_path / "empty.json"
    os.mkfifo(pipe)
    empty.touch()
    check_regular(empty.as_uri(), 0)
    check_regular((tmp_path / "gone.json").as_uri(), 0)
    check_regular("s3a://bucket/a.json", 0)
    with pytest.raises(InvalidJobError, match="a pipe, a socket or a device"):
        check_regular(pipe.as_uri(), 0)
