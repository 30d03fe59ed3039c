"""A sort of ten times its budget: the memory of the worker process, and its speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Figure, Report
from bench.sort_worker import TIMES_BUDGET

MIB = 2**20
ALLOWANCE_MIB = 500  # above the budget, for the interpreter, its libraries and the sorter's constant
SECONDS_MAX = 600


def test_sort_memory(scratch: Path, pytestconfig: pytest.Config, report: Report) -> None:
    budget_mib: int = pytestconfig.getoption("sort_memory")
    command = [sys.executable, "-m", "bench.sort_worker", str(budget_mib * MIB), str(scratch / "sort")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX, cwd=pytestconfig.rootpath
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["spilled_runs"] >= TIMES_BUDGET, found
    section = f"A sort of {found['bytes_in'] / MIB:,.0f} MiB with a budget of {budget_mib:,} MiB"
    name = f"peak memory of the worker process; {found['spilled_runs']} runs spilled"
    report.add(
        Figure.median(section, name, "MiB", [found["peak_bytes"] / MIB], at_most=float(budget_mib + ALLOWANCE_MIB)),
        Figure.median(section, "making, spilling and merging the data", "s", [found["seconds"]]),
        Figure.median(section, "rows sorted a second", "/s", [found["rows"] / found["seconds"]]),
    )
