"""Apache Flink, in batch mode and as a stream with RocksDB: Java programs on a cluster of one JVM that stays warm.

Flink's Python package brings all of its Java libraries, so a JDK and that package are enough. The
programs in `flink_programs/` are compiled against them at the start; then one JVM with a local cluster takes runs from
its standard input. Python moves no record.

What is in Flink's favour: the input is flat binary files instead of Parquet (flink_files.py), it takes
no checkpoints, and the state that it ends with is thrown away.

Its settings: as many slots as cores; objects are reused; a heap of 4 GB from the start, as Flink's scripts have it, and
besides it 2 GB of managed memory for RocksDB and for sorting, and 256 MB for the network between tasks.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import ClassVar

import pyarrow as pa

from mixedmode.errors import InternalError, RetryableError
from mixedmode_bench.contestant import Outcome, Task
from mixedmode_bench.duckdb_peer import columns_of_answer
from mixedmode_bench.flink_files import LAYOUTS, Layout, rows_written, write_records
from mixedmode_bench.workload import Workload

PROGRAMS = Path(__file__).parent / "flink_programs"
PACKAGE = "pyflink"  # as the package apache-flink-libraries is imported
CLOSE_S = 20  # more than it takes to end the cluster
LOG_LINES = 15  # of the JVM's, in a message

JVM_OPTIONS = ("-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "--add-opens=java.base/java.util=ALL-UNNAMED")
COMMON = {
    "taskmanager.memory.managed.size": "2g",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "pipeline.object-reuse": "true",
    "rest.port": "0",
}
STREAMING = {"execution.runtime-mode": "STREAMING", "state.backend.type": "rocksdb"}
BATCH = {
    "execution.runtime-mode": "BATCH",
    "execution.sorted-inputs.memory": "512m",  # of the managed memory; the default of 128m spills more often
    "execution.batch.adaptive.auto-parallelism.enabled": "false",  # else it decides for fewer tasks than cores
}
LOGGING = """\
rootLogger.level = ERROR
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = Console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c: %m%n%ex
"""


class _Flink:
    """The common part of both modes. One instance is one JVM."""

    events_max: ClassVar[Mapping[str, int]] = {}
    settings: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> str | None:
        """The package, or the compiler of a JDK."""
        if _libraries() is None:
            return "Flink's Java libraries, 350 MB: pip install apache-flink-libraries, or make bench-flink"
        if _tool("javac") is None:
            return "javac: install a JDK, 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)"
        return None

    def takes(self, workload: Workload) -> bool:
        """Return whether the workload has a program and no feed follows: each run ends with its input."""
        return workload.flink in LAYOUTS and workload.feed is None

    def start(self, scratch: Path, cores: int) -> None:
        """Compile the programs, and start the JVM with its cluster."""
        folder = self._folder = scratch / "flink"
        classes, temporary = folder / "classes", folder / "tmp"
        temporary.mkdir(parents=True)
        libraries = f"{_libraries()}/*"
        _compile(libraries, classes)
        logging = folder / "log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        settings = {**COMMON, **self.settings, "io.tmp.dirs": str(temporary)}
        self._log = folder / "jvm.log"
        options = (*JVM_OPTIONS, f"-Dlog4j2.configurationFile={logging}", f"-Djava.io.tmpdir={temporary}")
        command = [str(_tool("java")), *options, "-cp", f"{classes}:{libraries}", "Server", str(cores)]
        with self._log.open("wb") as log:
            self._jvm = subprocess.Popen(
                [*command, *(f"{name}={value}" for name, value in settings.items())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._hear("ready")

    def prepare(self, task: Task) -> None:
        """The columns that the program reads, as flat binary files."""
        layout = _layout(task)
        for table in (path for path in task.data.iterdir() if path.is_dir()):
            write_records(table, self._input(task) / layout.folder(table.name), layout)

    def run(self, task: Task) -> Outcome:
        """From the records to the files of the changelog."""
        assert self._jvm.stdin is not None
        started = perf_counter()
        print(_layout(task).program, self._input(task), task.work, sep="\t", file=self._jvm.stdin, flush=True)
        self._hear("done")
        return Outcome(perf_counter() - started)

    def free_memory(self) -> None:
        """Shrink the heap to what is in use."""
        assert self._jvm.stdin is not None
        print("free-memory", file=self._jvm.stdin, flush=True)
        self._hear("done")

    def answer(self, task: Task) -> pa.Table:
        """The rows, of a changelog the newest one of each key."""
        return rows_written(task.work, _layout(task), columns_of_answer(task))

    def close(self) -> None:
        """End the JVM: it ends with its input."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._jvm.kill()
            self._jvm.wait()
        self._jvm.stdout.close()

    def _input(self, task: Task) -> Path:
        return self._folder / "input" / f"{task.workload.name}-{task.size.events}-{task.size.keys}"

    def _hear(self, expected: str) -> None:
        """Wait for the JVM's answer, which has to be the one expected."""
        assert self._jvm.stdout is not None
        heard = self._jvm.stdout.readline().strip()
        if heard == expected:
            return
        last = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
        msg = (
            "Flink's JVM gave another answer than expected, or ended; what it wrote last is below. See whether there "
            "is enough memory (it takes up to 7 GB), or leave it out with --peers. "
            f"expected={expected!r}, {heard=}\n{last}"
        )
        raise RetryableError(msg)


class FlinkBatch(_Flink):
    """Sorted input, one key after the other; keeps no state."""

    name: ClassVar[str] = "flink-batch"
    title: ClassVar[str] = "Flink, batch, keeps no state"
    settings: ClassVar[Mapping[str, str]] = BATCH


class FlinkStreaming(_Flink):
    """State in RocksDB, a row per record."""

    name: ClassVar[str] = "flink-streaming"
    title: ClassVar[str] = "Flink, streaming, RocksDB, no checkpoints"
    events_max: ClassVar[Mapping[str, int]] = {"": 10_000_000}  # takes 3 microseconds per event
    settings: ClassVar[Mapping[str, str]] = STREAMING


def _layout(task: Task) -> Layout:
    return LAYOUTS[str(task.workload.flink)]


def _libraries() -> Path | None:
    """The folder with Flink's jars, if its package is installed."""
    found = find_spec(PACKAGE)  # a namespace without code: nothing of it is imported
    for folder in found.submodule_search_locations or () if found else ():
        if any((Path(folder) / "lib").glob("flink-dist-*.jar")):
            return Path(folder) / "lib"
    return None


def _tool(name: str) -> str | None:
    """A program of the JDK: the one of JAVA_HOME if that is set, else the first on PATH, as Spark does it."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(name, path=str(Path(home) / "bin") if home else None)


def _compile(libraries: str, classes: Path) -> None:
    sources = sorted(str(path) for path in PROGRAMS.glob("*.java"))
    command = [str(_tool("javac")), "-nowarn", "-proc:none", "-cp", libraries, "-d", str(classes), *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = (
            "javac does not accept the Flink programs: is apache-flink-libraries another version than 2.3?\n"
            f"{done.stderr}"
        )
        raise InternalError(msg)
