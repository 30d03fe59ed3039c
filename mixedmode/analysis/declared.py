"""The declarations of steps with a function: the columns of their rows, and the class. Spark parses the types."""

from functools import partial

import pyarrow as pa

from mixedmode.analysis.column_types import input_fields
from mixedmode.analysis.event_times import check_event_time
from mixedmode.analysis.problems import collecting
from mixedmode.config.step_outputs import FunctionStep, function_section
from mixedmode.config.steps import ProcessStep
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.process import state_schema_of
from mixedmode.plan.function_steps import function_reference
from mixedmode.plan.keyed_operators import Where
from mixedmode.sources.source import parse_ddl

__all__ = ["check_declared", "declared_fields", "declared_outputs"]


def check_declared(step: FunctionStep, where: Where, found: list[MixedmodeError]) -> None:
    """Append the mistakes of a step that do not depend on its input: in its outputs and its function.

    where: names a place in the step.
    """
    path, own = function_section(step)
    here = partial(where, *path)
    with collecting(found):
        fields = declared_fields(own.output, here("output"))
        if own.event_time is not None:
            check_event_time(fields, own.event_time, here("event-time"))
    for tag, output in own.outputs.items():
        with collecting(found):
            declared_fields(output.schema_ddl, here("outputs", tag, "schema"))
    with collecting(found, where=here("process" if isinstance(step, ProcessStep) else "class")):
        state_schema_of(function_reference(step))


def declared_outputs(step: FunctionStep, where: Where) -> dict[str, tuple[pa.Field, ...]]:
    """Return {tag: columns} of the side outputs of a step. Raise InvalidJobError, with its place, for a wrong one."""
    path, own = function_section(step)
    return {
        tag: declared_fields(output.schema_ddl, where(*path, "outputs", tag, "schema"))
        for tag, output in own.outputs.items()
    }


def declared_fields(ddl: str, where: str) -> tuple[pa.Field, ...]:
    """Return the declared output of a function as Arrow fields. Raise InvalidJobError, beginning with `where`."""
    fields = input_fields(parse_ddl(ddl, where=where), where)
    taken = [field.name for field in fields if field.name.startswith("_")]
    if taken:
        msg = f"{where}: names that start with _ are kept for columns such as _op. Choose another. column={taken[0]}"
        raise InvalidJobError(msg)
    return fields
