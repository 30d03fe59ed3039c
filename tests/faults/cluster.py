"""A Spark standalone cluster on this machine, from the installed PySpark: a master, and workers on two addresses.

All of it runs in sessions of its own, and is killed at the end, whatever happens. A worker is killed together with what
it started (its executor, and the executor's Python workers), as if its machine had lost its power.
"""

import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pyspark

from tests.faults.processes import SECONDS_MAX, wait_until
from tests.java import JAVA_OPTIONS

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
#: what tells the processes of one cluster from all others
MARK = "MIXEDMODE_TEST_CLUSTER"
#: for a job on it: small, waits for all executors, and does not look for shuffle files of dead ones for long
SETTINGS: dict[str, str] = {
    "driver.memory": "600m",
    "driver.host": "127.0.0.1",
    "executor.memory": "500m",
    "executor.cores": "1",
    "executor.extraJavaOptions": JAVA_OPTIONS,
    "scheduler.minRegisteredResourcesRatio": "1.0",
    "scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "shuffle.io.maxRetries": "1",
    "shuffle.io.retryWait": "100ms",
}


@dataclass
class Cluster:
    """A running master and its workers, by the address that each was started on."""

    folder: Path
    port: int
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_worker(self, host: str) -> None:
        """Start a worker of one core on an address of the loopback."""
        assert host not in self.workers, host
        options = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "500m"]
        work = ["--work-dir", str(self.folder / f"work {host}")]
        self.workers[host] = self._start("worker.Worker", *options, *work, self.master, name=host)

    def wait_for_workers(self) -> None:
        """Until the master has heard of all workers that run."""
        for host in self.workers:
            wait_until(partial(self._is_registered, host), f"the worker {host} registers")

    def _is_registered(self, host: str) -> bool:
        return "Successfully registered" in (self.folder / f"{host}.log").read_text()

    def kill_worker(self, host: str) -> None:
        """SIGKILL for a worker and all that it started."""
        _kill_tree(self.workers.pop(host))
        (self.folder / f"{host}.log").unlink()

    def kill_executor_of(self, process_id: int) -> None:
        """SIGKILL for the executor that a Python worker belongs to, and all that it started. Its worker stays, and
        starts another one.
        """
        parents = psutil.Process(process_id).parents()
        (executor,) = [parent for parent in parents if "CoarseGrained" in " ".join(parent.cmdline())]
        for process in [executor, *executor.children(recursive=True)]:
            _kill(process)

    def host_of(self, process_id: int) -> str:
        """The worker that a process belongs to."""
        parents = {parent.pid for parent in psutil.Process(process_id).parents()}
        (host,) = [host for host, worker in self.workers.items() if worker.pid in parents]
        return host

    def start_master(self) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"]
        return self._start("master.Master", *options, name="master")

    def _start(self, what: str, *arguments: str, name: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            MARK: self.mark,
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
            "PYTHONPATH": str(ROOT),
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(self.folder / f"local {name}"),
        }
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master and workers on 127.0.0.1 and 127.0.0.2, with their files in `folder`."""
    running = Cluster(folder, _free_port())
    master = running.start_master()
    try:
        for host in ("127.0.0.1", "127.0.0.2"):
            running.start_worker(host)
        running.wait_for_workers()
        yield running
    finally:
        for process in [*running.workers.values(), master]:
            _kill_tree(process)
        _kill_marked(running.mark)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return list(psutil.Process(process.pid).children(recursive=True))
    return []


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """The parent first, so that it starts nothing in place of its children."""
    children = _children(process)
    process.kill()
    for child in children:
        _kill(child)
    process.wait(SECONDS_MAX)
    psutil.wait_procs(children, timeout=SECONDS_MAX)


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def _kill_marked(mark: str) -> None:
    """Kill the processes that outlived their parent. The environment of each process has the mark of its parent."""
    left = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                left.append(process)
                process.kill()
    psutil.wait_procs(left, timeout=SECONDS_MAX)
