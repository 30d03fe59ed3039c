"""The stages of a job: types are resolved, operators are built. Pure values that are sent to tasks.

What a keyed stage emits decides about the rows downstream (`EmittedRows`): a changelog or rows that are only added,
with or without event time. `JobPlan` (job_plan.py) has the stages of a job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from mixedmode.checkpoint.types import Redistribution
from mixedmode.config.calls import column_in
from mixedmode.config.steps import RANK_COLUMN
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog, KeyedOperator
from mixedmode.operators.map import MapOperator
from mixedmode.operators.process import ProcessOperator, incompatibilities
from mixedmode.operators.top import TopOperator
from mixedmode.plan.fingerprint import Fingerprint, of_list
from mixedmode.plan.reads import Reads, inputs_fingerprint
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.side_outputs import LATE, numbered_columns, side_output
from mixedmode.plan.stored_operators import described


@dataclass(frozen=True, slots=True)
class MapStage:
    """One step with map, and what it reads. Map stages come before keyed stages.

    `keeps_list` and `redistribution` are declared by the function's class.
    """

    operator_id: str
    reads: Reads
    operator: MapOperator
    keeps_list: bool
    redistribution: Redistribution

    @property
    def fingerprint(self) -> Fingerprint:
        """Return what must stay the same for a stored job to go on: that the step keeps a list."""
        return of_list()


#: the key of an aggregate over all rows, which is always true. Outputs have the column; later steps do not
ALL_ROWS = pa.field("_all", pa.bool_())
#: the event time of rows of a window: its last microsecond. The rows have the column only if a step follows
WINDOW_TIME = pa.field("window_time", pa.timestamp("us", "UTC"))


@dataclass(frozen=True, slots=True)
class EmittedRows:
    """The rows that a keyed stage emits to the next one.

    `event_time`: their event-time column, if any. `delay_us`: how far their event times may be behind the watermark of
    the epoch; no row with an earlier time is added or retracted. `has_windows`: they have the bounds of windows.
    """

    changelog: Changelog
    event_time: str | None = None
    delay_us: int = 0
    has_windows: bool = False


def key_column(number: int) -> str:
    """Return the name of a key column among the columns that the reader of a stage makes: _k0, _k1 and so on."""
    return f"_k{number}"


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a stage with several. Side i is relation i of those that the stage reads.

    `keys`: the SQL expressions of the key columns; () if its rows go to every subtask. `event_time`: its event-time
    column, if any. `arguments`: the positions of its arguments among those of the stage. `roots`: the sources and
    stages that its rows come from. `late_tag`: the tag of the output of its late rows, which inputs with the same
    columns may share. `late_fields`: its columns, if this output is wanted; else ().
    """

    keys: tuple[str, ...]
    event_time: str | None
    arguments: range
    roots: tuple[str, ...]
    late_tag: str = ""
    late_fields: tuple[pa.Field, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedStage:
    """One keyed step, and what it reads.

    `key_fields`: its key columns, () for un-keyed input. `arguments`: SQL expressions over the input, which Spark
    evaluates before the exchange. `event_time`: the event-time column of the input, if any. `delay_us`: how far the
    watermark of the input is behind that of the sources. `late_fields`: the columns of the input, if late records have
    an output; else (). `identity`: the fingerprint without the part on the input. `sides`: the inputs that the operator
    tells apart; () if it reads all relations as one. `is_window_keyed`: the key has the bounds of windows upstream.
    `sql_settings`: {setting of Spark: value} of those that decide what its sql computes. `passed_key`: the
    columns of its rows by which its inputs identify them (see RowKey).
    """

    operator_id: str
    reads: Reads
    key_fields: tuple[pa.Field, ...]
    arguments: tuple[str, ...]
    argument_types: tuple[pa.DataType, ...]
    event_time: str | None
    is_changelog: bool
    operator: KeyedOperator
    identity: Fingerprint
    late_fields: tuple[pa.Field, ...] = ()
    delay_us: int = 0
    sides: tuple[Side, ...] = ()
    is_window_keyed: bool = False
    sql_settings: Mapping[str, str] = field(default_factory=dict)
    passed_key: RowKey = None

    @property
    def row_keys(self) -> tuple[tuple[str, ...], ...]:
        """Return columns that no two of its rows share, and others that none share, if there are any (see RowKey)."""
        found = list[tuple[str, ...]]()
        if self.operator.output_key:
            found.append(tuple(field.name for field in self.operator.output_key if field.name != ALL_ROWS.name))
        if isinstance(self.operator, TopOperator) and self.operator.n == 1:  # the rank is always 1
            found.append(tuple(name for name in found[0] if name != RANK_COLUMN))
        return (*found, *(() if self.passed_key is None else (self.passed_key,)))

    @property
    def emitted(self) -> EmittedRows:
        """Return what the rows of the stage are for the next one."""
        traits = self.operator.traits
        delay_us = self.delay_us + traits.delay_us + traits.changes_for_us
        if self.is_window_keyed or traits.emits_windows:
            return EmittedRows(traits.emits, WINDOW_TIME.name, delay_us, has_windows=True)
        event_time = self.event_time if traits.passes_event_time else traits.event_time
        return EmittedRows(traits.emits, event_time, delay_us)

    @property
    def emitted_fields(self) -> tuple[pa.Field, ...]:
        """Return the columns of the rows that the next stage gets, or sql after the last stage."""
        fields = tuple(field for field in self.operator.output_fields if field.name != ALL_ROWS.name)
        if self.adds_window_time:
            fields = (*fields, WINDOW_TIME)
        is_changelog = self.operator.traits.emits is Changelog.RETRACT
        return (*fields, pa.field(WEIGHT_COLUMN, pa.int64())) if is_changelog else fields

    @property
    def adds_window_time(self) -> bool:
        """Return whether the rows for the next stage get the event time of their window. Rows of a top have it."""
        names = [field.name.lower() for field in self.operator.output_fields]
        return self.emitted.has_windows and WINDOW_TIME.name not in names

    @property
    def by_clock(self) -> bool:
        """Return whether the time of a row is the processing time of its epoch."""
        return self.operator.traits.by_clock

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """Return {name of an output: its columns}: late records, and the side outputs of the operator."""
        late = {tag: tuple(field for _, field in columns) for tag, columns in self.late_columns.items()}
        return {self.output_of(tag): fields for tag, fields in {**late, **self.operator.side_outputs}.items()}

    @property
    def late_columns(self) -> Mapping[str, Sequence[tuple[int, pa.Field]]]:
        """Return {tag of an output of late rows: its columns, numbered}."""
        return numbered_columns({LATE: self.late_fields, **{side.late_tag: side.late_fields for side in self.sides}})

    def output_of(self, tag: str) -> str:
        """Return the name of a side output; see `side_output`."""
        return side_output(self.operator_id, tag)

    def state_schema(self) -> Mapping[str, object]:
        """Return the schema of the state, for the manifest: a later version of the program checks if it can read it.

        With `operator` and `function`, the state can be read without the job file (mixedmode/queryable).
        """
        schema: dict[str, object] = {"states": [dict(descriptor.as_json()) for descriptor in self.operator.states]}
        operator = described(self.operator)
        if operator is not None:
            schema["operator"] = operator
        if isinstance(self.operator, ProcessOperator):
            schema["function"] = self.operator.state_schema()
        return schema

    def unreadable(self, stored: Mapping[str, object]) -> list[str]:
        """Return why this program cannot read the state of an earlier version; [] if it can.  stored: its schema.

        The types of an aggregate are in its fingerprint; the types of a function may change within limits.
        """
        if not isinstance(self.operator, ProcessOperator) or "function" not in stored:
            return []
        before = stored["function"]
        assert isinstance(before, Mapping), stored
        return incompatibilities(before, self.operator.state_schema())

    def with_retractions(self) -> "KeyedStage":
        """Return the same stage, which also retracts the row that a change replaces."""
        if self.operator.traits.emits is Changelog.APPEND:
            return self
        return replace(self, operator=replace(self.operator, emits_retractions=True))  # type: ignore[type-var]

    def with_running_results(self) -> "KeyedStage":
        """Return the same stage, which emits a result per record instead of one per key, if its operator can."""
        if not self.operator.traits.can_emit_running_results:
            return self
        return replace(self, operator=replace(self.operator, emits_running_results=True))  # type: ignore[type-var]

    @property
    def can_emit_full_snapshot(self) -> bool:
        """Return whether the state has all rows that the step has emitted. Fired windows are not in the state."""
        return self.operator.traits.can_emit_full_snapshot

    def with_full_snapshot(self) -> "KeyedStage":
        """Return the same stage, which emits its whole stored table once, as inserts; if `can_emit_full_snapshot`."""
        assert self.can_emit_full_snapshot, self.operator_id
        return replace(self, operator=replace(self.operator, emits_full_snapshot=True))  # type: ignore[type-var]

    @property
    def fingerprint(self) -> Fingerprint:
        """Return what must stay the same for a stored job to go on: keys, arguments, registers, and their input.

        The input is described by the stages that it comes from, by the event-time column, which orders first, last and
        lists, and by the sql after an upstream keyed step: the sql must turn a retraction into the same row as the
        insert before. So the settings of Spark that decide what sql computes are part of it.
        """
        order = {"event-time": self.event_time} if self._goes_by_time else {}
        texts = [" ".join(step.text.split()) for step in self.reads.sql]
        source = {"sql": texts} if self.is_changelog and texts else {}
        settings = {"spark": dict(self.sql_settings)} if self.sql_settings and self.computes_again else {}
        sides = [{"from": list(side.roots), "event-time": side.event_time} for side in self.sides]
        told_apart = {"sides": sides} if sides else {}
        return {**self.identity, **order, **source, **settings, **told_apart, **inputs_fingerprint(self.reads)}

    @property
    def computes_again(self) -> bool:
        """Return whether sql is computed again of the same rows: of retracted ones, or in the condition of a join."""
        computes = self.reads.sql or any(column_in(argument) is None for argument in self.arguments)
        return bool(self.is_changelog and computes) or "condition" in self.identity

    @property
    def _goes_by_time(self) -> bool:
        """Return whether state depends on event time: of windows and functions; of an aggregate if a register does."""
        uses_time = self.operator.traits.state_uses_time
        return self.event_time is not None if uses_time is None else uses_time
