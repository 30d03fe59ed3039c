"""Custom connectors: write a class that reads or writes, and name it in the job with `format: custom`.

    from mixedmode.connectors import CustomSource

    class Pages(CustomSource):
        \"\"\"The numbered pages of an API. A page is complete as soon as the next page exists.\"\"\"

        def __init__(self, url):
            self.url = url

        def schema(self):
            return "id long, at timestamp, city string"

        def latest(self):
            return get(f"{self.url}/newest")                       # 17: pages 1 to 17 no longer change

        def splits(self, start, end):
            return list(range((start or 0) + 1, end + 1))          # one page, and so one task, each

        def read(self, split):
            yield pa.RecordBatch.from_pylist(get(f"{self.url}/{split}"))

In a job file (`pages.py` lies next to it):

    sources:
      trips: {format: custom, class: pages:Pages, args: {url: "https://example.org/trips"}, event-time: at}

Rules for both kinds of class:
  * `__init__` receives the `args` of the job file. A text in `args` may contain `${env:NAME}`.
  * The class is instantiated wherever it is needed: in the driver, in a Spark process that looks for new data, and in
    each task. So `__init__` must be cheap, and attributes are lost with their instance. Instances are never pickled.
  * An exception ends the epoch, and nothing of that epoch is committed. If `publish` of a sink raises it, the epoch is
    committed, and the sink gets all of its rows again. The error message names the method and the line. By default the
    error counts as one that a retry may fix (`execution.checkpointing.tolerable-failed-checkpoints`). Raise
    `mixedmode.errors.InvalidJobError` if a retry cannot help.

docs/custom-connectors.md has a runnable example of a source and of a sink.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["CustomSink", "CustomSource", "Offset"]

#: a position in a source, in the source's own terms: any JSON value, such as 17, "2024-06" or {"north": 3}
Offset = Any


class CustomSource(ABC):
    """A bounded or growing source of records, implemented by a user.

    The records between two offsets must be the same each time they are read. An epoch that failed is repeated over the
    same range, perhaps days later, and the repeat must return the same records as the first attempt.
    """

    @abstractmethod
    def schema(self) -> str:
        """Return the columns as Spark DDL, such as `id long, at timestamp`.
        They must stay the same for the life of a job.
        """

    @abstractmethod
    def latest(self) -> Offset | None:
        """Return the offset up to which the source can be read now, or None if it has no data yet.

        Called whenever an epoch may begin, so it should answer fast. The offset must never decrease, and records up to
        it must not change any more. The backlog is everything up to the first answer after the job starts.
        """

    @abstractmethod
    def splits(self, start: Offset | None, end: Offset) -> Sequence[Any]:
        """Divide the records after `start` up to and including `end` into splits; each split is read by one task.

        `start` is None for the beginning of the source. The offsets are earlier results of `latest`, possibly from a
        former start of the job. Every record in the range must be in exactly one split. A split is any value that can
        be pickled.
        """

    @abstractmethod
    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split. Each batch has all columns of the schema, matched by name, in any order.

        A column may have any type that converts to the schema's type without loss. Called in a task, and called again
        when the task is retried.
        """

    def is_backlog(self, start: Offset | None, end: Offset) -> bool:  # noqa: ARG002 - the default has no use for it
        """Return whether the records after `start` up to and including `end` are backlog. The default returns False.

        An example is a snapshot that the source takes again. The whole epoch that reads such records is processed as
        backlog. If this method returns False, the settings of the job decide. `start` is None for the beginning of the
        source.

        Called in the driver before each epoch, so it should answer fast; `start` may equal `end`. The answer for the
        same two offsets must always be the same, because an epoch may be repeated.
        """
        return False


class CustomSink(ABC):
    """A place that stores the rows of each epoch, implemented by a user.

    Rows arrive after their epoch is committed, epoch by epoch, from one process. Every committed epoch is published at
    least once, also after a crash. An epoch is published again if it is not known whether the first attempt succeeded.
    A sink that replaces the rows it already has of an epoch, or skips an epoch it already has, stores each row exactly
    once.
    """

    @abstractmethod
    def open(self, job: str, output: str, columns: pa.Schema, key_columns: Sequence[str]) -> None:
        """Connect, and check or create the place. Called once per start, before every other method.

        job: the name of the job. output: the name of the side output; "" for the main output. columns: the columns of
        the output. key_columns: the columns that identify a row; () if the output has no key. Raise InvalidJobError if
        the place already holds something else.
        """

    @abstractmethod
    def publish(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        """Store all rows of an epoch. When this method returns, the rows must be stored durably.

        Afterwards the place must hold exactly these rows of the epoch, whatever rows of the epoch it held before.
        Epochs arrive in order, including epochs without rows; only the latest epoch may arrive again. In batch mode
        there is one epoch, 0, and each run replaces it.

        The batches have the columns of the output. If the output has a key, they also have `_op`: "insert", "update"
        or "delete"; the last row of a key in an epoch counts. Rows that are not read from `batches` are lost.
        """

    def published(self) -> int | None:
        """Return the newest epoch whose rows are all stored, or None if there is none or it is not known."""
        return None

    def roll_back(self, after: int) -> None:  # noqa: ARG002 - the default has no use for it
        """Delete the rows of all epochs later than `after`. The default keeps them.

        Called when a job goes back to an older checkpoint; the call may be repeated. The rows will be published again,
        perhaps divided into other epochs. If the rows are kept, the job prints a message that says so. Then a sink
        without a key has duplicates. In a sink with a key, keys that do not occur again stay, and older values are not
        restored.
        """
        return
