"""The processing of one subtask in one epoch: blocks of keys, their requests, and the rows with the answers."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.async_map.answers import BlockAnswers, Remembered, as_columns
from mixedmode.operators.async_map.calls import CallSettings, outcomes_of
from mixedmode.operators.async_map.failures import call_error, lifecycle_error, reason_of
from mixedmode.operators.async_map.function import AsyncMapFunction, Request, idempotency_key
from mixedmode.operators.async_map.loop import EventLoop
from mixedmode.operators.async_map.rows import ENDS, keys_of, times_of
from mixedmode.operators.classes import ClassSource, file_of
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, AppendedRows, SideRows, SubtaskContext
from mixedmode.operators.process.failures import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_TAG,
    PASSED_THROUGH,
    SKIPPED_TAG,
    OnError,
    as_json,
)
from mixedmode.operators.process.function import OpenContext
from mixedmode.operators.process.records import python_records
from mixedmode.operators.process.rows import to_table
from mixedmode.operators.tables import column_of
from mixedmode.state import StateDescriptor

__all__ = ["Run", "StepSettings"]

#: keys whose requests are sent together; at least, so that a slow call delays few others
_BLOCK_KEYS = 2**12
_ROUNDS = 4  # least number of rounds of calls in a block, if a round is longer than that
_LETTERS = pa.schema(list(DEAD_LETTER_FIELDS))


class StepSettings(Protocol):
    """The settings of the step; AsyncMapOperator has them."""

    @property
    def operator_id(self) -> str:
        """The name of the step."""

    @property
    def function(self) -> ClassSource[AsyncMapFunction]:
        """The class."""

    @property
    def key_schema(self) -> KeySchema:
        """The columns of a request."""

    @property
    def row_fields(self) -> tuple[pa.Field, ...]:
        """The other columns of a row."""

    @property
    def answer_fields(self) -> tuple[pa.Field, ...]:
        """The columns of an answer."""

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """All columns of a row of the output."""

    @property
    def calls(self) -> CallSettings:
        """The limits of calls and their repeats."""

    @property
    def on_error(self) -> OnError:
        """The fate of the rows of a request that failed."""

    @property
    def remember_ms(self) -> int | None:
        """The time for which an answer is remembered; None: not at all."""

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The states of the step."""

    @property
    def has_event_time(self) -> bool:
        """True if rows have event times."""


class Run:
    """Processes sorted tables in order. A context manager, which closes the function."""

    def __init__(self, step: StepSettings, context: SubtaskContext) -> None:
        self._step = step
        self._schema = pa.schema(list(step.answer_fields))
        self._key_names = [field.name for field in step.key_schema.fields]
        self._is_backlog = context.time.is_backlog
        self._remembered: Remembered | None = None
        if step.remember_ms is not None:
            self._remembered = Remembered(step.states, self._schema, step.remember_ms, context)
        self._asked: _Service | None = None
        self._last_key: bytes | None = None  #: the last key of the block before
        self._last = BlockAnswers.none(self._schema, 1)  #: its answer, or why it has none

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the function, if it was opened. The first failure is the one to report."""
        if self._asked is None:
            return
        if error is None:
            self._asked.close()
            return
        with suppress(Exception):
            self._asked.close()

    def process(self, table: pa.Table) -> Iterator[AppendedRows | SideRows]:
        """Yield the rows of a sorted table with their answers, block by block."""
        calls = self._step.calls
        limit = max(_BLOCK_KEYS, _ROUNDS * calls.batch_size * calls.capacity)
        _, first_rows = segments(keys_of(column_of(table, KEY_COLUMN)))
        bounds = [*first_rows[::limit].tolist(), table.num_rows]
        for start, end in pairwise(bounds):
            yield from self._block(table.slice(start, end - start))

    def finish(self) -> None:
        """Write what is left, after the last table."""
        if self._remembered is not None:
            self._remembered.finish()

    def _block(self, table: pa.Table) -> Iterator[AppendedRows | SideRows]:
        packed = column_of(table, KEY_COLUMN)
        row_keys = keys_of(packed)
        grouping, first_rows = segments(row_keys)
        codes, keys = grouping.codes.astype(np.int64), row_keys.take(pa.array(first_rows))
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()[first_rows]
        is_row = ~column_of(table, ENDS).to_numpy(zero_copy_only=False)
        columns = decode_keys(keys, self._step.key_schema)
        answers = self._answers(groups, keys, columns, np.bincount(codes[is_row], minlength=len(keys)) > 0)
        has_answer = answers.rows[codes] >= 0
        rows = np.flatnonzero(is_row & has_answer)
        for piece in answers.pieces(codes[rows]):
            own = rows[piece]
            yield AppendedRows(self._rows(table, own, columns, codes[own], answers))
        failed = np.flatnonzero(is_row & ~has_answer)
        if len(failed):
            times = times_of(packed.take(pa.array(failed))) if self._step.has_event_time else None
            yield self._letters(table, failed, columns, codes[failed], answers.failures, times)

    def _answers(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, columns: list[pa.Array], has_rows: Bools
    ) -> BlockAnswers:
        """Return the answers of the keys (n,): that of the block before, remembered ones, new ones."""
        answers, size = BlockAnswers.none(self._schema, len(keys)), len(keys)
        is_known = ~has_rows
        carried = int(keys[0].as_py() == self._last_key)  # the number of keys that the block before has had
        if carried:
            is_known[0] = True
            if self._last.rows[0] >= 0:
                answers.add([0], self._last.of(np.zeros(1, np.int64)))
            else:
                answers.failures.update(self._last.failures)
        if self._remembered is not None:
            found, stored = self._remembered.read(groups[carried:], keys.slice(carried))
            answers.add(found + carried, stored)
            is_known[found + carried] = True
        new, fresh = self._ask(np.flatnonzero(~is_known), keys, columns, answers.failures)
        answers.add(new, fresh)
        if self._remembered is not None:
            self._remembered.write(groups[carried:], keys.slice(carried), new - carried, fresh)
        self._last_key = keys[size - 1].as_py()
        self._last = BlockAnswers.none(self._schema, 1)
        if answers.rows[-1] >= 0:
            self._last.add([0], answers.of(np.array([size - 1])))
        elif size - 1 in answers.failures:
            self._last.failures[0] = answers.failures[size - 1]
        return answers

    def _ask(
        self, wanted: npt.NDArray[np.intp], keys: pa.Array, columns: list[pa.Array], failures: dict[int, Exception]
    ) -> tuple[npt.NDArray[np.intp], list[pa.Array]]:
        """Send the requests of these keys. Return (the keys that have an answer, its columns), and add the failures."""
        if not len(wanted):
            return np.empty(0, np.intp), [pa.nulls(0, field.type) for field in self._schema]
        taken, step = pa.array(wanted), self._step
        records = python_records([column.take(taken) for column in columns], self._key_names)
        digests = [idempotency_key(step.operator_id, key) for key in keys.take(taken).to_pylist()]
        requests = [Request(record, digest) for record, digest in zip(records, digests, strict=True)]
        if self._asked is None:
            self._asked = _Service(step, is_backlog=self._is_backlog)
        outcomes = self._asked.outcomes(requests)
        given = {
            int(key): outcome
            for key, outcome in zip(wanted, outcomes, strict=True)
            if outcome is not None and not isinstance(outcome, Exception)
        }
        failed = {int(k): one for k, one in zip(wanted, outcomes, strict=True) if isinstance(one, Exception)}
        fitting, fresh, unfit = as_columns(given, self._schema)
        failed |= unfit
        if failed and step.on_error == "fail":
            first = min(failed)
            raise self._asked.error(failed[first], requests[int(np.searchsorted(wanted, first))], len(failed))
        failures |= failed
        return np.array(fitting, np.intp), fresh

    def _rows(
        self,
        table: pa.Table,
        rows: npt.NDArray[np.intp],
        columns: list[pa.Array],
        codes: Int64s,
        answers: BlockAnswers,
    ) -> pa.Table:
        taken, of_key = pa.array(rows), pa.array(codes)
        every = [
            *(column.take(of_key) for column in columns),
            *self._row_columns(table, taken),
            *answers.of(codes),
        ]
        return pa.table(every, names=[field.name for field in self._step.output_fields])

    def _row_columns(self, table: pa.Table, taken: pa.Array) -> list[pa.Array]:
        return [column_of(table, f"_a{index}").take(taken) for index in range(len(self._step.row_fields))]

    def _letters(
        self,
        table: pa.Table,
        rows: npt.NDArray[np.intp],
        columns: list[pa.Array],
        codes: Int64s,
        failures: Mapping[int, Exception],
        times_us: Int64s | None,
    ) -> SideRows:
        """Return the rows (n,) of requests that failed, as dead letters; `on-error: skip` only counts them."""
        taken, of_key = pa.array(rows), pa.array(codes)
        keys = python_records([column.take(of_key) for column in columns], self._key_names)
        names = [*self._key_names, *(field.name for field in self._step.row_fields)]
        every = [*(column.take(of_key) for column in columns), *self._row_columns(table, taken)]
        file = None if self._asked is None else self._asked.file
        letters: list[dict[str, Any]] = [
            {
                "operator": self._step.operator_id,
                "key": as_json(tuple(key.values()) if len(key) > 1 else next(iter(key.values()))),
                "record": as_json(record),
                "error": reason_of(failures[code], file),
                "time": None if times_us is None else int(times_us[number]),
            }
            for number, (key, record, code) in enumerate(
                zip(keys, python_records(every, names), codes.tolist(), strict=True)
            )
        ]
        tag = DEAD_LETTER_TAG if self._step.on_error == "dead-letter" else SKIPPED_TAG
        return SideRows(tag, to_table(letters, _LETTERS))


class _Service:
    """An opened function object, and its event loop."""

    def __init__(self, step: StepSettings, *, is_backlog: bool) -> None:
        self._step = step
        self._function: AsyncMapFunction = step.function.create()
        self.file = file_of(self._function)
        self._loop = EventLoop(step.calls.capacity)
        try:
            self._called("open", OpenContext(step.operator_id, is_backlog))
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                self.close()
            raise

    def outcomes(self, requests: list[Request]) -> list[Mapping[str, Any] | Exception | None]:
        """Return the outcome of each request; None: it was not sent, because another one ends the epoch."""
        is_strict = self._step.on_error == "fail"
        return self._loop.run(outcomes_of(self._function, requests, self._step.calls, is_strict=is_strict))

    def close(self) -> None:
        """Close the function and the loop."""
        try:
            self._called("close")
        finally:
            self._loop.close()

    def error(self, error: Exception, request: Request, requests_failed: int) -> Exception:
        """Return the error that ends the epoch."""
        step = self._step
        found = call_error(
            error, request, requests_failed, operator_id=step.operator_id, label=step.function.label, file=self.file
        )
        found.__cause__ = error
        return found

    def _called(self, method: str, *arguments: Any) -> None:
        step = self._step
        try:
            self._loop.run(getattr(self._function, method)(*arguments))
        except PASSED_THROUGH:
            raise
        except Exception as error:
            label = step.function.label
            raise lifecycle_error(
                error, operator_id=step.operator_id, label=label, file=self.file, method=method
            ) from error
