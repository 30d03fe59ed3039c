"""Facts about the machine on which a job is about to run, for `mixedmode doctor`.

Gathering and judging are separate: this module asks the system and judges nothing, `doctor.py` judges and asks nothing.
This module needs only the standard library, because packages may be missing.

Invariant (tests/cli/test_machine.py):
  I1  gather_facts never raises for something that is missing or broken; the fact says so
"""

import importlib
import importlib.metadata
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.installed import python_command
from mixedmode.spark.class_archive import ArchiveFact, archive_fact
from mixedmode.spark.socket_folder import socket_folder

JAVA_TIMEOUT_S = 30
DISTRIBUTION = "mixedmode"
IMPORT_NAMES = {"pyyaml": "yaml"}  # where it is not the name of the distribution


@dataclass(frozen=True, slots=True)
class JavaFact:
    """The `java` that Spark would start, as it describes itself.

    `version` is None if it could not be run; `said` is what it printed then, or the error of the system.
    """

    command: str | None  # None: no JAVA_HOME, and no java on PATH
    from_java_home: bool = False
    version: str | None = None
    modules: frozenset[str] = frozenset()
    said: str = ""


@dataclass(frozen=True, slots=True)
class PackageFact:
    """A required package. `requirement` is its version range; `installed` is its version, or None."""

    name: str
    requirement: str
    installed: str | None
    import_error: str | None = None


@dataclass(frozen=True, slots=True)
class FolderFact:
    """A folder that the job will write to; it need not exist yet. `free_bytes` is None if the size is not available."""

    path: Path
    free_bytes: int | None
    writable: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of `check_environment`."""

    python_version: tuple[int, int, int]
    python_executable: str
    installer: str | None  # apt-get | brew | dnf
    is_root: bool
    java: JavaFact
    packages: tuple[PackageFact, ...]
    folders: tuple[FolderFact, ...]
    memory_bytes: int | None  # available to this process; None: the system does not say
    user: str | None  # the name of this user; None: the system knows none for the id
    class_archive: ArchiveFact = ArchiveFact(None)  # noqa: RUF009  # of Spark's classes (spark/class_archive.py)
    sockets: Path | None = None  # where the sockets of Spark's Python workers are; None: they use TCP


def gather_facts(folders: Sequence[Path] = (), *, import_packages: bool = True) -> Facts:
    """Return the facts about this machine.

    import_packages: False only looks packages up, and leaves out Spark's classes and sockets; this is faster.
    """
    return Facts(
        python_version=sys.version_info[:3],
        python_executable=python_command(),
        installer=next((name for name in ("apt-get", "brew", "dnf") if shutil.which(name)), None),
        is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
        java=java_fact(os.environ.get("JAVA_HOME")),
        packages=tuple(_package_fact(line, import_it=import_packages) for line in required_packages()),
        folders=tuple(folder_fact(folder) for folder in folders),
        memory_bytes=available_memory(),
        user=user_name(os.getuid()),
        class_archive=_class_archive() if import_packages else ArchiveFact(None),
        sockets=_sockets() if import_packages else None,
    )


def required_packages() -> list[str]:
    """Return requirement lines such as `numpy<3,>=2.4` from the installed metadata, or else from the source tree."""
    try:
        lines: Iterable[str] = importlib.metadata.requires(DISTRIBUTION) or ()
    except importlib.metadata.PackageNotFoundError:
        source = Path(__file__).parents[2] / "pyproject.toml"
        lines = tomllib.loads(source.read_text(encoding="utf-8"))["project"]["dependencies"] if source.exists() else ()
    return [line for line in lines if ";" not in line]  # a line with a marker belongs to an extra


def split_requirement(line: str) -> tuple[str, str]:
    """Return name and version range of a requirement line, lower bound first.

    Example: `numpy<3,>=2.4` -> (`numpy`, `>=2.4,<3`).
    """
    match = re.match(r"\s*([A-Za-z0-9._-]*[A-Za-z0-9])\s*(?:\[[^\]]*\])?\s*\(?([^)]*)\)?\s*$", line)
    assert match is not None, line
    return match.group(1), ",".join(sorted(match.group(2).replace(" ", "").split(","), reverse=True))


def java_fact(java_home: str | None) -> JavaFact:
    """Return the java that Spark's launcher would use: the one of JAVA_HOME if that is set, else the first on PATH."""
    if java_home:
        command: str | None = str(Path(java_home) / "bin" / "java")
    else:
        command = shutil.which("java")
    if command is None:
        return JavaFact(None)
    output = _output_of(command, "-version")
    version = java_version(output)
    if version is None:
        return JavaFact(command, from_java_home=bool(java_home), said=" ".join(output.split())[:200])
    modules = frozenset(line.partition("@")[0].strip() for line in _output_of(command, "--list-modules").splitlines())
    return JavaFact(command, from_java_home=bool(java_home), version=version, modules=modules)


def java_version(text: str) -> str | None:
    """Return the version in the output of `java -version`, such as `17.0.15`, `1.8.0_392` or `21`.

    The result is None if there is no version in it.
    """
    match = re.search(r'version "([^"]+)"', text)
    return match.group(1) if match else None


def folder_fact(folder: Path) -> FolderFact:
    """Return free space and permission of `folder`, or of its nearest parent that exists."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    try:
        return FolderFact(folder, shutil.disk_usage(existing).free, writable)
    except OSError:
        return FolderFact(folder, None, writable)


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes available without swapping, within the container's limit if there is one."""
    system = _meminfo_available(root / "proc/meminfo")
    if system is None and platform.system() == "Darwin":
        system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # macOS reports all memory, not the free part
    limits = [bytes_ for bytes_ in (system, _cgroup_available(root / "sys/fs/cgroup")) if bytes_ is not None]
    return min(limits, default=None)


def user_name(uid: int) -> str | None:
    """Return the name of a user; None if the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _meminfo_available(meminfo: Path) -> int | None:
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", _text_of(meminfo), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _cgroup_available(cgroup: Path) -> int | None:
    limit, used = _text_of(cgroup / "memory.max").strip(), _text_of(cgroup / "memory.current").strip()
    if not limit.isdecimal() or not used.isdecimal():  # no container, or one without a limit ("max")
        return None
    cached = re.search(r"^inactive_file (\d+)$", _text_of(cgroup / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(cached.group(1)) if cached else 0))


def _class_archive() -> ArchiveFact:
    try:
        return archive_fact()
    except RetryableError as error:
        return ArchiveFact(None, str(error))


def _sockets() -> Path | None:
    try:
        return socket_folder().parent  # its own is deleted when this process ends
    except (OSError, InvalidJobError):
        return None


def _package_fact(line: str, *, import_it: bool) -> PackageFact:
    name, requirement = split_requirement(line)
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return PackageFact(name, requirement, None)
    return PackageFact(name, requirement, installed, _import_error(name) if import_it else None)


def _import_error(name: str) -> str | None:
    try:
        importlib.import_module(IMPORT_NAMES.get(name.lower(), name.lower().replace("-", "_")))
    except Exception as error:  # noqa: BLE001  whatever a broken package raises is the fact
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _output_of(*command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  java, from where Spark takes it
            command, capture_output=True, text=True, errors="replace", timeout=JAVA_TIMEOUT_S, check=False
        )
    except OSError as error:
        return error.strerror or ""
    except subprocess.SubprocessError as error:
        return str(error)
    return done.stdout + done.stderr


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
