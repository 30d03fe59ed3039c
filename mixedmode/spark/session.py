"""The Spark session of a job: what the job file says, over settings that an embedded Spark needs to be itself.

What a job sets wins over the defaults here.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from mixedmode.checkpoint.private_folder import own_temporary_folder
from mixedmode.config import JobSpec
from mixedmode.config.reader_options import ALLOWED_IN_JOB, LOSSY_SETTINGS, setting_problem
from mixedmode.crash_points import VARIABLES
from mixedmode.errors import InvalidJobError
from mixedmode.spark.jvm import did_not_start, ended_message, has_ended, hush_accumulators, start_jvm
from mixedmode.spark.packages import connector_settings

#: defaults; the job's own `spark` section goes over them
_DEFAULTS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # few, large input slices: combining before the exchange pays in proportion to the slice it sees
    "spark.sql.files.maxPartitionBytes": "256m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # of which a buffer, doubled as it grows, still comes from the pool of Arrow for Java: what is larger than 4 MiB is
    # asked of the system each time, page by page
    "spark.sql.execution.arrow.maxBytesPerBatch": "1048576",
    # the plans of an epoch are fixed; planning them again between stages only costs time
    "spark.sql.adaptive.enabled": "false",
    # Hadoop's newer file interface, which Spark prefers, starts a process (chmod) for each file that it writes. An
    # epoch waits for two of those; renaming is as atomic here, as the folder is always a local one
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # the daemon of Python workers is kept, so a live epoch does not start interpreters
    "spark.python.worker.reuse": "true",
    # and it has loaded what tasks import, for the first worker and for those that follow one which was idle for long
    "spark.python.daemon.module": "mixedmode.spark.daemon",
}
#: ten times what Java's defaults are: its optimising compiler takes a large part of two cores in the first minutes of a
#: session, for code that runs too rarely to pay it back; a loop over rows reaches these within its first batches
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
LOG_FILE = "spark.log"
_PYTHON = "spark.pyspark.python"
_SPARK_EPOCHS_KEPT = 100  # Spark's default
_SPARK_EPOCHS_MORE = 20  # two compactions of its list of files, which is compacted every 10 entries
#: PySpark prints a refused query with its stack trace to standard error before it raises what we make one message of
_SECOND_VOICES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def open_session(spec: JobSpec, *, log_folder: Path | None = None) -> SparkSession:
    """A session for the job, or the one that this process has already (Spark allows one).

    Spark's own log goes to `log_folder`/spark.log and what its JVM prints to spark.out, so that the screen shows what a
    person needs. Raises InvalidJobError for settings with which Spark does not start.
    """
    master = spec.spark["spark.master"]
    # workers would otherwise start whatever python3 is on their PATH
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif _PYTHON in spec.spark:  # which Spark itself heeds in its own launcher only
        os.environ["PYSPARK_PYTHON"] = spec.spark[_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in _SECOND_VOICES:
        PySparkLogger.getLogger(name).disabled = True
    builder = SparkSession.builder.appName(spec.name)
    own = {**_DEFAULTS, **_java_options(log_folder), **_retention(spec), **_of_tasks(), **connector_settings(spec)}
    for key, value in {**own, **spec.spark}.items():
        builder = builder.config(key, value)
    settings = {**own, **spec.spark}
    with _own_interrupt_handler():
        try:
            start_jvm(settings, log_folder)
            session = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            log = None if log_folder is None else log_folder / LOG_FILE
            raise (
                ended_message(log or "not kept") if has_ended(error) else did_not_start(settings, str(error))
            ) from error
    hush_accumulators(session.sparkContext)
    return session


def check_session(session: SparkSession, asked: Mapping[str, str]) -> None:
    """Raise InvalidJobError for a session, of whoever began it, in which Spark would pass over input silently.

    asked: the settings of the job's `spark` section, where files that are gone may be given up.
    """
    for setting in LOSSY_SETTINGS:
        if setting == ALLOWED_IN_JOB and asked.get(setting, "").lower() == "true":
            continue
        problem = setting_problem(setting, session.conf.get(setting, None) or "")
        if problem is not None:
            msg = f"the Spark session of this process: {setting}{problem}"
            raise InvalidJobError(msg)


def _of_tasks() -> dict[str, str]:
    """What tests have set for tasks, wherever they run."""
    return {f"spark.executorEnv.{name}": os.environ[name] for name in VARIABLES if name in os.environ}


def _retention(spec: JobSpec) -> dict[str, str]:
    """Spark keeps as much of its own log as going back to the oldest retained checkpoint needs, and its default."""
    epochs = max(_SPARK_EPOCHS_KEPT, spec.execution.checkpointing.num_retained + _SPARK_EPOCHS_MORE)
    return {"spark.sql.streaming.minBatchesToRetain": str(epochs)}


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """PySpark takes Ctrl-C over, to cancel all its jobs; what it means is for the caller to say."""
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
    """A Java option as Spark's launcher reads it, spaces and quotes in a folder's name included."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cores(session: SparkSession) -> int:
    """How many subtasks can run at once."""
    return session.sparkContext.defaultParallelism
