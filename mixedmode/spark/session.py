"""The Spark session of a job, with default settings for an embedded Spark. The job's settings override the defaults."""

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from mixedmode.config import JobSpec
from mixedmode.config.reader_options import ALLOWED_IN_JOB, LOSSY_SETTINGS, setting_problem
from mixedmode.errors import InvalidJobError
from mixedmode.spark.file_names import check_file_names
from mixedmode.spark.jvm import did_not_start, ended_message, has_ended, hush_accumulators, open_files_max, start_jvm
from mixedmode.spark.log_files import write_without_processes
from mixedmode.spark.settings import LOG_FILE, set_python, settings_of

#: of PySpark's own code
_CLASSES_ASKED_FOR = (
    *("PythonUtils", "PythonSQLUtils", "PythonRDD", "SimplePythonFunction", "functions"),
    *("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.classic.SparkSession$"),
    "org.apache.spark.sql.functions",
    *("org.apache.spark.sql.execution.python.UserDefinedPythonFunction", "org.apache.spark.storage.StorageLevel"),
)
#: asked for without its package, which PySpark imports anew for each query
_OF_QUERIES = "org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper"
_PACKAGES_ASKED_FOR = ("org", "py4j")  # by our code, and by PySpark for the type of an object
#: a setting of the session: {setting that the newest job has set: its value before}, as JSON
_REPLACED = "spark.mixedmode.replaced"
#: loggers that print a refused query with its stack trace, before PySpark raises the error that becomes one message
_SECOND_VOICES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def open_session(spec: JobSpec, *, log_folder: Path | None = None) -> SparkSession:
    """Return a session for the job, or the existing session of this process (Spark allows only one).

    Spark's log goes to `log_folder`/spark.log, and the output of its JVM to spark.out, so neither is on the screen.
    Raise InvalidJobError for settings with which Spark does not start.
    """
    set_python(spec)
    for name in _SECOND_VOICES:
        PySparkLogger.getLogger(name).disabled = True
    settings = settings_of(spec, log_folder)
    builder = SparkSession.builder.appName(spec.name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _own_interrupt_handler():
        try:
            start_jvm(settings, log_folder)
            replaced = _values_before(settings)
            session = builder.getOrCreate()
            session.conf.set(_REPLACED, json.dumps(replaced))
        except (PySparkException, Py4JError) as error:
            if has_ended(error):
                raise ended_message("not kept" if log_folder is None else log_folder / LOG_FILE) from error
            raise did_not_start(settings, str(error), files_max=open_files_max()) from error
    hush_accumulators(session.sparkContext)
    _keep_names(session)
    write_without_processes(session)
    return session


def _values_before(settings: Mapping[str, str]) -> Mapping[str, str | None]:
    """Undo the settings of the job before in this process, and return the values that these settings will replace.

    Spark sets them in the one session of the process, where SQL of the next job would be computed by them. The values
    are {setting: its value in the session, None if it has none}; of a new session, all are None.
    """
    session = SparkSession._instantiatedSession  # noqa: SLF001 - the one that Spark will use
    if session is None or session.sparkContext._jsc is None:  # noqa: SLF001 - None: it was stopped
        return dict.fromkeys(name for name in settings if name.startswith("spark.sql."))
    for name, value in json.loads(session.conf.get(_REPLACED, "{}") or "{}").items():
        if value is not None:
            session.conf.set(name, value)
        elif session.conf.isModifiable(name):
            session.conf.unset(name)
    return {name: session.conf.get(name, None) for name in settings if session.conf.isModifiable(name)}


def _keep_names(session: SparkSession) -> None:
    """Keep the JVM's answers for the names that are asked for in each start or epoch.

    Py4J does not keep them. Of a name without a package, the JVM looks into every jar, in up to eight packages.
    """
    jvm = session._jvm  # noqa: SLF001 - PySpark has no public name for it
    asked = {name: name for name in _CLASSES_ASKED_FOR} | {_OF_QUERIES.rpartition(".")[2]: _OF_QUERIES}
    for name, place in asked.items():
        found = getattr(jvm, place)
        if isinstance(found, JavaClass):  # not every Spark has each of them
            setattr(jvm, name, found)
    for name in _PACKAGES_ASKED_FOR:
        setattr(jvm, name, getattr(jvm, name))


def check_session(session: SparkSession, asked: Mapping[str, str]) -> None:
    """Raise InvalidJobError for a session, opened here or elsewhere, in which Spark would silently skip input.

    asked: the settings of the job's `spark` section, which may allow Spark to skip missing files.
    """
    check_file_names(session)
    for setting in LOSSY_SETTINGS:
        if setting == ALLOWED_IN_JOB and asked.get(setting, "").lower() == "true":
            continue
        problem = setting_problem(setting, session.conf.get(setting, None) or "")
        if problem is not None:
            msg = f"the Spark session of this process: {setting}{problem}"
            raise InvalidJobError(msg)


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


def is_one_process(session: SparkSession) -> bool:
    """Return whether Spark is one process on this machine, without a cluster."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def cores(session: SparkSession) -> int:
    """Return the number of subtasks that can run at the same time."""
    return session.sparkContext.defaultParallelism
