"""The dimensions of a job while it is analysed: tables without rows in their place, and those that no sql joins."""

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.plan.dimensions import dimensions_of
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.versions import HasVersions

__all__ = ["empty_tables", "mentions", "unread_dimensions"]


def empty_tables(session: SparkSession, dimensions: Mapping[str, HasVersions]) -> dict[str, DataFrame]:
    """Return {name: frame without rows} of dimensions, for analysis only. The frames are not streaming."""
    return {name: session.createDataFrame([], table.version_schema) for name, table in dimensions.items()}


def mentions(sql: str, names: Iterable[str]) -> bool:
    """Return whether one of the names is a word of a text."""
    return any(re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE) for name in names)


def unread_dimensions(plan: JobPlan, dimensions: Iterable[str], where: Where) -> list[MixedmodeError]:
    """Return an error for each dimension that no sql step joins."""
    read = dimensions_of(plan)
    return [
        InvalidJobError(
            f"{where('dimensions', name)}: no sql step joins this dimension. Join it by its name, or remove it. "
            f"found={name}"
        )
        for name in dimensions
        if name not in read
    ]
