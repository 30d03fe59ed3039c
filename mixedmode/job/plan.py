"""The executable plan of a job: types resolved, operators built. Pure values, shipped to tasks as they are.

A job is a chain: source rows -> sql ... -> keyed stage -> sql ... -> keyed stage -> ... -> sink. What follows the first
keyed stage is a change log: rows with a weight of +1 (is there now) or -1 (was there before).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from mixedmode.keys import KeySchema
from operators.aggregate import AggregateOperator, MultisetAggregateOperator, UpsertOperator
from operators.aggregate.registers import EdgeInTime

KeyedOperator = AggregateOperator | MultisetAggregateOperator | UpsertOperator


@dataclass(frozen=True, slots=True)
class KeyedStage:
    """One keyed step, with the sql steps between it and the step before.

    `arguments` are SQL expressions over the input, evaluated by Spark before the exchange; `event_time` is the input's
    event-time column, if any.
    """

    operator_id: str
    sql: tuple["SqlText", ...]
    key_schema: KeySchema
    arguments: tuple[str, ...]
    argument_types: tuple[pa.DataType, ...]
    event_time: str | None
    is_change_log: bool
    operator: KeyedOperator
    result_fields: tuple[pa.Field, ...]
    description: str

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """Key columns and results."""
        return (*self.key_schema.fields, *self.result_fields)

    def giving_previous(self) -> "KeyedStage":
        """The same stage, which also gives the row that each change replaces."""
        operator = self.operator
        assert not isinstance(operator, UpsertOperator), "upserts go to a sink, never to another stage"
        return replace(self, operator=replace(operator, needs_previous=True))

    @property
    def fingerprint(self) -> str:
        """What must stay the same for a stored job to go on: keys, arguments, registers, and what they were fed.

        That is the event time that first and last went by, and the sql over an earlier step's rows: a row that is
        taken back must come out of it as it did when it was added.
        """
        order = f" by {self.event_time}" if self._goes_by_time else ""
        texts = (" ".join(step.text.split()) for step in self.sql)
        source = f" of {'; '.join(texts)}" if self.is_change_log and self.sql else ""
        return f"{self.description}{order}{source}"

    @property
    def _goes_by_time(self) -> bool:
        if not isinstance(self.operator, AggregateOperator):
            return False
        return any(isinstance(register, EdgeInTime) for register in self.operator.aggregator.registers)


@dataclass(frozen=True, slots=True)
class SqlText:
    """A sql step: its text, and the names under which it may read its input."""

    text: str
    input_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column that map tasks read from the files themselves: its name there, its type, and the name it gets."""

    source: str
    data_type: pa.DataType
    name: str


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The whole chain. `sql` precedes everything in a job without a keyed step, which has no stages."""

    sql: tuple[SqlText, ...]
    stages: tuple[KeyedStage, ...]
    output_fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]
    reads: tuple[ReadColumn, ...]  # what map tasks read from Parquet themselves; empty: Spark reads
    event_times: Mapping[str, str]  # {source: its event-time column}, for the sources that declare one
    sources_read: tuple[str, ...]  # in the order in which Spark numbers them

    @property
    def fingerprints(self) -> dict[str, str]:
        """{step: fingerprint}: what decides whether this job may go on from another one's checkpoint.

        Spark remembers what it has read by the number of a source, so several sources have to keep their order.
        """
        order = {"sources": f"read {', '.join(self.sources_read)}"} if len(self.sources_read) > 1 else {}
        return order | {stage.operator_id: stage.fingerprint for stage in self.stages}
