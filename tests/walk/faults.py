"""Where a walk strikes: a kill, a pause or a failing store, at a named place or at any single step of I/O.

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
    """A kill at a crash point, in whichever epoch comes first."""

    name: CrashPoint


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
_SINGLE = ("put_new", "put", "put_file", "fetch_file", "get", "size", "list", "sweep_unfinished")


class Faults:
    """The fault that waits, if any. One start acts at a time, so there is one of them."""

    def __init__(self) -> None:
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
            raise Killed
        number, self._steps = self._steps, self._steps + 1
        match self._waiting:
            case KillAtStep(at) if at == number:
                self._is_dead = True
                raise Killed
            case FailAtStep(at) if can_fail and at <= number:
                self._waiting = None
                raise OSError(errno.EIO, "Input/output error", f"step {number}")
            case PauseAtStep(at) if at <= number and threading.current_thread() in self.pauses:
                self._waiting = None
                self.pauses[threading.current_thread()]()

    def kill(self, *_: object) -> None:
        """In the place of os.kill, for crash points."""
        self._is_dead = True
        raise Killed

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

    @property
    def point(self) -> CrashPoint | None:
        """The crash point that waits."""
        return self._waiting.name if isinstance(self._waiting, KillAtPoint) else None


class _Environment(dict[str, str]):
    """The environment as a crash point sees it: itself, in any epoch, if it is the one that waits."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def get(self, name: str, default: Any = None) -> Any:
        return _AnyEpoch(self._faults.point) if name == CRASH_AT else default


class _AnyEpoch:
    def __init__(self, name: str | None) -> None:
        self._name = name

    def __eq__(self, place: object) -> bool:
        return self._name is not None and str(place).startswith(f"{self._name}@")

    def __hash__(self) -> int:
        return hash(self._name)
