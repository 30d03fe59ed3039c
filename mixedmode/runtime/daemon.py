"""Spark's daemon of Python workers, with all that tasks import loaded before it forks the first of them.

Spark ends a worker that had nothing to do for a minute, and a new one would import Arrow, pandas and the tasks anew,
which takes longer than a small epoch. Forked from this process, it has them. Spark calls it by its module's name
(`spark.python.daemon.module`), so mixedmode has to be installed wherever tasks run, as it has to be for the tasks.
"""

from importlib import import_module

from pyspark import daemon

_OF_TASKS = (
    "pandas",  # PySpark imports it before the first Arrow batch
    "pyarrow.parquet",
    "mixedmode.runtime.map_task",
    "mixedmode.runtime.rows",
    "mixedmode.runtime.single_stage",  # and with it the map side and the subtask
)


def main() -> None:
    """Import, then fork workers as Spark asks for them, until Spark is gone."""
    for name in _OF_TASKS:
        import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
