"""The costs of a run besides time: the peak memory of its processes, and the bytes that they write to disks.

A thread looks at the processes while the run goes on. A process counts from the second look on: a fork has the memory
of its parent until it has become its own program.
"""

import contextlib
import threading
from collections.abc import Mapping
from typing import Self

import psutil

LOOK_EVERY_S = 0.05  # each look takes 2 ms, of two cores

DRIVER, JVM, PYTHON_WORKER = "driver", "JVM", "Python worker"


class Gauge:
    """Measures the processes below (and with) `root` for as long as it is open; it is read when it is closed.

    peak_bytes: the sum of the peaks of the processes of each role. written_bytes: None where the system does not tell.
    """

    def __init__(self, root: int, *, every_s: float = LOOK_EVERY_S) -> None:
        self._root = root
        self._every_s = every_s
        self._is_over = threading.Event()
        self._roles: dict[int, str] = {}  #: {process: its role at the last look}
        self._peaks: dict[tuple[int, str], int] = {}  #: {(process, role): the most that was resident}
        self.peak_bytes: Mapping[str, int] = {}
        self.written_bytes: int | None = None

    def __enter__(self) -> Self:
        self._look()
        self._written_before = self._written()
        self._thread = threading.Thread(target=self._watch, name="gauge", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()
        sums: dict[str, int] = {}
        for (_, role), peak in self._peaks.items():
            sums[role] = sums.get(role, 0) + peak
        self.peak_bytes = sums
        written = self._written()
        if written is not None and self._written_before is not None:
            self.written_bytes = max(0, written - self._written_before)

    def _watch(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        before, self._roles = self._roles, {}
        for process in self._processes():
            with contextlib.suppress(psutil.Error):  # it has ended
                role = role_of(process.name(), is_root=process.pid == self._root)
                self._roles[process.pid] = role
                if before.get(process.pid) == role:
                    known = self._peaks.get((process.pid, role), 0)
                    self._peaks[process.pid, role] = max(known, process.memory_info().rss)

    def _written(self) -> int | None:
        """Return the bytes sent to disks so far. Those of a child that has ended are its parent's, which has waited."""
        found = None
        for process in self._processes():
            with contextlib.suppress(psutil.Error, AttributeError):  # it has ended, or the system does not tell
                found = (found or 0) + process.io_counters().write_bytes
        return found

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._root)
            return [root, *root.children(recursive=True)]
        return []


def role_of(name: str, *, is_root: bool) -> str:
    """Return the role of a process, derived from the name of its program."""
    if is_root:
        return DRIVER
    return JVM if name == "java" else PYTHON_WORKER if name.startswith("python") else name
