"""The interface between a keyed operator and its runner: Spark tasks in a job, `mixedmode.testing` in a test.

    map side     fold(batch)  turns a slice of records into keyed rows, pre-aggregated as far as the operator can
    exchange     moves the rows to the subtask of their key group; the sorter orders them by (key group, key, time)
    subtask      due()        finds stored keys that this epoch must process even if they have no new record; their
                              rows go through the sorter like all others
                 process()    turns sorted tables of whole keys into changes; reads and writes state

An operator never asks in which mode it runs. The backend decides which state it can read, and the epoch's time decides
which timers and windows fire.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.keys import KeyGroupRange
from mixedmode.operators.fan_out import FanOut
from mixedmode.sort import Combine, Undivided
from mixedmode.state import KeyedStateBackend, StateDescriptor
from mixedmode.time import EpochTime

KEY_GROUP_COLUMN = "_key_group"
KEY_COLUMN = "_key"
TIME_COLUMN = "_time"

OP_COLUMN = "_op"
WEIGHT_COLUMN = "_weight"
SIDE_COLUMN = "_side"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
OP_TYPE = pa.string()


class Changelog(StrEnum):
    """The kind of the rows between two steps."""

    APPEND = "append"  # rows are only added
    RETRACT = "retract"  # a row may be retracted: each row has a weight, +1 (insert) or -1 (retraction)


@dataclass(frozen=True, slots=True)
class OperatorAttributes:
    """Properties of an operator, for planning and for dividing memory. Source: FLIP-327, FLIP-331.

    internal_sorter_supported: in the backlog the operator accepts input sorted by key.
    output_only_after_end_of_stream: the operator emits nothing before its input has ended.
    uses_clock: a timer or window of the operator may become due although no record arrives.
    rows_per_record: the most rows that `fold` may make of one record; it limits the size of a batch.
    undivided: what a table of the sorted input never divides. With `key`, all rows of a key must fit in memory.
    """

    internal_sorter_supported: bool = True
    output_only_after_end_of_stream: bool = False
    uses_clock: bool = False
    rows_per_record: int = 1
    undivided: Undivided = "key"


@dataclass(frozen=True, slots=True)
class OperatorTraits:
    """Facts about an operator that the plan needs, and that no user declares.

    emits: RETRACT if a change may replace a row that the operator has emitted. Then it has a field `emits_retractions`.
    emits_windows: its rows have `window_start` and `window_end`. If they are only added, each is emitted once, when the
    watermark reaches `window_end`. So all rows of windows with one end are emitted in one epoch.
    can_emit_running_results: it has `emits_running_results`, so that it can emit a result for each record.
    can_emit_full_snapshot: it has `emits_full_snapshot`, because its state holds all rows that it has emitted.
    delay_us: how far the event times of emitted rows may be behind the watermark that fires them.
    changes_for_us: how much further they may be behind it when a row is emitted again, for a late record.
    fires_by_watermark: the watermark decides which rows the operator emits, and when.
    state_uses_time: the state depends on event times; None: if the input has them.
    passes_event_time: each emitted row is a row of the input, and has its event time.
    event_time: the column of emitted rows with their event time, if it is another one than that of the input.
    by_clock: the time of a row is the processing time of its epoch, and the watermark of the step is this time.
    folds_in_subtask: `fold` finds no record late, so the subtask may call it in place of the map task.
    """

    emits: Changelog = Changelog.APPEND
    emits_windows: bool = False
    can_emit_running_results: bool = False
    can_emit_full_snapshot: bool = False
    delay_us: int = 0
    changes_for_us: int = 0
    fires_by_watermark: bool = False
    state_uses_time: bool | None = None
    passes_event_time: bool = False
    event_time: str | None = None
    by_clock: bool = False
    folds_in_subtask: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """A slice of the input of a keyed step; arrays have shape (n,), in the order of arrival.

    `keys` have the types of the operator's key schema, and `arguments` have the types of its arguments. `times_us` is
    None if the input has no event time. `weights` is None if the input only adds rows, so that it is not a changelog.
    `sides` has the number of each row's input (uint8); None if the operator has one input. The arguments are those of
    all inputs; a row is NULL in those of the others.
    """

    keys: list[pa.Array]
    arguments: list[pa.Array]
    times_us: npt.NDArray[np.int64] | None
    weights: npt.NDArray[np.int64] | None
    sides: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of folding one batch on the map side.

    `table` has `_key_group` and `_key`, `_time` if the operator sorts by time, and the operator's `input_fields`; its
    rows are in no particular order. `late_rows` (m,) are the positions in the batch of records that are too late for
    every window.
    """

    table: pa.Table
    late_rows: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))


@dataclass(frozen=True, slots=True)
class SubtaskContext:
    """The context of a subtask in one epoch: its state backend, the epoch's time, and its key groups.

    `epoch`: its number; those that wrote the state before have lower ones. `fan_out`: where a join counts the partners
    of its new rows. `memory_bytes`: the most bytes of rows of one key that an operator holds, if it can do without.
    `spill_dir`: where it keeps the others; None: the system's.
    """

    backend: KeyedStateBackend
    time: EpochTime
    groups: KeyGroupRange
    epoch: int
    fan_out: FanOut = field(default_factory=FanOut)
    memory_bytes: int = 2**23
    spill_dir: Path | None = None


class Changes(Protocol):
    """Changes of the main output, available as upserts (for a sink) or as a changelog (for another keyed step)."""

    __slots__ = ()

    @abstractmethod
    def upserts(self) -> pa.Table:
        """Return one row per change with `_op`, for a sink. A deleted row has its key columns; the others are NULL."""

    @abstractmethod
    def changelog(self) -> pa.Table:
        """Return a changelog for another step: update-before rows and deletes with `_weight` -1, new rows with +1."""


@dataclass(frozen=True, slots=True)
class AppendedRows(Changes):
    """Changes that only add rows."""

    rows: pa.Table

    @override
    def upserts(self) -> pa.Table:
        return self.rows.append_column(OP_COLUMN, pa.repeat(pa.scalar(INSERT, OP_TYPE), self.rows.num_rows))

    @override
    def changelog(self) -> pa.Table:
        return self.rows.append_column(WEIGHT_COLUMN, pa.array(np.ones(self.rows.num_rows, np.int64)))


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows of the side output `tag`, with the columns that the step declares for this output."""

    tag: str
    rows: pa.Table


class KeyedOperator(Protocol):
    """The operator of a keyed step: a frozen, picklable value that holds no data and no open resource."""

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """All states that the operator keeps; () if it keeps none."""

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the sorted tables other than `_key_group`, `_key` and `_time`."""

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The columns that identify a row of the main output; () if the output is append-only."""

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """All columns of the main output; the columns of `output_key` come first."""

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The side outputs of the operator, as {tag: columns}."""

    @property
    def attributes(self) -> OperatorAttributes:
        """The operator's properties, for planning."""

    @property
    def traits(self) -> OperatorTraits:
        """The operator's traits, for planning."""

    @property
    def combine(self) -> Combine | None:
        """The function with which the sorter merges rows of one key; None keeps every row."""

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Turn a batch into keyed rows, on the map side.

        `late_us` is the job's watermark at the start of the epoch (EpochTime), in microseconds.
        """

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the rows of due stored keys as tables for the sorter: columns as `Folded.table`, each sorted."""

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[Changes | SideRows]:
        """Yield the changes that the sorted `tables` cause, and write the new state.

        All rows of a key are in the same table. For each state, the keys that are written increase strictly over the
        whole call.
        """


class OperatorBase:
    """The properties that most operators have; an operator overrides those in which it differs.

    It has no state, so nothing of it is due. Its main output is append-only, and it has no side outputs. The sorter
    keeps every row of its input.
    """

    __slots__ = ()

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """None."""
        return ()

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """None."""
        return ()

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """None. The output of late records, which `fold` finds, is not one of them."""
        return {}

    @property
    def attributes(self) -> OperatorAttributes:
        """The defaults."""
        return OperatorAttributes()

    @property
    def combine(self) -> Combine | None:
        """None: every row is kept."""
        return None

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield nothing: a key without a new row does not change."""
        del context
        return iter(())
