"""Makes a stage of the plan from an `apply-changes` step of a job."""

from mixedmode.analysis.keyed_steps import StepInput, argument_in, key_fields, passed_columns, rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.calls import quoted
from mixedmode.errors import MixedmodeError
from mixedmode.plan.apply_changes_operators import row_columns
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import apply_changes_stage
from mixedmode.plan.ranked_operators import RankedColumns
from mixedmode.plan.stages import KeyedStage

__all__ = ["analysed_apply_changes"]


def analysed_apply_changes(step: ApplyChangesStep, given: StepInput, where: Where) -> KeyedStage:
    """Return the stage of an `apply-changes` step. Raise InvalidJobError with every bad column and expression."""
    frame, is_changelog = given.frame, given.upstream.is_changelog
    found: list[MixedmodeError] = []
    keys = key_fields(frame, step.key_columns, where("key-by"), found)
    row, order = {}, []
    with collecting(found):
        names = row_columns(step, frame.columns, where)
        row = passed_columns(step, frame.select([quoted(name) for name in names]), where, found)
    for key, text in step.apply_changes.expressions:
        with collecting(found):
            order.append(argument_in(frame, text, where("apply-changes", key), is_changelog=is_changelog))
    if is_changelog:
        found.append(rows_change(where("apply-changes"), given.upstream.reads))
    raise_all(found)
    return apply_changes_stage(step, given.upstream, RankedColumns(keys, row, order), where)
