"""The settings of a session that decide what SQL computes of the same values."""

from pyspark.sql import SparkSession

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
    """Return the settings that decide what SQL computes, {name without `spark.`: value}, sorted by name."""
    found = {name: value for name, value in session.conf.getAll.items() if name.removeprefix(_SQL).startswith(_OTHERS)}
    found |= {_SQL + name: str(session.conf.get(_SQL + name)) for name in _ALWAYS}
    return {name.removeprefix("spark."): found[name] for name in sorted(found)}
