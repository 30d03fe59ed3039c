"""The condition `having` of an aggregate: sql over its results, as a sql step after it would have it.

A result that stops meeting the condition is retracted, so its row is deleted from a table.
"""

from dataclasses import replace

from pyspark.sql.types import BooleanType

from mixedmode.analysis.catalyst import read_expression
from mixedmode.analysis.plan import nodes_of
from mixedmode.analysis.relations import Relation
from mixedmode.analysis.sql_checks import check_argument
from mixedmode.config import KeyedAggregateStep
from mixedmode.config.calls import quoted
from mixedmode.config.steps import Step
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.reads import SqlText
from mixedmode.plan.stages import KeyedStage

__all__ = ["output_rows", "with_having"]

_GIVEN = "previous"  # the name of the results in the sql


def with_having(given: Relation, step: Step, where: Where) -> Relation:
    """Return the rows of an aggregate that meet its condition; all rows if the step has none.

    where: names a place in the step. Raise InvalidJobError for a condition that is not one.
    """
    if not isinstance(step, KeyedAggregateStep) or step.having is None:
        return given
    _check(given, step.having, where("having"))
    sql = f"SELECT * FROM {_GIVEN} WHERE (\n{step.having}\n)"  # noqa: S608 - the job's own SQL
    return _made(replace(given, frame=given.frame.where(step.having)), sql, f"{given.name}-having")


def output_rows(given: Relation, stage: KeyedStage | None) -> Relation:
    """Return the rows of a step for an output: without the event time that rows of a window have for later steps.

    stage: that of the step; None for sql, whose columns are all for the output.
    """
    if stage is None or not stage.adds_window_time:
        return given
    columns = [quoted(field.name) for field in stage.operator.output_fields]
    sql = f"SELECT {', '.join(columns)} FROM {_GIVEN}"  # noqa: S608 - the job's own SQL
    return _made(replace(given, frame=given.frame.select(*columns)), sql, f"{given.name}-rows")


def _made(given: Relation, sql: str, makes: str) -> Relation:
    return replace(given, name=makes, sql=(*given.sql, SqlText(sql, {_GIVEN: given.name}, makes)))


def _check(given: Relation, condition: str, where: str) -> None:
    projected, plan = read_expression(given.frame, condition, "_having", where)
    if any(node.kind == "Aggregate" for node in nodes_of(plan)):
        msg = (
            f"{where}: the condition is about the results of the step, and calls an aggregate itself. Give the call a "
            f"name in `aggregate`, and use the name here. found={condition}"
        )
        raise InvalidJobError(msg)
    check_argument(plan, where=where, is_keyed=True)
    found = projected.schema[0].dataType
    if not isinstance(found, BooleanType):
        msg = (
            f"{where}: a condition is true or false, and this is neither. Compare it, as in `n > 3`. "
            f"found={condition}, type={found.simpleString()}"
        )
        raise InvalidJobError(msg)
