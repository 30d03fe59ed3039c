"""Live epochs: files are let in one by one, and each is timed from Spark's trigger to its published result.

The next file is let in when the result of the last one is published, so each micro-batch is exactly one
file, whoever processes it. A query's progress says when a micro-batch was triggered; whoever publishes says when it was
done.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
from pyspark.sql.streaming.listener import StreamingQueryProgress

from mixedmode_bench.contestant import EpochSpan, Task


class Feed:
    """The files of `waiting`, on their way to `folder` in their order."""

    def __init__(self, waiting: Iterable[Path], folder: Path) -> None:
        self._waiting = deque(waiting)
        self._folder = folder
        self._records = 0
        self._is_awaited = False  # a file was let in, and its result is not there yet
        self._done: dict[int, tuple[int, float]] = {}  # {epoch: (records, when it was published, in epoch seconds)}

    def let_in(self) -> bool:
        """Let the next file in; False when there is none. It appears whole, because it is linked."""
        if not self._waiting:
            return False
        file = self._waiting.popleft()
        self._records = pq.read_metadata(file).num_rows
        (self._folder / file.name).symlink_to(file.resolve())
        self._is_awaited = True
        return True

    def published(self, epoch: int) -> bool:
        """The file that was let in last is processed and its result is there. Lets the next one in, as `let_in`.

        A micro-batch without a file, which Spark runs to drop old state, changes nothing.
        """
        if not self._is_awaited:
            return bool(self._waiting)
        self._done[epoch] = self._records, time.time()
        self._is_awaited = False
        return self.let_in()

    def spans(self, progress: Iterable[StreamingQueryProgress], *, began: float) -> tuple[EpochSpan, ...]:
        """The epochs in order, from the progress of the query that ran them. `began`: the run, in epoch seconds."""
        triggered = {p.batchId: trigger_time(p) for p in progress if self._ran(p)}
        missing = self._done.keys() - triggered.keys()
        assert not missing, f"the query reported no progress of these micro-batches: {sorted(missing)}"
        return tuple(
            EpochSpan(triggered[epoch] - began, published - began, records)
            for epoch, (records, published) in sorted(self._done.items())
        )

    def _ran(self, progress: StreamingQueryProgress) -> bool:
        """A trigger that finds nothing reports progress, too, under the number of the batch that it did not start."""
        return progress.batchId in self._done and "addBatch" in progress.durationMs


def trigger_time(progress: StreamingQueryProgress) -> float:
    """When the micro-batch was triggered, before Spark looked for new files; in epoch seconds."""
    return datetime.fromisoformat(progress.timestamp).timestamp()


def fed_data(task: Task) -> Path:
    """The folder to read in a run with a feed: in it are the files of `task.data`, which stays as it is."""
    folder = task.work / "data"
    for table in task.data.iterdir():
        (folder / table.name).mkdir(parents=True)
        for file in table.iterdir():
            (folder / table.name / file.name).symlink_to(file.resolve())
    return folder


def first_table(data: Path) -> Path:
    """The one that a feed adds to."""
    return min(path for path in data.iterdir() if path.is_dir())


def with_events(spans: Sequence[EpochSpan], events: int) -> tuple[EpochSpan, ...]:
    """The epochs, as shares of all `events`: a job counts those that its SQL lets through, a query counts one that it
    reads twice as two.
    """
    counted = sum(span.events for span in spans)
    return tuple(replace(span, events=round(span.events * events / counted)) for span in spans if counted)


def live_parts(spans: tuple[EpochSpan, ...]) -> Mapping[str, float]:
    """Seconds of the first live epoch, which opens the state, and the medians of the large and the small ones after."""
    first, *rest = spans
    sizes = sorted({span.events for span in rest})
    parts = {"first live epoch": first.seconds}
    for name, events in zip(("large epoch", "small epoch"), reversed(sizes), strict=False):
        parts[name] = median(span.seconds for span in rest if span.events == events)
    return parts
