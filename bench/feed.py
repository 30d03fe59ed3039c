"""Live epochs: files are let in one by one, and each is timed from Spark's trigger to its published result.

The one idea: the next file is let in when the result of the last one is published, so each micro-batch is exactly one
file, whoever processes it. A query's progress says when a micro-batch was triggered; whoever publishes says when it was
done.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.streaming.listener import StreamingQueryProgress


@dataclass(frozen=True, slots=True)
class LiveEpoch:
    """One live epoch. `seconds` go from the trigger (before Spark looks for new files) to the publication."""

    records: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        """Over the whole epoch."""
        return self.records / self.seconds


class Feed:
    """The files of `waiting`, on their way to `folder` in the order of their names."""

    def __init__(self, waiting: Path, folder: Path) -> None:
        self._waiting = deque(sorted(waiting.glob("*.parquet")))
        self._folder = folder
        self._records = 0
        self._is_awaited = False  # a file was let in, and its result is not there yet
        self._done: dict[int, tuple[int, float]] = {}  # {epoch: (records, when it was published, in epoch seconds)}

    def let_in(self) -> bool:
        """Let the next file in; False when there is none. It appears whole, because it is renamed."""
        if not self._waiting:
            return False
        file = self._waiting.popleft()
        self._records = pq.read_metadata(file).num_rows
        file.rename(self._folder / file.name)
        self._is_awaited = True
        return True

    def published(self, epoch: int) -> bool:
        """The file that was let in last is processed and its result is there. Lets the next one in, as `let_in`.

        A micro-batch without a file, which Spark runs to drop old state, changes nothing.
        """
        if not self._is_awaited:
            return False
        self._done[epoch] = self._records, time.time()
        self._is_awaited = False
        return self.let_in()

    def epochs(self, progress: Iterable[StreamingQueryProgress]) -> list[LiveEpoch]:
        """The epochs in order, from the progress of the query that ran them."""
        triggered = {p.batchId: datetime.fromisoformat(p.timestamp).timestamp() for p in progress if self._ran(p)}
        missing = self._done.keys() - triggered.keys()
        assert not missing, f"the query reported no progress of these micro-batches: {sorted(missing)}"
        return [LiveEpoch(records, at - triggered[epoch]) for epoch, (records, at) in sorted(self._done.items())]

    def _ran(self, progress: StreamingQueryProgress) -> bool:
        """A trigger that finds nothing reports progress, too, under the number of the batch that it did not start."""
        return progress.batchId in self._done and "addBatch" in progress.durationMs
