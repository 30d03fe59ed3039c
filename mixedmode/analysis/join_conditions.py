"""Reads the condition of a join: Spark analyses it over the columns of both inputs, and the operator computes it.

The operator has pairs of rows where Spark has none, so it computes the condition itself, on Arrow. It is exact as Spark
by the list of mixedmode/expressions; what is not on the list is refused.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType

from mixedmode.analysis.catalyst import read_expression
from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_query_of
from mixedmode.analysis.sql_checks import check_argument
from mixedmode.errors import InvalidJobError
from mixedmode.expressions import Query
from mixedmode.operators.join import LEFT, RIGHT
from mixedmode.plan.join_operators import JoinedInput, PairCondition, pair_condition, pair_name
from mixedmode.plan.keyed_operators import Where
from mixedmode.spark.frames import stand_in

__all__ = ["read_condition"]


def read_condition(
    session: SparkSession, text: str, inputs: tuple[JoinedInput, JoinedInput], where: Where
) -> PairCondition:
    """Return the condition of a join. Raise InvalidJobError for one that Spark, or the operator, cannot compute."""
    place = where("join", "condition")
    left, right = (stand_in(session, one.fields).alias(one.alias) for one in inputs)
    pairs = left.crossJoin(right)
    found, plan = read_expression(pairs, text, "_condition", place)
    check_argument(plan, where=place, is_keyed=True)
    data_type = found.schema[0].dataType
    if not isinstance(data_type, BooleanType):
        msg = (
            f"{place}: a condition is true or false, and this is neither. Compare it, as in `a > b`. found={text}, "
            f"type={data_type.simpleString()}"
        )
        raise InvalidJobError(msg)
    return pair_condition(text, _query(found, pairs, text, inputs, place), inputs, place)


def _query(found: DataFrame, pairs: DataFrame, text: str, inputs: tuple[JoinedInput, JoinedInput], where: str) -> Query:
    names = [pair_name(side, field.name) for side in (LEFT, RIGHT) for field in inputs[side].fields]
    try:
        return read_query_of(found, until=pairs, names=names)
    except OnlySparkError as error:
        msg = (
            f"{where}: a join computes its condition itself, by a list of what it computes exactly as Spark does, and "
            f"this is not on the list: {error}. Compute it as a column in a sql step before the join. Of an inner "
            f"join, the condition may also be the WHERE of a sql step behind it. found={text}"
        )
        raise InvalidJobError(msg) from error
