"""Lines of CSV as texts, read without Spark."""

import gzip
from pathlib import Path

import pytest

from mixedmode.config.drift import Drift
from mixedmode.connectors.files.csv_values import CsvDialect, read_values
from mixedmode.errors import InvalidJobError


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
