"""Memory and written bytes of real processes, and the roles of processes."""

import subprocess
import sys
from pathlib import Path

from mixedmode_bench.measure import DRIVER, Gauge, role_of

MIB = 2**20

PROGRAM = """
import sys
def use(mib):
    kept = bytearray(mib * 2**20)
    for page in range(0, len(kept), 4096): kept[page] = 1
    print("used", flush=True)
    sys.stdin.readline()
for line in sys.stdin:
    use(int(line))
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(2**20))
        file.flush()
    print("done", flush=True)
"""


def test_roles() -> None:
    assert role_of("python3.11", is_root=True) == DRIVER
    assert [role_of(n, is_root=False) for n in ("java", "python3", "bash")] == ["JVM", "Python worker", "bash"]


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
            for said, heard in ((str(mib), "used\n"), ("", "done\n")):
                print(said, file=process.stdin, flush=True)
                assert process.stdout is not None
                assert process.stdout.readline() == heard
                gauge._look()
        return gauge

    with process:
        measured(300)
        small, large = measured(10), measured(150)
        process.stdin.close()
    assert 10 * MIB < small.peak_bytes[DRIVER] < 150 * MIB < large.peak_bytes[DRIVER] < 300 * MIB
    assert small.written_bytes is None or small.written_bytes % 512 == 0  # a file system in memory writes nothing


def test_a_process_that_is_gone_has_no_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with Gauge(process.pid) as gauge:
        pass
    assert gauge.peak_bytes == {}
    assert gauge.written_bytes is None
