"""Makes the operator of an `apply-changes` step, from the step and the columns of its input. Pure: no Spark."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from mixedmode.config.apply_changes import VERSION_COLUMNS, ApplyChangesStep
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.top import OrderColumn
from mixedmode.plan.fingerprint import Fingerprint, apply_changes_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.ranked_operators import RankedColumns

__all__ = ["apply_changes_identity", "apply_changes_operator", "check_condition", "row_columns"]


def row_columns(step: ApplyChangesStep, columns: Sequence[str], where: Where) -> list[str]:
    """Return the columns of the records that rows have beside the key.  columns: of the records.

    Raise InvalidJobError for a name that none of them has, and for one that history adds.
    """
    spec, keys = step.apply_changes, {name.lower() for name in step.key_columns}
    chosen = {name.lower() for name in spec.columns}
    dropped = {name.lower() for name in spec.except_columns}
    for place, names in (("columns", spec.columns), ("except-columns", spec.except_columns)):
        _check_known(names, columns, where("apply-changes", place))
    kept = [name for name in columns if name.lower() not in dropped and (not chosen or name.lower() in chosen)]
    row = [name for name in kept if name.lower() not in keys]
    added = {name.lower() for name in VERSION_COLUMNS} if spec.history else set()
    for name in row:
        if name.lower() in added:
            msg = (
                f"{where('apply-changes', 'history')} adds a column of this name. Rename that of the records in a sql "
                f"step before, or name it in except-columns. column={name}"
            )
            raise InvalidJobError(msg)
    return row


def check_condition(step: ApplyChangesStep, columns: RankedColumns, where: Where) -> None:
    """Raise InvalidJobError if `delete-when` is no condition."""
    for text, data_type in columns.order[len(step.apply_changes.sequence_by) :]:
        if not pa.types.is_boolean(data_type):
            msg = (
                f"{where('apply-changes', 'delete-when')}: this is no condition, which is true or false. Compare, as "
                f"in op = 'd'. found={text}, type={data_type}"
            )
            raise InvalidJobError(msg)


def apply_changes_operator(step: ApplyChangesStep, columns: RankedColumns, where: Where) -> ApplyChangesOperator:
    """Return the operator of a step. Raise InvalidJobError for tracked columns that its rows do not have."""
    order = [OrderColumn(data_type, descending=False, nulls_first=True) for _, data_type in columns.order]
    tracked = tuple(_tracked(step, [field.name for field in columns.row.values()], where))
    spec = step.apply_changes
    return ApplyChangesOperator(
        columns.layout(order),
        columns.order_arguments,
        deletes=spec.delete_when is not None,
        tracked=tracked if spec.history else None,
        where=where("apply-changes"),
    )


def apply_changes_identity(columns: RankedColumns, operator: ApplyChangesOperator) -> Fingerprint:
    """Return the fingerprint of a step, without the part on its input."""
    row = list(columns.row.values())
    tracked = None if operator.tracked is None else [row[index].name for index in operator.tracked]
    return apply_changes_fingerprint(columns.keys, row, [text for text, _ in columns.order], tracked)


def _tracked(step: ApplyChangesStep, row: Sequence[str], where: Where) -> Iterator[int]:
    """Yield the indices of the columns of the row whose change begins a version."""
    spec = step.apply_changes
    for place, names in (("track", spec.track), ("track-except", spec.track_except)):
        _check_known(names, row, where("apply-changes", place))
    only, left_out = ({name.lower() for name in names} for names in (spec.track, spec.track_except))
    for index, name in enumerate(row):
        if name.lower() in only or (not only and name.lower() not in left_out):
            yield index


def _check_known(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    known = {name.lower() for name in columns}
    for name in names:
        if name.lower() not in known:
            hint = did_you_mean(name, columns)
            msg = f"{where}: there is no column {name}.{hint} Columns here: {', '.join(columns)}."
            raise InvalidJobError(msg)
