"""Tables of packed rows: made on the map side, pruned to the best rows of each key, and cut between keys.

A packed row is the `_key` of the sorter, and its key group is that of the user's key alone.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from mixedmode.keys import key_groups
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, WEIGHT_COLUMN
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.ranks import best_of
from mixedmode.operators.top.rows import RowLayout, keys_of
from mixedmode.sort import take_rows


def packed_table(
    layout: RowLayout,
    keys: Sequence[pa.Array],
    order: Sequence[pa.Array],
    row: Sequence[pa.Array],
    *,
    max_parallelism: int,
) -> pa.Table:
    """Return `_key_group` and `_key` of rows (n,), in the same order."""
    encoded, packed = layout.pack(keys, order, row)
    groups = pa.array(key_groups(encoded, max_parallelism=max_parallelism))
    return pa.table([groups, packed], names=[KEY_GROUP_COLUMN, KEY_COLUMN])


def pruned(table: pa.Table, n: int) -> pa.Table:
    """Return the rows of a sorted table, with a weight, that occupy the first `n` ranks of their key."""
    if table.num_rows == 0:
        return table
    grouping, _ = segments(keys_of(column_of(table, KEY_COLUMN)))
    weights = column_of(table, WEIGHT_COLUMN).to_numpy()
    best = best_of(grouping.codes.astype(np.int64), weights, n)
    rows = np.flatnonzero(best)
    if len(rows) < table.num_rows:
        table = take_rows(table, rows)
    return table.set_column(table.column_names.index(WEIGHT_COLUMN), WEIGHT_COLUMN, pa.array(best[rows]))


def whole_keys(
    tables: Iterator[pa.Table],
    shrink: Callable[[pa.Table], pa.Table],
    part: Callable[[pa.LargeBinaryArray], pa.LargeBinaryArray] = keys_of,
) -> Iterator[pa.Table]:
    """Yield the rows of sorted tables of packed rows, cut only between the users' keys.

    shrink: drops rows of a key that are not needed, so that a key that fills many tables is held in little memory.
    part: the bytes of a packed row between which tables are cut, if these are others than those of the key.
    """
    held, held_key = list[pa.Table](), b""  # the rows of the last key so far
    for table in tables:
        if table.num_rows == 0:
            continue
        keys = part(column_of(table, KEY_COLUMN))
        _, first_rows = segments(keys)
        last = int(first_rows[-1])
        if held and keys[0].as_py() != held_key:
            yield _joined(held)
            held = []
        if last > 0:
            yield _joined([*held, table.slice(0, last)])
            held = []
        held.append(shrink(take_rows(table, np.arange(last, table.num_rows))))
        held_key = keys[last].as_py()
    if held:
        yield _joined(held)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()
