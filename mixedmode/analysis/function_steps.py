"""Makes the stage of a step with a function over two inputs. Spark analyses columns and types."""

from pyspark.sql import SparkSession

from mixedmode.analysis.declared import check_declared, declared_fields, declared_outputs
from mixedmode.analysis.joins import inputs_of, pair_keys
from mixedmode.analysis.keyed_steps import rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.config import CoProcessStep
from mixedmode.errors import MixedmodeError
from mixedmode.plan.function_steps import co_process_stage, untimed_inputs
from mixedmode.plan.joins import JoinKey
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage

__all__ = ["analysed_co_process"]


def analysed_co_process(
    session: SparkSession,
    step: CoProcessStep,
    given: tuple[Relation, Relation],
    event_times: tuple[str | None, str | None],
    upstream: Upstream,
    where: Where,
) -> KeyedStage:
    """Return the stage of a co-process function. Raise InvalidJobError with every mistake, each with its place.

    given, event_times: the rows and the event-time column of each input.
    """
    found: list[MixedmodeError] = []
    inputs, keys = inputs_of(step.co_process, given, event_times), list[JoinKey]()
    with collecting(found):
        keys = pair_keys(session, step, inputs, where)
    check_declared(step, where, found)
    if upstream.is_changelog:
        found.append(rows_change(where("co-process"), upstream.reads))
    else:
        found += untimed_inputs(inputs, where("co-process"))
    raise_all(found)
    return co_process_stage(
        step,
        upstream,
        inputs,
        keys,
        output_fields=declared_fields(step.co_process.output, where("co-process", "output")),
        function_outputs=declared_outputs(step, where),
    )
