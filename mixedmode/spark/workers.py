"""Checks that the Python of Spark's tasks can run mixedmode's tasks.

A session that another program opened has the value of `PYSPARK_PYTHON` at that time. With another version of Python, or
without mixedmode's packages, each task would end with a stack trace of several hundred lines.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.installed import python_command

#: packages that tasks import
PACKAGES = ("mixedmode", "pyspark", "pyarrow", "numpy", "rocksdict", "msgspec")
_ANSWER_SECONDS = 60
_QUESTION = (
    "import importlib.metadata as m, json, sys\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except m.PackageNotFoundError: return None\n"
    "print(json.dumps([list(sys.version_info[:2]), {n: v(n) for n in sys.argv[1:]}]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter: its version, and {package: its version}, None if not installed."""

    version: tuple[int, ...]
    packages: Mapping[str, str | None]


def check_workers(session: SparkSession) -> None:
    """Raise InvalidJobError if an embedded session's tasks have an unsuitable Python. A cluster is not checked."""
    context = session.sparkContext
    if not str(context.master).startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    if python is not None and Path(python).absolute() == Path(python_command()).absolute():
        return
    found = None if python is None else _ask(python)
    problem = python_problem(_ask_ourselves(), found)
    if problem is not None:
        msg = (
            f"the tasks of this Spark session run with another Python than this program, and {problem}. Set "
            f"PYSPARK_PYTHON to {python_command()} before the session is opened, or let mixedmode open it. "
            f"python_of_tasks={context.pythonExec}"
        )
        raise InvalidJobError(msg)


def begin_workers(session: SparkSession) -> None:
    """Let an embedded Spark start its Python workers in a thread, while the caller analyses the job.

    They import Arrow and the tasks, for which the first epoch would wait otherwise. An error is an error of the epoch.
    """
    if str(session.sparkContext.master).startswith("local"):
        threading.Thread(target=_run_nothing, args=(session,), name="start of Python workers", daemon=True).start()


def _run_nothing(session: SparkSession) -> None:
    with suppress(Exception):
        session.range(0, 1, 1, 1).mapInArrow(_nothing, "id long").collect()


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def python_problem(ours: Interpreter, theirs: Interpreter | None) -> str | None:
    """Return why tasks cannot run with their Python; None if they can. Pure."""
    if theirs is None:
        return "it does not run"
    if theirs.version != ours.version:
        return f"Spark needs the same version for both: {_dotted(theirs.version)} there, {_dotted(ours.version)} here"
    missing = [name for name in ours.packages if theirs.packages.get(name) is None]
    if missing:
        return f"it lacks packages: {', '.join(missing)}"
    others = [
        f"{n} {theirs.packages[n]} there, {ours.packages[n]} here" for n in ours.packages if _differ(n, ours, theirs)
    ]
    return f"it has other versions of packages: {'; '.join(others)}" if others else None


def _differ(name: str, ours: Interpreter, theirs: Interpreter) -> bool:
    """Return whether versions differ in a package that must be equal on both sides: mixedmode and pyspark."""
    return name in {"mixedmode", "pyspark"} and ours.packages[name] != theirs.packages[name]


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _ask(python: str) -> Interpreter | None:
    command = [python, "-c", _QUESTION, *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_ANSWER_SECONDS, check=True)  # noqa: S603  Spark runs it too
        version, packages = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(tuple(version), packages)


def _ask_ourselves() -> Interpreter:
    return Interpreter(tuple(sys.version_info[:2]), {name: _version(name) for name in PACKAGES})


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
