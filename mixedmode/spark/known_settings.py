"""Names of settings that Spark would ignore, because they are misspelt."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from mixedmode.config.spelling import nearest
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where
from mixedmode.spark.java_classes import java_class

__all__ = ["misspelt_settings"]

_PLAIN = ("spark.master", "spark.app.name", "spark.local.dir")  # Spark has these without an entry


def misspelt_settings(session: SparkSession, names: Iterable[str], where: Where) -> list[InvalidJobError]:
    """Return the mistake of each setting that misspells one of Spark. Case counts, as in `spark.sql.session.timezone`.

    where: names a place in the job. Other unknown names may be of an extension of Spark, or of a catalog.
    """
    try:
        entries = _entries(session)
        unknown = [name for name in names if name not in _PLAIN and entries.findEntry(name) is None]
        # all names are a long text, and a job mostly has none that is unknown
        known = str(entries.knownConfigs().keySet().toString()).strip("[]").split(", ") if unknown else []
        # an extension, such as Delta Lake, may be loaded meanwhile, and adds its own
        unknown = [name for name in unknown if entries.findEntry(name) is None]
    except Py4JError:  # a later version of Spark keeps them elsewhere
        return []
    found = []
    for name in unknown:
        meant = nearest(name, [*known, *_PLAIN])
        if meant is not None:
            msg = f"{where('spark', name)}: Spark has no setting of this name, and ignores it. Did you mean {meant}?"
            found.append(InvalidJobError(msg))
    return found


@lru_cache(maxsize=1)
def _entries(session: SparkSession) -> Any:
    return getattr(java_class(session.sparkContext, "org.apache.spark.internal.config.ConfigEntry$"), "MODULE$")
