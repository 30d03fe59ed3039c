"""The operator of a `co-process` step: a process function with two inputs on one key.

The records of both inputs of a key are one turn, in the order of (time, side): the left comes first where times are
equal. The kind of a row says its side (operators/process/due.py); a row is NULL in the columns of the other side. All
else is that of a process function: state, timers, outputs, failures.

Source: Flink's KeyedCoProcessFunction, which sees the two inputs in no defined order.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import KEY_COLUMN, TIME_COLUMN, Batch
from mixedmode.operators.process.broadcast import BroadcastRun
from mixedmode.operators.process.calls import Calls, Feed, StepSettings
from mixedmode.operators.process.chunks import Chunk
from mixedmode.operators.process.due import KIND_COLUMN, RECORD, RECORD_OF_RIGHT
from mixedmode.operators.process.failures import PASSED_THROUGH, Call
from mixedmode.operators.process.function import AnyFunction, KeyedCoProcessFunction
from mixedmode.operators.process.operator import ProcessOperator
from mixedmode.operators.process.records import python_records
from mixedmode.operators.process.turns import Turns
from mixedmode.operators.tables import column_of
from mixedmode.time import EpochTime

__all__ = ["CoProcessOperator"]

_METHODS = ("process_left", "process_right")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoProcessOperator(ProcessOperator):
    """Calls `function` for each key with the records of both inputs.

    record_fields: the columns of the left, then those of the right. left_columns: how many are of the left.
    """

    left_columns: int

    @override
    def _kinds(self, batch: Batch, rows: int) -> npt.NDArray[np.int8]:
        assert batch.sides is not None, "a co-process function has two inputs"
        assert batch.times_us is not None, "both inputs of a co-process function have event times"
        return np.where(batch.sides == 0, np.int8(RECORD), np.int8(RECORD_OF_RIGHT))

    @override
    def _calls(self, function: AnyFunction, turns: Turns, time: EpochTime, broadcast: BroadcastRun | None) -> Calls:
        assert isinstance(function, KeyedCoProcessFunction), function
        return _CoCalls(self, function, turns, time, broadcast, left_columns=self.left_columns)

    @override
    def _in_order(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        if table.num_rows < 2:
            return table
        is_right = column_of(table, KIND_COLUMN).to_numpy() == RECORD_OF_RIGHT
        times_us = column_of(table, TIME_COLUMN).to_numpy()
        is_swapped = is_right[:-1] & ~is_right[1:] & (times_us[:-1] == times_us[1:])
        if not is_swapped.any():  # at most, a key ends with the time with which the next one begins
            return table
        order = np.lexsort((is_right, times_us, segments(column_of(table, KEY_COLUMN))[0].codes))
        return table.take(pa.array(order)).combine_chunks()


class _CoCalls(Calls):
    """The calls of a function with two inputs. Its feed yields (side, record, time)."""

    def __init__(
        self,
        step: StepSettings,
        function: KeyedCoProcessFunction,
        turns: Turns,
        time: EpochTime,
        broadcast: BroadcastRun | None,
        *,
        left_columns: int,
    ) -> None:
        super().__init__(step, function, turns, time, broadcast)
        self._methods = (function.process_left, function.process_right)
        self._left_columns = left_columns

    @override
    def _feed(self, chunk: Chunk) -> Any:
        columns = [column_of(chunk.records, each.name) for each in self._step.input_fields[: len(self._names)]]
        is_right = column_of(chunk.records, KIND_COLUMN).to_numpy() == RECORD_OF_RIGHT
        records = []
        for of_side, part in ((~is_right, slice(self._left_columns)), (is_right, slice(self._left_columns, None))):
            rows = pa.array(of_side)
            own = [column.filter(rows) for column in columns[part]]
            records.append(iter(python_records(own, self._names[part])))
        times = chunk.records.column(TIME_COLUMN).to_pylist()
        return ((side, next(records[side]), time) for side, time in zip(is_right.tolist(), times, strict=True))

    @override
    def _plain_records(self, feed: Feed, count: int) -> None:
        context, methods, add = self._context, self._methods, self._add
        side, record = 0, None
        try:
            for side, record, context.timestamp in islice(feed, count):
                result = methods[side](record, context)
                if result is not None:
                    add(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            call = Call(_METHODS[side], context.current_key, record, context.timestamp)
            raise self._error(error, call) from error

    @override
    def _guarded_records(self, feed: Feed, count: int) -> None:
        for side, record, timestamp in islice(feed, count):
            self._context.timestamp = timestamp
            call = Call(_METHODS[side], self._context.current_key, record, timestamp)
            self._guarded(self._methods[side], record, self._add, call)
