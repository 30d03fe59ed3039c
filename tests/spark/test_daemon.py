"""The daemon of the Python workers decides on AVX-512, and on the files that PySpark comes from, for all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from mixedmode.spark.daemon import compresses_slowly, without_archives

CPU = """\
processor\t: {number}
vendor_id\t: {vendor}
cpu family\t: {family}
model name\t: any
flags\t\t: fpu avx2 {flags} sse
power management:
"""


def cpu_info(vendor: str, family: int, flags: str) -> str:
    return "\n".join(CPU.format(number=number, vendor=vendor, family=family, flags=flags) for number in range(2))


@pytest.mark.parametrize(
    ("info", "is_slow"),
    [
        (cpu_info("AuthenticAMD", 25, "avx512f avx512vl"), True),  # Zen 4
        (cpu_info("AuthenticAMD", 25, ""), False),  # Zen 3
        (cpu_info("AuthenticAMD", 26, "avx512f"), False),  # Zen 5
        (cpu_info("GenuineIntel", 25, "avx512f"), False),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", False),  # Arm
        ("", False),
    ],
    ids=["Zen 4", "Zen 3", "Zen 5", "Intel", "Arm", "nothing"],
)
def test_only_zen_4_is_known_to_sort_slowly_with_avx512(info: str, is_slow: bool) -> None:
    assert compresses_slowly(info) is is_slow


def test_a_worker_collects_only_what_came_after_the_imports() -> None:
    """In a process of its own, which keeps nothing of what it freezes."""
    program = (
        "import gc, pandas, mixedmode.spark.daemon as daemon\n"
        "before = len(gc.get_objects())\n"
        "daemon.leave_imports_to_no_collection()\n"
        "print(before > 50_000, len(gc.get_objects()) < 100)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"


@pytest.mark.parametrize("packages", [["pyspark", "py4j"], ["pyspark"], []])
def test_archives_leave_the_path_only_where_the_same_files_are_installed(tmp_path: Path, packages: list[str]) -> None:
    installed, lib = tmp_path / "site-packages", tmp_path / "site-packages" / "pyspark" / "python" / "lib"
    lib.mkdir(parents=True)
    for name in packages:
        (installed / name).mkdir(exist_ok=True)
        (installed / name / "__init__.py").touch()
    archives = [str(lib / "pyspark.zip"), str(lib / "py4j-src.zip"), str(installed / "pyspark/jars/spark-core.jar")]
    others = ["", str(tmp_path / "other" / "pyspark.zip"), str(installed), str(tmp_path / "of the user.zip")]
    left = others if len(packages) == 2 else [*archives, *others]
    assert without_archives([*archives, *others]) == left
