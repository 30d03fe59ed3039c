"""Peaks of processes from looks at them; and a real process, which is measured."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.measure import DRIVER, Gauge, Peaks, Seen, role_of

MIB = 2**20
ON_LINUX = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel keeps no peaks, or not in /proc")

looks = st.lists(st.dictionaries(st.integers(1, 4), st.integers(1, 100), max_size=4), min_size=2, max_size=8)


def seen(look: Mapping[int, int]) -> list[Seen]:
    return [Seen(pid, "JVM" if pid % 2 else "python", peak) for pid, peak in look.items()]


@given(looks)
def test_a_role_has_the_sum_of_the_peaks_of_those_that_stayed(all_looks: list[dict[int, int]]) -> None:
    peaks = Peaks(seen(all_looks[0]))
    for look in all_looks[1:-1]:
        peaks.look(seen(look))
    peaks.last(seen(all_looks[-1]))
    expected: dict[str, int] = {}
    for pid in range(1, 5):
        values = [look[pid] for look in all_looks if pid in look]
        if len(values) > 1 or pid in all_looks[0] or pid in all_looks[-1]:
            # of one that comes in between, the first look does not count
            counted = values if pid in all_looks[0] or len(values) == 1 else values[1:]
            role = "JVM" if pid % 2 else "python"
            expected[role] = expected.get(role, 0) + max(counted)
    assert peaks.by_role() == expected


def test_a_fork_that_becomes_another_program_does_not_count_as_its_parent() -> None:
    peaks = Peaks([Seen(1, "JVM", 900)])
    peaks.look([Seen(1, "JVM", 900), Seen(2, "JVM", 900)])
    peaks.look([Seen(1, "JVM", 950), Seen(2, "Python worker", 10)])
    peaks.look([Seen(1, "JVM", 900), Seen(2, "Python worker", 30)])
    peaks.last([Seen(1, "JVM", 900)])
    assert peaks.by_role() == {"JVM": 950, "Python worker": 30}


def test_roles() -> None:
    assert role_of("python3.11", is_root=True) == DRIVER
    assert [role_of(n, is_root=False) for n in ("java", "python3", "bash")] == ["JVM", "Python worker", "bash"]


PROGRAM = """
import sys
def use(mib):
    kept = bytearray(mib * 2**20)
    for page in range(0, len(kept), 4096): kept[page] = 1
use(300)
for line in sys.stdin:
    use(int(line))
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(2**20))
        file.flush()
    print("done", flush=True)
"""


@ON_LINUX
def test_a_peak_is_that_of_the_run_and_not_of_what_came_before(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "written")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def measured(mib: int) -> Gauge:
        with Gauge(process.pid, every_s=3600) as gauge:
            print(mib, file=process.stdin, flush=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
        return gauge

    with process:
        measured(200)
        small, large = measured(10), measured(150)
        process.stdin.close()
    assert 10 * MIB < small.peak_bytes[DRIVER] < 150 * MIB < large.peak_bytes[DRIVER] < 300 * MIB
    assert small.written_bytes is not None
    assert small.written_bytes % 512 == 0  # a file system in memory writes nothing


def test_a_process_that_is_gone_has_no_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with Gauge(process.pid) as gauge:
        pass
    assert gauge.peak_bytes == {}
    assert gauge.written_bytes is None
