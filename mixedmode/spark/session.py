"""The Spark session of a job, with default settings for an embedded Spark. The job's settings override the defaults."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from mixedmode.checkpoint.private_folder import own_temporary_folder
from mixedmode.config import JobSpec
from mixedmode.config.reader_options import ALLOWED_IN_JOB, LOSSY_SETTINGS, setting_problem
from mixedmode.crash_points import VARIABLES
from mixedmode.errors import InvalidJobError
from mixedmode.log import of_tasks
from mixedmode.spark.jvm import did_not_start, ended_message, has_ended, hush_accumulators, open_files_max, start_jvm
from mixedmode.spark.packages import connector_settings

#: defaults; the job's `spark` section overrides them
_DEFAULTS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # few, large input slices: the larger the slice, the more rows are combined before the exchange
    "spark.sql.files.maxPartitionBytes": "256m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # With this size, a buffer that doubles as it grows still fits in the pool of Arrow for Java. A buffer above 4 MiB
    # is requested from the system each time, page by page.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1048576",
    # the plans of an epoch are fixed, so planning again between stages would only cost time
    "spark.sql.adaptive.enabled": "false",
    # The rows of a job are exchanged with a number of partitions of their own. Only small results are exchanged by
    # Spark's number, such as the numbers of lines of files; with its default, each is 200 tasks for a few rows.
    "spark.sql.shuffle.partitions": "8",
    # otherwise PySpark tells the JVM the line of Python of each expression, which no error of ours shows
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Hadoop's newer file interface, which Spark prefers, starts a process (chmod) for each file that it writes, and an
    # epoch waits for two of them. The older interface renames files, which is as atomic, as the folder is always local.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Python workers stay alive, so a live epoch does not start interpreters
    "spark.python.worker.reuse": "true",
    # and the daemon has imported the modules of tasks, for the first worker and for those after a long idle time
    "spark.python.daemon.module": "mixedmode.spark.daemon",
}
#: Ten times Java's defaults. With the defaults, the optimising compiler takes a large part of two cores in the first
#: minutes of a session, for code that runs too rarely. A loop over rows reaches these thresholds in its first batches.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
#: of PySpark's own code
_CLASSES_ASKED_FOR = (
    *("PythonUtils", "PythonSQLUtils", "SimplePythonFunction", "functions"),
    *("org.apache.spark.sql.functions", "org.apache.spark.sql.classic.SparkSession"),
    *("org.apache.spark.sql.execution.python.UserDefinedPythonFunction", "org.apache.spark.storage.StorageLevel"),
)
LOG_FILE = "spark.log"
_PYTHON = "spark.pyspark.python"
_SPARK_EPOCHS_KEPT = 100  # Spark's default
_SPARK_EPOCHS_MORE = 20  # two compactions of Spark's list of files, which is compacted every 10 entries
#: loggers that print a refused query with its stack trace, before PySpark raises the error that becomes one message
_SECOND_VOICES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def open_session(spec: JobSpec, *, log_folder: Path | None = None) -> SparkSession:
    """Return a session for the job, or the existing session of this process (Spark allows only one).

    Spark's log goes to `log_folder`/spark.log, and the output of its JVM to spark.out, so neither is on the screen.
    Raise InvalidJobError for settings with which Spark does not start.
    """
    master = spec.spark["spark.master"]
    # otherwise workers would start any python3 on their PATH
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif _PYTHON in spec.spark:  # Spark itself uses this setting only in its own launcher
        os.environ["PYSPARK_PYTHON"] = spec.spark[_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in _SECOND_VOICES:
        PySparkLogger.getLogger(name).disabled = True
    builder = SparkSession.builder.appName(spec.name)
    own = {
        **_DEFAULTS,
        **_embedded(master),
        **_java_options(log_folder),
        **_retention(spec),
        **_of_tasks(),
        **connector_settings(spec),
    }
    for key, value in {**own, **spec.spark}.items():
        builder = builder.config(key, value)
    settings = {**own, **spec.spark}
    with _own_interrupt_handler():
        try:
            start_jvm(settings, log_folder)
            session = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            if has_ended(error):
                raise ended_message("not kept" if log_folder is None else log_folder / LOG_FILE) from error
            raise did_not_start(settings, str(error), files_max=open_files_max()) from error
    hush_accumulators(session.sparkContext)
    _keep_classes(session)
    return session


def _keep_classes(session: SparkSession) -> None:
    """Keep the JVM's answers for the classes that PySpark asks for by name in each epoch.

    Py4J does not keep them. Of a name without a package, the JVM looks into every jar, in up to eight packages.
    """
    jvm = session._jvm  # noqa: SLF001 - PySpark has no public name for it
    for name in _CLASSES_ASKED_FOR:
        found = getattr(jvm, name)
        if isinstance(found, JavaClass):  # not every Spark has each of them
            setattr(jvm, name, found)


def check_session(session: SparkSession, asked: Mapping[str, str]) -> None:
    """Raise InvalidJobError for a session, opened here or elsewhere, in which Spark would silently skip input.

    asked: the settings of the job's `spark` section, which may allow Spark to skip missing files.
    """
    for setting in LOSSY_SETTINGS:
        if setting == ALLOWED_IN_JOB and asked.get(setting, "").lower() == "true":
            continue
        problem = setting_problem(setting, session.conf.get(setting, None) or "")
        if problem is not None:
            msg = f"the Spark session of this process: {setting}{problem}"
            raise InvalidJobError(msg)


def _embedded(master: str) -> dict[str, str]:
    """Return settings for an embedded Spark.

    Its tasks report every second how much they have read, by a local call. Spark lists more than 32 files of a
    micro-batch in tasks, by default one task a file, of which each takes longer than listing some hundred local files.
    """
    if not master.startswith("local"):
        return {}
    listing = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
    return {"spark.executor.heartbeatInterval": "1s", **listing}


def _of_tasks() -> dict[str, str]:
    """Return settings that pass environment variables on to tasks, wherever tasks run: of logging, and of tests."""
    of_tests = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return {f"spark.executorEnv.{name}": value for name, value in {**of_tasks(), **of_tests}.items()}


def _retention(spec: JobSpec) -> dict[str, str]:
    """Return a setting with which Spark's log reaches back to the oldest retained checkpoint; at least the default."""
    epochs = max(_SPARK_EPOCHS_KEPT, spec.execution.checkpointing.num_retained + _SPARK_EPOCHS_MORE)
    return {"spark.sql.streaming.minBatchesToRetain": str(epochs)}


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Restore the handler of Ctrl-C after the block, because PySpark replaces it with one that cancels all its jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _java_options(log_folder: Path | None) -> dict[str, str]:
    folder = log_folder or own_temporary_folder()
    folder.mkdir(parents=True, exist_ok=True)
    configuration = files("mixedmode.spark") / "log4j2.properties"
    logs = (f"-Dlog4j2.configurationFile={configuration}", f"-Dmixedmode.log={folder / LOG_FILE}")
    options = (*logs, *_COMPILE_LATER)
    return {"spark.driver.extraJavaOptions": " ".join(map(_quoted_option, options))}


def _quoted_option(option: str) -> str:
    """Return a Java option quoted for Spark's launcher, as a folder's name may have spaces and quotes."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cores(session: SparkSession) -> int:
    """Return the number of subtasks that can run at the same time."""
    return session.sparkContext.defaultParallelism
