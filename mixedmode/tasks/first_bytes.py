"""The first batches of a frame, so that the driver never gets more of a table than it can hold."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["FirstBytes"]


@dataclass(frozen=True, slots=True)
class FirstBytes:
    """Passes batches on until they have more than `bytes_max` bytes together. Called by Spark."""

    bytes_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, up to the one with which they have more."""
        passed = 0
        for batch in batches:
            yield batch
            passed += batch.nbytes
            if passed > self.bytes_max:
                return
