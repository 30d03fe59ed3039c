"""Spark's classes, parsed and verified once: an archive that later JVMs map into memory when they start.

A start of Spark loads and verifies thousands of classes, the same ones each time. Java can write them to a file, and a
JVM with the same Java and the same jars maps this file (class data sharing, -Xshare). The first JVM without an archive
only lists the classes that it loads, which costs no time. When the program has ended, a process in the background, of
the lowest priority, makes an archive of the list.

The archive appears under its name when it is whole, by a rename. No start waits for another one, and without a fitting
archive a JVM starts as ever. Java checks itself that the file was written by the same Java for the same jars. It does
not check the content, and crashes on a damaged one. Then the archive is deleted, and the JVM starts without (jvm.py).

Files, in the folder `classes` of mixedmode's cache:
    <digest of Java, jars and class path>.jsa    the archive, about 190 MB
    <digest>.sum                                 its size and checksum
    <digest>.<process id>.classes                the classes that a JVM has loaded so far
    <digest>.<process id>.partial                an archive that is being written
    <digest>.failed                              this Java writes no archive: what it has said
    <digest>.lock                                locked by the process that writes one
"""

import os
import re
import shutil
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from mixedmode.user_folders import cache_folder

__all__ = [
    "ArchiveFact",
    "archive_fact",
    "archive_options",
    "discard_archive",
    "is_sealed",
    "java_command",
    "listed_classes",
    "seal",
    "used_archive",
    "without_archive",
]

#: a user who sets one of these has an archive of his own
_OF_USER = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_QUIET = "-Xlog:cds*=off"  # of classes that are left out, and of a file that does not fit
_USES, _LISTS = "-XX:SharedArchiveFile=", "-XX:DumpLoadedClassList="
_UNUSED_SECONDS = 30 * 24 * 3600
_ABANDONED_SECONDS = 24 * 3600  # of lists; a list grows as long as its JVM loads classes
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ArchiveFact:
    """The archive that the next JVM uses: its size, or None and why."""

    size_bytes: int | None
    why_none: str = ""


def archive_options(class_path: str, *, folder: Path | None = None) -> tuple[str, ...]:
    """Return Java's options by which a JVM of Spark uses the archive, or lists its classes; () for neither.

    class_path: `spark.driver.extraClassPath`. folder: of the archives.
    """
    digest = None if _is_of_user() else _digest(class_path)
    if digest is None:
        return ()
    place = _archives() if folder is None else folder
    with suppress(OSError):  # the cache cannot be written, so Spark starts with what is there
        place.mkdir(parents=True, exist_ok=True)
        _tidy(place)
    archive = place / f"{digest}.jsa"
    if is_sealed(archive):
        with suppress(OSError):
            os.utime(archive)
        return (f"{_USES}{archive}", _QUIET)
    if not os.access(place, os.W_OK | os.X_OK) or _failed(archive).exists():
        return ()
    return (f"{_LISTS}{place / f'{digest}.{os.getpid()}.classes'}", _QUIET)


def archive_fact(*, folder: Path | None = None) -> ArchiveFact:
    """Return what `doctor` says about the archive. One whose checksum is wrong is deleted."""
    place = _archives() if folder is None else folder
    digest = None if _is_of_user() else _digest("")
    if digest is None:
        return ArchiveFact(None, "Java's own options name one" if _is_of_user() else "there is no Java, or no Spark")
    archive = place / f"{digest}.jsa"
    if is_sealed(archive):
        if _sum_of(archive).read_text(encoding="utf-8") == _checksum(archive):
            return ArchiveFact(archive.stat().st_size)
        discard_archive(archive)
        if archive.exists():
            return ArchiveFact(None, f"it is damaged, and cannot be deleted: {archive}")
        return ArchiveFact(None, "it was damaged and is deleted; after the next run another one is written")
    if _failed(archive).exists():
        return ArchiveFact(None, f"Java could not write one: {_failed(archive).read_text(encoding='utf-8')}")
    if not _is_writable(place):
        return ArchiveFact(None, f"its folder cannot be written: {place}")
    return ArchiveFact(None, "the next run writes one after it has ended")


def seal(partial: Path, archive: Path) -> None:
    """Give a whole archive its name."""
    _sum_of(archive).write_text(_checksum(partial), encoding="utf-8")
    partial.replace(archive)


def discard_archive(archive: Path) -> None:
    """Delete an archive that is not usable."""
    with suppress(OSError):
        _sum_of(archive).unlink(missing_ok=True)
        archive.unlink(missing_ok=True)


def used_archive(options: str, *, folder: Path | None = None) -> Path | None:
    """Return the archive of mixedmode that these Java options name; None if they name none."""
    return _named(_USES, options, _archives() if folder is None else folder)


def listed_classes(options: str) -> Path | None:
    """Return the file to which a JVM with these Java options writes its classes; None if to none."""
    return _named(_LISTS, options, _archives())


def without_archive(options: str) -> str:
    """Return Java options without the archive."""
    return re.sub(rf'"?{re.escape(_USES)}[^"]*"?', "", options)


def java_command() -> str | None:
    """Return the Java that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _is_of_user() -> bool:
    return any(name in os.environ.get(variable, "") for variable in _VARIABLES for name in _OF_USER)


def _named(option: str, options: str, folder: Path) -> Path | None:
    found = re.search(rf'{re.escape(option)}([^"]*)', options)
    file = None if found is None else Path(found[1])
    return file if file is not None and file.parent == folder else None


def _archives() -> Path:
    return cache_folder() / "classes"


def _sum_of(archive: Path) -> Path:
    return archive.with_suffix(".sum")


def _failed(archive: Path) -> Path:
    return archive.with_suffix(".failed")


def is_sealed(archive: Path) -> bool:
    """Return whether an archive has the size that it was written with. Its checksum would take too long at a start."""
    try:
        size, _, _ = _sum_of(archive).read_text(encoding="utf-8").partition(" ")
        return archive.stat().st_size == int(size)
    except (OSError, ValueError):
        return False


def _checksum(file: Path) -> str:
    """Return the size and the checksum of a file."""
    crc = size = 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            crc, size = zlib.crc32(chunk, crc), size + len(chunk)
    return f"{size} {crc:08x}"


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _tidy(place: Path) -> None:
    """Delete files that nobody needs."""
    now = time.time()
    for file in place.iterdir():
        lives = _ABANDONED_SECONDS if file.suffix in {".classes", ".partial"} else _UNUSED_SECONDS
        with suppress(FileNotFoundError):  # another start has deleted it
            if file.suffix != ".sum" and file.stat().st_mtime < now - lives:
                _sum_of(file).unlink(missing_ok=True)
                file.unlink()


def _digest(class_path: str) -> str | None:
    """Return a digest of all that an archive depends on; None without Java or without the jars of PySpark."""
    java, found = java_command(), find_spec("pyspark")
    if java is None or found is None or found.origin is None:
        return None
    spark_home = Path(os.environ.get("SPARK_HOME") or Path(found.origin).parent)
    digest = blake2b(digest_size=12)
    try:
        real = Path(java).resolve(strict=True)
        release = real.parent.parent / "release"
        parts = [
            str(real),
            release.read_text(encoding="utf-8") if release.exists() else "",
            str(real.stat().st_mtime_ns),
        ]
        jars = sorted((spark_home / "jars").glob("*.jar"))
        parts += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    except OSError:
        return None
    digest.update("\n".join([*parts, class_path]).encode())
    return digest.hexdigest()
