"""The stage of a co-group function without Spark."""

from collections.abc import Sequence

from mixedmode.config import CoGroupStep
from mixedmode.errors import InvalidJobError
from mixedmode.operators.co_group import CoGroupReference
from mixedmode.plan.function_steps import co_group_stage, grouped_fields
from mixedmode.plan.join_operators import JoinedInput
from mixedmode.plan.joins import JoinKey
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage
from mixedmode.testing.functions import declared_output

__all__ = ["local_co_group"]


def local_co_group(
    step: CoGroupStep,
    upstream: Upstream,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    where: Where,
) -> KeyedStage:
    """Return the stage of a co-group function. Raise InvalidJobError for a wrong column or class, with its place."""
    spec, place = step.co_group, where("co-group", "output")
    fields = grouped_fields(keys, declared_output(spec.output, place), place)
    try:
        CoGroupReference.parse(spec.class_, spec.args, spec.folder).create()
    except InvalidJobError as error:
        msg = f"{where('co-group', 'class')}: {error}"
        raise InvalidJobError(msg) from error
    return co_group_stage(step, upstream, inputs, keys, fields, where)
