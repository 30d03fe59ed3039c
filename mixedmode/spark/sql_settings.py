"""The settings of a session that decide what SQL computes of the same values."""

from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.spark.java_classes import java_class

__all__ = ["sql_settings"]

_SQL = "spark.sql."
#: their defaults depend on the environment
_ALWAYS = ("ansi.enabled", "session.timeZone")
#: Beginnings of names. All other settings decide how Spark runs SQL, or how it reads and writes.
_OTHERS = (
    *("ansi.", "caseSensitive", "charAsVarchar", "chunkBase64String.", "decimalOperations.", "execution.pandas."),
    *("execution.pythonUDF.", "function.", "icu.", "json", "legacy.", "mapKeyDedupPolicy", "parser."),
    *("preserveCharVarcharTypeInfo", "readSideCharPadding", "timestampType", "variable.", "variant."),
)


def sql_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings that decide what SQL computes, {name without `spark.`: value}, sorted by name.

    A setting that has its default value is left out, as if it were not set.
    """
    found = {
        name: value
        for name, value in session.conf.getAll.items()
        if name.removeprefix(_SQL).startswith(_OTHERS) and not _is_default(session, name, value)
    }
    found |= {_SQL + name: str(session.conf.get(_SQL + name)) for name in _ALWAYS}
    return {name.removeprefix("spark."): found[name] for name in sorted(found)}


def _is_default(session: SparkSession, name: str, value: str) -> bool:
    entry = _known(session).getConfigEntry(name)
    return entry is not None and str(entry.defaultValueString()).lower() == value.lower()


@lru_cache(maxsize=4)
def _known(session: SparkSession) -> Any:
    """Return Spark's own list of settings. A session is asked once."""
    return getattr(java_class(session.sparkContext, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$")
