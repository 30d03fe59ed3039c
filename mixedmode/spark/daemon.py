"""Spark's daemon of Python workers. It imports all modules of tasks before it forks the first worker.

The driver starts a second process of this module early, which takes over when Spark starts its own (warm_daemon.py).

Spark ends a worker that was idle for a minute. A new worker would import Arrow, pandas and the tasks again, which takes
longer than a small epoch; a fork of this process has them already. Spark starts the daemon by its module's name
(`spark.python.daemon.module`), so mixedmode must be installed wherever tasks run, as the tasks themselves need it.
"""

import ctypes
import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from mixedmode.log import log_in_task
from mixedmode.spark.warm_daemon import WARM, Request, hand_over, take_over

_OF_TASKS = (
    "pandas",  # PySpark imports it before the first Arrow batch
    "pyarrow.parquet",
    "mixedmode.tasks.map_task",
    "mixedmode.tasks.rows",
    "mixedmode.tasks.single_stage",  # and with it the map side and the subtask
)
_KEPT_BYTES = 256 * 2**20
#: constants of <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PR_SET_THP_DISABLE = 41  # constant of <linux/prctl.h>; forked processes inherit the setting


def main() -> None:
    """Import the modules of tasks, configure logging, and fork workers as Spark requests them until Spark has ended."""
    sys.path[:] = without_archives(sys.path)
    request = Request.of_this_process(sys.path)
    if request.arguments[:1] != [WARM]:
        if not hand_over(request):
            import_all()
            manage()
        return
    _, listener, file = request.arguments
    import_all()
    if take_over(int(listener), Path(file), request):
        manage()


def import_all() -> None:
    """Import the modules of tasks, with what must be set before."""
    sort_without_avx512()
    keep_freed_memory()
    for name in ("pyspark.daemon", *_OF_TASKS):
        import_module(name)
    use_small_pages()


def manage() -> None:
    """Fork workers as Spark requests them."""
    log_in_task()
    leave_imports_to_no_collection()
    import_module("pyspark.daemon").manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """Return a module path without the archives of PySpark whose files are installed and on the path too.

    Spark puts pyspark.zip, Py4J's archive and one of its jars first. Python compiles what it imports from an archive at
    every start. Each new worker also reads the directory of the archive again for every package in it. The first epoch
    waits for both. The installed files hold the same code.
    """
    installed = [Path(folder) / "pyspark" for folder in path if _has_package(folder, "pyspark", "py4j")]
    folders = {str(package / folder) for package in installed for folder in ("python/lib", "jars")}
    return [entry for entry in path if not (entry.endswith((".zip", ".jar")) and str(Path(entry).parent) in folders)]


def _has_package(folder: str, *names: str) -> bool:
    return all((Path(folder) / name / "__init__.py").exists() for name in names)


def sort_without_avx512() -> None:
    """Keep numpy from sorting with AVX-512 on processors where it is slow, unless the user has set the variable.

    Call this before numpy is imported, because numpy decides at import. numpy sorts with AVX-512's compressing stores,
    which AMD's Zen 4 implements only in microcode; AVX2 is much faster there
    (https://github.com/numpy/x86-simd-sort/issues/6).
    """
    info = Path("/proc/cpuinfo")
    if info.exists() and compresses_slowly(info.read_text(encoding="utf-8", errors="replace")):
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")


def compresses_slowly(cpu_info: str) -> bool:
    """Return whether /proc/cpuinfo describes a Zen 4: a processor of AMD's family 25 with AVX-512."""
    first = cpu_info.split("\n\n", maxsplit=1)[0]
    values = dict(re.findall(r"^([^\t:]+)\t*: (.*)$", first, re.MULTILINE))
    is_zen_3_or_4 = (values.get("vendor_id"), values.get("cpu family")) == ("AuthenticAMD", "25")
    return is_zen_3_or_4 and "avx512f" in values.get("flags", "").split()


def leave_imports_to_no_collection() -> None:
    """Keep the objects of imported modules out of garbage collections, also in forked processes.

    PySpark collects all garbage after each task. The imported modules have more than 100,000 objects, so a collection
    took longer than a task of a small epoch. It also copied the pages that a worker shares with this process.
    """
    gc.collect()
    gc.freeze()


def use_small_pages() -> None:
    """Turn off transparent huge pages for this process and its forks; only Linux has them.

    Arrow and numpy request huge pages. A new worker touches its memory for the first time. If memory is fragmented, or
    a virtual machine gets it from its host only then, finding and clearing 2 MiB takes longer than huge pages save. A
    backlog of 10 M events took 2.8 s with them, 2.2 s without (docs/design/0014-where-the-time-goes.md).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def keep_freed_memory() -> None:
    """Let each forked process keep up to _KEPT_BYTES of freed memory; only glibc has this setting.

    By default, glibc maps an array of more than 32 MB separately, and returns it to the system when it is freed; so
    does Arrow's own allocator. A task has many such arrays one after the other, and the system would have to clear the
    pages of each. Call this before Arrow is imported, because Arrow chooses its allocator at import (unless the user
    has set the variable).
    """
    libc = ctypes.CDLL(None)
    if sys.platform == "linux" and hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


if __name__ == "__main__":
    main()
