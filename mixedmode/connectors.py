"""Connectors of your own: a class that reads, a class that writes. Name it in the job with `format: custom`, done.

    from mixedmode.connectors import CustomSource

    class Pages(CustomSource):
        \"\"\"The numbered pages of an API; each is complete once the next one is there.\"\"\"

        def __init__(self, url):
            self.url = url

        def schema(self):
            return "id long, at timestamp, city string"

        def latest(self):
            return get(f"{self.url}/newest")                       # 17: the pages up to this one do not change any more

        def splits(self, start, end):
            return list(range((start or 0) + 1, end + 1))          # one task each

        def read(self, split):
            yield pa.RecordBatch.from_pylist(get(f"{self.url}/{split}"))

In a job file (`pages.py` lies next to it):

    sources:
      trips: {format: custom, class: pages:Pages, args: {url: "https://example.org/trips"}, event-time: at}

What holds for both:
  * The arguments of `__init__` are `args` of the job file. A text in them may hold `${env:NAME}`.
  * An object is made wherever one is needed: in the driver, in a process of Spark's that looks for what is new, in each
    task. So it must be cheap to make, and what it remembers is gone with it. Nothing of it is pickled.
  * An exception ends the epoch, of which nothing is committed then, and is told with the method and the line. It counts
    as one that a repeat may help (`execution.checkpointing.tolerable-failed-checkpoints`). Raise
    `mixedmode.errors.InvalidJobError` where it does not help.

See docs/custom-connectors.md for an example of each that runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["CustomSink", "CustomSource", "Offset"]

#: how far a source has been read, as the source counts: what JSON can hold, such as 17, "2024-06" or {"north": 3}
Offset = Any


class CustomSource(ABC):
    """Records from anywhere, bounded or growing.

    Between two offsets there are the same records each time they are read: an epoch that failed is repeated over the
    same range, perhaps days later, and the repeat must give what the first attempt gave.
    """

    @abstractmethod
    def schema(self) -> str:
        """The columns as Spark DDL, such as `id long, at timestamp`. The same for the life of the job."""

    @abstractmethod
    def latest(self) -> Offset | None:
        """How far the source can be read now; None if there is nothing yet.

        Called whenever an epoch may begin, so it should answer fast. It never goes back. What lies behind it must not
        change any more. A backlog is everything up to the first answer after the start of a job.
        """

    @abstractmethod
    def splits(self, start: Offset | None, end: Offset) -> Sequence[Any]:
        """The parts of what is after `start` (None: from the beginning) up to and with `end`, each for one task.

        The offsets are answers of `latest`, maybe of an earlier start of the job. Every record in between is in exactly
        one split. A split is any value that can be pickled.
        """

    @abstractmethod
    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a split: all columns of the schema by name, in any order. A type that can be converted to the
        schema's without loss is. Called in a task, and again when the task is repeated.
        """

    def is_backlog(self, start: Offset | None, end: Offset) -> bool:  # noqa: ARG002 - the default has no use for it
        """Whether the records after `start` (None: from the beginning) up to and with `end` are backlog, such as those
        of a snapshot that the source takes again. The epoch that reads them then is backlog as a whole.

        Called in the driver before each epoch, so it should answer fast; `start` may equal `end`. For two offsets it
        gives the same answer each time, as an epoch may be repeated. The default leaves it to the job's settings.
        """
        return False


class CustomSink(ABC):
    """A place that holds the rows of each epoch.

    Rows come once their epoch is committed, epoch by epoch, from one process. What is committed will be published, also
    after a crash, so each epoch comes at least once; it may come again, when nobody could know that it had arrived. A
    sink that replaces what it has of an epoch, or leaves it, holds each row exactly once.
    """

    @abstractmethod
    def open(self, job: str, output: str, columns: pa.Schema, key_columns: Sequence[str]) -> None:
        """Connect, and check or create the place. Called once per start, before anything else.

        job: its name. output: "" for the main one, else the name of a side output. columns: of the output. key_columns:
        those that tell rows apart; () if every row stands for itself. Raise InvalidJobError when the place holds
        something else.
        """

    @abstractmethod
    def publish(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        """Take all rows of an epoch. When it returns, they are there, and durable.

        Afterwards the place has exactly these rows of this epoch, whatever it had of it before. Epochs come in order,
        but for the latest one, which may come again; also those without rows. In batch mode there is one epoch, 0, and
        each run replaces it.

        The batches have the columns of the output; with key columns, also `_op`: "insert", "update" or "delete". The
        last row of a key in an epoch counts. What is not read of `batches` is lost.
        """

    def published(self) -> int | None:
        """The newest epoch whose rows are all there; None: there is none, or it cannot be told."""
        return None

    def take_back(self, after: int) -> None:  # noqa: ARG002 - the default has no use for it
        """Forget the rows of all epochs later than `after`, since they will come again, maybe cut into other epochs.

        Called when a job goes back to an older checkpoint. The default leaves them: where every row counts, there would
        be duplicates; where rows go by key, keys that do not come again stay, and older values do not come back. The
        job says on the screen that they stay. May be repeated.
        """
        return
