"""The Spark session of a job, with default settings for an embedded Spark. The job's settings override the defaults."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
#: a setting of the session with which a job has started Spark: the names of its settings, as JSON
_OF_FIRST_JOB = "spark.mixedmode.of-first-job"
#: loggers that print a refused query with its stack trace, before PySpark raises the error that becomes one message
_SECOND_VOICES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def open_session(spec: JobSpec, *, log_folder: Path | None = None) -> SparkSession:
    """Return a session for the job: the first one of this process, or a copy of that one.

    A copy shares Spark with the session of the program, and has its settings, temporary views and functions. The job
    changes settings in the copy only, so neither the program nor another job notices. Spark's log goes to
    `log_folder`/spark.log, and the output of its JVM to spark.out, so neither is on the screen. Raise InvalidJobError
    for settings with which Spark does not start.
    """
    set_python(spec)
    for name in _SECOND_VOICES:
        PySparkLogger.getLogger(name).disabled = True
    settings = settings_of(spec, log_folder)
    _check_is_classic(settings)
    builder = SparkSession.builder.appName(spec.name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _own_interrupt_handler():
        try:
            start_jvm(settings, log_folder)
            session = _copied(settings)
            if session is None:
                session = builder.getOrCreate()
                session.conf.set(_OF_FIRST_JOB, json.dumps([*settings]))
        except (PySparkException, Py4JError) as error:
            if has_ended(error):
                raise ended_message("not kept" if log_folder is None else log_folder / LOG_FILE) from error
            raise did_not_start(settings, str(error), files_max=open_files_max()) from error
    hush_accumulators(session.sparkContext)
    _keep_names(session)
    write_without_processes(session)
    return session


def _check_is_classic(settings: Mapping[str, str]) -> None:
    """Raise InvalidJobError if PySpark would open a session of Spark Connect."""
    of_connect = {name: settings.get(name, "") for name in ("spark.remote", "spark.api.mode")}
    # PySpark itself sets the last one when it opens such a session
    names = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")
    of_connect |= {name: os.environ.get(name, "") for name in names}
    found = [name for name, value in of_connect.items() if value and value.lower() != "classic"]
    if found:
        msg = (
            "a job needs a session of Spark itself, because it works inside of Spark's driver, and these settings or "
            "variables of the environment ask for Spark Connect. Remove them, and open no remote session in this "
            f"process; for a cluster, set spark.master. found={', '.join(found)}"
        )
        raise InvalidJobError(msg)


def _copied(settings: Mapping[str, str]) -> SparkSession | None:
    """Return a copy of the session of this process, with these settings; None if there is no session.

    The copy does not have settings of the job that has started Spark.
    """
    shared: Any = SparkSession._instantiatedSession  # noqa: SLF001 - the one that Spark would use
    if shared is None or shared.sparkContext._jsc is None:  # noqa: SLF001 - None: it was stopped
        return None
    copy = SparkSession(shared.sparkContext, shared._jsparkSession.cloneSession(), dict(settings))  # noqa: SLF001
    for name in json.loads(copy.conf.get(_OF_FIRST_JOB, "[]") or "[]"):
        if name not in settings and copy.conf.isModifiable(name):
            copy.conf.unset(name)
    return copy


def _keep_names(session: SparkSession) -> None:
    """Keep the JVM's answers for the names that are asked for in each start or epoch.

    Py4J does not keep them. For a name without a package, the JVM looks into every jar, in up to eight packages.
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
