"""Jars by their Maven coordinates, fetched once into a cache folder.

A set of jars is a folder, which gets its name only when it is complete. Ivy, which is part of PySpark, resolves the
dependencies. Ivy's default settings name the repositories, so this module names no host.

The cache is $MIXEDMODE_CACHE, else the folder mixedmode in the user's cache folder; sets are in its folder `artifacts`.
To run on a machine without network, copy that folder from a machine that has fetched the jars. A failed fetch is
recorded for RETRY_AFTER_S, so that not every start waits for a network that does not answer.

Invariants (tests/spark/test_jars.py):
  I1  a set's folder has all of its jars, or does not exist; several processes may fetch it at the same time
  I2  the jars have no module that PySpark has itself: two versions of the module would be loaded
"""

import fcntl
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from mixedmode.errors import RetryableError
from mixedmode.spark.class_archive import java_command
from mixedmode.user_folders import cache_folder

__all__ = ["Jars", "fetch", "for_this_spark", "required_java"]

RETRY_AFTER_S = 600
FETCH_TIMEOUT_S = 300  # the largest set is 50 MB
CONNECT_TIMEOUT_MS = 10_000
REASON_LENGTH_MAX = 500


@dataclass(frozen=True, slots=True)
class Jars:
    """Jars that are resolved together. Coordinates are `organisation:module:version`."""

    coordinates: tuple[str, ...]
    overrides: tuple[str, ...] = ()  # versions that replace any other version of the same module
    for_spark: bool = True  # leave out the modules that PySpark has


def fetch(name: str, choices: Sequence[Jars], *, cache: Path | None = None) -> list[Path]:
    """Return the jars of the set `name`, sorted by name: from the cache, else the first available choice.

    Raise RetryableError if no choice is available.
    """
    artifacts = (cache or cache_folder()) / "artifacts"
    folder = artifacts / name
    if not folder.is_dir():
        artifacts.mkdir(parents=True, exist_ok=True)
        with _locked(artifacts / f"{name}.lock"):
            if not folder.is_dir():  # another process may have fetched it while this one waited
                _fetch_first(folder, choices)
    return sorted(folder.glob("*.jar"))


def required_java() -> str:
    """Return the java command that Spark would start. Raise RetryableError if there is none."""
    command = java_command()
    if command is None:
        msg = (
            "there is no java on this machine: JAVA_HOME is not set, and PATH has none. "
            "Install a JDK, 17 or later; `mixedmode doctor` names the command"
        )
        raise RetryableError(msg)
    return command


def _fetch_first(folder: Path, choices: Sequence[Jars]) -> None:
    failure = folder.with_name(f"{folder.name}.failure")
    reason = _recent_failure(failure)
    if reason is None:
        for jars in choices:
            reason = _try(jars, folder)
            if reason is None:
                failure.unlink(missing_ok=True)
                return
        failure.write_text(reason or "", encoding="utf-8")
    wanted = ", ".join(choices[-1].coordinates)
    msg = (
        "jars could not be fetched, so what needs them cannot run. See whether this machine reaches Maven Central, or "
        f"copy the folder below from a machine that could fetch it. The next try is {RETRY_AFTER_S // 60} minutes "
        f"after the last one, or when {failure.name} beside it is removed. "
        f"jars={wanted}, folder={folder}, reason={reason}"
    )
    raise RetryableError(msg)


def _recent_failure(failure: Path) -> str | None:
    try:
        # in both directions: a failure of tomorrow was noted before the clock was corrected
        is_recent = abs(time.time() - failure.stat().st_mtime) < RETRY_AFTER_S
        return failure.read_text(encoding="utf-8") if is_recent else None
    except FileNotFoundError:
        return None


def _try(jars: Jars, folder: Path) -> str | None:
    """Fetch jars into `folder`. Return None, or the reason for a failure."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch_name:
        scratch = Path(scratch_name)
        (scratch / "ivy.xml").write_text(_ivy_file(jars), encoding="utf-8")
        command = [
            required_java(),
            # without these, Ivy waits for minutes if a network drops packets
            f"-Dsun.net.client.defaultConnectTimeout={CONNECT_TIMEOUT_MS}",
            f"-Dsun.net.client.defaultReadTimeout={CONNECT_TIMEOUT_MS}",
            # else Ivy uses a folder in the user's home, where another tool may have left incomplete files
            f"-Divy.default.ivy.user.dir={scratch / 'user'}",
            *("-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-ivy", str(scratch / "ivy.xml"), "-confs", "default"),
            *("-cache", str(scratch / "cache"), "-types", "jar", "bundle"),
            *("-retrieve", str(scratch / "jars" / "[artifact]-[revision].[ext]")),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)  # noqa: S603  the java of this machine
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:REASON_LENGTH_MAX]
        if done.returncode != 0:
            return _reason(done.stdout + done.stderr)
        (scratch / "jars").replace(folder)
    return None


def _reason(printed: str) -> str:
    """Return Ivy's messages on missing modules, without the repositories that it searched."""
    said = re.findall(
        r"^\s*(?:::\s*)?(\S+[;!][^:\n]*: [^\n]+|.*(?:Exception|timed out|Error)[^\n]*)$", printed, re.MULTILINE
    )
    return "; ".join(dict.fromkeys(line.strip() for line in said or printed.splitlines()[-3:]))[:REASON_LENGTH_MAX]


def _ivy_file(jars: Jars) -> str:
    """Return the ivy.xml that describes the jars."""
    lines = ['<ivy-module version="2.0">', '<info organisation="mixedmode" module="jars"/>']
    lines += ['<configurations><conf name="default"/></configurations>', "<dependencies>"]
    for coordinate in jars.coordinates:
        organisation, module, revision = map(quoteattr, coordinate.split(":"))
        lines.append(f'<dependency org={organisation} name={module} rev={revision} conf="default->master,runtime"/>')
    lines += [f"<exclude module={quoteattr(module)}/>" for module in (_spark_modules() if jars.for_spark else ())]
    for coordinate in jars.overrides:
        organisation, module, revision = map(quoteattr, coordinate.split(":"))
        lines.append(f"<override org={organisation} module={module} rev={revision}/>")
    return "\n".join([*lines, "</dependencies>", "</ivy-module>"])


def _spark_modules() -> list[str]:
    """Return the modules that PySpark has as jars, from their file names: `lz4-java-1.11.0.jar` is `lz4-java`."""
    names = (re.match(r"(.+)-\d.*\.jar", jar.name) for jar in _pyspark_jars().glob("*.jar"))
    return sorted({name.group(1) for name in names if name})


def _pyspark_jars() -> Path:
    # found without importing PySpark, because the import is slow
    spec = find_spec("pyspark")
    assert spec is not None, "PySpark is a dependency of mixedmode"
    assert spec.origin is not None, spec
    return Path(spec.origin).parent / "jars"


def _ivy_jar() -> Path:
    return next(_pyspark_jars().glob("ivy-*.jar"))


def for_this_spark(name: str) -> str:
    """Return the name of a set for this version of PySpark, which decides the jars that are left out."""
    return f"{name}-spark-{version('pyspark')}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file while the block runs. The lock ends with the process."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
