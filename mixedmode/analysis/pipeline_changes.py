"""The flows of changes of a pipeline (`dp.create_auto_cdc_flow`), as steps with `apply-changes`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import items_of
from mixedmode.analysis.catalyst_texts import columns_over, value_of
from mixedmode.config import ApplyChangesStep
from mixedmode.config.apply_changes import VERSION_COLUMNS
from mixedmode.config.calls import named, quoted
from mixedmode.config.load import checked_section
from mixedmode.config.sql_changes import sequence_texts
from mixedmode.plan.apply_changes_operators import row_columns

__all__ = ["PipelineChanges", "changed_rows"]

_CALL = "create_auto_cdc_flow"
#: {setting of the step: the argument}
_ARGUMENTS = {
    "key-by": "keys",
    "sequence-by": "sequence_by",
    "delete-when": "apply_as_deletes",
    "columns": "column_list",
    "except-columns": "except_column_list",
    "history": "stored_as_scd_type",
    "track": "track_history_column_list",
    "track-except": "track_history_except_column_list",
}
_Names = Sequence[str | Column] | None


@dataclass(frozen=True, slots=True)
class PipelineChanges:
    """The arguments of a flow, in the order of PySpark; _ARGUMENTS has the setting of the step for each.

    name: that of the flow has no meaning here.
    """

    target: str
    source: str
    keys: Sequence[str | Column]
    sequence_by: str | Column
    apply_as_deletes: str | Column | None = None
    column_list: _Names = None
    except_column_list: _Names = None
    stored_as_scd_type: Literal[1, 2, "1", "2"] | None = None
    name: str | None = None
    track_history_column_list: _Names = None
    track_history_except_column_list: _Names = None

    def step(self, records: DataFrame) -> ApplyChangesStep:
        """Return the step, which reads the source by its name.  records: those of the source.

        Raise InvalidJobError for arguments that do not fit together, and for columns that the records do not have.
        """
        own: dict[str, Any] = {
            "sequence-by": sequence_texts(_text(records, self.sequence_by)),
            "history": str(self.stored_as_scd_type or 1) == "2",
        }
        if self.apply_as_deletes is not None:
            own["delete-when"] = _text(records, self.apply_as_deletes)
        for key in ("columns", "except-columns", "track", "track-except"):
            if given := getattr(self, _ARGUMENTS[key]):
                own[key] = _names(records, given)
        settings = {"key-by": _names(records, self.keys), "apply-changes": own, "from": self.source}
        step = checked_section(ApplyChangesStep, settings, place=_CALL, name=lambda path: _ARGUMENTS[str(path[-1])])
        return step.model_copy(update={"name": self.target})

    def rows(self, session: SparkSession) -> DataFrame:
        """Return rows with the columns of the table, for queries that read it. Raise InvalidJobError as `step`."""
        records = session.readStream.table(self.source)
        return changed_rows(self.step(records), records)


def changed_rows(step: ApplyChangesStep, records: DataFrame) -> DataFrame:
    """Return rows with the columns of the table that a step makes of records. Only their columns mean something.

    Raise InvalidJobError for columns that the records do not have.
    """
    names = row_columns(step, records.columns, lambda *place: ".".join(map(str, place)))
    keys, row = ([quoted(name) for name in given] for given in (step.key_columns, names))
    starts, ends = ([], [])
    if step.apply_changes.history:
        starts, ends = ([named(step.apply_changes.sequence_by[0], bound)] for bound in VERSION_COLUMNS)
    return records.selectExpr(*keys, *starts, *row, *ends)


def _text(records: DataFrame, expression: str | Column) -> str:
    """Return an expression over records as SQL."""
    if isinstance(expression, str):
        return expression
    session = records.sparkSession
    plan = analysed(records.select(expression))
    (value,) = (value_of(one) for one in items_of(plan.projectList()))
    (text,) = columns_over(session, [(one, str(one.name())) for one in items_of(plan.child().output())], [value])
    return text


def _names(records: DataFrame, columns: Sequence[str | Column] | None) -> list[str]:
    """Return the names of columns."""
    return [one if isinstance(one, str) else records.select(one).columns[0] for one in columns or ()]
