"""Harnesses for steps with `top`, `deduplicate`, `over` and `apply-changes`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, cast

import pyarrow as pa

from mixedmode.config import ApplyChangesStep, DeduplicateStep, OverStep, TopStep
from mixedmode.config.over_calls import OverCall
from mixedmode.config.spelling import did_you_mean
from mixedmode.connectors.calls import Duration
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Source
from mixedmode.job.apply_changes import ApplyChangesArguments
from mixedmode.job.keyed import KeyedJob
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog
from mixedmode.plan.apply_changes_operators import row_columns
from mixedmode.plan.keyed_stages import Upstream, apply_changes_stage, over_stage, ranked_stage
from mixedmode.plan.over_operators import over_column
from mixedmode.plan.ranked_operators import RankedColumns, orders_of
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage
from mixedmode.testing.harness import Harness
from mixedmode.testing.schemas import SchemaLike, schema_of
from mixedmode.testing.settings import HarnessArguments
from mixedmode.testing.step import Step, argument_type, check_event_time, columns_of, key_fields, places


class TopHarness(Harness):
    """A harness for `job.key_by(...).top(...)`, with the same arguments.

    order_by: columns, each with its direction and the place of NULL; SQL expressions need Spark.
    schema: the columns of the records, as Spark DDL, {column: type}, or a pyarrow.Schema.
    key_by: one column or several.
    event_time: a timestamp column.
    See HarnessArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        n: int,
        *,
        order_by: str | Sequence[str],
        schema: SchemaLike,
        key_by: str | Sequence[str],
        event_time: str | None = None,
        **settings: Unpack[HarnessArguments],
    ) -> None:
        where, keys = "TopHarness", columns_of(key_by, where="TopHarness: key_by")
        step = _keyed(keys, event_time).top(n, order_by=order_by).steps[-1]
        assert isinstance(step, TopStep), step
        super().__init__(_step(step, schema, event_time, where), settings)


class DeduplicateHarness(Harness):
    """A harness for `job.key_by(...).deduplicate(...)`, with the same arguments.

    schema, key_by, event_time: as in TopHarness. See HarnessArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        *,
        keep: Literal["first", "last", "any"],
        tie_break: str | Sequence[str] | None = None,
        within: Duration | None = None,
        schema: SchemaLike,
        key_by: str | Sequence[str],
        event_time: str | None = None,
        **settings: Unpack[HarnessArguments],
    ) -> None:
        where, keys = "DeduplicateHarness", columns_of(key_by, where="DeduplicateHarness: key_by")
        step = _keyed(keys, event_time).deduplicate(keep=keep, tie_break=tie_break, within=within).steps[-1]
        assert isinstance(step, DeduplicateStep), step
        super().__init__(_step(step, schema, event_time, where), settings)


class OverHarness(Harness):
    """A harness for `job.key_by(...).over(...)`.

    columns: {column: call}, such as {"before": "lag(price)"}.
    tie_break: columns that order rows of one event time.
    schema, key_by, event_time: as in TopHarness. See HarnessArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        columns: Mapping[str, str | OverCall],
        *,
        tie_break: str | Sequence[str] | None = None,
        schema: SchemaLike,
        key_by: str | Sequence[str],
        event_time: str,
        **settings: Unpack[HarnessArguments],
    ) -> None:
        where, keys = "OverHarness", columns_of(key_by, where="OverHarness: key_by")
        step = _keyed(keys, event_time).over(columns, tie_break=tie_break).steps[-1]
        assert isinstance(step, OverStep), step
        super().__init__(_over(step, schema, event_time, where), settings)


class ApplyChangesHarness(Harness):
    """A harness for `job.key_by(...).apply_changes(...)`, with the same arguments.

    sequence_by: one or several columns; SQL expressions need Spark.
    delete_when: a column that is true or false.
    schema, key_by: as in TopHarness. See HarnessArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        changes: ApplyChangesArguments | None = None,
        *,
        sequence_by: str | Sequence[str],
        schema: SchemaLike,
        key_by: str | Sequence[str],
        **settings: Unpack[HarnessArguments],
    ) -> None:
        where, keys = "ApplyChangesHarness", columns_of(key_by, where="ApplyChangesHarness: key_by")
        own = _checked_changes({} if changes is None else changes, where=f"{where}: changes")
        step = _keyed(keys, None).apply_changes(sequence_by=sequence_by, **own).steps[-1]
        assert isinstance(step, ApplyChangesStep), step
        super().__init__(_apply_changes(step, schema, where), settings)


def _checked_changes(given: Any, *, where: str) -> ApplyChangesArguments:
    """Return arguments by name. Raise InvalidJobError, beginning with `where`, for anything else."""
    known = list(ApplyChangesArguments.__annotations__)
    if not isinstance(given, Mapping):
        msg = f"{where} must be a dictionary of arguments, such as {{'history': True}}. found={type(given).__name__}"
        raise InvalidJobError(msg)
    for name in given:
        if name not in known:
            near = did_you_mean(str(name), known)
            msg = f"{where} has no argument of this name.{near} Known here: {', '.join(known)}. found={name}"
            raise InvalidJobError(msg)
    return cast("ApplyChangesArguments", dict(given))


def _keyed(keys: tuple[str, ...], event_time: str | None) -> KeyedJob[Job]:
    """Return a job with the keys, for the job's own checks. It reads nothing, because it is never run."""
    source = Source.parquet("rows") if event_time is None else Source.parquet("rows", event_time=event_time)
    return Job("harness", sources={"rows": source}, mode="batch").key_by(*keys)


def _step(step: TopStep | DeduplicateStep, schema: SchemaLike, event_time: str | None, where: str) -> Step:
    """Return the step under test. Raise InvalidJobError, beginning with `where`, for unsuitable columns."""
    records = schema_of(schema, where=f"{where}: schema")
    if event_time is not None:
        check_event_time(records, event_time, where=f"{where}: event_time")
    keys = key_fields(records, step.key_by, where=f"{where}: key_by")
    row = {field.name: field for field in records if field.name not in {*step.key_by, WEIGHT_COLUMN}}
    order = [(by.expression, argument_type(records, by.expression, where=where)) for by in orders_of(step, event_time)]
    changelog = Changelog.RETRACT if WEIGHT_COLUMN in records.names else Changelog.APPEND
    stage = ranked_stage(
        step, Upstream(Reads(("rows",)), 0, event_time, changelog), RankedColumns(keys, row, order), places(where)
    )
    return _checked(stage, records, step.key_by, event_time, where)


def _over(step: OverStep, schema: SchemaLike, event_time: str, where: str) -> Step:
    """Return the step under test. Raise InvalidJobError, beginning with `where`, for unsuitable columns."""
    records = schema_of(schema, where=f"{where}: schema")
    check_event_time(records, event_time, where=f"{where}: event_time")
    keys = key_fields(records, step.key_by, where=f"{where}: key_by")
    row = {field.name: field for field in records if field.name not in step.key_by}
    if WEIGHT_COLUMN in row:
        text = "an over step reads rows that never change, so they have no weight. Remove"
        msg = f"{where}: schema: {text} {WEIGHT_COLUMN}."
        raise InvalidJobError(msg)
    order = [(name, argument_type(records, name, where=f"{where}: tie_break")) for name in step.over.tie_break]
    columns = RankedColumns(keys, row, order)
    computed = [over_column(name, call, columns, f"{where}: {name}") for name, call in step.over.columns.items()]
    upstream = Upstream(Reads(("rows",)), 0, event_time, Changelog.APPEND)
    return _checked(
        over_stage(step, upstream, columns, computed, places(where)), records, step.key_by, event_time, where
    )


def _apply_changes(step: ApplyChangesStep, schema: SchemaLike, where: str) -> Step:
    """Return the step under test. Raise InvalidJobError, beginning with `where`, for unsuitable columns."""
    records = schema_of(schema, where=f"{where}: schema")
    keys = key_fields(records, step.key_by, where=f"{where}: key_by")
    row = {name: records.field(name) for name in row_columns(step, records.names, places(where))}
    order = [(text, argument_type(records, text, where=where)) for _, text in step.apply_changes.expressions]
    columns = RankedColumns(keys, row, order)
    upstream = Upstream(Reads(("rows",)), 0, None, Changelog.APPEND)
    return _checked(apply_changes_stage(step, upstream, columns, places(where)), records, step.key_by, None, where)


def _checked(stage: KeyedStage, records: pa.Schema, key_by: Sequence[str], event_time: str | None, where: str) -> Step:
    return Step.checked(
        stage.operator,
        records,
        key_by=key_by,
        arguments=stage.arguments,
        event_time=event_time,
        identity=stage.identity,
        where=where,
    )
