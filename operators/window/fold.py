"""The map side of windows: it folds the records of a batch into one partial per key and window."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, group_codes, paired_groups
from mixedmode.operators.aggregate import Aggregator
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument
from mixedmode.operators.interface import Batch
from mixedmode.operators.window.keys import Int64s, number_keys
from mixedmode.operators.window.partials import take_all
from mixedmode.sort import KEY, KEY_GROUP, TIME, sort_order
from mixedmode.time import TimeWindows


@dataclass(frozen=True, slots=True)
class FoldedWindows:
    """Partial windows of a batch, (n,) each: the key, its key group (uint16), bounds, registers."""

    keys: pa.Array
    groups: npt.NDArray[np.uint16]
    starts: Int64s | None  #: None if the end alone identifies the window
    ends: Int64s
    registers: list[pa.Array]


def times_of(batch: Batch) -> Int64s:
    """Return the event times (n,) of a batch of a window step, in microseconds."""
    assert batch.times_us is not None, "a window step is planned only where there is an event time"
    return batch.times_us


def without_late(batch: Batch, is_late: npt.NDArray[np.bool_]) -> tuple[Batch, npt.NDArray[np.intp]]:
    """Return the batch without its late records, and the positions of the late records."""
    late_rows = np.flatnonzero(is_late)
    if not len(late_rows):
        return batch, late_rows
    kept = pa.array(~is_late)
    keys, arguments = ([column.filter(kept) for column in columns] for columns in (batch.keys, batch.arguments))
    weights = None if batch.weights is None else batch.weights[~is_late]
    return Batch(keys, arguments, times_of(batch)[~is_late], weights), late_rows


def fold_time_windows(
    batch: Batch,
    key_schema: KeySchema | None,
    aggregator: Aggregator,
    windows: TimeWindows,
    *,
    over_us: int,
    max_parallelism: int,
    have_one_time: bool = False,
) -> tuple[FoldedWindows, npt.NDArray[np.intp]]:
    """Return one partial per key and window of the batch, without the windows that end at or before `over_us`.

    Also return the positions of the late records: those whose windows are all left out. Each record is folded once,
    into its pane. Only panes are copied to each of their windows. have_one_time: all records have the same time.
    """
    times = times_of(batch)
    keys = number_keys(batch.keys, key_schema, len(times), max_parallelism=max_parallelism)
    if have_one_time:
        panes, pane_ends = keys.numbers, windows.panes(times[:1]).repeat(len(keys.numbers.first_row))
    else:
        ends = windows.panes(times)
        panes = paired_groups(group_codes([pa.array(ends)]), keys.numbers)  # panes first: records come in time order
        pane_ends = ends[panes.first_row]
    registers = aggregator.partials(Grouping(panes.codes, len(panes.first_row), batch.weights), _rows(batch))
    key_codes = keys.numbers.codes[panes.first_row]
    row, ends = windows.windows_of_panes(pane_ends)
    is_open = ends > over_us  # a record may be late for some of its windows only
    late_rows = np.empty(0, np.intp)
    if not is_open.all():
        row, ends = row[is_open], ends[is_open]
        is_late = np.ones(len(pane_ends), np.bool_)
        is_late[row] = False
        late_rows = np.flatnonzero(is_late[panes.codes])
    if not np.array_equal(ends, pane_ends):  # otherwise each pane is exactly one window
        key_codes = key_codes[row]
        found = group_codes([pa.array(key_codes), pa.array(ends)])
        registers = aggregator.merge(Grouping(found.codes, len(found.first_row)), take_all(registers, row))
        key_codes, ends = key_codes[found.first_row], ends[found.first_row]
    encoded = keys.encoded.take(pa.array(key_codes))
    return FoldedWindows(encoded, keys.groups[key_codes], None, ends, registers), late_rows


def fold_sessions(
    batch: Batch, key_schema: KeySchema | None, aggregator: Aggregator, gap_us: int, *, max_parallelism: int
) -> FoldedWindows:
    """Return one partial per key and session of the batch, computed from the records of the batch alone."""
    times = times_of(batch)
    keys = number_keys(batch.keys, key_schema, len(times), max_parallelism=max_parallelism)
    order = _by_key_and_time(keys.numbers.codes, times)
    codes, sorted_times = keys.numbers.codes[order], times[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (sorted_times[1:] - sorted_times[:-1] > gap_us)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    session_of_record = np.empty(len(order), np.int64)
    session_of_record[order] = np.cumsum(begins) - 1
    registers = aggregator.partials(Grouping(session_of_record, len(first), batch.weights), _rows(batch))
    key_codes = codes[first]
    starts, ends = sorted_times[first], sorted_times[last] + gap_us
    return FoldedWindows(keys.encoded.take(pa.array(key_codes)), keys.groups[key_codes], starts, ends, registers)


def fold_records(
    batch: Batch, key_schema: KeySchema | None, aggregator: Aggregator, *, max_parallelism: int
) -> FoldedWindows:
    """Return each record as a separate window that ends at the record's event time."""
    times = times_of(batch)
    keys = number_keys(batch.keys, key_schema, len(times), max_parallelism=max_parallelism)
    registers = aggregator.partials(Grouping(np.arange(len(times)), len(times)), _rows(batch))
    codes = keys.numbers.codes
    return FoldedWindows(keys.encoded.take(pa.array(codes)), keys.groups[codes], times, times, registers)


def _rows(batch: Batch) -> Rows:
    return Rows({i: Argument(column) for i, column in enumerate(batch.arguments)}, times_of(batch))


def _by_key_and_time(codes: npt.NDArray[np.int32], times: Int64s) -> npt.NDArray[np.int64]:
    """Return the positions that sort the records by key index, then by time."""
    number = np.ascontiguousarray(codes.astype(">u4"))
    numbers = pa.Array.from_buffers(pa.binary(4), len(codes), [None, pa.py_buffer(number)])
    groups = pa.array(np.zeros(len(codes), np.uint16))
    return sort_order(pa.table([groups, numbers, pa.array(times)], names=[KEY_GROUP, KEY, TIME]))
