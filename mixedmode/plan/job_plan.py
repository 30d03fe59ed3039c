"""The plan of a whole job: what is read, the stages in their order, and the outputs. Pure values.

A job is a graph. Its relations have names: a source, the rows of a step. Keyed stages and outputs read relations. A
relation of a source or of a stage is a root; sql makes all others of roots (`Reads`). Stages are in topological order.
Map stages are only in jobs that are a chain, and precede all keyed stages.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from mixedmode.checkpoint.types import OUTPUT_ENTRY, SOURCES_ENTRY
from mixedmode.config import SinkSpec
from mixedmode.config.drift import Drift
from mixedmode.config.graph import MAIN
from mixedmode.expressions import Query
from mixedmode.plan.fingerprint import Fingerprint, of_sources, step_fingerprint
from mixedmode.plan.reads import Reads, StepTime, inputs_fingerprint
from mixedmode.plan.stages import KeyedStage, MapStage
from mixedmode.time import Strategy


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
class LinesFormat:
    """The format of lines of text that map tasks parse: CSV with this separator, or JSON (None).

    `has_header`: the first line of each file is no record.
    """

    separator: str | None = None
    has_header: bool = False


@dataclass(frozen=True, slots=True)
class DirectRead:
    """The columns that map tasks read from files of one source for one reader, and the rows that they make of them.

    `queries`: the rows that are made of each batch of `columns`, one after the other: those of each relation of the
    source that the reader reads, then rows that only show the progress of the source, if the reader measures it.
    `lines`: None for Parquet. For lines, `columns` are all of the source, since a wrong value in any stops a job.
    `side`: the number of the side of the source that has the files, if Spark reads its other sides.
    """

    source: str
    columns: tuple[ReadColumn, ...]
    queries: tuple[Query, ...]
    lines: LinesFormat | None = None
    side: int | None = None


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
    """An output of whole rows: what it reads, its columns in order, and its key, () for rows that are never updated.

    If it reads the rows of one stage as they are, this stage writes them (`stage`). All other rows are only added.
    """

    reads: Reads
    fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]

    @property
    def stage(self) -> str | None:
        """Return the stage whose subtasks write the rows; None if other tasks do."""
        return self.reads.stages[0] if self.reads.relations == self.reads.stages else None


#: stands among the entries of a plan for the tasks that only measure the progress of the sources
PROGRESS = "progress:"


def entry_of(result: str) -> str:
    """Return the name of a result among the entries of a plan. It is no operator id, as these have no colon."""
    return f"{OUTPUT_ENTRY}{result}"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of a whole job. `results`: the outputs of whole steps, by name; the only one of a job with `sink` is "".

    `direct`: {entry: what map tasks read from files themselves}, of all entries, and of PROGRESS if `measures_first`;
    {}: Spark reads. `by_spark`: {source: why Spark reads it}, for `explain`.
    `inner`: {reader: {stage: how tasks make the reader's rows of those of the stage}}, of stages whose rows stay in
    Arrow. `inner_by_spark`: {stage that has readers: why its rows are rows of Spark}, of all others.
    `event_times`: {source: its event-time column}, for the sources that declare one.
    `time_zones`: {source: the zone of its event times}, of those that are dates or local times, for `explain`.
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
    event_times: Mapping[str, str]
    sources_read: tuple[str, ...]
    strategies: Mapping[str, Strategy]
    side_sinks: Mapping[str, SinkSpec]
    maps: tuple[MapStage, ...] = ()
    dead_letters: Mapping[str, tuple[pa.Field, ...]] = field(default_factory=dict)
    source_rows: SourceRows | None = SourceRows()
    partitions: Mapping[str, str] = field(default_factory=dict)
    source_schemas: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[str, tuple[DirectRead, ...]] = field(default_factory=dict)
    by_spark: Mapping[str, str] = field(default_factory=dict)
    time_zones: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, Mapping[str, tuple[Query, ...]]] = field(default_factory=dict)
    inner_by_spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows_results(self) -> Mapping[str, ResultPlan]:
        """Return the results that no stage writes."""
        return {name: result for name, result in self.results.items() if result.stage is None}

    @property
    def entries(self) -> Mapping[str, tuple[str, ...]]:
        """Return {reader: its sources}, of the readers that read sources. There is one."""
        return {entry: reads.sources for entry, reads in self.readers.items() if reads.sources}

    @property
    def readers(self) -> Mapping[str, Reads]:
        """Return what stages read, and results that no stage writes: {operator id or `entry_of`: reads}, in order."""
        results = {entry_of(name): result.reads for name, result in self.rows_results.items()}
        return {stage.operator_id: stage.reads for stage in self.stages} | results

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

    @property
    def measures_first(self) -> bool:
        """Return whether tasks of their own measure the progress of the sources: several stages can begin an epoch.

        If one stage reads the sources, or if map stages do, their tasks measure it.
        """
        return not self.maps and sum(not stage.reads.stages for stage in self.stages) > 1

    @property
    def measured_by(self) -> str | None:
        """Return the entry whose tasks measure the progress of the sources; None if other tasks have done it before."""
        by_maps = bool(self.maps and self.strategies)
        return None if by_maps or self.measures_first else next(iter(self.entries))

    def results_of(self, operator_id: str) -> Mapping[str, tuple[str, ...]]:
        """Return {name of a result that a stage writes: its columns, in their order}."""
        found = {name: result.fields for name, result in self.results.items() if result.stage == operator_id}
        return {name: tuple(field.name for field in fields) for name, fields in found.items()}

    @property
    def listed(self) -> Mapping[str, int | None]:
        """Return {source of which map tasks read files: the side of it, if Spark reads its other sides}."""
        return {read.source: read.side for reads in self.direct.values() for read in reads}

    @property
    def is_all_listed(self) -> bool:
        """Return whether map tasks read all sources themselves, so that the query of a job returns files, not rows."""
        listed = self.listed
        return bool(listed) and all(name in listed and listed[name] is None for name in self.sources_read)

    def has_rows_of_spark(self, entry: str) -> bool:
        """Return whether an entry may get rows that Spark reads."""
        if entry in (PROGRESS, self.measured_by):
            return not self.is_all_listed
        listed = self.listed
        return not all(name in listed and listed[name] is None for name in self.entries[entry])

    def with_inner(
        self, found: Mapping[str, Mapping[str, tuple[Query, ...]]], by_spark: Mapping[str, str]
    ) -> "JobPlan":
        """Return the plan with these queries of readers (see `inner`), but for the rows of stages in `by_spark`."""
        kept = {reader: {s: q for s, q in of_stage.items() if s not in by_spark} for reader, of_stage in found.items()}
        inner = {reader: of_stage for reader, of_stage in kept.items() if of_stage}
        return replace(self, inner=inner, inner_by_spark=by_spark)

    def stays_in_arrow(self, operator_id: str) -> bool:
        """Return whether the rows of a stage stay in Arrow on their way to its readers."""
        return any(operator_id in of_stage for of_stage in self.inner.values())

    def is_inner(self, operator_id: str) -> bool:
        """Return whether another stage, or a result after sql, reads the rows of a stage."""
        readers = [stage.reads for stage in self.stages] + [result.reads for result in self.rows_results.values()]
        return any(operator_id in reads.stages for reads in readers)

    @property
    def step_times(self) -> Mapping[str, StepTime]:
        """Return {operator id of a keyed stage: what its time depends on}."""
        found = dict[str, StepTime]()
        downstream = {stage.operator_id: dict[str, frozenset[str]]() for stage in self.stages}
        for stage in reversed(self.stages):
            name, sources, below = stage.operator_id, stage.reads.upstream, downstream[stage.operator_id]
            by_event_time = stage.event_time is not None and not stage.by_clock
            found[name] = StepTime(sources, stage.by_clock, below if by_event_time else {})
            for upstream in stage.reads.stages:
                downstream[upstream] |= below | ({name: sources} if by_event_time else {})
        return found

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

    def half_new(self, with_state: Collection[str], outputs: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return {step: outputs that get its rows} of steps that could emit their table, but to some readers only.

        The arguments are those of with_full_snapshot. A new output of such a step would lack the rows until now.
        """
        return {
            stage.operator_id: self._outputs_of(stage)
            for stage in self.stages
            if stage.operator_id in with_state
            and stage.can_emit_full_snapshot
            and self._readers_are_new(stage, with_state, outputs) == {True, False}
        }

    def _outputs_of(self, stage: KeyedStage) -> tuple[str, ...]:
        """Return the outputs that get the rows of a stage, also through stages without state."""
        found = [name for name, result in self.results.items() if stage.operator_id in result.reads.stages]
        for reader in self.stages:
            if stage.operator_id in reader.reads.stages and not reader.operator.states:
                found += self._outputs_of(reader)
        return tuple(dict.fromkeys(found))

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
