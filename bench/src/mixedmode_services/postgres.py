"""A PostgreSQL server on this machine, over a folder, on loopback, with its own user and password.

All of the server's state is in its folder: data, log, and the password, which is drawn when the folder is created. Its
port is chosen once and stays the same. So clients see the same server after it was stopped and started again.

PostgreSQL refuses to run as root. Root starts it as another user: `postgres` if that user exists, else `nobody`.
"""

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from signal import SIGINT, SIGQUIT
from types import TracebackType
from typing import Self

from mixedmode.errors import RetryableError
from mixedmode_services.server import LOOPBACK, Server, free_port

__all__ = ["PostgresServer", "find_binaries"]

USER = "mixedmode"
_DATABASE = "postgres"  # exists on every server
_USUAL_PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Red Hat's family
    "/opt/homebrew/opt/postgresql*/bin",  # macOS on Arm
    "/usr/local/opt/postgresql*/bin",  # macOS on Intel
)
#: makes commits fast; they are lost if the machine stops, but not if the server stops
_UNSAFE = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer:
    """A server over `folder`, with its data in `data` and its log in `postgres.log` there. As a context manager it
    runs during the block. `port` is used as given; without it, a free port is chosen. `unsafe=True` is for tests:
    commits do not wait for the disk.
    """

    def __init__(self, folder: Path, *, port: int | None = None, unsafe: bool = False) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self._unsafe = unsafe
        self._server = Server("PostgreSQL", log=self.folder / "postgres.log", stop_signal=SIGINT)

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._server.log

    @property
    def is_running(self) -> bool:
        """Return whether the server's process runs."""
        return self._server.is_running

    @property
    def password(self) -> str:
        """The password of the server's user; the folder must exist."""
        return self._password_file().read_text(encoding="utf-8").strip()

    def url(self, database: str = _DATABASE) -> str:
        """Return the URL that clients connect to, with user and password."""
        return f"postgresql://{USER}:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> Self:
        """Start the server over its data, or over new data, and return when it answers. Raises RetryableError if
        PostgreSQL is not installed, or it does not start; its log says why.
        """
        binaries = find_binaries()
        self.folder.mkdir(parents=True, exist_ok=True)
        user = _other_user(self.folder) if os.geteuid() == 0 else None
        if not (self._data() / "PG_VERSION").exists():
            self._make(binaries, user)
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",  # clients connect by the port; the length of a socket's path is limited
            "timezone": "UTC",
            **(_UNSAFE if self._unsafe else {}),
        }
        command = [str(binaries / "postgres"), "-D", str(self._data())]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        is_ready = [str(binaries / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        self._server.start(command, lambda: subprocess.run(is_ready, check=False).returncode == 0, user=user)
        return self

    def stop(self) -> None:
        """Stop the server in order: connections are closed, and data stay."""
        self._server.stop()

    def crash(self) -> None:
        """Stop the server at once, as a crash would. Its next start recovers what was committed."""
        self._server.end(SIGQUIT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _data(self) -> Path:
        return self.folder / "data"

    def _password_file(self) -> Path:
        return self.folder / "password"

    def _make(self, binaries: Path, user: tuple[int, int] | None) -> None:
        """Create new data under a temporary name, because a folder with incomplete data could not be started."""
        making = self.folder / "making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        self._password_file().unlink(missing_ok=True)
        self._password_file().touch(mode=0o600)
        self._password_file().write_text(secrets.token_hex(16), encoding="utf-8")
        uid, gid = user or (None, None)
        if user is not None:
            os.chown(making, *user)
            os.chown(self._password_file(), *user)
        done = subprocess.run(
            [
                *(str(binaries / "initdb"), "-D", str(making), "--username", USER, "--encoding=UTF8", "--locale=C"),
                *("--auth=scram-sha-256", "--pwfile", str(self._password_file())),
                *(["--no-sync"] if self._unsafe else []),
            ],
            capture_output=True,
            text=True,
            check=False,
            user=uid,
            group=gid,
            extra_groups=[] if user else None,
            cwd="/" if user else None,
        )
        if done.returncode != 0:
            msg = (
                "PostgreSQL could not make its data folder. See that the folder can be written to, and that the disk "
                f"has room. folder={self.folder}, reason={done.stderr.strip()[-500:]}"
            )
            raise RetryableError(msg)
        making.replace(self._data())


def find_binaries() -> Path:
    """Return the folder of PostgreSQL's programs: that of the `initdb` on PATH, else the newest version in the usual
    places. Raises RetryableError, with the command that installs PostgreSQL, if there is none.
    """
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = [folder for pattern in _USUAL_PLACES for folder in Path("/").glob(pattern[1:])]
    usable = [folder for folder in found if (folder / "initdb").exists()]
    if usable:
        return max(usable, key=_version_of)
    installer = "brew install postgresql@17" if shutil.which("brew") else "sudo apt-get install postgresql"
    msg = (
        "PostgreSQL is not installed on this machine: `initdb` is neither on PATH nor in the usual folders. "
        f"Install it: {installer}"
    )
    raise RetryableError(msg)


def _version_of(binaries: Path) -> int:
    """Return the version number in the name of a usual place; 0 if it has none."""
    digits = "".join(filter(str.isdigit, binaries.parent.name))
    return int(digits or 0)


def _other_user(folder: Path) -> tuple[int, int]:
    """Return the ids of a user (`postgres`, else `nobody`) and its group that can reach the folder.
    Raises RetryableError if neither can.
    """
    for entry in _candidates():
        is_reachable = subprocess.run(
            ["/bin/sh", "-c", 'test -x "$0"', str(folder)],
            check=False,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            cwd="/",
        )
        if is_reachable.returncode == 0:
            return entry.pw_uid, entry.pw_gid
    msg = (
        "PostgreSQL does not run as root, and no other user can reach its folder. Run this as an ordinary user, or let "
        f"others pass through the folders above it (chmod o+x). folder={folder}"
    )
    raise RetryableError(msg)


def _candidates() -> Iterable[pwd.struct_passwd]:
    for name in ("postgres", "nobody"):
        try:
            yield pwd.getpwnam(name)
        except KeyError:
            continue
