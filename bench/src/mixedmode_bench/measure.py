"""The costs of a run besides time: the peak memory of its processes, and the bytes that they write to disks.

Where the kernel keeps the peak of each process, it is told to forget it before the run and asked after
it, so nothing between two looks is lost; looks in between are for processes that come and go. Elsewhere the largest
of what is seen has to do.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

#: between two looks; each takes 2 ms, of two cores
LOOK_EVERY_S = 0.1

DRIVER, JVM, PYTHON_WORKER = "driver", "JVM", "Python worker"
_PROC = Path("/proc")
_FORGET_PEAK = "5"  # proc(5), clear_refs


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one moment. `peak_bytes` since it was reset, or what is resident now where peaks are not kept."""

    pid: int
    role: str
    peak_bytes: int


class Peaks:
    """The peak of each process, from looks at them.

    A process that was seen once only may be a fork that has not become its program yet, and has the memory of its
    parent; so it does not count, unless it is there at the first look or the last one.
    """

    def __init__(self, first: Iterable[Seen]) -> None:
        self._peaks: dict[int, tuple[str, int]] = {}
        self._waiting: dict[int, Seen] = {}
        for seen in first:
            self._count(seen)

    def look(self, there: Iterable[Seen]) -> None:
        """Another look."""
        for seen in there:
            before = self._waiting.get(seen.pid)
            if seen.pid in self._peaks or (before is not None and before.role == seen.role):
                self._count(seen)
            else:
                self._waiting[seen.pid] = seen

    def last(self, there: Iterable[Seen]) -> None:
        """The last look."""
        for seen in there:
            self._count(seen)

    def by_role(self) -> dict[str, int]:
        """The sum of the peaks of each role."""
        sums: dict[str, int] = {}
        for role, peak in self._peaks.values():
            sums[role] = sums.get(role, 0) + peak
        return sums

    def _count(self, seen: Seen) -> None:
        _, before = self._peaks.get(seen.pid, ("", 0))
        self._peaks[seen.pid] = seen.role, max(before, seen.peak_bytes)


class Gauge:
    """Measures the processes below (and with) `root` for as long as it is open; it is read when it is closed."""

    def __init__(self, root: int, *, every_s: float = LOOK_EVERY_S) -> None:
        self._root = root
        self._every_s = every_s
        self._is_over = threading.Event()
        self.peak_bytes: Mapping[str, int] = {}
        self.written_bytes: int | None = None

    def __enter__(self) -> Self:
        pids = _tree(self._root)
        for pid in pids:
            _forget_peak(pid)
        self._peaks = Peaks(_look(pids, self._root))
        self._written_before = _written(pids)
        self._thread = threading.Thread(target=self._watch, name="gauge", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()
        pids = _tree(self._root)
        self._peaks.last(_look(pids, self._root))
        self.peak_bytes = self._peaks.by_role()
        written = _written(pids)
        if written is not None and self._written_before is not None:
            self.written_bytes = max(0, written - self._written_before)

    def _watch(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._peaks.look(_look(_tree(self._root), self._root))


def role_of(name: str, *, is_root: bool) -> str:
    """Return the role of a process, derived from the name of its program."""
    if is_root:
        return DRIVER
    return JVM if name == "java" else PYTHON_WORKER if name.startswith("python") else name


def _tree(root: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    return []


def _look(pids: Iterable[int], root: int) -> list[Seen]:
    """Those of the processes that are still there."""
    look: Callable[[int, bool], Seen | None] = _seen_by_kernel if (_PROC / "self/status").exists() else _seen_now
    return [seen for pid in pids if (seen := look(pid, pid == root)) is not None]


def _seen_by_kernel(pid: int, is_root: bool) -> Seen | None:  # noqa: FBT001  one of two such functions
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    if "VmHWM" not in fields:  # it has ended, and was not waited for
        return None
    return Seen(pid, role_of(fields["Name"].strip(), is_root=is_root), int(fields["VmHWM"].split()[0]) * 1024)


def _seen_now(pid: int, is_root: bool) -> Seen | None:  # noqa: FBT001  one of two such functions
    try:
        process = psutil.Process(pid)
        return Seen(pid, role_of(process.name(), is_root=is_root), process.memory_info().rss)
    except psutil.Error:
        return None


def _forget_peak(pid: int) -> None:
    with contextlib.suppress(OSError):  # not on this system, or not allowed: the peak is then that of its life
        (_PROC / str(pid) / "clear_refs").write_text(_FORGET_PEAK)


def _written(pids: Iterable[int]) -> int | None:
    """Bytes sent to disks so far. Those of a child that has ended are its parent's, which has waited for it."""
    found = None
    for pid in pids:
        with contextlib.suppress(OSError):
            text = (_PROC / str(pid) / "io").read_text()
            found = (found or 0) + int(text.partition("\nwrite_bytes:")[2].split()[0])
    return found
