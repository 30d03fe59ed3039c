"""Times that Arrow can hold and Python's datetime cannot, wherever rows become Python values."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.cli.state import _flat
from mixedmode.cli.table import _shown as table_shown
from mixedmode.config.partitions import parse_partition
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.partitions import FolderRows
from mixedmode.sinks.printed import print_rows
from mixedmode.sinks.shown import shown_rows, shown_values

YEAR_10000_US = 253_402_300_800_000_000
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "instant": (pa.timestamp("us", "UTC"), YEAR_10000_US),
    "local": (pa.timestamp("us"), -2 * YEAR_10000_US),
    "date": (pa.date32(), 3_000_000),
}


def rows(name: str, *, nested: bool = False) -> pa.Table:
    kind, value = TYPES[name]
    column = pa.array([value, None, 0], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    if nested:
        column = pa.StructArray.from_arrays([column], names=["inner"])
    return pa.table({"at": column, EPOCH_COLUMN: pa.array([7, 7, 7])})


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_rows_are_shown_to_a_person(name: str, nested: bool, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(rows(name, nested=nested), 3, "")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    years = {"instant": "10000-01-01", "local": "-", "date": "10183-"}
    assert ("(a time beyond" if nested else years[name]) in printed[1]
    assert [row[EPOCH_COLUMN] for row in shown_rows(rows(name, nested=nested))] == [7, 7, 7]
    assert table_shown(rows(name, nested=nested), 3) is not None


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5), st.sampled_from([None, "UTC"]))
@example([-62_167_219_200_000_001], None)  # the last moment of the year -1
@example([1_714_521_600_000 * 1_000_000], "UTC")  # milliseconds that were read as seconds: the year 56301
def test_times_are_shown_with_their_own_year(times: list[int | None], zone: str | None) -> None:
    column = pa.array(times, pa.int64()).cast(pa.timestamp("us", zone))
    shown = shown_values(pa.chunked_array([column]))
    flat = _flat(pa.table({"at": column})).column("at").to_pylist()
    for time, *texts in zip(times, shown, flat, strict=True):
        if time is None:
            assert texts == [None, None]
        else:
            begins = str(np.datetime64(time // 1_000_000, "s")).replace("T", " ")
            begins = re.sub(r"^-(?=\d{3}-)", "-0", begins)  # NumPy counts the sign among the four characters of a year
            assert [str(text)[: len(begins)] for text in texts] == [begins, begins]


@pytest.mark.parametrize("name", TYPES)
def test_a_folder_is_not_named_by_such_a_time(name: str) -> None:
    folders = FolderRows([parse_partition("at")])
    with pytest.raises(InvalidJobError, match="a column in partition-by has a date or a time before the year 1"):
        list(folders.add(rows(name)))
