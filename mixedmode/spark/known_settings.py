"""Names of settings that Spark would ignore, because they are misspelt."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from mixedmode.config.spelling import nearest
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where

__all__ = ["misspelt_settings"]


def misspelt_settings(session: SparkSession, names: Iterable[str], where: Where) -> list[InvalidJobError]:
    """Return the mistake of each setting that misspells one of Spark. Case counts, as in `spark.sql.session.timezone`.

    where: names a place in the job. Other unknown names may be of an extension of Spark, or of a catalog.
    """
    known, found = _known(session), list[InvalidJobError]()
    for name in names:
        meant = None if name in known else nearest(name, known)
        if meant is not None:
            msg = f"{where('spark', name)}: Spark has no setting of this name, and ignores it. Did you mean {meant}?"
            found.append(InvalidJobError(msg))
    return found


@lru_cache(maxsize=1)
def _known(session: SparkSession) -> frozenset[str]:
    """Return the names of the settings that this Spark has; none if a later version keeps them elsewhere."""
    config: Any = session._jvm.org.apache.spark.internal.config  # type: ignore[union-attr] # noqa: SLF001 - no public name
    try:
        entries = getattr(getattr(config, "ConfigEntry$"), "MODULE$")
        text = str(entries.knownConfigs().keySet().toString())
    except Py4JError:
        return frozenset()
    return frozenset(text.strip("[]").split(", "))
