"""Spark's JVM as a process: its start, its output, its end.

PySpark starts the JVM with the standard output and error of this process, so its warnings and stack traces would mix
with mixedmode's lines. Here the JVM prints to a file. A failed start is one message, with the cause from that file.
"""

import atexit
import logging
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from typing_extensions import override

from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.spark.archive_writer import begin_archive
from mixedmode.spark.class_archive import discard_archive, java_command, listed_classes, used_archive, without_archive
from mixedmode.spark.file_names import utf8_locale
from mixedmode.spark.shown_settings import shown_settings
from mixedmode.spark.warm_daemon import DAEMON, WarmDaemon
from mixedmode.system_errors import system_error

OUTPUT_FILE = "spark.out"  # output of the JVM, and of functions in an embedded Spark; overwritten at each start
_REAP_SECONDS = 5.0  # a killed process closes its connections a moment before it ends
#: the errors that any call may raise after the JVM has ended
LOST_CONNECTION = (Py4JNetworkError, ConnectionError, EOFError)

_EXCEPTION = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: |: )?((?:\w+\.)+\w*(?:Exception|Error): .*)$', re.MULTILINE
)
_COMPLAINT = re.compile(
    r"^(?:Error occurred during initialization of VM\s*\n|Error:? |Invalid |Unrecognized |Could not |Conflicting |"
    r"Too small |\[INVALID_CONF_VALUE\b).*$",
    re.MULTILINE | re.IGNORECASE,
)
_PACKAGES = re.compile(
    r"unresolved dependency|UNRESOLVED DEPENDENCIES|download failed|Provided Maven Coordinates", re.IGNORECASE
)
_CRASHED = re.compile(r"A fatal error has been detected by the Java Runtime")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MACHINE = re.compile(r"OutOfMemory|insufficient memory|Could not reserve|BindException")
_NAMELESS = re.compile(r"invalid null input: name|basedir must be absolute: \?")
_FILE_MISSED = re.compile(
    r"not found on classpath|NoClassDefFoundError|ClassNotFoundException|InternalError|ExceptionInInitializerError"
)
_FILES_MIN = 1024  # Spark opens some 300 jars, and then sockets and files of tasks


def begin_jvm(settings: Mapping[str, str], log_folder: Path | None) -> None:
    """Start the JVM in a thread, while the caller goes on; `start_jvm` waits for it, and raises what it has raised."""
    global _begun  # noqa: PLW0603  # a process has one JVM
    if not _has_jvm():
        _begun = _Begun(settings, log_folder)
        _begun.start()


def start_jvm(settings: Mapping[str, str], log_folder: Path | None) -> None:
    """Start the JVM if this process has none. Its output goes to `log_folder`; None: to a temporary file.

    Raise InvalidJobError or RetryableError with the cause if it does not start.
    """
    global _begun
    begun, _begun = _begun, None
    _forget_ended()
    if begun is not None:
        begun.finish()
    elif not _has_jvm():
        _launch(settings, log_folder)
        _archive_later(settings)


def _forget_ended() -> None:
    """Let PySpark start another JVM in the place of one that has ended, as in a notebook after a lack of memory.

    Raise InvalidJobError in a forked process: it would talk over the sockets of its parent, and get answers of others.
    """
    process, context = _process(), SparkContext._active_spark_context  # noqa: SLF001  # PySpark never forgets them
    if process is None or process.poll() is None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, 0)  # it runs, and `poll` cannot tell that of a process that is not a child
        msg = (
            "this process was forked from one that uses Spark already, and the two cannot share it. Start the process "
            "by `spawn`, as with multiprocessing.get_context('spawn'), or fork it before Spark is used first. "
            f"process={os.getpid()}, parent={os.getppid()}"
        )
        raise InvalidJobError(msg)
    if context is not None:
        with suppress(Py4JError, ConnectionError):
            context.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001


def _has_jvm() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: SLF001  # PySpark's own test


class _Begun(threading.Thread):
    """A JVM that is being started. If nobody waits for it, it ends with this process, and leaves nothing."""

    def __init__(self, settings: Mapping[str, str], log_folder: Path | None) -> None:
        super().__init__(name="start of Spark's JVM", daemon=True)
        self._settings = settings
        self._log_folder = log_folder
        self._error: BaseException | None = None
        atexit.register(self.end_unused)

    @override
    def run(self) -> None:
        try:
            _launch(self._settings, self._log_folder)
        except BaseException as error:  # noqa: BLE001  # `finish` raises it
            self._error = error

    def finish(self) -> None:
        """Wait until the JVM has started, or raise the error of its start."""
        atexit.unregister(self.end_unused)
        self.join()
        if self._error is not None:
            raise self._error
        _archive_later(self._settings)

    def end_unused(self) -> None:
        """End a JVM that nobody has waited for, once it runs: only then has PySpark removed its temporary folder."""
        self.join()
        process = _process()
        if process is not None:
            process.kill()
            process.wait()
        classes = listed_classes(self._settings.get(_JAVA_OPTIONS, ""))
        if classes is not None:
            classes.unlink(missing_ok=True)


_begun: _Begun | None = None
#: of the JVMs of this process; each ends with its JVM, or with this process if it was not used
_daemons: list[WarmDaemon] = []


def _launch(settings: Mapping[str, str], log_folder: Path | None) -> None:
    # py4j logs a lost connection with stack traces, and raises it as an exception too
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    with _output(log_folder) as output, _warm_daemon(settings):
        try:
            gateway = _gateway(settings, output)
        except PySparkRuntimeError as error:
            if not _discards_archive(settings, _printed(output)):
                printed = _printed(output) or str(error)
                raise did_not_start(settings, printed, files_max=open_files_max()) from error
            without = {**settings, _JAVA_OPTIONS: without_archive(settings[_JAVA_OPTIONS])}
            try:
                gateway = _gateway(without, output)
            except PySparkRuntimeError as again:
                raise did_not_start(settings, _printed(output) or str(again), files_max=open_files_max()) from again
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  # replaces PySpark's own start


def _gateway(settings: Mapping[str, str], output: IO[bytes]) -> Any:
    launch: Any = launch_gateway
    # A signal to the process group, such as Ctrl-C of a terminal or SIGTERM of `timeout`, is for the driver, which ends
    # the JVM after its epoch. The JVM ends by itself when its standard input does, so also if this process is killed.
    with utf8_locale(), shown_settings(settings) as shown:
        configuration = SparkConf()
        for key, value in shown.items():
            configuration.set(key, value)
        return launch(configuration, {"stdout": output, "stderr": subprocess.STDOUT, "process_group": 0})


def _printed(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")


def _discards_archive(settings: Mapping[str, str], printed: str) -> bool:
    """Delete the archive of Spark's classes with which a JVM has crashed. Return whether it has had one."""
    archive = used_archive(settings.get(_JAVA_OPTIONS, ""))
    if archive is None or not _CRASHED.search(printed):
        return False
    discard_archive(archive)
    return True


def _archive_later(settings: Mapping[str, str]) -> None:
    """Let an archive of the classes that this JVM lists be written when this program has ended."""
    classes, java = listed_classes(settings.get(_JAVA_OPTIONS, "")), java_command()
    if classes is not None and java is not None:
        gateway: Any = SparkContext._gateway  # noqa: SLF001
        class_path = str(gateway.jvm.java.lang.System.getProperty("java.class.path"))
        atexit.register(begin_archive, classes, gateway.proc.pid, java, class_path)


@contextmanager
def _warm_daemon(settings: Mapping[str, str]) -> Iterator[None]:
    """Announce a warm daemon to the JVM that the block starts, and start it then: before, the JVM needs the cores.

    Without it, everything is the same but for the time.
    """
    is_ours = settings.get("spark.python.daemon.module") == DAEMON and settings["spark.master"].startswith("local")
    daemon = None
    with suppress(OSError, MixedmodeError):
        daemon = WarmDaemon() if is_ours else None
    if daemon is None:
        yield
        return
    try:
        with daemon.announced():
            yield
    except BaseException:
        daemon.close()
        raise
    daemon.begin()
    _daemons.append(daemon)


def hush_accumulators(context: SparkContext) -> None:
    """Keep PySpark's accumulator server from printing a stack trace when the JVM closes the connection."""
    server: Any = context._accumulatorServer  # noqa: SLF001  # it has no setting for this
    if "handle_error" in vars(server):  # already done for this session
        return
    tell = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), LOST_CONNECTION):
            tell(request, address)

    server.handle_error = handle_error


def has_ended(error: BaseException | None = None) -> bool:
    """Return whether the JVM has ended. If `error` is a lost connection, wait a moment for the process to end.

    Py4J tells a connection that is lost while it looks for a name of the JVM as a plain Py4JError: the name is missing.
    """
    is_lost = isinstance(error, LOST_CONNECTION) or type(error) is Py4JError
    process = _process()
    if process is None:  # another program has started the JVM
        return isinstance(error, Py4JNetworkError)
    try:
        process.wait(timeout=_REAP_SECONDS if is_lost else 0)
    except subprocess.TimeoutExpired:
        return False
    return True


def ended_message(log_file: Path | str) -> RetryableError:
    """Return the error for a JVM that has ended, which says what to do."""
    log = Path(log_file)
    output = log.with_name(OUTPUT_FILE)
    cause = _printed_cause(_text_of(output))
    msg = (
        "Spark's JVM has ended: it was killed, or ran out of memory. Nothing of the epoch under way was committed. "
        "Start the job again: it resumes. If memory was short, give it more with `spark: {driver.memory: 4g}`, or "
        f"lower `parallelism`. {f'cause={cause}, ' if cause else ''}log={log}, output={output}"
    )
    return RetryableError(msg)


def open_files_max() -> int:
    """Return how many files a JVM that this process starts may open: a JVM raises its limit to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def did_not_start(settings: Mapping[str, str], printed: str, *, files_max: int) -> MixedmodeError:
    """Return the error for a failed start, from the text that Spark printed or raised. Pure.

    files_max: how many files the JVM could open. A JVM that cannot open all jars only says that it misses classes, and
    one that cannot open its own files, that it has an internal error.
    """
    is_limited = files_max < _FILES_MIN and _FILE_MISSED.search(printed)
    of_system = system_error("Too many open files" if is_limited else printed, f"open_files_max={files_max}")
    if of_system is not None:
        return of_system
    cause = _printed_cause(printed) or printed.strip().split("\n")[0][:300] or "Spark printed nothing"
    packages = settings.get("spark.jars.packages")
    if packages and _PACKAGES.search(printed):
        msg = (
            "Spark does not start, because it cannot get its packages. See whether this machine "
            "reaches a Maven repository that has them (spark.jars.repositories names more), set spark.jars.packages to "
            "a version that is there, or name jars on this machine in spark.jars; docs/kafka.md says how to get them. "
            f"spark.jars.packages={packages}, cause={cause}"
        )
        return InvalidJobError(msg)
    if _NAMELESS.search(printed):
        msg = (
            "Spark does not start, because the system knows no name for the id of this user, and Hadoop asks for one. "
            "Run as a user whom the system knows, or add this one to /etc/passwd; then start again."
        )
        return RetryableError(f"{msg} cause={cause}")
    if _MACHINE.search(printed):
        msg = "Spark does not start, because this machine lacks something. Repair the cause, and start again."
        return RetryableError(f"{msg} cause={cause}")
    if _EXCEPTION.search(printed) or _COMPLAINT.search(printed):
        msg = (
            "Spark does not start with the settings of this job. Correct the one that the cause is about, under "
            "`spark`, or remove it."
        )
        return InvalidJobError(f"{msg} cause={cause}")
    return RetryableError(f"Spark does not start. `mixedmode doctor` looks at this machine. cause={cause}")


def _printed_cause(text: str) -> str:
    """Return the line of an output that has the cause: the last stack trace's innermost exception, or a complaint."""
    found = [match[1] for match in _EXCEPTION.finditer(text)] or [match[0] for match in _COMPLAINT.finditer(text)][:1]
    return re.sub(r"\s+", " ", found[-1]).strip()[:400] if found else ""


def _process() -> "subprocess.Popen[bytes] | None":
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    return getattr(gateway, "proc", None)


def _output(log_folder: Path | None) -> IO[bytes]:
    return tempfile.TemporaryFile() if log_folder is None else (log_folder / OUTPUT_FILE).open("w+b")


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - 65_536))
            return opened.read().decode(errors="replace")
    except OSError:
        return ""
