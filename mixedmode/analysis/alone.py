"""Checks of a step whose input is unknown, because an earlier part of the job is wrong: syntax, outputs, classes."""

from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.async_maps import check_declared_async_map
from mixedmode.analysis.declared import check_declared
from mixedmode.analysis.map_steps import check_declared_map
from mixedmode.config import (
    AsyncMapStep,
    CoProcessStep,
    DeduplicateStep,
    KeyedAggregateStep,
    KeyedStep,
    MapStep,
    OverStep,
    ProcessStep,
    SqlStep,
    TopStep,
)
from mixedmode.errors import MixedmodeError
from mixedmode.plan.keyed_operators import Where, expressions_of
from mixedmode.spark.errors import REFUSALS, refused


def check_alone(
    session: SparkSession,
    step: SqlStep | MapStep | KeyedStep,
    where: Where,
    found: list[MixedmodeError],
) -> None:
    """Append the mistakes of a step that every input would have.  where: names a place in the step."""
    parser: Any = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001  # PySpark only parses with analysis
    match step:
        case SqlStep():
            _check_syntax(parser.parsePlan, step.sql, where("sql"), found)
        case KeyedAggregateStep():
            for text in expressions_of(step):
                output = next(name for name, call in step.aggregate.items() if text in call.expressions)
                _check_syntax(parser.parseExpression, text, where("aggregate", output), found)
            if step.having is not None:
                _check_syntax(parser.parseExpression, step.having, where("having"), found)
        case TopStep():
            for by in step.top.order_by:
                _check_syntax(parser.parseExpression, by.expression, where("top", "order-by"), found)
        case DeduplicateStep() | OverStep():
            pass  # they name columns only
        case ProcessStep() | CoProcessStep():
            check_declared(step, where, found)
        case AsyncMapStep():
            check_declared_async_map(step, where, found)
        case MapStep():
            check_declared_map(step, where, found)


def _check_syntax(parse: Any, text: str, where: str, found: list[MixedmodeError]) -> None:
    try:
        parse(text)
    except REFUSALS as error:
        found.append(refused(where, error))
