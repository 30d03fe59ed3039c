"""Folding for operators that take the rows of a changelog unchanged."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate.aggregator import argument_name
from mixedmode.operators.interface import WEIGHT_COLUMN, Batch, Folded
from mixedmode.operators.tables import keyed_table


def row_fields(argument_types: Sequence[pa.DataType]) -> tuple[pa.Field, ...]:
    """Return the fields of the arguments and of the weight."""
    arguments = [pa.field(argument_name(i), data_type) for i, data_type in enumerate(argument_types)]
    return (*arguments, pa.field(WEIGHT_COLUMN, pa.int64()))


def folded_rows(batch: Batch, key_schema: KeySchema, fields: Sequence[pa.Field], *, max_parallelism: int) -> Folded:
    """Return a batch as a table of `row_fields`. Rows without weights are added. No row is late."""
    weights = np.ones(len(batch.keys[0]), np.int64) if batch.weights is None else batch.weights
    payload = [*batch.arguments, pa.array(weights)]
    table = keyed_table(batch.keys, key_schema, payload, fields, max_parallelism=max_parallelism)
    return Folded(table)
