"""A first line that names the columns of a CSV source is no record."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.connectors.files.source_checks import check_header
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Source


def check(folder: Path, first: bytes, **options: Any) -> None:
    (folder / "a.csv").write_bytes(first + b"\n1,2\n")
    source = Source.csv(folder, schema="user string, page string, at string", options=options)
    assert isinstance(source, FileSourceSpec)
    check_header(source, ["user", "page", "at"], where="sources.clicks")


@pytest.mark.parametrize(
    ("first", "options"),
    [
        (b"user,page,at", {}),
        (b"at,user", {}),
        (b"\xef\xbb\xbfUser,PAGE,at\r", {}),
        (b'"user", "page","at"', {}),
        (b"user|page|at", {"sep": "|"}),
        (b"user::page::at", {"delimiter": "::", "header": "false"}),
    ],
)
def test_names_of_columns_are_refused(tmp_path: Path, first: bytes, options: dict[str, str]) -> None:
    with pytest.raises(InvalidJobError) as refused:
        check(tmp_path, first, **options)
    begin = "sources.clicks: the first line of this file names columns, and would be read as a record. Set the option "
    assert str(refused.value).startswith(begin + "`header: true`; or remove the line. file=")


@pytest.mark.parametrize(
    ("first", "options"),
    [
        (b"user,page,at", {"header": "true"}),
        (b"ann,page,at", {}),
        (b"user", {}),  # a word that is a value
        (b"user,page,at", {"sep": "|"}),
        (b"", {}),
        (b"\xff\xfe\x00", {}),
        (b"user", {"sep": ""}),
    ],
)
def test_what_may_be_a_record_is_none_of_its_business(tmp_path: Path, first: bytes, options: dict[str, str]) -> None:
    check(tmp_path, first, **options)


def test_a_folder_without_files_and_a_file_that_is_gone_are_told_elsewhere(tmp_path: Path) -> None:
    source = Source.csv(tmp_path, schema="user string, page string")
    assert isinstance(source, FileSourceSpec)
    check_header(source, ["user", "page"], where="sources.clicks")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
    check_header(source, ["user", "page"], where="sources.clicks")
