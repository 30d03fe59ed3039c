"""The files of Spark's log, written without a process for each.

Without its native library, which PySpark does not bring, Hadoop starts the program `chmod` for each file and folder
that it makes on a local disk. An epoch waits for six of them: three files of Spark's log, and the checksum of each.
LogFiles.java is Spark's own class for these files, without these processes. Spark's compiler (Janino) compiles it once,
and the session gets it by a setting.

Where that is not possible, Spark writes with its own class. The files are the same either way.

Files, in the folder `log-files` of mixedmode's cache:
    <digest of the source and of Spark's version>/mixedmode/*.class
"""

import logging
import shutil
import tempfile
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.log import FIELDS
from mixedmode.spark.java_classes import java_class
from mixedmode.spark.settings import LOG_WRITER, SPARKS_LOG_WRITER
from mixedmode.user_folders import cache_folder

__all__ = ["write_without_processes"]

_CLASS = "mixedmode.LogFiles"
_logger = logging.getLogger(__name__)


def write_without_processes(session: SparkSession, *, cache: Path | None = None) -> bool:
    """Let the streaming queries of a session write their log without processes. Return whether they do.

    cache: mixedmode's, by default. A session in which the user has chosen another class is left as it is.
    """
    chosen = session.conf.get(LOG_WRITER, None)
    if chosen != SPARKS_LOG_WRITER:
        return chosen == _CLASS
    try:
        _load(session.sparkContext, _folder(cache))
    except (OSError, Py4JError, PySparkException) as error:
        reason = str(error).partition("\n")[0]
        _logger.debug("Spark's log is written with a process for each file", extra={FIELDS: {"reason": reason}})
        return False
    session.conf.set(LOG_WRITER, _CLASS)
    return True


def _folder(cache: Path | None) -> Path:
    digest = blake2b(f"{version('pyspark')}\n{_source()}".encode(), digest_size=8).hexdigest()
    return (cache or cache_folder()) / "log-files" / digest


def _source() -> str:
    return (files("mixedmode.spark") / "LogFiles.java").read_text(encoding="utf-8")


def _load(context: SparkContext, folder: Path) -> None:
    """Make the class known to the threads of the JVM. Raise an error if it cannot be compiled, stored or loaded."""
    loader = java_class(context, "java.lang.Thread").currentThread().getContextClassLoader()
    if not folder.is_dir():
        _compile(context, loader, folder)
    loader.addURL(java_class(context, "java.io.File")(str(folder)).toURI().toURL())
    try:
        loader.loadClass(_CLASS)
    except Py4JError:  # a file of it is damaged
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _compile(context: SparkContext, loader: Any, folder: Path) -> None:
    """Compile the classes into the folder, which gets its name when it is whole: another process may do the same."""
    compiler = java_class(context, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(loader)
    compiler.cook(_source())
    classes = compiler.getBytecodes()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as scratch:
        whole = Path(scratch) / folder.name
        for name in classes.keySet():
            file = whole.joinpath(*name.split(".")).with_suffix(".class")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(classes.get(name))
        with suppress(OSError):  # the other process was faster
            whole.rename(folder)
