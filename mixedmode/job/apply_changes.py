"""The arguments of `.apply_changes(...)`, as a typed dictionary, and the step that they make."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from mixedmode.config import ApplyChangesStep
from mixedmode.config.load import checked_section
from mixedmode.connectors.calls import given_arguments
from mixedmode.job.arguments import argument

__all__ = ["ApplyChangesArguments", "apply_changes_step"]


class ApplyChangesArguments(TypedDict, total=False):
    """Arguments of `.apply_changes(...)` besides the sequence.

    delete_when: a condition in SQL, such as "op = 'd'". A record that meets it deletes the row of its key.
    columns: the columns of the table, beside the key. By default, it has those of the records.
    except_columns: columns of the records that the table does not have.
    history: True for one row for each version of a key's row, with `__START_AT` and `__END_AT`.
    track: with history, the columns whose change begins a version. By default, every column does.
    track_except: with history, columns whose change only replaces the values of the version.
    """

    delete_when: str
    columns: str | Sequence[str]
    except_columns: str | Sequence[str]
    history: bool
    track: str | Sequence[str]
    track_except: str | Sequence[str]


def apply_changes_step(
    step: Mapping[str, Any], sequence_by: str | Sequence[str], given: ApplyChangesArguments
) -> ApplyChangesStep:
    """Return the step with these arguments.  step: its key and its name.

    Raise TypeError for an unknown argument, and InvalidJobError for a wrong one.
    """
    settings = given_arguments(given, ApplyChangesArguments, "apply_changes")
    own = {"sequence-by": sequence_by, **{name.replace("_", "-"): value for name, value in settings.items()}}
    return checked_section(ApplyChangesStep, {**step, "apply-changes": own}, place="Job.apply_changes", name=argument)
