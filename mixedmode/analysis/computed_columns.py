"""Checks the computed columns of a source: each is one value of a record, and always the same."""

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import read_expression
from mixedmode.analysis.plan import nodes_of
from mixedmode.analysis.sql_checks import check_argument
from mixedmode.config import SourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.sides import sides_of
from mixedmode.sources.source import OpenSource
from mixedmode.spark.frames import stand_in_of

__all__ = ["check_computed_columns"]


def check_computed_columns(session: SparkSession, spec: SourceSpec, opened: OpenSource, where: Where) -> None:
    """Raise InvalidJobError for a computed column of a source, or of a side of it, that is not one value of a record.

    where: names a place in the source.
    """
    of_sides = spec.inner_sources or {(): spec}
    for (path, one), side in zip(of_sides.items(), sides_of(opened), strict=True):
        for name, text in one.computed_columns.items():
            place = where(*path, "computed-columns", name)
            _, plan = read_expression(stand_in_of(session, side.schema), text, name, place)
            if any(node.kind in {"Aggregate", "Generate"} for node in nodes_of(plan)):
                msg = (
                    f"{place}: a computed column is one value of one record. Put an aggregate into a step with "
                    f"key-by, and a function that returns several rows into a sql step. found={text}"
                )
                raise InvalidJobError(msg)
            check_argument(plan, where=place, is_keyed=False)
