"""The exchange before a keyed stage: columns in blocks, not rows.

Map side: take as large a slice of the input as memory allows, fold it into one partial per key if the operator can,
encode keys, sort by (key group, key), cut at subtask borders, and ship each piece as one Arrow IPC block: a row of a
(subtask, records, max_time_us, block) frame that Spark moves to the partition of that number.

Everything here runs in Spark's Python workers and touches no Spark API.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.job.plan import KeyedStage
from mixedmode.keys import encode_keys, group_codes, key_groups, subtask_of_group
from mixedmode.runtime.failures import report_failures
from mixedmode.sort import sort_table
from operators.aggregate import WEIGHT_COLUMN, AggregateOperator, argument_name
from operators.aggregate.operator import KEY_COLUMN, KEY_GROUP_COLUMN
from operators.aggregate.reduce import Grouping
from operators.aggregate.registers import Rows
from operators.aggregate.values import Argument

TIME_COLUMN = "_time"
KEY_PREFIX = "_k"  # key columns travel to the map side as _k0, _k1, ...
BLOCK_BYTES = 8 * 1024 * 1024

#: the frame that Spark shuffles; `failure` carries an error instead of a block
BLOCK_SCHEMA = pa.schema(
    [
        pa.field("subtask", pa.int32()),
        pa.field("records", pa.int64()),
        pa.field("max_time_us", pa.int64()),
        pa.field("block", pa.binary()),
        pa.field("failure", pa.binary()),
    ]
)
BLOCK_DDL = "subtask int, records long, max_time_us long, block binary, failure binary"


@dataclass(frozen=True, slots=True)
class MapSide:
    """What a map task needs to know. Called by Spark with the task's record batches."""

    stage: KeyedStage
    parallelism: int
    max_parallelism: int
    slice_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of one map task: none for an empty input. Every block goes to the subtask that owns its key groups."""
        return report_failures(self._blocks(batches), _failure_batch)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _slices(batches, self.slice_bytes):
            max_time_us = _max_time_us(rows, self.stage)
            yield from self._ship(self._keyed(rows), rows.num_rows, max_time_us)

    def _keyed(self, rows: pa.Table) -> pa.Table:
        """Rows of the input -> a sorted table of the operator's input."""
        stage = self.stage
        keys = [_cast(rows, f"{KEY_PREFIX}{i}", field.type) for i, field in enumerate(stage.key_schema.fields)]
        arguments = [_cast(rows, argument_name(i), data_type) for i, data_type in enumerate(stage.argument_types)]
        payload = list(arguments)
        if stage.is_change_log:
            payload.append(_cast(rows, WEIGHT_COLUMN, pa.int64()))
        if isinstance(stage.operator, AggregateOperator):
            keys, payload = _folded(stage.operator, rows, keys, arguments)
        encoded = encode_keys(keys, stage.key_schema)
        groups = pa.array(key_groups(encoded, max_parallelism=self.max_parallelism))
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in stage.operator.input_fields)]
        return sort_table(pa.table([groups, encoded, *payload], names=names))

    def _ship(self, table: pa.Table, records: int, max_time_us: int | None) -> Iterator[pa.RecordBatch]:
        """One batch per block; the slice's record count and greatest time go with its first block."""
        groups = table.column(KEY_GROUP_COLUMN).to_numpy()
        owners = subtask_of_group(groups, parallelism=self.parallelism, max_parallelism=self.max_parallelism)
        borders = np.searchsorted(owners, np.arange(self.parallelism + 1))
        for subtask, (start, end) in enumerate(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)):
            for piece in _pieces(table.slice(start, end - start)):
                yield pa.record_batch([[subtask], [records], [max_time_us], [piece], [None]], schema=BLOCK_SCHEMA)
                records, max_time_us = 0, None


def decode_block(block: pa.Buffer | bytes) -> pa.Table:
    """The sorted table in one block."""
    return pa.ipc.open_stream(block).read_all()


def _slices(batches: Iterator[pa.RecordBatch], slice_bytes: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= slice_bytes:
            yield pa.Table.from_batches(held).combine_chunks()
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _folded(
    operator: AggregateOperator, rows: pa.Table, keys: list[pa.Array], arguments: list[pa.Array]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """One partial per distinct key of the slice: key columns, register columns."""
    groups = group_codes(keys)
    weights = _cast(rows, WEIGHT_COLUMN, pa.int64()).to_numpy() if operator.is_change_log else None
    times = _cast(rows, TIME_COLUMN, pa.int64()).to_numpy() if TIME_COLUMN in rows.column_names else None
    grouping = Grouping(groups.codes, len(groups.first_row), weights)
    columns = {i: Argument(column) for i, column in enumerate(arguments)}
    partials = operator.aggregator.partials(grouping, Rows(columns, times))
    first = pa.array(groups.first_row)
    return [key.take(first) for key in keys], partials


def _max_time_us(rows: pa.Table, stage: KeyedStage) -> int | None:
    """Greatest event time of a slice. Raises InvalidJobError when a record has none."""
    if TIME_COLUMN not in rows.column_names:
        return None
    times = rows.column(TIME_COLUMN)
    if times.null_count:
        msg = (
            "a record has no event time, so it has no place in time. Set the column for every record, filter such "
            "records out in a sql step, or remove `event-time` from the source. "
            f"column={stage.event_time}, records_affected={times.null_count}, records_looked_at={rows.num_rows}"
        )
        raise InvalidJobError(msg)
    return int(pc.max(times.cast(pa.int64())).as_py())


def _pieces(table: pa.Table) -> Iterator[bytes]:
    """IPC streams of about BLOCK_BYTES each; none for an empty table."""
    if table.num_rows == 0:
        return
    rows = max(1, table.num_rows * BLOCK_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, rows):
        piece = table.slice(start, rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece)
        yield sink.getvalue().to_pybytes()


def _cast(rows: pa.Table, name: str, data_type: pa.DataType) -> pa.Array:
    column = rows.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return array if array.type == data_type else array.cast(data_type)


def _failure_batch(failure: bytes) -> pa.RecordBatch:
    return pa.record_batch([[0], [0], [None], [None], [failure]], schema=BLOCK_SCHEMA)
