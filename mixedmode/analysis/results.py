"""The outputs of whole steps: rows of a step as they are, or upserts that one more stage makes of the rows of sql."""

from mixedmode.analysis.catalyst import column_ids, read_frame
from mixedmode.analysis.relations import Relation
from mixedmode.analysis.sql_checks import kept_keys
from mixedmode.config.calls import quoted
from mixedmode.config.graph import MAIN_OUTPUT
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import UpsertOperator
from mixedmode.operators.interface import Changelog
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage, ResultPlan
from mixedmode.spark.frames import arrow_fields

__all__ = ["check_has_key", "result_of_rows", "result_of_stage", "upsert_stage"]


def check_has_key(stage: KeyedStage, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, if rows of a stage are retracted and have no key."""
    if stage.emitted.changelog is Changelog.RETRACT and not stage.operator.output_key:
        msg = (
            f"{where}: the join retracts rows, and its rows have no key, so the output could not find the row to "
            "delete. Put a step behind it whose rows have a key: an aggregate, or deduplicate with keep: last. An "
            f"inner join of rows that are only added retracts nothing. step={stage.operator_id}"
        )
        raise InvalidJobError(msg)


def result_of_stage(stage: KeyedStage, reads: Reads, where: str) -> ResultPlan:
    """Return the output of the rows of a stage, which its own subtasks write. Raise InvalidJobError without a key."""
    check_has_key(stage, where)
    key = tuple(field.name for field in stage.operator.output_key)
    return ResultPlan(reads, stage.operator.output_fields, key)


def result_of_rows(given: Relation, reads: Reads) -> ResultPlan:
    """Return the output of rows that are only added."""
    return ResultPlan(reads, tuple(arrow_fields(given.frame.schema)), ())


def upsert_stage(output: str, given: Relation, reads: Reads, stage: KeyedStage, where: str) -> KeyedStage | None:
    """Return a stage that makes upserts of rows after sql, by the key of the stage that they are from.

    output: the name of the output. Return None if the rows are only added, and do not have that key: they need none.
    Raise InvalidJobError, beginning with `where`, for rows that change and cannot be found again by a key.
    """
    if given.root is None or len(reads.stages) > 1 or reads.sources:
        if not reads.changelogs:
            return None
        msg = (
            f"{where}: the output has rows of several steps or sources, and some of them change, so no key says which "
            "row replaces which. Put a key-by with an aggregate after the sql, or give each step an output of its own. "
            f"inputs={', '.join((*reads.sources, *reads.stages))}"
        )
        raise InvalidJobError(msg)
    key_columns = tuple(field.name for field in stage.operator.output_key)
    if not key_columns:
        check_has_key(stage, where)
        return None
    plan = read_frame(given.frame, until=given.root)
    try:
        kept = kept_keys(plan, column_ids(given.root), column_ids(given.frame), key_columns, where=where)
    except InvalidJobError:
        if reads.changelogs:
            raise
        return None
    fields = {field.name: field for field in arrow_fields(given.frame.schema)}
    named = {name.lower(): name for name in fields}
    key_columns = tuple(named[name] for name in kept)
    keys = KeySchema(tuple(fields[name] for name in key_columns))
    rest = [field for name, field in fields.items() if name not in key_columns]
    return KeyedStage(
        operator_id=f"upsert-{output or MAIN_OUTPUT}",  # with a hyphen, so it is no name of a step
        reads=reads,
        key_fields=keys.fields,
        arguments=tuple(quoted(field.name) for field in rest),
        argument_types=tuple(field.type for field in rest),
        event_time=None,
        is_changelog=bool(reads.changelogs),
        operator=UpsertOperator(keys, tuple(rest)),
        identity=step_fingerprint("upsert"),
    )
