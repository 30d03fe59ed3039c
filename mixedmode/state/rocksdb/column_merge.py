"""Merge runs from their columns: the newest entry of each key, in key order.

Concatenate the keys of a range, those of the newest run first, and sort them stably. Then the newest
entry of each key comes first. The ranges are those of the batches of the largest run, which limits the memory.

Invariant (tests/state/test_merge.py): the result equals reading the runs through RocksDB.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.state.arrow_bytes import ArrowBytes
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb.columns import RunColumns


def newest_entries(runs: Sequence[RunColumns]) -> Iterator[tuple[FixedBytes, ArrowBytes[bytes | None]]]:
    """Yield keys, strictly increasing over all batches, and their values, None for a deleted key.

    `runs` are ordered oldest first. All keys have the same length. Each batch covers the key range of one batch of the
    largest run.
    """
    largest = max(runs, key=lambda run: run.entries)
    bounds = [None, *(batch.keys[0] for batch in largest.batches[1:]), None]
    for low, high in pairwise(bounds):
        keys, values = [], []
        for run in reversed(runs):
            for batch in run.batches:
                start = 0 if low is None else int(np.searchsorted(batch.keys, low))
                end = len(batch.keys) if high is None else int(np.searchsorted(batch.keys, high))
                if start < end:
                    keys.append(batch.keys[start:end])
                    values.append(batch.values.slice(start, end - start))
        yield _newest(np.concatenate(keys), pa.concat_arrays(values))


def _newest(keys: npt.NDArray[np.bytes_], values: pa.LargeBinaryArray) -> tuple[FixedBytes, ArrowBytes[bytes | None]]:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    rows = ordered[is_first].view(np.uint8).reshape(-1, keys.itemsize)
    return FixedBytes(rows), ArrowBytes(values.take(pa.array(order[is_first])))
