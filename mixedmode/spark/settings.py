"""The settings of a job's Spark session: defaults and those of connectors. The job's own settings override them."""

import os
import re
import socket
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from mixedmode.checkpoint.private_folder import own_temporary_folder
from mixedmode.config import JobSpec
from mixedmode.crash_points import VARIABLES
from mixedmode.errors import RetryableError
from mixedmode.folders import make_folder
from mixedmode.installed import python_command
from mixedmode.log import of_tasks
from mixedmode.secrets import has_reference, resolve_all
from mixedmode.spark.class_archive import archive_options
from mixedmode.spark.packages import connector_settings
from mixedmode.spark.socket_folder import socket_folder
from mixedmode.spark.warm_daemon import DAEMON

__all__ = [
    "LOGS",
    "LOG_FILE",
    "LOG_WRITER",
    "SAME_WORKERS",
    "SPARKS_LOG_WRITER",
    "own_settings",
    "set_python",
    "settings_of",
]

LOGS = "logs"  # the folder in a checkpoint folder
LOG_FILE = "spark.log"
#: Spark SQL sets this variable for its workers; other jobs have it if it is set for all of them
SAME_WORKERS = "SPARK_SIMPLIFIED_TRACEBACK"
#: the class that writes the log of a streaming query
LOG_WRITER = "spark.sql.streaming.checkpointFileManagerClass"
SPARKS_LOG_WRITER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
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
    # the session replaces it by its subclass (log_files.py); Spark prefers another interface of Hadoop's, but this one
    # renames as atomically on a local disk, where the folder always is
    LOG_WRITER: SPARKS_LOG_WRITER,
    # Python workers stay alive, so a live epoch does not start interpreters
    "spark.python.worker.reuse": "true",
    # and the daemon has imported the modules of tasks, for the first worker and for those after a long idle time
    "spark.python.daemon.module": DAEMON,
    # Spark SQL sets this for its workers. Set for all, jobs without SQL run in the same workers.
    f"spark.executorEnv.{SAME_WORKERS}": "1",
}
#: Ten times Java's defaults. With the defaults, the optimising compiler takes a large part of two cores in the first
#: minutes of a session, for code that runs too rarely. A loop over rows reaches these thresholds in its first batches.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_PYTHON = "spark.pyspark.python"
_REDACTION = "spark.redaction.regex"
_REDACTED = "(?i)secret|password|token|access[.]?key|credential"  # Spark's default
_SPARK_EPOCHS_KEPT = 100  # Spark's default
_SPARK_EPOCHS_MORE = 20  # two compactions of Spark's list of files, which is compacted every 10 entries


def settings_of(spec: JobSpec, log_folder: Path | None) -> dict[str, str]:
    """Return all settings of the session of a job.  log_folder: for Spark's log; None: mixedmode's temporary folder.

    Raises as connector_settings, which may fetch jars, and as own_settings.
    """
    own = own_settings(spec)
    return {
        **_DEFAULTS,
        **_embedded(own["spark.master"]),
        **_java_options(log_folder, own),
        **_retention(spec),
        **_of_tasks(),
        **connector_settings(spec),
        **own,
        **_redaction(spec.spark),
    }


def own_settings(spec: JobSpec) -> dict[str, str]:
    """Return the settings of the job's `spark` section.

    Raise InvalidJobError if one names a variable of the environment that is not set.
    """
    return resolve_all(spec.spark, where="spark")


def set_python(spec: JobSpec) -> None:
    """Set the environment by which Spark chooses the Python of tasks. Raises as own_settings."""
    own = own_settings(spec)
    # otherwise workers would start any python3 on their PATH
    if own["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = python_command()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif _PYTHON in own:  # Spark itself uses this setting only in its own launcher
        os.environ["PYSPARK_PYTHON"] = own[_PYTHON]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", python_command())


def _embedded(master: str) -> dict[str, str]:
    """Return settings for an embedded Spark.

    Its tasks report every second how much they have read, by a local call. Spark lists more than 32 files of a
    micro-batch in tasks, by default one task a file, of which each takes longer than listing some hundred local files.
    """
    if not master.startswith("local"):
        return {}
    listing = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
    return {"spark.executor.heartbeatInterval": "1s", **listing, **_worker_sockets()}


def _worker_sockets() -> dict[str, str]:
    """Return settings by which Spark and its Python workers talk over sockets in a folder, and not over TCP.

    Over TCP, each task waits before it begins: Spark sends its beginning in several small pieces, TCP holds one back
    until the one before is acknowledged, and Linux delays acknowledgements. Only the owner can enter the folder. Where
    there can be none, they use TCP.
    """
    if not hasattr(socket, "AF_UNIX"):
        return {}
    try:
        folder = socket_folder()
    except (OSError, RetryableError):  # such as a full disk
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _of_tasks() -> dict[str, str]:
    """Return settings that pass environment variables on to tasks, wherever tasks run: of logging, and of tests."""
    of_tests = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return {f"spark.executorEnv.{name}": value for name, value in {**of_tasks(), **of_tests}.items()}


def _retention(spec: JobSpec) -> dict[str, str]:
    """Return a setting with which Spark's log reaches back to the oldest retained checkpoint; at least the default."""
    epochs = max(_SPARK_EPOCHS_KEPT, spec.execution.checkpointing.num_retained + _SPARK_EPOCHS_MORE)
    return {"spark.sql.streaming.minBatchesToRetain": str(epochs)}


def _redaction(asked: Mapping[str, str]) -> dict[str, str]:
    """Return a setting with which Spark's own pages and event log do not show values of the environment."""
    named = [re.escape(key) for key, value in asked.items() if has_reference(value)]
    return {_REDACTION: "|".join((asked.get(_REDACTION, _REDACTED), *named))} if named else {}


def _java_options(log_folder: Path | None, asked: Mapping[str, str]) -> dict[str, str]:
    folder = log_folder or own_temporary_folder()
    make_folder(folder)
    configuration = files("mixedmode.spark") / "log4j2.properties"
    logs = (f"-Dlog4j2.configurationFile={configuration}", f"-Dmixedmode.log={folder / LOG_FILE}")
    options = (*logs, *_COMPILE_LATER, *archive_options(asked.get("spark.driver.extraClassPath", "")))
    return {"spark.driver.extraJavaOptions": " ".join(map(_quoted_option, options))}


def _quoted_option(option: str) -> str:
    """Return a Java option quoted for Spark's launcher, as a folder's name may have spaces and quotes."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
