"""The process that makes an archive of Spark's classes.

    python -m mixedmode.spark.archive_writer LIST PID JAVA CLASS_PATH

The program whose JVM has listed its classes starts it when it ends, and does not wait for it. It begins when that JVM
has ended, since the list is complete then. Only one of them runs for each archive.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mixedmode.checkpoint.private_folder import try_lock
from mixedmode.installed import python_command
from mixedmode.spark.class_archive import is_sealed, seal

__all__ = ["begin_archive", "write_archive"]

_JVM_ENDS_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.2
_WRITE_SECONDS = 600.0
_LOWEST_PRIORITY = 19
_SAID_MAX = 500


def begin_archive(classes: Path, jvm_pid: int, java: str, class_path: str) -> None:
    """Start the process. Raises nothing: without it, the next run lists its classes again."""
    command = [python_command(), "-m", "mixedmode.spark.archive_writer", str(classes), str(jvm_pid), java, class_path]
    with suppress(OSError):
        process = subprocess.Popen(  # noqa: S603  this Python
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.returncode = 0  # nobody waits for it, which is no mistake


def write_archive(classes: Path, command: Sequence[str]) -> None:
    """Make the archive of a list with this command of Java, unless another process makes it or has made it."""
    archive = classes.with_name(f"{classes.name.partition('.')[0]}.jsa")
    partial = classes.with_suffix(".partial")
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            if try_lock(lock) and not is_sealed(archive):
                _write(classes, partial, archive, command)
        finally:
            partial.unlink(missing_ok=True)
            classes.unlink(missing_ok=True)


def _write(classes: Path, partial: Path, archive: Path, command: Sequence[str]) -> None:
    options = ("-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={partial}")
    done = subprocess.run(  # noqa: S603  the Java of Spark
        [command[0], *options, "-Xlog:cds*=off", *command[1:]],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_WRITE_SECONDS,
        check=False,
    )
    if done.returncode == 0 and partial.exists():
        seal(partial, archive)
    else:
        said = " ".join((done.stdout + done.stderr).split())[:_SAID_MAX]
        archive.with_suffix(".failed").write_text(f"exit code {done.returncode}: {said}", encoding="utf-8")


def _wait_for_end(jvm_pid: int) -> None:
    deadline = time.monotonic() + _JVM_ENDS_SECONDS
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(jvm_pid, 0)
            time.sleep(_LOOK_EVERY_SECONDS)


def main(classes: str, jvm_pid: str, java: str, class_path: str) -> None:
    """Write the archive, when the JVM has ended."""
    os.nice(_LOWEST_PRIORITY)
    _wait_for_end(int(jvm_pid))
    write_archive(Path(classes), [java, "-cp", class_path])


if __name__ == "__main__":
    main(*sys.argv[1:])
