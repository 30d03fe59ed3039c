"""Names of files are UTF-8, to Python and to Spark's JVM. With another encoding, Spark passes over files silently.

A JVM takes the encoding of names from the locale of its process. It lists a file whose name has a character that the
encoding lacks under another name, does not find it, and Spark goes on without it. Python takes the encoding from the
locale, too, but for the locale C.
"""

import codecs
import locale
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.spark.java_classes import java_class

__all__ = ["check_file_names", "utf8_locale"]

_VARIABLE, _UTF8 = "LC_ALL", "C.UTF-8"


@contextmanager
def utf8_locale() -> Iterator[None]:
    """Give the processes that are started in the block a locale with UTF-8, if that of this process has none."""
    before = os.environ.get(_VARIABLE)
    if _is_utf8(locale.getencoding()):
        yield
        return
    os.environ[_VARIABLE] = _UTF8
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


@lru_cache(maxsize=4)
def check_file_names(session: SparkSession) -> None:
    """Raise InvalidJobError if names of files are not UTF-8 to Python or to Spark's JVM. A session is asked once."""
    system = java_class(session.sparkContext, "java.lang.System")
    encodings = {
        "Python": sys.getfilesystemencoding(),
        "Spark's JVM": str(system.getProperty("sun.jnu.encoding")),
    }
    for program, encoding in encodings.items():
        if not _is_utf8(encoding):
            msg = (
                f"names of files are not UTF-8 to {program}, so input files whose names have other characters "
                f"than ASCII would be passed over. Set {_VARIABLE}={_UTF8} in the environment, then start again. "
                f"encoding={encoding}"
            )
            raise InvalidJobError(msg)


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False
