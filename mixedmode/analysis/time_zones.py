"""The time zone of a session, as Java knows it."""

from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import companion

__all__ = ["moves_clocks", "offsets_apart_us"]

_Java = Any  # an object of the JVM


def moves_clocks(session: SparkSession) -> bool:
    """Return whether clocks were ever moved in the time zone of a session: days and local times are not even there."""
    return not _rules(session).isFixedOffset()


def offsets_apart_us(session: SparkSession) -> int:
    """Return how far the greatest and the least offset from UTC are apart that the time zone of a session ever had."""
    rules = _rules(session)
    moves = [*rules.getTransitions(), *rules.getTransitionRules()]
    offsets = [offset.getTotalSeconds() for one in moves for offset in (one.getOffsetBefore(), one.getOffsetAfter())]
    return 1_000_000 * (max(offsets) - min(offsets)) if offsets else 0


def _rules(session: SparkSession) -> _Java:
    zone = session.conf.get("spark.sql.session.timeZone")
    return companion(session, "util.DateTimeUtils").getZoneId(zone).getRules()
