"""A join stays within the memory that the job gives a task, however many rows of one key are on one side."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators.join import memory_of_a_key

#: above the setting: what malloc keeps of freed arrays, the table that is processed and its columns, the run's index.
#: Measured with 400,000 rows: 10 to 18 MiB; if all rows of the key are in memory, 77 (as-of) to 168 (regular)
CONSTANT = 40 * 2**20


def peak_growth(join: str, side: int, rows: int, setting: int, folder: Path) -> int:
    """Return by how many bytes a process grows that joins so many rows of one key with a few of the other side."""
    arguments = [join, str(side), str(rows), str(setting), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", memory_of_a_key.__name__, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of one process from /proc")
@pytest.mark.parametrize(
    ("rows", "setting"),
    [
        pytest.param(400_000, 8 * 2**20, id="400,000"),
        pytest.param(10_000_000, 128 * 2**20, id="ten million", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(
    ("join", "side"),
    [
        ("as-of", 0),
        ("interval", 1),
        pytest.param("regular-live", 0, marks=pytest.mark.soak),
        ("regular", 0),
        pytest.param("regular", 1, marks=pytest.mark.soak),
        pytest.param("regular-live", 1, marks=pytest.mark.soak),
    ],
)
def test_a_key_with_many_rows_on_one_side_stays_within_the_memory(
    tmp_path: Path, join: str, side: int, rows: int, setting: int
) -> None:
    grown = peak_growth(join, side, rows, setting, tmp_path)
    print(f"{join}, {rows} rows on side {side}: {grown >> 20} MiB above the start, of {setting >> 20} MiB")  # noqa: T201 - a figure
    assert grown < setting + CONSTANT
