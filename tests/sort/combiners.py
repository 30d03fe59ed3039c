"""A decomposable aggregate for the tests: count, least and greatest number of each key."""

from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.sort import KEY, KEY_GROUP


def counted(table: pa.Table) -> pa.Table:
    """Rows of a keyed table -> partial aggregates of one row each."""
    numbers = table.column("number")
    ones = pa.array(np.ones(table.num_rows, dtype=np.int64))
    kept = table.select([name for name in table.column_names if name.startswith("_")])
    return kept.append_column("rows", ones).append_column("least", numbers).append_column("greatest", numbers)


def combine_counts(table: pa.Table) -> pa.Table:
    """One row per key; `_time` becomes that of the key's last row."""
    groups = table.column(KEY_GROUP).to_numpy()
    keys = np.array(table.column(KEY).to_pylist(), dtype=object)
    new = np.append(True, (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1]))
    starts = np.flatnonzero(new)
    last = np.append(starts[1:], len(keys)) - 1
    found = table.take(pa.array(last))
    for name, reduce in (("rows", np.add), ("least", np.minimum), ("greatest", np.maximum)):
        values = pa.array(reduce.reduceat(table.column(name).to_numpy(), starts))
        found = found.set_column(found.column_names.index(name), name, values)
    return found


def counts_by_key(tables: list[pa.Table]) -> dict[tuple[int, bytes], Any]:
    """(key group, key) -> [rows, least, greatest], recomputed in plain Python from partial aggregates."""
    found: dict[tuple[int, bytes], Any] = {}
    for table in tables:
        for row in table.to_pylist():
            key = (row[KEY_GROUP], row[KEY])
            seen = found.setdefault(key, [0, row["least"], row["greatest"]])
            seen[0] += row["rows"]
            seen[1], seen[2] = min(seen[1], row["least"]), max(seen[2], row["greatest"])
    return found
