"""Spark's classes, loaded and verified once: an archive that later JVMs map into memory when they start.

A start of Spark loads and verifies thousands of classes, the same ones each time. Java can write them to a file when a
JVM ends (JEP 350, -XX:ArchiveClassesAtExit), and a JVM with the same Java and the same jars maps this file instead.

The first JVM without an archive writes one when it ends, beside the name of the archive. The next start renames it.
Java writes the header of the file last, so a file with a header is whole. No process waits for another one. Without a
fitting archive a JVM starts as ever: Java checks itself that the file was written by the same Java for the same jars.

Files, in the folder `classes` of mixedmode's cache (about 170 MB each):
    <digest of Java, jars and class path>.jsa                   the archive
    <digest>.<process id>.partial                               one that a JVM writes, or has written
"""

import os
import shutil
import time
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from mixedmode.cache import cache_folder

__all__ = ["archive_bytes", "archive_options"]

#: a user who sets one of these has an archive of his own
_OF_USER = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_QUIET = "-Xlog:cds*=off"  # of classes that are left out, and of a file that does not fit
_UNUSED_SECONDS = 30 * 24 * 3600
_ABANDONED_SECONDS = 3600  # a JVM writes its archive in seconds
_HEADER_BYTES = 4


def archive_options(class_path: str, *, folder: Path | None = None) -> tuple[str, ...]:
    """Return Java's options by which a JVM of Spark uses the archive, or writes one when it ends; () for neither.

    class_path: `spark.driver.extraClassPath`. folder: of the archives.
    """
    if any(name in os.environ.get(variable, "") for variable in _VARIABLES for name in _OF_USER):
        return ()
    digest = _digest(class_path)
    if digest is None:
        return ()
    place = _archives() if folder is None else folder
    with suppress(OSError):  # the cache cannot be written, so Spark starts without an archive
        place.mkdir(parents=True, exist_ok=True)
        archive = place / f"{digest}.jsa"
        _adopt(place, digest, archive)
        if archive.exists():
            os.utime(archive)
            return (f"-XX:SharedArchiveFile={archive}", _QUIET)
        return (f"-XX:ArchiveClassesAtExit={place / f'{digest}.{os.getpid()}.partial'}", _QUIET)
    return ()


def archive_bytes(class_path: str = "", *, folder: Path | None = None) -> int | None:
    """Return the size of the archive that the next JVM uses; None if there is none."""
    digest = _digest(class_path)
    archive = (_archives() if folder is None else folder) / f"{digest}.jsa"
    return archive.stat().st_size if archive.exists() else None


def _archives() -> Path:
    return cache_folder() / "classes"


def _adopt(place: Path, digest: str, archive: Path) -> None:
    """Give a whole file of this digest the name of the archive. Delete files that nobody needs."""
    now = time.time()
    for file in sorted(place.glob("*.partial")):
        if file.name.startswith(f"{digest}.") and not archive.exists() and _is_whole(file):
            file.rename(archive)
        elif file.stat().st_mtime < now - _ABANDONED_SECONDS:
            file.unlink()
    for file in place.glob("*.jsa"):
        if file.stat().st_mtime < now - _UNUSED_SECONDS:
            file.unlink()


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        return any(opened.read(_HEADER_BYTES))


def _digest(class_path: str) -> str | None:
    """Return a digest of all that an archive depends on; None without Java or without the jars of PySpark."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    found = find_spec("pyspark")
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
