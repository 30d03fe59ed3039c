"""Makes a stage of the plan from an async-map step. Spark analyses columns and types."""

import pyarrow as pa

from mixedmode.analysis.column_types import input_type
from mixedmode.analysis.declared import declared_fields
from mixedmode.analysis.keyed_steps import RESERVED, StepInput, column_kept, key_fields, rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config import AsyncMapStep
from mixedmode.config.calls import quoted
from mixedmode.errors import MixedmodeError
from mixedmode.plan.async_maps import answer_problems, async_map_stage, check_class
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import KeyedStage

__all__ = ["analysed_async_map", "check_declared_async_map"]


def analysed_async_map(step: AsyncMapStep, given: StepInput, where: Where) -> KeyedStage:
    """Return the stage of a step. Raise InvalidJobError with every mistake, each with its place."""
    found: list[MixedmodeError] = []
    keys = key_fields(given.frame, step.key_columns, where("key-by"), found)
    row = dict[str, pa.Field]()
    names = {column.lower() for column in step.key_columns}
    for field in given.frame.schema:
        if field.name.lower() in names:
            continue
        if field.name.lower() in RESERVED:
            found.append(column_kept(field.name, where("async-map")))
        with collecting(found):
            row[quoted(field.name)] = pa.field(field.name, input_type(field.dataType, f"{where()}: {field.name}"))
    answer = check_declared_async_map(step, where, found)
    found += answer_problems(step, answer, given.frame.columns, where)
    if given.upstream.is_changelog:
        found.append(rows_change(where("async-map"), given.upstream.reads))
    raise_all(found)
    return async_map_stage(step, given.upstream, keys=keys, row=row, answer=answer)


def check_declared_async_map(step: AsyncMapStep, where: Where, found: list[MixedmodeError]) -> tuple[pa.Field, ...]:
    """Return the columns of an answer. Append the mistakes of a step that do not depend on its input."""
    answer: tuple[pa.Field, ...] = ()
    with collecting(found):
        answer = declared_fields(step.output, where("output"))
    with collecting(found):
        check_class(step, where)
    return answer
