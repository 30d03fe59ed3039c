"""Adds the broadcast inputs of a function to the stage of its step. Spark analyses columns and types."""

from collections.abc import Callable, Sequence

from mixedmode.analysis.column_types import input_fields
from mixedmode.analysis.keyed_steps import rows_change
from mixedmode.analysis.problems import raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.config.step_outputs import FunctionStep, broadcasts_of, function_section
from mixedmode.plan.broadcasts import broadcast_problems, with_broadcasts
from mixedmode.plan.join_operators import JoinedInput
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage

__all__ = ["analysed_broadcasts"]


def analysed_broadcasts(
    step: FunctionStep,
    stage: KeyedStage,
    mains: Sequence[Relation],
    others: Sequence[Relation],
    upstream_of: Callable[[Sequence[Relation]], Upstream],
    where: Where,
) -> KeyedStage:
    """Return the stage of a step with its broadcast inputs. Raise InvalidJobError with every mistake in them.

    mains: the inputs with records. others: the broadcast inputs. upstream_of: the position of a reader of relations.
    """

    def read(relation: Relation, alias: str) -> JoinedInput:
        roots = (*relation.sources, *relation.stages)
        time = upstream_of([relation]).event_time
        return JoinedInput(alias, input_fields(relation.frame.schema, f"{where()}: {alias}"), time, roots)

    given = [read(one, spec.from_) for one, spec in zip(others, broadcasts_of(step).values(), strict=True)]
    records, whole = [read(one, one.name) for one in mains], upstream_of([*mains, *others])
    found = broadcast_problems(step, records, given, where)
    for one, name in zip(others, broadcasts_of(step), strict=True):
        reads = upstream_of([one]).reads
        if reads.changelogs:
            found.append(rows_change(where(*function_section(step)[0], "broadcast", name), reads))
    raise_all(found)
    return with_broadcasts(stage, step, records, given, whole.reads, delay_us=whole.delay_us, where=where)
