"""The stages of co-group functions, and of functions with broadcast inputs, without Spark."""

from collections.abc import Sequence

from mixedmode.analysis.keyed_steps import rows_change
from mixedmode.analysis.problems import raise_all
from mixedmode.config import CoGroupStep
from mixedmode.config.step_outputs import FunctionStep, function_section
from mixedmode.errors import InvalidJobError
from mixedmode.operators.co_group import CO_GROUP_FUNCTION
from mixedmode.plan.broadcasts import broadcast_problems, with_broadcasts
from mixedmode.plan.function_steps import co_group_stage, grouped_fields
from mixedmode.plan.join_operators import JoinedInput, JoinKey
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage
from mixedmode.testing.functions import declared_output

__all__ = ["local_broadcasts", "local_co_group"]


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
        CO_GROUP_FUNCTION.named(spec.class_, spec.args, spec.folder).create()
    except InvalidJobError as error:
        msg = f"{where('co-group', 'class')}: {error}"
        raise InvalidJobError(msg) from error
    return co_group_stage(step, upstream, inputs, keys, fields, where)


def local_broadcasts(
    step: FunctionStep,
    stage: KeyedStage,
    mains: Sequence[JoinedInput],
    given: Sequence[JoinedInput],
    whole: Upstream,
    where: Where,
) -> KeyedStage:
    """Return the stage of a step with its broadcast inputs. Raise InvalidJobError with every mistake in them.

    mains: the inputs with records. given: the broadcast inputs. whole: the position of a reader of all of them.
    """
    found = broadcast_problems(step, mains, given, where)
    if whole.is_changelog:
        found.append(rows_change(where(*function_section(step)[0], "broadcast"), whole.reads))
    raise_all(found)
    return with_broadcasts(stage, step, mains, given, whole.reads, delay_us=whole.delay_us, where=where)
