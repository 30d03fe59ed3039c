"""The executable plan of a job: types are resolved, operators are built. Pure values that are sent to tasks.

A job is a graph. Its relations have names: a source, the rows of a step. Keyed stages and outputs read relations. A
relation of a source or of a stage is a root; sql makes all others of roots (`Reads`). Stages are in topological order.
What a keyed stage emits decides about the rows downstream (`EmittedRows`): a changelog or rows that are only added,
with or without event time. Map stages are only in jobs that are a chain, and precede all keyed stages.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from mixedmode.checkpoint.types import OUTPUT_ENTRY, SOURCES_ENTRY, Redistribution
from mixedmode.config import SinkSpec
from mixedmode.config.drift import Drift
from mixedmode.config.graph import MAIN
from mixedmode.expressions import Query
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog, KeyedOperator
from mixedmode.operators.map import MapOperator
from mixedmode.operators.process import ProcessOperator, incompatibilities
from mixedmode.plan.fingerprint import Fingerprint, of_list, of_sources, step_fingerprint
from mixedmode.plan.reads import Reads, inputs_fingerprint
from mixedmode.plan.side_outputs import LATE, LATE_OF_SIDES, numbered_columns, side_output
from mixedmode.plan.stored_operators import described
from mixedmode.time import Strategy


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


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a stage with several. Side i is relation i of those that the stage reads.

    `keys`: the SQL expressions of the key columns. `event_time`: its event-time column, if any. `arguments`: the
    positions of its arguments among those of the stage. `roots`: the sources and stages that its rows come from.
    `late_fields`: its columns, if its late rows have an output; else ().
    """

    keys: tuple[str, ...]
    event_time: str | None
    arguments: range
    roots: tuple[str, ...]
    late_fields: tuple[pa.Field, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedStage:
    """One keyed step, and what it reads.

    `key_fields`: its key columns, () for un-keyed input. `arguments`: SQL expressions over the input, which Spark
    evaluates before the exchange. `event_time`: the event-time column of the input, if any. `delay_us`: how far the
    watermark of the input is behind that of the sources. `late_fields`: the columns of the input, if late records have
    an output; else (). `identity`: the fingerprint without the part on the input. `sides`: the inputs that the operator
    tells apart; () if it reads all relations as one. `is_window_keyed`: the key has the bounds of windows upstream.
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
        of_sides = dict(zip(LATE_OF_SIDES, (side.late_fields for side in self.sides), strict=False))
        return numbered_columns({LATE: self.late_fields, **of_sides})

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
        insert before.
        """
        order = {"event-time": self.event_time} if self._goes_by_time else {}
        texts = [" ".join(step.text.split()) for step in self.reads.sql]
        source = {"sql": texts} if self.is_changelog and texts else {}
        sides = [{"from": list(side.roots), "event-time": side.event_time} for side in self.sides]
        told_apart = {"sides": sides} if sides else {}
        return {**self.identity, **order, **source, **told_apart, **inputs_fingerprint(self.reads)}

    @property
    def _goes_by_time(self) -> bool:
        """Return whether state depends on event time: of windows and functions; of an aggregate if a register does."""
        uses_time = self.operator.traits.state_uses_time
        return self.event_time is not None if uses_time is None else uses_time


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column that map tasks read from the files themselves.

    `source`: its name in the files. `name`: its name in the task. `drift`: how files with other columns are handled;
    the same in all columns of a source.
    """

    source: str
    data_type: pa.DataType
    name: str
    drift: Drift = Drift()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The event-time and partition columns of rows, each of which is exactly one record of a source.

    None if the source has no such column, or no step depends on it. `sides`: the source of each side of a join; () if
    there is one source.
    """

    event_time: str | None = None
    partition: str | None = None
    sides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultPlan:
    """An output of whole rows: what it reads, its columns, and its key, () for rows that are never updated.

    If it reads the rows of one stage as they are, this stage writes them (`stage`). All other rows are only added.
    """

    reads: Reads
    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]

    @property
    def stage(self) -> str | None:
        """Return the stage whose subtasks write the rows; None if other tasks do."""
        return self.reads.stages[0] if self.reads.relations == self.reads.stages else None


def entry_of(result: str) -> str:
    """Return the name of a result among the entries of a plan. It is no operator id, as these have no colon."""
    return f"{OUTPUT_ENTRY}{result}"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of a whole job. `results`: the outputs of whole steps, by name; the only one of a job with `sink` is "".

    `reads`: columns that map tasks read from Parquet themselves; (): Spark reads. `queries`: the rows that they make of
    each batch of these columns, one after the other. `by_spark_because`: why Spark reads, for `explain`.
    `event_times`: {source: its event-time column}, for the sources that declare one.
    `sources_read`: in the order in which Spark numbers them.
    `strategies`: {source: its watermark strategy}; {} if no step uses event time.
    `side_sinks`: {name of an output other than results: its sink}.
    `maps`: before `stages`, whose input is then the output of the last map stage.
    `dead_letters`: {source: columns of the output for its records that cannot be decoded}, for sources with such an
    output.
    `source_rows`: columns of the first stage's input, if its rows are the source's records; None: the sources are read
    once more for their event times.
    `partitions`: {source in `strategies`: its partition column}.
    `source_schemas`: {source: its schema as Spark's JSON}, of sources that sql reads together with rows of stages.
    """

    stages: tuple[KeyedStage, ...]
    results: Mapping[str, ResultPlan]
    reads: tuple[ReadColumn, ...]
    event_times: Mapping[str, str]
    sources_read: tuple[str, ...]
    strategies: Mapping[str, Strategy]
    side_sinks: Mapping[str, SinkSpec]
    maps: tuple[MapStage, ...] = ()
    dead_letters: Mapping[str, tuple[pa.Field, ...]] = field(default_factory=dict)
    source_rows: SourceRows | None = SourceRows()
    partitions: Mapping[str, str] = field(default_factory=dict)
    source_schemas: Mapping[str, str] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()
    by_spark_because: str = ""

    @property
    def rows_results(self) -> Mapping[str, ResultPlan]:
        """Return the results that no stage writes."""
        return {name: result for name, result in self.results.items() if result.stage is None}

    @property
    def entries(self) -> Mapping[str, tuple[str, ...]]:
        """Return {reader: its sources}: operator ids of stages, then those of results (`entry_of`). There is one."""
        stages = {stage.operator_id: stage.reads.sources for stage in self.stages if stage.reads.sources}
        results = {entry_of(name): result.reads.sources for name, result in self.rows_results.items()}
        return stages | {entry: sources for entry, sources in results.items() if sources}

    def reader(self, entry: str) -> tuple[Reads, KeyedStage | None]:
        """Return what an entry reads, and its stage; None for a result."""
        stage = next((stage for stage in self.stages if stage.operator_id == entry), None)
        if stage is not None:
            return stage.reads, stage
        return next(result.reads for name, result in self.results.items() if entry_of(name) == entry), None

    @property
    def has_one_entry(self) -> bool:
        """Return whether one reader gets all records of the job, so that its frame is the input of an epoch."""
        return bool(self.maps) or len(self.entries) == 1

    def results_of(self, operator_id: str) -> tuple[str, ...]:
        """Return the names of the results that a stage writes."""
        return tuple(name for name, result in self.results.items() if result.stage == operator_id)

    def is_inner(self, operator_id: str) -> bool:
        """Return whether another stage, or a result after sql, reads the rows of a stage."""
        readers = [stage.reads for stage in self.stages] + [result.reads for result in self.rows_results.values()]
        return any(operator_id in reads.stages for reads in readers)

    @property
    def sources_of_steps(self) -> Mapping[str, frozenset[str]]:
        """Return {operator id of a keyed stage: the sources whose records can reach it}."""
        return {stage.operator_id: stage.reads.upstream for stage in self.stages}

    @property
    def steps_by_clock(self) -> frozenset[str]:
        """Return the operator ids of the keyed stages that go by processing time."""
        return frozenset(stage.operator_id for stage in self.stages if stage.by_clock)

    @property
    def progress_names(self) -> tuple[str, ...]:
        """Return the names under which progress is counted: each source, or all sources together.

        Rows of several sources do not show which source they are from, except by their side. Example:
        ("orders+users",).
        """
        is_told = self.source_rows is None or self.source_rows.sides
        return self.sources_read if is_told else ("+".join(self.sources_read),)

    @property
    def uses_clock(self) -> bool:
        """Return whether something may be due while no record comes, so that epochs without records are needed."""
        has_timeout = any(strategy.idle_timeout_ms is not None for strategy in self.strategies.values())
        return has_timeout or any(stage.operator.attributes.uses_clock for stage in self.stages)

    def with_full_snapshot(self, with_state: Collection[str], outputs: Collection[str]) -> frozenset[str]:
        """Return the steps that emit their whole stored table in the next epoch, because all their readers are new.

        `with_state`: the steps with state in the latest checkpoint. `outputs`: the names of its outputs. The next
        checkpoint has the new readers too, so each table is emitted only once. A step with a new reader and one that
        has had its rows does not emit its table; decide_restore refuses such a reader.
        """
        news = {stage.operator_id: self._readers_are_new(stage, with_state, outputs) for stage in self.stages}
        return frozenset(
            stage.operator_id
            for stage in self.stages
            if stage.operator_id in with_state and stage.can_emit_full_snapshot and news[stage.operator_id] == {True}
        )

    def _readers_are_new(self, stage: KeyedStage, with_state: Collection[str], outputs: Collection[str]) -> set[bool]:
        """Return whether the readers of a stage are new. A stage without state passes rows on to its own readers."""
        found = {
            name not in outputs for name, result in self.results.items() if stage.operator_id in result.reads.stages
        }
        for reader in self.stages:
            if stage.operator_id not in reader.reads.stages:
                continue
            if reader.operator.states:
                found.add(reader.operator_id not in with_state)
            else:
                found |= self._readers_are_new(reader, with_state, outputs)
        return found

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """Return {step: fingerprint}, which decides if this job may go on from a checkpoint of another job.

        Spark stores its progress by the number of a source, so several sources must keep their order, and several
        readers of sources must stay.
        """
        has_order = len(self.sources_read) + self.uses_clock > 1 or not self.has_one_entry
        entries = {} if self.has_one_entry else self.entries
        order = {SOURCES_ENTRY: of_sources(self.sources_read, entries, has_clock=self.uses_clock)} if has_order else {}
        maps = {stage.operator_id: stage.fingerprint for stage in self.maps if stage.keeps_list}
        outputs = {
            entry_of(name): {**step_fingerprint("output"), **inputs_fingerprint(result.reads)}
            for name, result in self.results.items()
            if name != MAIN
        }
        return order | maps | {stage.operator_id: stage.fingerprint for stage in self.stages} | outputs
