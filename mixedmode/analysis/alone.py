"""Checks of a step whose input is unknown, because an earlier part of the job is wrong: syntax, outputs, classes."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.async_maps import check_declared_async_map
from mixedmode.analysis.declared import check_declared
from mixedmode.analysis.map_steps import check_declared_map
from mixedmode.config import (
    ApplyChangesStep,
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
from mixedmode.config.document import Path
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
        case KeyedAggregateStep() | TopStep() | ApplyChangesStep():
            for place, text in _expressions(step):
                _check_syntax(parser.parseExpression, text, where(*place), found)
        case DeduplicateStep() | OverStep():
            pass  # they name columns only
        case ProcessStep() | CoProcessStep():
            check_declared(step, where, found)
        case AsyncMapStep():
            check_declared_async_map(step, where, found)
        case MapStep():
            check_declared_map(step, where, found)


def _expressions(step: KeyedAggregateStep | TopStep | ApplyChangesStep) -> Iterator[tuple[Path, str]]:
    """Yield the place and the text of each expression in SQL."""
    match step:
        case KeyedAggregateStep():
            for text in expressions_of(step):
                output = next(name for name, call in step.aggregate.items() if text in call.expressions)
                yield ("aggregate", output), text
            if step.having is not None:
                yield ("having",), step.having
        case TopStep():
            yield from ((("top", "order-by"), by.expression) for by in step.top.order_by)
        case ApplyChangesStep():
            yield from ((("apply-changes", key), text) for key, text in step.apply_changes.expressions)


def _check_syntax(parse: Any, text: str, where: str, found: list[MixedmodeError]) -> None:
    try:
        parse(text)
    except REFUSALS as error:
        found.append(refused(where, error))
