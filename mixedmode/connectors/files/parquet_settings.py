"""The settings of Spark that change what its Parquet reader returns. Tasks read as it does with their usual values."""

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

__all__ = ["unusual_in", "unusual_setting"]

#: {setting: its usual value}
_USUAL: Mapping[str, str] = {
    "spark.sql.caseSensitive": "FALSE",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "FALSE",
    "spark.sql.parquet.fieldId.read.enabled": "FALSE",
}
_SET = re.compile(rf"\b({'|'.join(map(re.escape, _USUAL))}) -> (\w+)")


def unusual_in(settings: str) -> tuple[str, str] | None:
    """Return a setting with another value than the usual one, and the value; None if there is none.

    settings: of a session, as the JVM shows a map: `name -> value, ...`.
    """
    return next(((name, value) for name, value in _SET.findall(settings) if value.upper() != _USUAL[name]), None)


def unusual_setting(session: SparkSession) -> tuple[str, str] | None:
    """Return the same for a session."""
    values = {name: str(session.conf.get(name, usual)) for name, usual in _USUAL.items()}
    return next(((name, value) for name, value in values.items() if value.upper() != _USUAL[name]), None)
