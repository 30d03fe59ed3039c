"""Finds the conversion of each operator of Spark: which step of the job it is, and whether they are the same. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import AggregateOperator, Aggregator, MultisetAggregator
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.process import ProcessOperator
from mixedmode.operators.window import SessionAggregateOperator, TimeWindowAggregateOperator
from mixedmode.plan.stages import KeyedStage
from mixedmode.spark_state.buffers import Buffer, buffers_of
from mixedmode.spark_state.conversions import Aggregates, Conversion, Keys, Sessions, Windows
from mixedmode.spark_state.keys import is_bounds, match_keys, shown_fields
from mixedmode.spark_state.processors import ProcessorRows, Timers, Variable, adapter_of
from mixedmode.spark_state.progress import SparkProgress

__all__ = ["SparkOperator", "SparkTable", "check_watermarks", "conversions_of", "merger_of", "pairs_of"]

_US_PER_MS = 1000
_AGGREGATE, _SESSIONS = "stateStoreSave", "sessionWindowStateStoreSaveExec"
_DEDUPLICATE, _WITHIN = "dedupe", "dedupeWithinWatermark"
_PROCESSOR = "transformWithState"
_POLICY = "streaming.multipleWatermarkPolicy"


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table of the state of an operator, as Spark's data source has it: the columns of its key, and of its value.

    options: those of the data source. name: of a state variable; "" for other tables. kind: of the variable: "value",
    "list", "map" or "timers". has_ttl: its values have a time to live.
    """

    keys: tuple[pa.Field, ...]
    values: tuple[pa.Field, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    kind: str = ""
    has_ttl: bool = False


@dataclass(frozen=True, slots=True)
class SparkOperator:
    """An operator with state of a query of Spark. name: of Spark. tables: () if its state is not taken over.

    time_mode: of transformWithState.
    """

    number: int
    name: str
    tables: tuple[SparkTable, ...]
    time_mode: str = ""

    @property
    def keys(self) -> tuple[pa.Field, ...]:
        """The columns of its key."""
        return self.tables[0].keys if self.tables else ()

    @property
    def values(self) -> tuple[pa.Field, ...]:
        """The columns of the values of its only table."""
        return self.tables[0].values

    def __str__(self) -> str:
        """Return the operator and its key, for a message."""
        return f"{self.name} by {shown_fields(self.keys)}" if self.tables else self.name


def check_watermarks(progress: SparkProgress, timed: Collection[str]) -> None:
    """Raise InvalidJobError if Spark's watermark is not that of the slowest source.  timed: sources with event time."""
    policy = progress.setting(_POLICY, "min")
    if policy != "min" and len(timed) > 1:
        msg = (
            "the watermark of the query is that of its fastest source, and the watermark of a job is that of its "
            "slowest one, so the job would wait for rows that are late in Spark. Nothing was imported. Run the job "
            f"from the beginning. spark.sql.{_POLICY}={policy}, sources={', '.join(sorted(timed))}"
        )
        raise InvalidJobError(msg)


def pairs_of(
    stages: Sequence[KeyedStage], operators: Sequence[SparkOperator]
) -> list[tuple[KeyedStage, SparkOperator]]:
    """Return the steps with state, and the operator of Spark that each of them is.

    operators: by number. Spark numbers the operators of a chain from the last one to the first. Raise InvalidJobError
    if there are more on one side, or if several are no chain.
    """
    with_state = [stage for stage in stages if stage.operator.states]
    if len(with_state) != len(operators):
        here = "; ".join(stage.operator_id for stage in with_state) or "none"
        there = "; ".join(map(str, operators)) or "none"
        msg = (
            "the job and the query of Spark have another number of steps with state, so they are not the same query. "
            "Nothing was imported. Write the job as the query is; several queries of Spark are several jobs. "
            f"steps_here={here}, operators_in_spark={there}"
        )
        raise InvalidJobError(msg)
    if not _is_chain(with_state):
        msg = (
            "several operators of Spark with state are only taken over if each reads what the one before emits. "
            f"Nothing was imported. Run the job from the beginning. operators_in_spark={'; '.join(map(str, operators))}"
        )
        raise InvalidJobError(msg)
    return list(zip(with_state, reversed(operators), strict=True))


def conversions_of(stage: KeyedStage, spark: SparkOperator, progress: SparkProgress) -> list[Conversion]:
    """Return the conversion of each table of an operator of Spark to the state of a step.

    Raise InvalidJobError if they are not the same, or if a part cannot be taken over.
    """
    if isinstance(stage.operator, ProcessOperator) and spark.name.startswith(_PROCESSOR):
        return _of_processor(stage, stage.operator, spark, progress)
    if len(spark.tables) != 1:
        raise _other_step(stage, spark)
    return [_conversion_of(stage, spark, progress)]


def _conversion_of(stage: KeyedStage, spark: SparkOperator, progress: SparkProgress) -> Conversion:
    operator, where = stage.operator, f"step {stage.operator_id!r}"
    if getattr(operator, "allowed_lateness_us", 0):
        msg = (
            f"{where}: the step has an allowed lateness, and Spark drops a window when its watermark passes it, so a "
            "late record would be alone in its window. Nothing was imported. Remove allowed-lateness, or run the job "
            "from the beginning."
        )
        raise InvalidJobError(msg)
    passed_us = progress.watermark_ms * _US_PER_MS
    sql = " ".join(step.text for step in stage.reads.sql)
    match operator:
        case AggregateOperator(is_changelog=False) if spark.name == _AGGREGATE:
            ours = stage.key_fields if stage.key_fields != _ALL else ()
            key = match_keys(ours, spark.keys, where, sql=sql)
            return Aggregates(operator, key, _buffers(operator.aggregator, spark.values, where))
        case TimeWindowAggregateOperator(is_changelog=False, by_clock=False) if spark.name == _AGGREGATE:
            key = match_keys(stage.key_fields, spark.keys, where, sql=sql, has_window=True)
            return Windows(operator, key, _buffers(operator.aggregator, spark.values, where), passed_us)
        case SessionAggregateOperator() if spark.name == _SESSIONS and not _keeps_rows(operator.aggregator):
            count = len(stage.key_fields) + 1
            key = match_keys(stage.key_fields, spark.values[:count], where, sql=sql, has_window=True)
            return Sessions(operator, key, _buffers(operator.aggregator, spark.values[count:], where), passed_us)
        case DeduplicateOperator(waits=False):
            return _keys(stage, operator, spark, progress, sql)
        case _:
            raise _other_step(stage, spark)


_ALL = (pa.field("_all", pa.bool_()),)


def _buffers(aggregator: Aggregator, values: Sequence[pa.Field], where: str) -> tuple[Buffer, ...]:
    """Return the buffers of the calls. Raise InvalidJobError if Spark's state has others."""
    buffers = buffers_of(aggregator, where)
    expected = [field for buffer in buffers for field in buffer.fields]
    alike = [(one.name, _plain(one.type)) for one in expected] == [(one.name, _plain(one.type)) for one in values]
    if not alike:
        msg = (
            f"{where}: Spark's state has the buffers of other aggregates, or of the same ones in another order, so the "
            "step and the operator are not the same. Nothing was imported. Write the aggregates in the order in which "
            "the query of Spark has them, over columns of the same types. "
            f"buffers_here={shown_fields(expected)}; buffers_in_spark={shown_fields(values)}"
        )
        raise InvalidJobError(msg)
    return buffers


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.large_string() else pa.binary() if kind == pa.large_binary() else kind


def _keys(
    stage: KeyedStage, operator: DeduplicateOperator, spark: SparkOperator, progress: SparkProgress, sql: str
) -> Keys:
    where = f"step {stage.operator_id!r}"
    names = {_WITHIN} if operator.within_us is not None else {_DEDUPLICATE, _AGGREGATE}
    if spark.name not in names or (spark.name == _AGGREGATE and spark.values):
        raise _other_step(stage, spark)
    times = [field.name for field in stage.key_fields if field.name == stage.event_time or is_bounds(field)]
    if times and operator.within_us is None and progress.next_watermark_ms:
        msg = (
            f"{where}: the event time is one of the columns of dropDuplicates, so Spark has forgotten the keys behind "
            "its watermark, and drops late rows instead. This step drops no late rows, and would emit a late "
            "duplicate again, so the state cannot be taken over. Nothing was imported. Run the job from the "
            f"beginning, or use dropDuplicatesWithinWatermark in both. column={times[0]}"
        )
        raise InvalidJobError(msg)
    key = match_keys(stage.key_fields, spark.keys, where, sql=sql)
    return Keys(operator, key, expires=spark.name == _WITHIN)


def _is_chain(stages: Sequence[KeyedStage]) -> bool:
    """Return whether each step reads the one before, and nothing else."""
    return all(
        stage.reads.stages == (before.operator_id,) and not stage.reads.sources for before, stage in pairwise(stages)
    )


def merger_of(stage: KeyedStage) -> ProcessorRows | None:
    """Return what merges values of a key that several tables have made; None if one table has all of a key."""
    return ProcessorRows(stage.operator) if isinstance(stage.operator, ProcessOperator) else None


def _of_processor(
    stage: KeyedStage, operator: ProcessOperator, spark: SparkOperator, progress: SparkProgress
) -> list[Conversion]:
    where, adapter = f"step {stage.operator_id!r}", adapter_of(operator)
    if adapter is None:
        raise _other_step(stage, spark)
    sql = " ".join(step.text for step in stage.reads.sql)
    here = {name: _declared(variable) for name, variable in adapter.variables.items()}
    there = {table.name: _stored(table) for table in spark.tables if table.kind != "timers"}
    if here != there or adapter.time_mode != spark.time_mode:
        shown = [
            f"time mode {mode}; {_shown(found)}"
            for mode, found in ((adapter.time_mode, here), (spark.time_mode, there))
        ]
        msg = (
            f"{where}: the class and the query of Spark have other state variables, or another time mode, so they are "
            "not the same. Nothing was imported. Use the class of the query; change it when the job has begun. "
            f"here=({shown[0]}), in_spark=({shown[1]})"
        )
        raise InvalidJobError(msg)
    found = list[Conversion]()
    passed_ms = progress.watermark_ms if spark.time_mode == "EventTime" else progress.timestamp_ms
    for table in spark.tables:
        key = match_keys(stage.key_fields, table.keys, where, sql=sql)
        if table.kind == "timers":
            found.append(Timers(operator, key, spark.time_mode, passed_ms))
        else:
            found.append(Variable(operator, key, table.name, table.kind, table.has_ttl))
    return found


_Variable = tuple[str, bool, tuple[tuple[tuple[str, str], ...], ...]]


def _declared(variable: Any) -> _Variable:
    """Return the kind of a state variable of the class, whether it has a time to live, and its columns."""
    kind = "map" if len(variable.schemas) > 1 else "list" if hasattr(variable, "appendValue") else "value"
    return kind, variable.state.ttl_ms is not None, tuple(map(_columns, variable.schemas))


def _stored(table: SparkTable) -> _Variable:
    """Return the same of a table of Spark."""
    kinds = [one.type.value_type if table.kind == "list" else one.type for one in table.values]
    if table.has_ttl:
        kinds[-1] = kinds[-1].field(0).type
    return table.kind, table.has_ttl, tuple(_columns(list(kind)) for kind in kinds)


def _columns(fields: Sequence[pa.Field]) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, str(_plain(one.type))) for one in fields)


def _shown(variables: Mapping[str, _Variable]) -> str:
    found = [
        f"{name} {kind}{' with a time to live' * has_ttl} of "
        f"{', '.join(' '.join(one) for schema in schemas for one in schema)}"
        for name, (kind, has_ttl, schemas) in sorted(variables.items())
    ]
    return "; ".join(found) or "none"


def _keeps_rows(aggregator: Aggregator) -> bool:
    return isinstance(aggregator, MultisetAggregator)


def _other_step(stage: KeyedStage, spark: SparkOperator) -> InvalidJobError:
    kind = type(stage.operator).__name__.removesuffix("Operator")
    return InvalidJobError(
        f"step {stage.operator_id!r}: the state of this operator of Spark is not that of such a step, or is not taken "
        "over. Nothing was imported. Write the step as in the query of Spark, or run the job from the beginning. "
        f"step={kind}, operator_in_spark={spark}"
    )
