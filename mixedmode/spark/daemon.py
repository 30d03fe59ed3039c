"""Spark's daemon of Python workers, with all that tasks import loaded before it forks the first of them.

Spark ends a worker that had nothing to do for a minute, and a new one would import Arrow, pandas and the tasks anew,
which takes longer than a small epoch. Forked from this process, it has them. Spark calls it by its module's name
(`spark.python.daemon.module`), so mixedmode has to be installed wherever tasks run, as it has to be for the tasks.
"""

import ctypes
import os
import re
import sys
from importlib import import_module
from pathlib import Path

from pyspark import daemon

_OF_TASKS = (
    "pandas",  # PySpark imports it before the first Arrow batch
    "pyarrow.parquet",
    "mixedmode.tasks.map_task",
    "mixedmode.tasks.rows",
    "mixedmode.tasks.single_stage",  # and with it the map side and the subtask
)
_KEPT_BYTES = 256 * 2**20
#: of <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PR_SET_THP_DISABLE = 41  # of <linux/prctl.h>; processes forked from this one have it, too


def main() -> None:
    """Import, then fork workers as Spark asks for them, until Spark is gone."""
    sort_without_avx512()
    keep_freed_memory()
    for name in _OF_TASKS:
        import_module(name)
    use_small_pages()
    daemon.manager()


def sort_without_avx512() -> None:
    """Where it is slow, and unless the user says otherwise. To be called before numpy is imported, which then decides.

    numpy sorts with AVX-512's compressing stores, which AMD's Zen 4 has in microcode only: with AVX2 it is much faster
    (https://github.com/numpy/x86-simd-sort/issues/6).
    """
    info = Path("/proc/cpuinfo")
    if info.exists() and compresses_slowly(info.read_text(encoding="utf-8", errors="replace")):
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")


def compresses_slowly(cpu_info: str) -> bool:
    """Whether /proc/cpuinfo is that of a Zen 4: the processors of AMD's family 25 that have AVX-512."""
    first = cpu_info.split("\n\n", maxsplit=1)[0]
    values = dict(re.findall(r"^([^\t:]+)\t*: (.*)$", first, re.MULTILINE))
    is_zen_3_or_4 = (values.get("vendor_id"), values.get("cpu family")) == ("AuthenticAMD", "25")
    return is_zen_3_or_4 and "avx512f" in values.get("flags", "").split()


def use_small_pages() -> None:
    """No transparent huge pages for this process and those that it forks; only Linux has them.

    Arrow and numpy ask for them. A new worker touches its memory for the first time, and where that is fragmented, or
    a virtual machine is only given it then, 2 MiB at once take longer to find and clear than they save later: a
    backlog of 10 M events took 2.8 s with them, 2.2 s without (docs/design/0014-where-the-time-goes.md).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def keep_freed_memory() -> None:
    """Up to _KEPT_BYTES for each of the processes that are forked from this one; only glibc can be told so.

    It maps an array of more than 32 MB for itself, and gives it back when it is freed; so does the allocator that Arrow
    brings along. A task has one such array after the other, and each would be touched for the first time again. To be
    called before Arrow is imported, which decides then (unless the user says otherwise).
    """
    libc = ctypes.CDLL(None)
    if sys.platform == "linux" and hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


if __name__ == "__main__":
    main()
