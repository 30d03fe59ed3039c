"""Settings of Spark with values of the environment, which no command line may show.

PySpark passes settings to Spark's JVM on its command line, which every user of the machine can read.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.secrets import has_secrets

__all__ = ["as_properties", "shown_settings"]

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\f": "f"}  # behind a backslash in a file of properties


@contextmanager
def shown_settings(settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield the settings that the command line of the JVM may show.

    A JVM that is started in the block reads the others from a file in a folder of this user alone.
    """
    secret = {key: value for key, value in settings.items() if has_secrets(value)}
    if not secret:
        yield settings
        return
    before = os.environ.get(_ARGUMENTS)
    with temporary_folder("spark-settings-") as folder:
        file = folder / "settings.properties"
        file.write_text(as_properties(secret), encoding="utf-8")
        given = before or "pyspark-shell"  # PySpark's default
        os.environ[_ARGUMENTS] = f"--load-spark-defaults --properties-file {shlex.quote(str(file))} {given}"
        try:
            yield {key: value for key, value in settings.items() if key not in secret}
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before


def as_properties(settings: Mapping[str, str]) -> str:
    """Return settings as a file of Java's Properties."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    """Return a text with a backslash before each character that has a meaning in a file of properties."""
    return re.sub(r"[\\\s=:#!]", lambda found: "\\" + _LETTERS.get(found[0], found[0]), text)
