"""New processes are timed to the line that says that their result is there, and to their end."""

import sys
from pathlib import Path

import pytest

from mixedmode.errors import RetryableError
from mixedmode.log import LEVEL_VARIABLE
from mixedmode_bench.cold import Pair, Start, cold_table, cold_verdicts, timed

FIRST = Start(14.0, 15.0)


def test_a_process_is_timed_to_its_result_and_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "info")  # with it, `run` would print log lines and no results
    program = (
        f"import os; print('started', flush=True); print('flip' * ('{LEVEL_VARIABLE}' not in os.environ), flush=True)"
    )
    start = timed([sys.executable, "-c", program], tmp_path, {})
    assert 0 < start.result_s <= start.end_s


@pytest.mark.parametrize("program", ["print('started')", "import sys; print('flip'); sys.exit('no such file')"])
def test_a_process_without_a_result_ends_the_measurement(tmp_path: Path, program: str) -> None:
    with pytest.raises(RetryableError, match="a process that is measured has failed"):
        timed([sys.executable, "-c", program], tmp_path, {})


def test_ratios_are_those_of_a_round_to_what_counts() -> None:
    jobs, scripts = (Start(4.0, 6.0), Start(6.0, 8.0)), (Start(8.0, 10.0), Start(10.0, 20.0))
    pairs = [
        Pair("trivial", jobs, scripts, FIRST, 1.3, to_end=True),
        Pair("count-sum", jobs, scripts, FIRST, 0.5, to_end=False),
    ]
    assert [pair.ratios for pair in pairs] == [[0.6, 0.4], [0.5, 0.6]]
    assert cold_table(pairs).row_count == 6
    assert cold_verdicts(pairs) == [
        "trivial, to its end, times the script: 0.50 (0.40 .. 0.60), target at most 1.3: met",
        "count-sum, to its result, times the script: 0.55 (0.50 .. 0.60), target at most 0.5: missed",
    ]
