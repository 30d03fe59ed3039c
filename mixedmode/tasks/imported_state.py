"""Tasks that write the state of Spark's operators as runs of a job's steps.

    ConvertTask   rows of Spark's state -> entries: (subtask, state, stored key, value)
    (Spark brings the entries of a subtask together, and sorts them by state and key)
    WriteTask     sorted entries of one subtask -> one run per state in the checkpoint folder, and a report

A row that cannot be taken over ends the import: its error is sent as an entry of the state _FAILURE, which sorts first.
"""

import json
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, RunFile
from mixedmode.errors import MixedmodeError
from mixedmode.keys import group_range
from mixedmode.spark_state.conversions import Conversion
from mixedmode.spark_state.entries import Entries
from mixedmode.state.arrow_bytes import ArrowBytes
from mixedmode.state.rocksdb import RunWriter
from mixedmode.tasks.failures import decode_failure, report_failures

__all__ = ["ENTRY_DDL", "ORDER", "REPORT_DDL", "SUBTASK", "ConvertTask", "WriteTask", "runs_of"]

SUBTASK, ORDER = "subtask", ("state", "key")
ENTRY_DDL = "subtask int, state int, key binary, value binary"
REPORT_DDL = "report binary"
_FAILURE = -1
_MERGED = 0  # the state whose values are merged
_ENTRY = pa.schema([("subtask", pa.int32()), ("state", pa.int32()), ("key", pa.binary()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class ConvertTask:
    """Converts rows of Spark's state, whose first `keys` columns are those of the key. Called by Spark."""

    conversion: Conversion
    keys: int
    parallelism: int
    max_parallelism: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries."""
        return report_failures(self._converted(batches), _failure)

    def _converted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                columns = batch.columns
                found = self.conversion.entries(
                    columns[: self.keys], columns[self.keys :], max_parallelism=self.max_parallelism
                )
                yield from map(self._batch, found)

    def _batch(self, entries: Entries) -> pa.RecordBatch:
        subtasks = entries.groups.astype(np.int32) * self.parallelism // self.max_parallelism
        columns = [
            pa.array(subtasks),
            pa.array(np.full(len(subtasks), entries.state_id, np.int32)),
            entries.keys.cast(pa.binary()),
            entries.values.cast(pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_ENTRY)


class Merger(Protocol):
    """Merges values of one key."""

    @abstractmethod
    def merged(self, packed: Sequence[bytes]) -> bytes:
        """Return the value that has all of these."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes the runs of one subtask. Called by Spark.

    merger: merges the values of a key in the first state, if several tables of Spark have made them.
    """

    checkpoint_url: str
    operator_id: str
    epoch: Epoch
    generation: Generation
    parallelism: int
    max_parallelism: int
    merger: Merger | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one report, if there are entries."""
        return report_failures(self._written(batches), _report)

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        subtask = None
        with temporary_folder("import-") as folder, RunWriter(folder / "runs") as writer:
            pending = _Merging(writer, self.merger)
            for batch in batches:
                if not batch.num_rows:
                    continue
                subtask = batch.column(0)[0].as_py()
                states = batch.column(1).to_numpy()
                if states[0] == _FAILURE:
                    yield _report(batch.column(3)[0].as_py())
                    return
                for state_id in np.unique(states).tolist():
                    rows = batch.slice(*_span(states, state_id))
                    pending.write(state_id, *(rows.column(at).cast(pa.large_binary()) for at in (2, 3)))
            pending.finish()
            if subtask is not None:
                yield _report(json.dumps({"runs": [asdict(run) for run in self._stored(writer, subtask)]}).encode())

    def _stored(self, writer: RunWriter, subtask: int) -> Iterator[RunFile]:
        store = ObjectStore(self.checkpoint_url)
        groups = group_range(subtask, parallelism=self.parallelism, max_parallelism=self.max_parallelism)
        for run in writer.finish():
            unique = paths.attempt(self.generation, f"{uuid.uuid4().hex}s{run.state_id}")
            path = paths.run_path(self.operator_id, self.epoch, subtask, unique)
            size, checksum = run.path.stat().st_size, file_checksum(run.path)
            store.put_file(run.path, path)
            yield RunFile(path, run.state_id, size, run.entries, groups.start, groups.end, checksum)


class _Merging:
    """Writes sorted entries, those of the first state after a merge of the values of a key."""

    def __init__(self, writer: RunWriter, merger: Merger | None) -> None:
        self._writer = writer
        self._merger = merger
        self._key, self._values = b"", list[bytes]()  #: the last key of the first state, and its values so far

    def write(self, state_id: int, keys: pa.Array, values: pa.Array) -> None:
        """Write entries, which sort after those before."""
        if self._merger is None or state_id != _MERGED:
            self._writer.write(state_id, ArrowBytes(keys), ArrowBytes(values))
            return
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            if key != self._key:
                self.finish()
                self._key, self._values = key, []
            self._values.append(value)

    def finish(self) -> None:
        """Write the last key of the first state."""
        if self._values:
            assert self._merger is not None, self._key
            self._writer.write(_MERGED, [self._key], [self._merger.merged(self._values)])
            self._values = []


def runs_of(reports: Sequence[bytes]) -> tuple[RunFile, ...]:
    """Return the runs in the reports of all subtasks. Raise the error that a task has reported."""
    runs = list[RunFile]()
    for report in reports:
        found = json.loads(report)
        if "runs" not in found:
            error: MixedmodeError = decode_failure(report)
            raise error
        runs += [RunFile(**{**run, "merged_from": tuple(run["merged_from"])}) for run in found["runs"]]
    return tuple(sorted(runs, key=lambda run: (run.state_id, run.key_group_start)))


def _span(states: "np.typing.NDArray[np.int32]", state_id: int) -> tuple[int, int]:
    """Return the first row of a state in sorted rows, and the number of its rows."""
    start, end = np.searchsorted(states, [state_id, state_id + 1]).tolist()
    return start, end - start


def _failure(failure: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, kind)
            for values, kind in zip(([0], [_FAILURE], [b""], [failure]), _ENTRY.types, strict=True)
        ],
        schema=_ENTRY,
    )


def _report(report: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])
