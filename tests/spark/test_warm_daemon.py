"""A daemon that was started early becomes the process that Spark has started, unless the two would differ."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mixedmode.spark import warm_daemon
from mixedmode.spark.warm_daemon import ANNOUNCED, Request, WarmDaemon, hand_over, refusal

OURS = Request({"PATH": "/bin", "OMP_NUM_THREADS": "1"}, ["", "/lib"], "python 3", "/tmp", ["--warm", "3", "file"])
ANSWER_S = 30
#: a daemon of one request: it prints what it is, and echoes its input
DAEMON = """\
import os, sys
from pathlib import Path
from mixedmode.spark.warm_daemon import Request, WARM, hand_over, take_over
request = Request.of_this_process(sys.path)
if request.arguments[:1] == [WARM]:
    os.environ["OF_IMPORTS"] = "set"
    who = "warm"
    if not take_over(int(request.arguments[1]), Path(request.arguments[2]), request):
        sys.exit()
elif hand_over(request):
    sys.exit()
else:
    who = "itself"
get = os.environ.get
print(who, sys.argv[1:], get("SPARK_OWN"), get("OF_IMPORTS"), os.read(0, 100).decode(), flush=True)
"""


@pytest.mark.parametrize(
    ("theirs", "what"),
    [
        (OURS, None),
        (replace(OURS, arguments=["pyspark.worker"]), None),
        (replace(OURS, environment={**OURS.environment, "SPARK_REUSE_WORKER": "1", "_": "x"}), None),
        (replace(OURS, environment={**OURS.environment, "OMP_NUM_THREADS": "4"}), "OMP_NUM_THREADS"),
        (replace(OURS, environment={**OURS.environment, "OF_THE_JOB": "1"}), "OF_THE_JOB"),
        (replace(OURS, environment={"PATH": "/bin"}), "OMP_NUM_THREADS"),
        (replace(OURS, module_path=["/lib", ""]), "module_path"),
        (replace(OURS, python="python 4"), "python"),
        (replace(OURS, folder="/"), "folder"),
    ],
)
def test_a_daemon_takes_over_only_what_imports_do_not_depend_on(theirs: Request, what: str | None) -> None:
    assert refusal(OURS, theirs) == what


@pytest.fixture
def small_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DAEMON is the module of daemons, in the environment that Spark sets."""
    (tmp_path / "small_daemon.py").write_text(textwrap.dedent(DAEMON))
    monkeypatch.setattr(warm_daemon, "DAEMON", "small_daemon")
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    for name, value in {**warm_daemon._DEFAULT_OF_SPARK, **warm_daemon._SET_BY_SPARK}.items():
        monkeypatch.setenv(name, value)
    with TemporaryDirectory(dir="/tmp") as short:  # the name of a socket must be short
        monkeypatch.setattr(warm_daemon, "socket_folder", lambda: Path(short))
        yield


def asked(warm: WarmDaemon, variables: Mapping[str, str]) -> str:
    """Return what the process that Spark would start prints to its streams."""
    with warm.announced():
        environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "small_daemon", "pyspark.worker"]
    done = subprocess.run(
        command, env=environment, input="hello", capture_output=True, text=True, check=True, timeout=ANSWER_S
    )
    return done.stdout.strip()


@pytest.mark.usefixtures("small_daemon")
def test_the_warm_daemon_has_the_streams_the_environment_and_the_arguments_of_the_proxy() -> None:
    with closing(WarmDaemon()) as warm:
        warm.begin()
        assert asked(warm, {"SPARK_OWN": "1"}) == "warm ['pyspark.worker'] 1 set hello"
        assert asked(warm, {"SPARK_OWN": "2"}) == "itself ['pyspark.worker'] 2 None hello", "it serves once"
        assert not warm._file.exists()


@pytest.mark.usefixtures("small_daemon")
def test_another_environment_gets_a_daemon_of_its_own() -> None:
    with closing(WarmDaemon()) as warm:
        warm.begin()
        assert asked(warm, {"OMP_NUM_THREADS": "7"}) == "itself ['pyspark.worker'] None None hello"


@pytest.mark.usefixtures("small_daemon")
def test_without_a_warm_daemon_each_process_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ANNOUNCED not in os.environ
    assert not hand_over(OURS)
    with closing(WarmDaemon()) as warm:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(tmp_path / "no-python"))
            warm.begin()  # it cannot start, so nobody listens
        monkeypatch.setenv(ANNOUNCED, str(warm._file))
        assert not hand_over(OURS)


@pytest.mark.usefixtures("small_daemon")
def test_a_daemon_that_was_not_used_ends_with_its_driver() -> None:
    warm = WarmDaemon()
    warm.begin()
    warm.close()
    assert warm._process is not None
    assert warm._process.wait(ANSWER_S) == 0
