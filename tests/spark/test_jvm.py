"""Spark's JVM as a process: what a start that fails, and a process that has ended, look like. Without Spark."""

import atexit
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError

from mixedmode.cli.messages import errors_as_messages
from mixedmode.config import JobSpec
from mixedmode.driver import engine, run
from mixedmode.driver import planning as plan
from mixedmode.driver.run import RunOptions, run_job
from mixedmode.errors import InvalidJobError, MixedmodeError, RetryableError
from mixedmode.spark import jvm
from mixedmode.spark.errors import errors_explained
from mixedmode.spark.jvm import did_not_start
from mixedmode.spark.workers import Interpreter, check_workers, python_problem
from tests.config.refusals import SMALLEST_JOB

#: what calls have raised when their JVM was killed under them
OF_A_DEAD_JVM = [
    Py4JNetworkError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o23.awaitTermination"),
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
    BrokenPipeError(32, "Broken pipe"),
    EOFError(),
    PySparkException("[STREAM_FAILED] Query terminated with exception: py4j.Py4JException: Error while sending"),
    PySparkRuntimeError("SparkContext is stopped"),
    TypeError("'JavaPackage' object is not callable"),
    AttributeError("'NoneType' object has no attribute 'sc'"),
]
LOST = OF_A_DEAD_JVM[:6]  # the others are raised by a live JVM too, and nobody waits for its end then
ENDED = "Spark's JVM has ended: it was killed, or ran out of memory. Nothing of the epoch under way was committed. "


def process(*, has_ended: bool) -> Any:
    def wait(timeout: float) -> int:
        if not has_ended:
            raise subprocess.TimeoutExpired([], timeout)
        return -9

    return SimpleNamespace(wait=wait)


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_arguments: object, **_named: object) -> Any:
        raise error

    return call


@pytest.fixture
def dead_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_process", lambda: process(has_ended=True))


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    return JobSpec.model_validate({**SMALLEST_JOB, "execution": {"checkpointing": {"dir": str(tmp_path)}}})


@pytest.mark.usefixtures("dead_jvm")
@pytest.mark.parametrize("error", OF_A_DEAD_JVM, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", ["open_session", "check_workers", "analyse", "_Run"])
def test_whatever_a_call_of_a_run_raises_of_a_dead_jvm_is_one_message(
    monkeypatch: pytest.MonkeyPatch, spec: JobSpec, call: str, error: BaseException
) -> None:
    homes = {"open_session": run, "check_workers": engine, "analyse": engine, "_Run": run}
    for name in ("open_session", "check_workers", "analyse"):
        monkeypatch.setattr(homes[name], name, lambda *_arguments, **_named: SimpleNamespace())
    monkeypatch.setattr(homes[call], call, raising(error))

    with pytest.raises(RetryableError) as caught:
        run_job(spec, lambda *_path: "", RunOptions())

    logs = Path(str(spec.execution.checkpointing.dir)) / "logs"
    assert str(caught.value).startswith(ENDED)
    assert str(caught.value).endswith(f" log={logs}/spark.log, output={logs}/spark.out")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.usefixtures("dead_jvm")
@pytest.mark.parametrize("error", OF_A_DEAD_JVM, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", ["open_session", "analyse", "cores"])
def test_whatever_a_call_of_a_validation_raises_of_a_dead_jvm_is_one_message(
    monkeypatch: pytest.MonkeyPatch, spec: JobSpec, call: str, error: BaseException
) -> None:
    for name in ("open_session", "analyse", "_check_files"):
        monkeypatch.setattr(plan, name, lambda *_arguments, **_named: SimpleNamespace(plan=SimpleNamespace()))
    monkeypatch.setattr(plan, call, raising(error))

    with pytest.raises(RetryableError) as caught:
        plan.plan_job(spec, lambda *_path: "")

    assert str(caught.value).startswith(ENDED)


@pytest.mark.usefixtures("dead_jvm")
def test_the_message_names_what_the_process_said_last(tmp_path: Path) -> None:
    (tmp_path / "spark.out").write_text(
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x.y(z:1)\n'
    )

    with pytest.raises(RetryableError) as caught, errors_explained(tmp_path / "spark.log"):
        raise ConnectionRefusedError(111, "Connection refused")

    assert "cause=java.lang.OutOfMemoryError: Java heap space, log=" in str(caught.value)


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_the_end_of_a_jvm_that_its_process_has_a_moment_later_is_seen(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def wait(timeout: float) -> int:
        if timeout < 1:
            raise subprocess.TimeoutExpired([], timeout)
        return -9

    monkeypatch.setattr(jvm, "_process", lambda: SimpleNamespace(wait=wait))
    with pytest.raises(RetryableError, match="JVM has ended"), errors_explained("spark.log"):
        raise error


def test_an_error_that_is_not_of_the_jvm_keeps_its_kind_while_the_jvm_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_process", lambda: process(has_ended=False))

    told = pytest.raises(RetryableError, match=r"^a server does not take the connection, or ended it\.")
    with told, errors_explained("spark.log"):
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.usefixtures("dead_jvm")
def test_an_error_of_ours_stays_what_it_is_whatever_became_of_the_jvm() -> None:
    with pytest.raises(InvalidJobError, match="no such column"), errors_explained("spark.log"):
        raise InvalidJobError("no such column")  # noqa: EM101, TRY003


@pytest.mark.parametrize(
    ("printed", "kind", "cause"),
    [
        (
            "NOTE: Picked up JDK_JAVA_OPTIONS: x\nInvalid maximum heap size: -Xmxabc\nError: Could not create the VM\n",
            InvalidJobError,
            "cause=Invalid maximum heap size: -Xmxabc",
        ),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be local\n\tat a.b(c:1)\n',
            InvalidJobError,
            "cause=org.apache.spark.SparkException: Master must be local",
        ),
        (
            "An error occurred.\n: java.lang.IllegalArgumentException: System memory is 3\n\tat a.b(c)\n",
            InvalidJobError,
            "cause=java.lang.IllegalArgumentException: System memory is 3",
        ),
        (  # of a process that has a JVM already
            "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'x' in the config \"spark.sql.x\" is invalid.",
            InvalidJobError,
            "cause=[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'x' in the config",
        ),
        ("Error: Could not reserve enough space for object heap\n", RetryableError, "Could not reserve enough space"),
        (
            'Exception in thread "main" java.net.BindException: none\n',
            RetryableError,
            "BindException: none",
        ),
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            InvalidJobError,
            "cause=Error occurred during initialization of VM Too small maximum heap",
        ),
        ("", RetryableError, "cause=Spark printed nothing"),
    ],
)
def test_a_start_that_fails_is_one_line_with_its_cause(printed: str, kind: type[MixedmodeError], cause: str) -> None:
    error = did_not_start({}, printed, files_max=4096)
    assert type(error) is kind
    assert cause in str(error)
    assert "\n" not in str(error)


def test_packages_that_cannot_be_had_are_named() -> None:
    settings = {"spark.jars.packages": "a:b:1"}
    error = did_not_start(
        settings,
        "\t\t::          UNRESOLVED DEPENDENCIES         ::\njava.lang.RuntimeException: x\n",
        files_max=4096,
    )
    assert isinstance(error, InvalidJobError)
    assert "because it cannot get its packages" in str(error)
    assert "spark.jars.packages=a:b:1" in str(error)


@pytest.mark.parametrize(
    "printed",
    [
        "java.lang.AssertionError: Config file not found on classpath: org/apache/spark/config/sql.textproto\n",
        "java.lang.InternalError: Error loading java.security file\n",
    ],
)
def test_a_start_without_enough_open_files_is_told_as_that_although_java_only_misses_its_files(printed: str) -> None:
    few = did_not_start({}, printed, files_max=128)
    assert isinstance(few, RetryableError)
    assert str(few) == (
        "this process may not open more files. Raise the limit (`ulimit -n 4096`), then start again; a job resumes. "
        "open_files_max=128"
    )
    assert isinstance(did_not_start({}, printed, files_max=4096), InvalidJobError)


@pytest.mark.parametrize(
    "cause",
    [
        "java.lang.IllegalArgumentException: basedir must be absolute: ?/.ivy2.5.2/local",
        "javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name",
    ],
)
def test_a_user_without_a_name_is_told_as_that_and_not_as_a_wrong_setting(cause: str) -> None:
    error = did_not_start({}, f'Exception in thread "main" {cause}\n', files_max=4096)
    assert isinstance(error, RetryableError)
    assert str(error) == (
        "Spark does not start, because the system knows no name for the id of this user, and Hadoop asks for one. "
        f"Run as a user whom the system knows, or add this one to /etc/passwd; then start again. cause={cause}"
    )


OURS = Interpreter((3, 11), {"mixedmode": "1", "pyspark": "4.3.0", "numpy": "2.4"})


@pytest.mark.parametrize(
    ("theirs", "problem"),
    [
        (OURS, None),
        (Interpreter((3, 11), {**OURS.packages, "numpy": "2.5"}), None),
        (None, "it does not run"),
        (Interpreter((3, 12), OURS.packages), "Spark needs the same version for both: 3.12 there, 3.11 here"),
        (Interpreter((3, 11), {"pyspark": "4.3.0"}), "it lacks packages: mixedmode, numpy"),
        (
            Interpreter((3, 11), {**OURS.packages, "pyspark": "4.1.0"}),
            "it has other versions of packages: pyspark 4.1.0 there, 4.3.0 here",
        ),
    ],
)
def test_the_python_of_the_tasks_is_compared_with_ours(theirs: Interpreter | None, problem: str | None) -> None:
    assert python_problem(OURS, theirs) == problem


def session_with(python: str, master: str = "local[2]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))


def test_a_session_with_a_python_that_lacks_our_packages_is_refused_in_one_line(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys._base_executable} -I -S "$@"\n')  # type: ignore[attr-defined]
    python.chmod(0o755)

    with pytest.raises(InvalidJobError) as caught:
        check_workers(session_with(str(python)))

    assert "it lacks packages: mixedmode, pyspark, " in str(caught.value)
    assert f"Set PYSPARK_PYTHON to {sys.executable} before the session is opened" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_session_with_our_own_python_and_one_on_a_cluster_are_not_asked() -> None:
    check_workers(session_with(sys.executable))
    check_workers(session_with("/nowhere/python", master="spark://head:7077"))


def test_the_server_for_counters_says_nothing_of_a_jvm_that_hangs_up_and_tells_of_the_rest() -> None:
    told: list[str] = []
    server_type = type("Server", (), {"handle_error": lambda _self, *_given: told.append(str(sys.exception()))})
    server = server_type()
    context: Any = SimpleNamespace(_accumulatorServer=server)
    jvm.hush_accumulators(context)
    jvm.hush_accumulators(context)
    for error in (ConnectionResetError("hung up"), EOFError("cut"), ValueError("a defect")):
        try:
            raise error
        except (OSError, EOFError, ValueError):
            server.handle_error("request", "address")
    assert told == ["a defect"]


def test_what_py4j_logs_stays_out_of_the_screen_and_other_warnings_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with errors_as_messages():
        (handler,) = root.handlers
        for place in ("/lib/py4j/java_gateway.py", "/job/functions.py"):
            handler.handle(logging.LogRecord("root", logging.ERROR, place, 1, f"said in {place}", None, None))
    assert re.fullmatch(r"[-\d]+ [:.\d]+ UTC ERROR root: said in /job/functions\.py\n", capsys.readouterr().err)


def test_a_jvm_that_was_begun_is_the_one_that_is_started_and_its_error_is_raised_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launched = list[Any]()

    def launch(configuration: Any, process: Any) -> Any:
        launched.append(configuration.get("spark.app.name"))
        process["stdout"].write(b"Error: Could not find or load main class\n")
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    jvm.begin_jvm({"spark.app.name": "early"}, tmp_path)
    with pytest.raises(InvalidJobError, match="cause=Error: Could not find or load main class"):
        jvm.start_jvm({"spark.app.name": "late"}, tmp_path)
    assert launched == ["early"]
    with pytest.raises(InvalidJobError):
        jvm.start_jvm({"spark.app.name": "again"}, tmp_path)
    assert launched == ["early", "again"]


def test_a_jvm_that_was_begun_for_nothing_ends_with_the_program_and_leaves_no_list_of_classes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIXEDMODE_CACHE", str(tmp_path))
    classes = tmp_path / "classes" / "digest.classes"
    classes.parent.mkdir()
    classes.touch()
    settings = {"spark.driver.extraJavaOptions": f'"-XX:DumpLoadedClassList={classes}"', "spark.master": "local"}
    at_exit = list[Callable[[], None]]()
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:

        def initialise(*, gateway: object) -> None:
            monkeypatch.setattr(SparkContext, "_gateway", gateway)

        monkeypatch.setattr(jvm, "_gateway", lambda *_given: SimpleNamespace(proc=child))
        monkeypatch.setattr(SparkContext, "_ensure_initialized", initialise)
        jvm.begin_jvm(settings, tmp_path)
        (end,) = at_exit
        end()
        monkeypatch.setattr(jvm, "_begun", None)
        assert (child.returncode, classes.exists()) == (-signal.SIGKILL, False)


CRASH = "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x00007f\n"


@pytest.mark.parametrize("printed", [CRASH, "Error: Could not find or load main class"])
def test_a_jvm_that_crashes_with_its_archive_starts_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str
) -> None:
    archive = tmp_path / "classes" / "digest.jsa"
    archive.parent.mkdir()
    archive.touch()
    asked: list[str] = []

    def gateway(settings: Mapping[str, str], output: IO[bytes]) -> object:
        asked.append(settings["spark.driver.extraJavaOptions"])
        if "SharedArchiveFile" in asked[-1]:
            output.write(printed.encode())
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
        return "gateway"

    started: list[object] = []

    def initialise(*, gateway: object) -> None:
        started.append(gateway)

    monkeypatch.setenv("MIXEDMODE_CACHE", str(tmp_path))
    monkeypatch.setattr(jvm, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", initialise)
    settings = {"spark.driver.extraJavaOptions": f'"-Da=b" "-XX:SharedArchiveFile={archive}"', "spark.master": "local"}
    if printed is CRASH:
        jvm._launch(settings, tmp_path)
        assert (len(asked), started, archive.exists()) == (2, ["gateway"], False)
    else:
        with pytest.raises(InvalidJobError, match="Could not find or load main class"):
            jvm._launch(settings, tmp_path)
        assert (len(asked), archive.exists()) == (1, True), "the archive is not the cause"
