"""What a keyed operator is to whatever runs it: Spark tasks in a job, `mixedmode.testing` in a test.

    map side     fold(batch)  rows of a slice -> keyed rows, folded as far as the operator can
    exchange     rows move to the subtask of their key group; the sorter orders them by (key group, key, time)
    subtask      due()        stored keys that this epoch has to look at although no record of theirs may have come;
                              their rows go into the sorter like all others
                 process()    sorted tables, whole keys -> what changes; reads and writes state

The one idea: an operator never asks which mode it runs in. The backend decides what there is to read, and the epoch's
time decides what fires.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeyGroupRange
from mixedmode.sort import Combine
from mixedmode.state import KeyedStateBackend, StateDescriptor
from mixedmode.time import EpochTime

KEY_GROUP_COLUMN = "_key_group"
KEY_COLUMN = "_key"
TIME_COLUMN = "_time"

OP_COLUMN = "_op"
WEIGHT_COLUMN = "_weight"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
OP_TYPE = pa.string()


@dataclass(frozen=True, slots=True)
class OperatorAttributes:
    """What an operator says about itself, for planning and for sharing out memory. Source: FLIP-327, FLIP-331.

    internal_sorter_supported: in backlog it takes its input sorted by key. output_only_after_end_of_stream: it gives
    nothing before its input has ended. uses_clock: something of it may be due when no record comes. rows_per_record:
    how many rows `fold` may make of one record, which says how large a batch may be.
    """

    internal_sorter_supported: bool = True
    output_only_after_end_of_stream: bool = False
    uses_clock: bool = False
    rows_per_record: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A slice of the input of a keyed step; arrays are (n,), in the order of arrival.

    `keys` have the types of the operator's key schema, `arguments` those of its arguments. `times_us` is None where the
    input has no event time; `weights` is None where rows are only added (no changelog).
    """

    keys: list[pa.Array]
    arguments: list[pa.Array]
    times_us: npt.NDArray[np.int64] | None
    weights: npt.NDArray[np.int64] | None


@dataclass(frozen=True, slots=True)
class Folded:
    """What the map side makes of a batch.

    `table` has `_key_group` and `_key`, `_time` if the operator sorts by time, and the operator's `input_fields`; its
    rows are in any order. `late_rows` are the positions (m,) of the batch's records that are too late for every window.
    """

    table: pa.Table
    late_rows: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SubtaskContext:
    """Where a subtask runs in an epoch: its state, its time, its key groups."""

    backend: KeyedStateBackend
    time: EpochTime
    groups: KeyGroupRange


class Changes(Protocol):
    """Rows of the main output, in the two shapes in which they are passed on."""

    def upserts(self) -> pa.Table:
        """For a sink: one row per change with `_op`; a deleted row has its key columns and NULL."""

    def changelog(self) -> pa.Table:
        """For another step: previous rows with `_weight` -1, new rows with `_weight` +1."""


@dataclass(frozen=True, slots=True)
class AppendedRows:
    """Changes that only add rows."""

    rows: pa.Table

    def upserts(self) -> pa.Table:
        """See Changes."""
        return self.rows.append_column(OP_COLUMN, pa.repeat(pa.scalar(INSERT, OP_TYPE), self.rows.num_rows))

    def changelog(self) -> pa.Table:
        """See Changes."""
        return self.rows.append_column(WEIGHT_COLUMN, pa.array(np.ones(self.rows.num_rows, np.int64)))


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows for the output named `tag`, with the columns that the step declares for it."""

    tag: str
    rows: pa.Table


class KeyedOperator(Protocol):
    """A keyed step's operator: a frozen, picklable value that holds no data and no open thing."""

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """Every state it keeps; () for none."""

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """Columns of the sorted tables beside `_key_group`, `_key` and `_time`."""

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """Columns that tell the rows of the main output apart; () if every row stands for itself."""

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """All columns of the main output, those of `output_key` first."""

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """{tag: columns} of what it gives beside its main output."""

    @property
    def attributes(self) -> OperatorAttributes:
        """What it says about itself."""

    @property
    def combine(self) -> Combine | None:
        """What the sorter combines rows of one key with; None keeps every row."""

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Map side. `late_us` is the job's watermark at the start of the epoch (EpochTime)."""

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Tables for the sorter (columns as `Folded.table`), each sorted."""

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[Changes | SideRows]:
        """Sorted tables that cut no key in two. Per state, written keys are strictly increasing over the whole call."""
