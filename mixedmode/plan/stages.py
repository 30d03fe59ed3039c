"""The executable plan of a job: types resolved, operators built. Pure values, shipped to tasks as they are.

A job is a chain: source rows -> sql -> map stage -> ... -> sql -> keyed stage -> sql -> keyed stage -> ... -> sink.
What follows the first keyed stage is a changelog: rows with a weight of +1 (is there now) or -1 (was there before).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from mixedmode.checkpoint.types import Redistribution
from mixedmode.config import SinkSpec
from mixedmode.config.drift import Drift
from mixedmode.operators.aggregate import AggregateOperator, MultisetAggregateOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.map import MapOperator
from mixedmode.operators.process import ProcessOperator, incompatibilities
from mixedmode.plan.fingerprint import Fingerprint, of_list, of_sources
from mixedmode.time import Strategy

#: names of outputs: the main one; late records; records on which a function raised. Others are named by their tags
MAIN, LATE, DEAD_LETTER = "", "late", "dead-letter"


def dead_letter_output(source: str) -> str:
    """The name of the output for records that a source cannot decode. No tag has a hyphen."""
    return f"{source}-{DEAD_LETTER}"


@dataclass(frozen=True, slots=True)
class MapStage:
    """One step with map, with the sql steps between it and the step before. All of them come before the keyed ones.

    `keeps_list` and `redistribution` are what the function's class says.
    """

    operator_id: str
    sql: tuple["SqlText", ...]
    operator: MapOperator
    keeps_list: bool
    redistribution: Redistribution

    @property
    def fingerprint(self) -> Fingerprint:
        """What must stay the same for a stored job to go on: that there is a list."""
        return of_list()


@dataclass(frozen=True, slots=True)
class KeyedStage:
    """One keyed step, with the sql steps between it and the step before.

    `key_fields` are its key columns, () for un-keyed input. `arguments` are SQL expressions over the input, evaluated
    by Spark before the exchange; `event_time` is the input's event-time column, if any. `late_fields` are the columns
    of the input, where records that are too late have an output of their own; else (). `identity` is the fingerprint
    but for where the input comes from.
    """

    operator_id: str
    sql: tuple["SqlText", ...]
    key_fields: tuple[pa.Field, ...]
    arguments: tuple[str, ...]
    argument_types: tuple[pa.DataType, ...]
    event_time: str | None
    is_changelog: bool
    operator: KeyedOperator
    identity: Fingerprint
    late_fields: tuple[pa.Field, ...] = ()

    def state_schema(self) -> Mapping[str, object]:
        """For the manifest: what is stored, so that a later version of the program can tell whether it can read it."""
        schema: dict[str, object] = {"states": [dict(descriptor.as_json()) for descriptor in self.operator.states]}
        if isinstance(self.operator, ProcessOperator):
            schema["function"] = self.operator.state_schema()
        return schema

    def unreadable(self, stored: Mapping[str, object]) -> list[str]:
        """Why the state that an earlier version of the program left cannot be read by this one; nothing if it can.

        The types of an aggregate are in its fingerprint; those of a function may change within bounds.
        """
        if not isinstance(self.operator, ProcessOperator) or "function" not in stored:
            return []
        before = stored["function"]
        assert isinstance(before, Mapping), stored
        return incompatibilities(before, self.operator.state_schema())

    def with_retractions(self) -> "KeyedStage":
        """The same stage, which also gives the row that each change replaces."""
        if not hasattr(self.operator, "emits_retractions"):  # what only adds rows replaces none
            return self
        return replace(self, operator=replace(self.operator, emits_retractions=True))  # type: ignore[type-var]

    def with_running_results(self) -> "KeyedStage":
        """The same stage, which gives a result per record instead of one per key, if it can."""
        if not isinstance(self.operator, AggregateOperator) or self.is_changelog:
            return self
        return replace(self, operator=replace(self.operator, emits_running_results=True))

    @property
    def can_emit_full_snapshot(self) -> bool:
        """Whether all rows that the step has given so far are in its state; not those of windows that have fired."""
        return isinstance(self.operator, AggregateOperator | MultisetAggregateOperator)

    def with_full_snapshot(self) -> "KeyedStage":
        """The same stage, which gives its whole stored table as new rows, once. Requires `can_emit_full_snapshot`."""
        assert self.can_emit_full_snapshot, self.operator_id
        return replace(self, operator=replace(self.operator, emits_full_snapshot=True))  # type: ignore[type-var]

    @property
    def fingerprint(self) -> Fingerprint:
        """What must stay the same for a stored job to go on: keys, arguments, registers, and what they were fed.

        That is the event time that first, last and lists went by, and the sql over an earlier step's rows: a row that
        is taken back must come out of it as it did when it was added.
        """
        order = {"event-time": self.event_time} if self._goes_by_time else {}
        texts = [" ".join(step.text.split()) for step in self.sql]
        source = {"sql": texts} if self.is_changelog and texts else {}
        return {**self.identity, **order, **source}

    @property
    def _goes_by_time(self) -> bool:
        """Whether state depends on event time: windows and functions do, an aggregate if one of its registers does."""
        if isinstance(self.operator, AggregateOperator | MultisetAggregateOperator):
            return self.operator.aggregator.goes_by_time
        return self.event_time is not None


@dataclass(frozen=True, slots=True)
class SqlText:
    """A sql step: its text, and the names under which it may read its input."""

    text: str
    input_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column that map tasks read from the files themselves: its name there, its type, and the name it gets.

    `drift`: what becomes of files with other columns; the same in all columns of a source.
    """

    source: str
    data_type: pa.DataType
    name: str
    drift: Drift = Drift()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows that are the records of the one source, one for one: their columns with its event time and its partition.

    None where the source has no such column, or nothing goes by it.
    """

    event_time: str | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The whole chain.

    `sql` gives the rows of the sink: from the sources, or the last map stage, in a job without a keyed step; or from
    the last stage's rows where that only adds rows, which need not be told apart by key.
    """

    sql: tuple[SqlText, ...]
    stages: tuple[KeyedStage, ...]
    output_fields: tuple[pa.Field, ...]
    key_columns: tuple[str, ...]
    reads: tuple[ReadColumn, ...]  # what map tasks read from Parquet themselves; empty: Spark reads
    event_times: Mapping[str, str]  # {source: its event-time column}, for the sources that declare one
    sources_read: tuple[str, ...]  # in the order in which Spark numbers them
    strategies: Mapping[str, Strategy]  # {source: how its watermark goes}; empty where nothing goes by event time
    side_sinks: Mapping[str, SinkSpec]  # {name of an output beside the main one: where it goes}
    maps: tuple[MapStage, ...] = ()  # before `stages`, which then begin with what the last of them gives
    dead_letters: tuple[str, ...] = ()  # sources whose records that cannot be decoded have an output
    #: what the first map or keyed stage reads, if it is the source's records; None: the sources are read once more for
    #: their event times
    source_rows: SourceRows | None = SourceRows()
    partitions: Mapping[str, str] = field(default_factory=dict)  # {source: its partition column}, where it counts

    @property
    def progress_names(self) -> tuple[str, ...]:
        """Names of the sources whose progress is known apart; rows of several sources do not tell which one it was."""
        return self.sources_read if self.source_rows is None else ("+".join(self.sources_read),)

    @property
    def uses_clock(self) -> bool:
        """Whether something may be due when no record comes, so that there are epochs without any."""
        has_timeout = any(strategy.idle_timeout_ms is not None for strategy in self.strategies.values())
        return has_timeout or any(stage.operator.attributes.uses_clock for stage in self.stages)

    def with_full_snapshot(self, with_state: Collection[str], outputs: Collection[str]) -> frozenset[str]:
        """The steps that give their whole stored table in the next epoch, because what is behind them begins without.

        `with_state` are the steps whose state the latest checkpoint has, `outputs` the names of the outputs that it
        knows. Both come to have what is new with the next checkpoint, so each table is given once.
        """
        found = set()
        for number, stage in enumerate(self.stages):
            behind = next((later for later in self.stages[number + 1 :] if later.operator.states), None)
            is_new = MAIN not in outputs if behind is None else behind.operator_id not in with_state
            if is_new and stage.can_emit_full_snapshot and stage.operator_id in with_state:
                found.add(stage.operator_id)
        return frozenset(found)

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """{step: fingerprint}: what decides whether this job may go on from another one's checkpoint.

        Spark remembers what it has read by the number of a source, so several sources have to keep their order.
        """
        has_order = len(self.sources_read) + self.uses_clock > 1
        order = {"sources": of_sources(self.sources_read, has_clock=self.uses_clock)} if has_order else {}
        maps = {stage.operator_id: stage.fingerprint for stage in self.maps if stage.keeps_list}
        return order | maps | {stage.operator_id: stage.fingerprint for stage in self.stages}
