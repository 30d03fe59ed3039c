"""Makes a stage of the plan from an `over` step of a job."""

from collections.abc import Sequence

import pyarrow as pa

from mixedmode.analysis.keyed_steps import StepInput, key_field, key_fields, passed_columns, rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config import OverStep
from mixedmode.config.calls import quoted
from mixedmode.errors import MixedmodeError
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import over_stage
from mixedmode.plan.over_operators import over_column
from mixedmode.plan.ranked_operators import RankedColumns
from mixedmode.plan.stages import ALL_ROWS, KeyedStage

__all__ = ["analysed_over"]


def analysed_over(step: OverStep, given: StepInput, where: Where) -> KeyedStage:
    """Return the stage of an `over` step. Raise InvalidJobError with every bad column.  where: a place in the step."""
    found: list[MixedmodeError] = []
    keys: Sequence[pa.Field] = key_fields(given.frame, step.key_columns, where("key-by"), found)
    row = passed_columns(step, given.frame, where, found)
    order = []
    for name in step.over.tie_break:
        with collecting(found):
            column = key_field(given.frame, name, where("over", "tie-break"))
            order.append((quoted(column.name), column.type))
    if given.upstream.is_changelog:
        found.append(rows_change(where("over"), given.upstream.reads))
    raise_all(found)
    columns = RankedColumns(tuple(keys) or (ALL_ROWS,), row, order)
    computed = []
    for name, call in step.over.columns.items():
        with collecting(found):
            computed.append(over_column(name, call, columns, where("over", "columns", name)))
    raise_all(found)
    return over_stage(step, given.upstream, columns, computed, where)
