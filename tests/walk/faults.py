"""The faults of a walk: a kill, a pause or a failing store, at a named place or at any single step of I/O.

A kill is an exception that nothing catches, and after it the start that it hit can touch nothing more:
whatever cleans up on the way out meets the same kill. What is left is what the folders hold.
"""

import errno
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mixedmode import crash_points
from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.crash_points import CRASH_AT, CrashPoint


class Killed(BaseException):
    """The driver's process is gone."""


@dataclass(frozen=True, slots=True)
class KillAtPoint:
    """A kill at a crash point, in this epoch or in whichever epoch comes first."""

    name: CrashPoint
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class KillAtStep:
    """A kill right before or after one step of I/O: `number` counts both, from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class FailAtStep:
    """The store fails once, right before or after one step of I/O."""

    number: int


@dataclass(frozen=True, slots=True)
class PauseAtStep:
    """The driver is stopped there, as by SIGSTOP, and may go on later."""

    number: int


Fault = KillAtPoint | KillAtStep | FailAtStep | PauseAtStep

#: methods of a store that change or fetch one thing; those that take many are taken apart, so that a kill can strike
#: between any two of them
_SINGLE = ("put_new", "put_unsynced", "put", "put_file", "fetch_file", "get", "size", "list", "sweep_unfinished")


class Faults:
    """The fault that waits, if any. One start acts at a time, so there is one of them."""

    def __init__(self, killed: type[BaseException] = Killed) -> None:
        self._killed = killed
        self._waiting: Fault | None = None
        self._steps = 0
        self._is_dead = False
        #: {thread of a start: waits there until it is let go on}
        self.pauses: dict[threading.Thread, Callable[[], None]] = {}

    @contextmanager
    def armed(self, fault: Fault | None) -> Iterator[None]:
        """While the block runs, `fault` waits to strike; afterwards nothing does, and nobody is dead."""
        self._waiting, self._steps = fault, 0
        try:
            yield
        finally:
            self._waiting, self._is_dead = None, False

    def step(self, *, can_fail: bool = True) -> None:
        """Before and after each step of I/O. `can_fail`: it is one of the store, which may fail without a kill.

        Who was paused, and goes on, is not hit by what waits for another start.
        """
        if self._is_dead:
            raise self._killed
        number, self._steps = self._steps, self._steps + 1
        match self._waiting:
            case KillAtStep(at) if at == number:
                self._is_dead = True
                raise self._killed
            case FailAtStep(at) if can_fail and at <= number:
                self._waiting = None
                raise OSError(errno.EIO, "Input/output error", f"step {number}")
            case PauseAtStep(at) if at <= number and threading.current_thread() in self.pauses:
                self._waiting = None
                self.pauses[threading.current_thread()]()

    def kill(self, *_: object) -> None:
        """In the place of os.kill, for crash points."""
        self._is_dead = True
        raise self._killed

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put the faults where the program does its I/O, and where its crash points are."""
        for name in _SINGLE:
            patch.setattr(LocalFiles, name, self._around(getattr(LocalFiles, name)))
        delete, rename_all = LocalFiles.delete, LocalFiles.rename_all

        def delete_each(files: LocalFiles, paths: Sequence[str]) -> None:
            for path in paths:
                self._around(delete)(files, [path])

        def rename_each(files: LocalFiles, pairs: Sequence[tuple[str, str]]) -> Sequence[bool]:
            return [self._around(rename_all)(files, [pair])[0] for pair in pairs]

        patch.setattr(LocalFiles, "delete", delete_each)
        patch.setattr(LocalFiles, "rename_all", rename_each)
        process = SimpleNamespace(environ=_Environment(self), kill=self.kill, getpid=lambda: 0)
        patch.setattr(crash_points, "os", process)

    def _around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def stepped(*arguments: Any) -> Any:
            self.step()
            result = method(*arguments)
            self.step()
            return result

        return stepped

    def is_at(self, place: object) -> bool:
        """Return whether the crash point that waits is this one, as `<name>@<epoch>`."""
        match self._waiting:
            case KillAtPoint(name, None):
                return str(place).startswith(f"{name}@")
            case KillAtPoint(name, epoch):
                return place == f"{name}@{epoch}"
        return False


class _Environment(dict[str, str]):
    """The environment as a crash point sees it: it names the place at which the fault waits."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def get(self, name: str, default: Any = None) -> Any:
        return _Place(self._faults) if name == CRASH_AT else default


class _Place:
    """Equal to each place at which the fault strikes."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __eq__(self, place: object) -> bool:
        return self._faults.is_at(place)

    def __hash__(self) -> int:
        return hash(self._faults)
