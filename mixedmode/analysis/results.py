"""The outputs of whole steps: rows of a step as they are, or upserts that one more stage makes of them."""

from collections.abc import Sequence

from mixedmode.analysis.column_types import input_fields, output_fields
from mixedmode.analysis.keyed_steps import key_fields
from mixedmode.analysis.problems import raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.interface import Changelog
from mixedmode.plan.job_plan import ResultPlan
from mixedmode.plan.keyed_stages import upsert_stage
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage

__all__ = ["check_has_key", "has_key", "result_of_rows", "result_of_stage", "with_key", "with_upserts"]


def check_has_key(stage: KeyedStage, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, if rows of a stage are retracted and have no key."""
    if stage.emitted.changelog is Changelog.RETRACT and not stage.row_keys:
        msg = (
            f"{where}: the join retracts rows, and its rows have no key, so the output could not find the row to "
            "delete. If the rows of both inputs have keys, select the columns of these. Otherwise name the columns "
            "that no two of its rows share in the `key` of the output, or put a step after it whose rows have a key, "
            "such as an aggregate. An inner or semi join of rows that are only added retracts nothing. "
            f"step={stage.operator_id}"
        )
        raise InvalidJobError(msg)


def result_of_stage(stage: KeyedStage, reads: Reads, where: str, columns: Sequence[str] = ()) -> ResultPlan:
    """Return the output of the rows of a stage, which its own subtasks write.

    columns: those of the rows of which the stage makes upserts; the output has them in this order. () if the stage is
    a step, whose order its rows keep. Raise InvalidJobError, beginning with `where`, without a key.
    """
    check_has_key(stage, where)
    key = tuple(field.name for field in stage.operator.output_key)
    places = {name: place for place, name in enumerate(columns)}
    fields = sorted(stage.operator.output_fields, key=lambda field: places.get(field.name, -1))
    return ResultPlan(reads, tuple(fields), key)


def has_key(stage: KeyedStage, key: Sequence[str]) -> bool:
    """Return whether rows of a stage are upserts by `key` as they are; () is any key, or none."""
    if not stage.operator.output_key and stage.row_keys:
        return False
    own = {field.name.lower() for field in stage.operator.output_key}
    return not key or own == {name.lower() for name in key}


def result_of_rows(given: Relation, reads: Reads, where: str) -> ResultPlan:
    """Return the output of rows that are only added.

    Raise InvalidJobError, beginning with `where`, for a column that cannot be written.
    """
    return ResultPlan(reads, output_fields(given.frame.schema, where), ())


def with_upserts(output: str, given: Relation, reads: Reads, stage: KeyedStage, where: str) -> KeyedStage | None:
    """Return a stage that makes upserts of rows after sql, by the key of the stage that they are from.

    output: the name of the output. Return None if the rows are only added, and do not have that key: they need none.
    Raise InvalidJobError, beginning with `where`, for rows that change and cannot be found again by a key.
    """
    try:
        keys = _kept_keys(given, reads, stage, where)
    except InvalidJobError:
        if reads.changelogs:
            raise
        return None
    if not keys:
        return None
    return upsert_stage(output, reads, input_fields(given.frame.schema, where), keys[0], is_checked=False)


def with_key(
    output: str, given: Relation, reads: Reads, stage: KeyedStage | None, key: Sequence[str], where: str
) -> KeyedStage:
    """Return a stage that makes upserts of rows by the columns `key`.

    stage: the first of the stages that the rows are from. It is not checked that each key has one row if this follows
    from the key of the stage. Raise InvalidJobError, beginning with `where`, for a column that cannot be part of a key,
    and if there is no keyed step.
    """
    if stage is None:
        msg = (
            f"{where}: no keyed step is before this output, so its rows are only added, and need no key. Remove this, "
            "or add a step with deduplicate, which keeps one row of each key."
        )
        raise InvalidJobError(msg)
    found = list[MixedmodeError]()
    key_fields(given.frame, key, where, found)
    raise_all(found)
    fields = input_fields(given.frame.schema, where)
    names = {field.name.lower(): field.name for field in fields}
    try:
        kept = _kept_keys(given, reads, stage, where)
    except InvalidJobError:
        kept = []
    wanted = [names[name.lower()] for name in key]
    is_checked = not any(set(one) <= set(wanted) for one in kept)
    return upsert_stage(output, reads, fields, wanted, is_checked=is_checked)


def _kept_keys(given: Relation, reads: Reads, stage: KeyedStage, where: str) -> list[tuple[str, ...]]:
    """Return the columns that have a key of the stage, () for a key without columns, and other such columns.

    The first have the key of the step, if it is kept. [] if the stage has none. Raise InvalidJobError, beginning with
    `where`, if no key of the stage identifies the rows.
    """
    if given.root is None or len(reads.stages) > 1 or reads.sources:
        msg = (
            f"{where}: the output has rows of several steps or sources, and some of them change, so no key says which "
            "row replaces which. Name the columns that do in the `key` of the output, put a key-by with an aggregate "
            "after the sql, or give each step an output of its own. "
            f"inputs={', '.join((*reads.sources, *reads.stages))}"
        )
        raise InvalidJobError(msg)
    check_has_key(stage, where)
    return given.row_keys(where)
