"""Lines of CSV as texts, read without Spark."""

import errno
import gzip
import os
from pathlib import Path
from typing import NoReturn

import pytest

from mixedmode.config.drift import Drift
from mixedmode.connectors.files import csv_values
from mixedmode.connectors.files.csv_values import CsvDialect, read_values
from mixedmode.errors import InvalidJobError
from mixedmode.system_errors import system_error


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("before", [0, 1, 400_000])
def test_a_line_with_another_number_of_values_is_named_by_its_number_in_the_file(
    tmp_path: Path, name: str, before: int
) -> None:
    """The number counts blank lines, and lines of blocks before."""
    text = "\na,b\n\n" + "1,2\r\n\r\n" * before + "3,4,5\n6\n"
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(InvalidJobError) as error:
        list(read_values(str(tmp_path / name), CsvDialect(has_header=True), Drift(declared=("a", "b"))))
    assert f"{name}, line={4 + 2 * before}, record=3,4,5, values=3, names=2" in str(error.value)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_an_error_of_the_system_is_not_told_as_wrong_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """It was: the file was to be corrected or removed, although its disk did not give it."""

    def fail(*_arguments: object, **_named: object) -> NoReturn:
        raise OSError(number, os.strerror(number), name)

    monkeypatch.setattr(csv_values, "blocks_of_lines", fail)
    with pytest.raises(OSError, match=name) as error:
        list(read_values(str(tmp_path / name), CsvDialect(has_header=True), Drift(declared=("a", "b"))))
    assert system_error(error.value) is not None


def test_a_compressed_file_that_is_cut_off_is_told_as_wrong_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    with pytest.raises(InvalidJobError, match="a source file cannot be read as CSV"):
        list(read_values(str(tmp_path / "a.csv.gz"), CsvDialect(has_header=True), Drift(declared=("a", "b"))))
