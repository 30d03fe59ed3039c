"""Makes the stage of a step with a function over two inputs. Spark analyses columns and types."""

from pyspark.sql import SparkSession

from mixedmode.analysis.declared import check_declared, declared_fields, declared_outputs
from mixedmode.analysis.joins import inputs_of, pair_keys
from mixedmode.analysis.keyed_steps import rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.config import CoGroupStep, CoProcessStep, JoinStep
from mixedmode.errors import MixedmodeError
from mixedmode.operators.co_group import CO_GROUP_FUNCTION
from mixedmode.plan.function_steps import co_group_stage, co_process_stage, grouped_fields, untimed_inputs
from mixedmode.plan.join_operators import JoinKey
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage

__all__ = ["PairStep", "analysed_function"]

PairStep = JoinStep | CoProcessStep | CoGroupStep  #: the steps with two inputs


def analysed_function(
    session: SparkSession,
    step: CoProcessStep | CoGroupStep,
    given: tuple[Relation, Relation],
    event_times: tuple[str | None, str | None],
    upstream: Upstream,
    where: Where,
) -> KeyedStage:
    """Return the stage of a function over two inputs. Raise InvalidJobError with every mistake, each with its place.

    given, event_times: the rows and the event-time column of each input.
    """
    found: list[MixedmodeError] = []
    inputs, keys = inputs_of(step.pair, given, event_times, where), list[JoinKey]()
    with collecting(found):
        keys = pair_keys(session, step, inputs, where)
    if upstream.is_changelog:
        found.append(rows_change(where(step.section), upstream.reads))
    else:
        found += untimed_inputs(inputs, where(step.section))
    if isinstance(step, CoProcessStep):
        check_declared(step, where, found)
        raise_all(found)
        fields = declared_fields(step.co_process.output, where("co-process", "output"))
        outputs = declared_outputs(step, where)
        return co_process_stage(step, upstream, inputs, keys, output_fields=fields, function_outputs=outputs)
    fields = ()
    with collecting(found):
        place = where("co-group", "output")
        fields = grouped_fields(keys, declared_fields(step.co_group.output, place), place)
    with collecting(found, where=where("co-group", "class")):
        CO_GROUP_FUNCTION.named(step.co_group.class_, step.co_group.args, step.co_group.folder).create()
    raise_all(found)
    return co_group_stage(step, upstream, inputs, keys, fields, where)
