"""A daemon of Python workers that has imported its modules before Spark asks for one.

Spark starts the daemon for its first task on Python, and the task waits for the imports. So the driver starts the same
process while Spark's own start takes its seconds. When Spark starts its daemon, that process (the proxy) passes its
standard streams and environment over a local socket, and then only waits for the end of the warm one.

    driver  -> warm daemon      a listening socket, and a standard input that ends with the driver
    JVM     -> proxy            ANNOUNCED in its environment names the socket
    proxy   -> warm daemon      file descriptors 0, 1 and 2, and a Request; answer: 1 taken, 0 refused

A warm daemon refuses if it would differ in anything that counts when modules are imported. Then the proxy, as without a
warm daemon, imports the modules and is the daemon itself.
"""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex

from mixedmode.installed import python_command
from mixedmode.spark.socket_folder import socket_folder

__all__ = ["ANNOUNCED", "DAEMON", "WARM", "Request", "WarmDaemon", "hand_over", "refusal", "take_over"]

DAEMON = "mixedmode.spark.daemon"  # the module that Spark starts
ANNOUNCED = "MIXEDMODE_WARM_DAEMON"  # the socket's file, in the environment of the JVM and of its processes
WARM = "--warm"  # the argument of a warm daemon, followed by the number of its listening socket
_STREAMS = 3
_END_SECONDS = 5.0
#: variables of a daemon that Spark sets whatever the driver has. numpy and Arrow choose their threads by them.
_SET_BY_SPARK = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "YES"}
_DEFAULT_OF_SPARK = {"PYTHONHASHSEED": "0"}  # unless the driver has another: all workers must hash alike
#: read at run time only: by PySpark, by mixedmode, by nobody
_MAY_DIFFER = ("SPARK_", "PYSPARK_", "_PYSPARK_", "PYTHON_", "MIXEDMODE_")
_MAY_DIFFER_ALONE = frozenset({"PYTHONPATH", "_", "SHLVL", "PWD", "OLDPWD"})  # the module path is compared instead


@dataclass(frozen=True, slots=True)
class Request:
    """The proxy's process: what the warm daemon takes over, and what must be equal."""

    environment: Mapping[str, str]
    module_path: Sequence[str]
    python: str
    folder: str
    arguments: Sequence[str]

    @classmethod
    def of_this_process(cls, module_path: Sequence[str]) -> "Request":
        """Return the request of this process, with the module path of a daemon."""
        path = list(dict.fromkeys(module_path))
        return cls(dict(os.environ), path, f"{sys.executable} {sys.version}", str(Path.cwd()), sys.argv[1:])


class WarmDaemon:
    """The driver's end: `announced` while the JVM starts, then `begin`."""

    def __init__(self) -> None:
        """Listen. Raise OSError if there can be no socket."""
        self._file = socket_folder() / f"{token_hex(6)}.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._file))
        self._listener.listen()
        #: as that of the JVM, which is started now
        self._environment = {**_DEFAULT_OF_SPARK, **os.environ, **_SET_BY_SPARK}
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Name the socket to the JVM that is started in the block."""
        os.environ[ANNOUNCED] = str(self._file)
        try:
            yield
        finally:
            os.environ.pop(ANNOUNCED, None)

    def begin(self) -> None:
        """Start the process. If it cannot start, or ends early, Spark's own process is the daemon."""
        listener = self._listener.fileno()
        with self._listener, suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603  this Python
                [python_command(), "-m", DAEMON, WARM, str(listener), str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                pass_fds=[listener],
                process_group=0,  # Ctrl-C is for the driver
            )

    def close(self) -> None:
        """End a daemon that was not used, or wait a moment for the end of one whose proxy's parent has ended."""
        self._listener.close()
        self._file.unlink(missing_ok=True)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)


def take_over(listener_number: int, file: Path, ours: Request) -> bool:
    """Wait in the warm daemon for a proxy, and become its process. Return whether this process is now a daemon.

    Return False if the driver ends before, or if the proxy's process differs.
    """
    with socket.socket(fileno=listener_number) as listener:
        try:
            poll = select.poll()
            poll.register(0)
            poll.register(listener)
            if any(number == 0 for number, _ in poll.poll()):
                return False
            proxy, _ = listener.accept()
        finally:
            file.unlink(missing_ok=True)
    # `proxy` stays open as long as this process runs: its end is the end that the proxy waits for
    numbers, theirs = _received(proxy)
    if len(numbers) != _STREAMS or refusal(ours, theirs) is not None:
        proxy.sendall(b"0")
        return False
    proxy.sendall(b"1")
    for number, stream in zip(numbers, range(_STREAMS), strict=True):
        os.dup2(number, stream)
        os.close(number)
    of_imports = {name: value for name, value in os.environ.items() if name not in ours.environment}
    os.environ.clear()
    os.environ.update({**of_imports, **theirs.environment})
    sys.argv[1:] = theirs.arguments
    proxy.detach()
    return True


def refusal(ours: Request, theirs: Request) -> str | None:
    """Return in what a proxy's process differs from the warm daemon's; None if the daemon may take over. Pure."""
    for what in ("module_path", "python", "folder"):
        if getattr(ours, what) != getattr(theirs, what):
            return what
    for name in sorted(ours.environment.keys() | theirs.environment.keys()):
        if name.startswith(_MAY_DIFFER) or name in _MAY_DIFFER_ALONE:
            continue
        if ours.environment.get(name) != theirs.environment.get(name):
            return name
    return None


def hand_over(theirs: Request) -> bool:
    """Let the warm daemon that was announced be the daemon of this process's parent, and wait for its end.

    Return False if there is none, or if it refuses: this process must then be the daemon itself.
    """
    file = os.environ.get(ANNOUNCED)
    if file is None:
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as warm:
        warm.connect(file)
        text = json.dumps(asdict(theirs)).encode()
        socket.send_fds(warm, [len(text).to_bytes(8, "big")], list(range(_STREAMS)))
        warm.sendall(text)
        if warm.recv(1) == b"1":
            with suppress(OSError):
                warm.recv(1)  # the end of the daemon
            return True
    return False


def _received(proxy: socket.socket) -> tuple[list[int], Request]:
    head, numbers, _, _ = socket.recv_fds(proxy, 8, _STREAMS)
    with proxy.makefile("rb") as read:
        head += read.read(8 - len(head))
        text = read.read(int.from_bytes(head, "big"))
    return numbers, Request(**json.loads(text))
