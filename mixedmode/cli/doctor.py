"""The requirements that a machine does not meet, each with the command that installs what is missing.

`check_environment` is a pure function from facts (`machine.py`) to findings, so a test can describe every broken
machine as a value. `mixedmode doctor` prints all findings. `mixedmode run` raises the failed ones before it starts.
Both work without any package: the table is drawn with rich if rich is installed, else as plain text.

The version ranges are defined in pyproject.toml, and are read from the installed package's metadata.
"""

import operator
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

from mixedmode.cli.machine import Facts, FolderFact, JavaFact, PackageFact, gather_facts
from mixedmode.errors import RetryableError
from mixedmode.spark.class_archive import ArchiveFact

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
JAVA_MODULE = "jdk.incubator.vector"  # Spark's launcher requires it; the Java runtimes published on PyPI lack it
DISK_BYTES_MIN = 2**30
MEMORY_BYTES_MIN = 2 * 2**30

_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` is the command (or the sentence) that repairs it; empty if nothing is missing."""

    what: str
    found: str
    needed: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        """Return whether nothing is missing."""
        return not self.fix


def check_environment(facts: Facts) -> tuple[Finding, ...]:
    """Return the findings for the facts, in the order of repair: Python, Java, packages, disk, memory, user."""
    return (
        _check_python(facts),
        _check_java(facts),
        *(_check_package(package, facts.python_executable) for package in facts.packages),
        *(_check_folder(folder) for folder in facts.folders),
        _check_memory(facts.memory_bytes),
        _check_user(facts.user),
        _class_archive(facts.class_archive),
        _sockets(facts.sockets),
    )


def doctor_report(folders: Sequence[Path] = (), *, out: TextIO | None = None) -> int:
    """Print the findings for this machine to `out` (standard output). Return 0 if a job can run here, else 1."""
    findings = check_environment(gather_facts([*folders, Path(tempfile.gettempdir())]))
    stream = sys.stdout if out is None else out
    try:
        _print_table(findings, stream)
    except ImportError:
        print(plain_report(findings), file=stream)
    return 0 if all(finding.ok for finding in findings) else 1


def require_environment(folders: Sequence[Path]) -> None:
    """Return if a job that writes to `folders` can run here.

    Raises RetryableError with what is missing and how to install it; start the job again after that.
    """
    findings = check_environment(gather_facts([*folders, Path(tempfile.gettempdir())], import_packages=False))
    failed = [finding for finding in findings if not finding.ok]
    if failed:
        msg = (
            "this machine cannot run the job, so nothing was started. Mend what follows and start again; "
            f"`mixedmode doctor` shows the whole check.\n{plain_report(failed)}"
        )
        raise RetryableError(msg)


def plain_report(findings: Sequence[Finding]) -> str:
    """Return the findings as lines of text, each failed finding followed by its fix."""
    lines = []
    for finding in findings:
        lines.append(
            f"{'ok     ' if finding.ok else 'MISSING'}  {finding.what}: {finding.found} (needed: {finding.needed})"
        )
        if not finding.ok:
            lines.append(f"         fix: {finding.fix}")
    return "\n".join(lines)


def version_in_range(version: str, requirement: str) -> bool:
    """Return whether a released version is in a range such as `>=4.3,<4.4`; an empty range contains every version.

    >>> version_in_range("4.3.0", ">=4.3,<4.4"), version_in_range("4.4", ">=4.3,<4.4"), version_in_range("5", "~=4.3")
    (True, False, False)
    """
    return all(_fulfils(_numbers(version), bound.strip()) for bound in requirement.split(",") if bound.strip())


def java_major(version: str) -> int:
    """Return the major version, in any spelling of Java's: `1.8.0_392` -> 8, `17.0.15` -> 17, `25-ea` -> 25; else 0."""
    numbers = _numbers(version.replace("_", "."))
    return numbers[1] if numbers[:1] == (1,) and len(numbers) > 1 else numbers[0]


def _fulfils(version: tuple[int, ...], bound: str) -> bool:
    match = re.fullmatch(r"(~=|[<>=!]=|<|>)\s*([0-9.]+?)(\.\*)?", bound)
    assert match is not None, bound  # pyproject.toml is ours
    sign, text, any_suffix = match.groups()
    limit = _numbers(text)
    if sign == "~=":
        return _same_length(version, limit, operator.ge) and version[: len(limit) - 1] == limit[:-1]
    if any_suffix:
        return _COMPARE[sign](version[: len(limit)], limit)
    return _same_length(version, limit, _COMPARE[sign])


def _same_length(
    left: tuple[int, ...], right: tuple[int, ...], compare: Callable[[tuple[int, ...], tuple[int, ...]], bool]
) -> bool:
    pairs = list(zip_longest(left, right, fillvalue=0))  # 4.3 is 4.3.0
    return compare(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `4.3.0rc1` -> (4, 3, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else (0,)


def _check_python(facts: Facts) -> Finding:
    found, needed = ".".join(map(str, facts.python_version)), f"{'.'.join(map(str, PYTHON_MIN))} or later"
    if facts.python_version[:2] >= PYTHON_MIN:
        return Finding("Python", found=found, needed=needed)
    install = {"apt-get": "python3.11 python3.11-venv", "dnf": "python3.11", "brew": "python@3.12"}
    fix = _install(facts, install) or "install Python 3.11 or later"
    return Finding("Python", found=found, needed=needed, fix=f"{fix}, and make a new virtual environment with it")


def _check_java(facts: Facts) -> Finding:
    java, needed = facts.java, f"a JDK, {JAVA_MIN} or later"
    problem = _java_problem(java)
    if problem is None:
        return Finding("Java", found=f"{java.version} ({java.command})", needed=needed)
    install = {"apt-get": "openjdk-17-jdk-headless", "dnf": "java-17-openjdk-devel", "brew": "openjdk@17"}
    fix = _install(facts, install) or f"install a JDK, {JAVA_MIN} or later"
    if facts.installer == "apt-get":
        fix += " (on newer systems: openjdk-21-jdk-headless)"
    if facts.installer == "brew":
        fix += ' && export JAVA_HOME="$(brew --prefix openjdk@17)"'
    elif java.from_java_home:
        fix += "; then set JAVA_HOME to its folder, or unset it to use the java on PATH"
    elif java.command is not None:
        fix += "; then set JAVA_HOME to its folder, since another java comes first on PATH"
    return Finding("Java", found=problem, needed=needed, fix=fix)


def _java_problem(java: JavaFact) -> str | None:
    if java.command is None:
        return "no java: JAVA_HOME is not set, and there is none on PATH"
    if java.version is None:
        of_home = " (from JAVA_HOME)" if java.from_java_home else ""
        return f"{java.command}{of_home} does not run{java.said and f': {java.said}'}"
    if java_major(java.version) < JAVA_MIN:
        return f"{java.version} ({java.command})"
    if JAVA_MODULE not in java.modules:
        return f"{java.version} without the module {JAVA_MODULE}, which Spark asks for ({java.command})"
    return None


def _check_package(package: PackageFact, python: str) -> Finding:
    needed = package.requirement or "any version"
    install = f"{python} -m pip install '{package.name}{package.requirement}'"
    if package.installed is None:
        return Finding(package.name, found="not installed", needed=needed, fix=install)
    if not version_in_range(package.installed, package.requirement):
        return Finding(package.name, found=package.installed, needed=needed, fix=install)
    if package.import_error is not None:
        found = f"{package.installed} cannot be imported: {package.import_error}"
        fix = f"{python} -m pip install --force-reinstall '{package.name}{package.requirement}'"
        return Finding(package.name, found=found, needed=needed, fix=fix)
    return Finding(package.name, found=package.installed, needed=needed)


def _class_archive(archive: ArchiveFact) -> Finding:
    """Return how the next start of Spark loads its classes, which is right in both cases."""
    found = f"none: {archive.why_none}" if archive.size_bytes is None else _size(archive.size_bytes)
    return Finding("archive of Spark's classes", found=found, needed="none; with it, Spark starts faster")


def _sockets(folder: Path | None) -> Finding:
    """Return how an embedded Spark talks to its Python workers, which is right in both cases."""
    found = "TCP: there is no folder of a short name that only this user can enter" if folder is None else str(folder)
    return Finding("sockets of tasks", found=found, needed="none; with a folder, tasks begin sooner")


def _check_folder(folder: FolderFact) -> Finding:
    what, needed = f"disk at {folder.path}", f"writable, {_size(DISK_BYTES_MIN)} free"
    elsewhere = "name another folder in the job file (for the temporary one: set TMPDIR)"
    if not folder.writable:
        fix = f"allow writing there (ls -ld {folder.path}), or {elsewhere}"
        return Finding(what, found="not writable", needed=needed, fix=fix)
    if folder.free_bytes is not None and folder.free_bytes < DISK_BYTES_MIN:
        fix = f"free some space (df -h {folder.path}), or {elsewhere}"
        return Finding(what, found=f"{_size(folder.free_bytes)} free", needed=needed, fix=fix)
    found = "size unknown" if folder.free_bytes is None else f"{_size(folder.free_bytes)} free"
    return Finding(what, found=found, needed=needed)


def _check_memory(memory_bytes: int | None) -> Finding:
    needed = f"{_size(MEMORY_BYTES_MIN)} available"
    if memory_bytes is None:
        return Finding("memory", found="the system does not say", needed=needed)
    found = f"{_size(memory_bytes)} available"
    if memory_bytes >= MEMORY_BYTES_MIN:
        return Finding("memory", found=found, needed=needed)
    fix = "stop other programs (free -h), or give the machine or container more memory"
    return Finding("memory", found=found, needed=needed, fix=fix)


def _check_user(name: str | None) -> Finding:
    needed = "a name, which Hadoop asks the system for"
    if name is not None:
        return Finding("user", found=name, needed=needed)
    fix = (
        "run as a user whom the system knows, or add this one to /etc/passwd, in a container when its image is built: "
        'echo "mixedmode:x:$(id -u):$(id -g)::/tmp:/bin/sh" >> /etc/passwd'
    )
    return Finding("user", found="the system knows no name for its id", needed=needed, fix=fix)


def _install(facts: Facts, packages: dict[str, str]) -> str | None:
    if facts.installer is None:
        return None
    sudo = "" if facts.is_root or facts.installer == "brew" else "sudo "
    return f"{sudo}{facts.installer} install {'' if facts.installer == 'brew' else '-y '}{packages[facts.installer]}"


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.1f} GiB"


def _print_table(findings: Sequence[Finding], stream: TextIO) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Column, Table

    from mixedmode.cli.consoles import TextConsole

    table = Table("", *(Column(name, overflow="fold") for name in ("what", "found", "needed")), box=box.SIMPLE_HEAD)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[bold red]missing[/]"
        table.add_row(mark, escape(finding.what), escape(finding.found), escape(finding.needed))
    console = TextConsole(file=stream)
    console.print(table)
    failed = [finding for finding in findings if not finding.ok]
    for finding in failed:  # below the table and uncut, so that a person can copy them
        console.print(f"[bold]{escape(finding.what)}[/]: {escape(finding.fix)}", soft_wrap=True)
    console.print("[red]A job cannot run here yet.[/]" if failed else "[green]A job can run here.[/]")
