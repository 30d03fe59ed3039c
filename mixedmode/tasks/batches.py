"""The input columns of a keyed stage, as the batch that its operator folds."""

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN, WEIGHT_COLUMN, Batch
from mixedmode.operators.running import checked_event_times
from mixedmode.plan.stages import KeyedStage, key_column
from mixedmode.tasks.timing import Timing

__all__ = ["batch_of", "columns_read", "keys_of"]


def keys_of(rows: pa.Table, stage: KeyedStage) -> list[pa.Array]:
    """Return the key columns of input rows, with the types of the stage's keys."""
    return [_cast(rows, key_column(i), field.type) for i, field in enumerate(stage.key_fields)]


def columns_read(rows: pa.Table, stage: KeyedStage) -> pa.Table:
    """Return the columns of input rows of which `batch_of` makes a batch; the schema depends on the stage alone.

    Input rows have the types and nullability of their reader, of which a stage may have several.
    """
    columns = {key_column(i): key for i, key in enumerate(keys_of(rows, stage))}
    types = {argument_name(i): data_type for i, data_type in enumerate(stage.argument_types)}
    types |= {SIDE_COLUMN: pa.uint8()} if stage.sides else {}
    types |= {TIME_COLUMN: pa.int64()} if stage.event_time is not None else {}
    types |= {WEIGHT_COLUMN: pa.int64()} if stage.is_changelog else {}
    return pa.table(columns | {name: _cast(rows, name, data_type) for name, data_type in types.items()})


def batch_of(rows: pa.Table, stage: KeyedStage, timing: Timing) -> Batch:
    """Return input rows as a batch.  Raises InvalidJobError if a row has no event time."""
    times_us = None
    sides = _cast(rows, SIDE_COLUMN, pa.uint8()).to_numpy() if stage.sides else None
    if stage.by_clock:
        times_us = np.full(rows.num_rows, timing.clock_us)
    elif stage.event_time is not None:
        times = _cast(rows, TIME_COLUMN, pa.int64())
        for number, side in enumerate(stage.sides) if times.null_count and sides is not None else ():
            own = times.filter(pa.array(sides == number))
            checked_event_times(own, column=f"{', '.join(side.roots)}.{side.event_time}")
        times_us = checked_event_times(times, column=stage.event_time)
    return Batch(
        keys=keys_of(rows, stage),
        arguments=[_cast(rows, argument_name(i), data_type) for i, data_type in enumerate(stage.argument_types)],
        times_us=times_us,
        weights=_cast(rows, WEIGHT_COLUMN, pa.int64()).to_numpy() if stage.is_changelog else None,
        sides=sides,
    )


def _cast(rows: pa.Table, name: str, data_type: pa.DataType) -> pa.Array:
    column = rows.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return array if array.type == data_type else array.cast(data_type)
