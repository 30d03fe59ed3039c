"""Spark's daemon of Python workers, with all that tasks import loaded before it forks the first of them.

Spark ends a worker that had nothing to do for a minute, and a new one would import Arrow, pandas and the tasks anew,
which takes longer than a small epoch. Forked from this process, it has them. Spark calls it by its module's name
(`spark.python.daemon.module`), so mixedmode has to be installed wherever tasks run, as it has to be for the tasks.
"""

import ctypes
import sys
from importlib import import_module

from pyspark import daemon

_OF_TASKS = (
    "pandas",  # PySpark imports it before the first Arrow batch
    "pyarrow.parquet",
    "mixedmode.runtime.map_task",
    "mixedmode.runtime.rows",
    "mixedmode.runtime.single_stage",  # and with it the map side and the subtask
)
_PR_SET_THP_DISABLE = 41  # of <linux/prctl.h>; processes forked from this one have it, too


def main() -> None:
    """Import, then fork workers as Spark asks for them, until Spark is gone."""
    for name in _OF_TASKS:
        import_module(name)
    use_small_pages()
    daemon.manager()


def use_small_pages() -> None:
    """No transparent huge pages for this process and those that it forks; only Linux has them.

    Arrow and numpy ask for them. A new worker touches its memory for the first time, and where that is fragmented, or
    a virtual machine is only given it then, 2 MiB at once take longer to find and clear than they save later: a
    backlog of 10 M events took 2.8 s with them, 2.2 s without (docs/design/0014-where-the-time-goes.md).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
