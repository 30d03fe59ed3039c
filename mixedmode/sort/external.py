"""The external sorter: it reads rows in any order and emits sorted tables, within a memory budget.

Rows are collected until sorting them would exceed the budget. Then they are sorted and spilled as one
run; with a combiner they stay in memory if combining reduces them enough. At the end the runs are merged.

The budget B is divided as follows:
  collecting   rows with which the peak of sorting (buffer.py) is at most B
  merging      rows that never spilled: at most B / 4; one chunk of each run: B / 10 together, which may be in memory
               four times over (chunks, cut pieces, their concatenation, sorted)
  emitting     at most B / 8, twice while it is joined
The table that the caller adds and the table that the caller receives are not part of the budget.

Source: Graefe, Implementing Sorting in Database Systems, ACM Computing Surveys 38(3), 2006, sections 3 and 4.
Invariants (tests/sort/test_external.py):
  I1  without `combine`: the output is the stable sort of all rows added
  I2  with `combine`: each key occurs once, as the combination of all its rows
  I3  the process grows by the budget and a small constant, for any number of rows (test_sorter_memory.py)
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import pyarrow as pa

from mixedmode.errors import InternalError, RetryableError
from mixedmode.sort.buffer import Buffer
from mixedmode.sort.merge import merge_runs
from mixedmode.sort.order import check_sorted
from mixedmode.sort.runs import Run, read_run, write_run
from mixedmode.sort.tables import Combine, combined, joined, release_memory, slices, whole_keys, whole_times

EMIT_BYTES = 8 * 2**20  # large enough that a call per table costs nothing, small enough to stay near the cache

#: what a table never divides: a row, the rows of a (key, time), the rows of a key
Undivided = Literal["row", "time", "key"]

_FAN_IN = 64  # runs merged at once: more would make chunks so small that reading them costs more than another pass
_BLOCK_BYTES_MIN = 4 * 2**10  # a smaller block is mostly its own header
_BLOCK_BYTES_MAX = 2**20
_PIECE_BYTES_MAX = 32 * 2**20


@dataclass(frozen=True, slots=True)
class SortStats:
    """Counters of a sorter. They include the runs and bytes of intermediate merges."""

    spilled_runs: int = 0
    spilled_bytes: int = 0  #: on disk, compressed


class ExternalSorter:
    """Sorts by (key group, key, time), stable. Add tables, then call `sorted_tables()` once. Use it with `with`.

    `combine` merges the rows of a key into one row; then every key is emitted once. With `undivided` key, no key is
    split between two tables, so the rows of the largest key must fit in memory; with time, so must those of the largest
    (key, time). `spill_dir` is created when it is needed; the
    sorter removes its files there when it is closed.
    """

    def __init__(
        self,
        *,
        budget_bytes: int,
        spill_dir: Path,
        combine: Combine | None = None,
        undivided: Undivided = "row",
        emit_bytes: int = EMIT_BYTES,
    ) -> None:
        assert budget_bytes > 0, budget_bytes
        assert combine is None or undivided == "row", "a combined key is one row, which no cut can split"
        self._budget = budget_bytes
        self._spill_dir = spill_dir
        self._combine = combine
        self._undivided = undivided
        self._emit_bytes = max(1, min(emit_bytes, budget_bytes // 8))
        self._block_bytes = min(max(budget_bytes // 10 // _FAN_IN, _BLOCK_BYTES_MIN), _BLOCK_BYTES_MAX)
        self._buffer = self._new_buffer()
        self._runs = list[Run]()  #: in order of arrival, so that the merge is stable
        self._folder: Path | None = None
        self._schema: pa.Schema | None = None
        self._is_adding = True
        self._spilled_runs = self._spilled_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Add rows in any order. Rows with equal keys and times stay in the order in which they were added.

        Raises RetryableError if the disk is full; InternalError if the columns differ from those of the first table.
        """
        assert self._is_adding, "rows cannot be added once the sorted tables have been asked for"
        self._check_schema(table)
        for part in slices(table.replace_schema_metadata(None), max(self._budget // 4, 1)):
            self._make_room(part)
            self._buffer.append(part)

    def add_sorted(self, table: pa.Table) -> None:
        """Add rows that are already in order. Raises InternalError (report it) if they are not; otherwise as `add`."""
        check_sorted(table)
        self.add(table)

    def sorted_tables(self) -> Iterator[pa.Table]:
        """Yield all rows in order, each table's columns in one chunk. May be called once. Without rows: no table."""
        assert self._is_adding, "sorted_tables() may be called once"
        self._is_adding = False
        for table in self._emitted(self._merged()):
            yield table
            if self._runs:
                release_memory()  # otherwise the process grows to about another budget

    @property
    def stats(self) -> SortStats:
        """Return the counters so far."""
        return SortStats(self._spilled_runs, self._spilled_bytes)

    def close(self) -> None:
        """Forget all rows and remove the spill files. May be called more than once."""
        self._is_adding = False
        self._buffer = self._new_buffer()
        self._runs = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)  # scratch: failing to remove it must not hide an error
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_schema(self, table: pa.Table) -> None:
        if self._schema is None:
            self._schema = table.schema.remove_metadata()
        if not table.schema.equals(self._schema):
            msg = (
                "tables with different columns cannot be sorted together. This is a defect in mixedmode: report it "
                f"with this message. first={self._schema.to_string()!r}, found={table.schema.to_string()!r}"
            )
            raise InternalError(msg)

    def _make_room(self, part: pa.Table) -> None:
        if not self._buffer.rows or self._has_room(part):
            return
        if self._combine is not None:
            self._shrink(self._combine)
        elif not self._buffer.has_pieces:
            self._buffer.join_to_pieces()
        if not self._has_room(part):
            self._spill(self._buffer.sorted_blocks(self._block_bytes))

    def _has_room(self, part: pa.Table) -> bool:
        return self._buffer.peak_bytes(part) <= self._budget

    def _new_buffer(self) -> Buffer:
        return Buffer(min(self._budget // 16, _PIECE_BYTES_MAX))

    def _shrink(self, combine: Combine) -> None:
        """Combine the collected rows; spill them if more than half remain, as memory would soon be full again."""
        kept, kept_bytes, bytes_max = self._new_buffer(), 0, self._buffer.bytes // 2
        tables = combined(self._buffer.sorted_blocks(self._emit_bytes), combine)
        for table in tables:
            kept.append(table)
            kept_bytes += table.nbytes
            if kept_bytes > bytes_max:
                self._spill(chain(kept.drain(), tables))
                return
        self._buffer = kept
        release_memory()

    def _spill(self, tables: Iterator[pa.Table]) -> None:
        run = self._write(tables)
        if run.rows:
            self._runs.append(run)

    def _write(self, tables: Iterator[pa.Table]) -> Run:
        run = write_run(self._new_path(), tables, block_bytes=self._block_bytes)
        self._spilled_runs += 1
        self._spilled_bytes += run.file_bytes
        release_memory()
        return run

    def _new_path(self) -> Path:
        if self._folder is None:
            try:
                self._spill_dir.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix="sort-", dir=self._spill_dir))
            except OSError as error:
                msg = (
                    "the spill directory cannot be made, so the sort cannot exceed its memory. Make it writable, or "
                    "choose another one, then start the job again. "
                    f"spill_dir={self._spill_dir}, error={error.strerror}"
                )
                raise RetryableError(msg) from error
        return self._folder / f"{self._spilled_runs:06d}.run"

    def _merged(self) -> Iterator[pa.Table]:
        """Return all rows in order, in tables of any size, not yet combined across tables."""
        if not self._runs:
            return self._buffer.sorted_blocks(self._emit_bytes)
        if self._buffer.bytes > self._budget // 4:
            self._spill(self._buffer.sorted_blocks(self._block_bytes))
        in_memory = 1 if self._buffer.rows else 0
        while len(self._runs) + in_memory > _FAN_IN:
            self._merge_some(len(self._runs) + in_memory - _FAN_IN + 1)
        return self._merge(self._runs, [self._buffer] if in_memory else [])

    def _merge_some(self, excess: int) -> None:
        """Merge the cheapest neighbouring runs into one. Only neighbours, because runs are in the order of arrival."""
        count = min(excess, _FAN_IN)
        sizes = [run.file_bytes for run in self._runs]
        first = min(range(len(sizes) - count + 1), key=lambda i: sum(sizes[i : i + count]))
        inputs = self._runs[first : first + count]
        tables = self._merge(inputs, [])
        if self._combine is not None:
            tables = combined(joined(tables, self._emit_bytes), self._combine)
        self._runs[first : first + count] = [self._write(tables)]
        for run in inputs:
            run.path.unlink()

    def _merge(self, runs: list[Run], buffers: list[Buffer]) -> Iterator[pa.Table]:
        chunk_bytes = max(self._block_bytes, self._budget // 10 // (len(runs) + len(buffers)))
        chunks = [joined(read_run(run.path), chunk_bytes) for run in runs]
        chunks += [buffer.sorted_blocks(chunk_bytes) for buffer in buffers]
        names = [run.path.name for run in runs] + ["rows in memory" for _ in buffers]
        return merge_runs(chunks, names=names)

    def _emitted(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        tables = joined(tables, self._emit_bytes // 2)  # so that a block of nearly emit_bytes goes on as it is
        if self._combine is not None:
            return combined(tables, self._combine)
        if self._undivided == "key":
            return whole_keys(tables)
        return whole_times(tables) if self._undivided == "time" else tables
