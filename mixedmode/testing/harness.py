"""The harness: one keyed step, epoch by epoch, in one process, with the code that runs in a job.

A test says what the step meets: records, a watermark, time passing, the flip, a checkpoint, a restart. Operators,
sorter, key groups, backends and watermarks are those of a job. Only Spark, RocksDB and files are left out.

Invariants (tests/testing/test_harness.py):
  I1  an epoch that fails changes nothing
  I2  parallelism, slices, and snapshot and restore at any place never change an answer
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

import pyarrow as pa
from sortedcontainers import SortedDict

from mixedmode.connectors.calls import Duration
from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.process import SKIPPED_TAG
from mixedmode.testing.epoch import Place, run_epoch
from mixedmode.testing.moment import Moment
from mixedmode.testing.outputs import Outputs, Row
from mixedmode.testing.settings import HarnessArguments, Instant, Settings, duration_ms, instant_us
from mixedmode.testing.snapshot import Snapshot, decode_table, encode_state_schema, encode_table
from mixedmode.testing.step import Rows, Step
from mixedmode.time import MIN_TIME_US


class Harness:
    """A keyed step between its epochs; instantiate one of the subclasses.

    Each call of `feed`, `advance_watermark`, `advance_clock` or `end` is an epoch. In backlog these calls only collect,
    and `flip` runs the epoch (or `end`, as in batch mode).
    """

    def __init__(self, step: Step, given: HarnessArguments) -> None:
        self._step = step
        self._settings = Settings.of(given, where=step.where)
        if self._settings.out_of_orderness_us is not None and step.event_time is None:
            msg = (
                f"{step.where}: out_of_orderness says how far the watermark is behind the event times, and there are "
                "none. Set event_time to a column of the schema, or remove it."
            )
            raise InvalidJobError(msg)
        self._begin(Moment.initial(self._settings.clock // 1000), is_backlog=self._settings.backlog)

    def _begin(
        self,
        moment: Moment,
        *,
        is_backlog: bool,
        entries: Iterable[tuple[bytes, bytes]] = (),
        table: Sequence[Row] = (),
    ) -> None:
        self._moment = moment
        self._entries = SortedDict(entries)  #: {stored key: value}, of all subtasks
        self._is_over = False
        self._is_backlog = is_backlog
        self._collected: list[pa.Table] = []  #: records of the backlog
        self._backlog_us = MIN_TIME_US  #: the watermark that the test set in the backlog
        keys = [field.name for field in self._step.operator.output_key]
        fires_once = self._settings.end_of_key_watermark != "max"  # else late windows fire again as new windows
        self._outputs = Outputs(keys, is_strict=fires_once, table=table)

    # --- events -------------------------------------------------------------------------------------------------------

    def feed(self, rows: Rows, *, watermark: Instant | None = None, after: Duration = 0) -> None:
        """Run one epoch over these records; in backlog, only add them to it.

        rows: {column: value} each, or a pyarrow.Table. A column that is left out is NULL. A timestamp may be an int of
            microseconds since 1970.
        watermark: the watermark at the end of this epoch, as for `advance_watermark`. The watermark before it decides
            whether these records are late.
        after: the time that passes before the epoch, as for `advance_clock`.

        Raises what a job would raise; the harness is then unchanged.
        """
        self._check_goes_on()
        table = self._step.table(rows)
        later_ms = self._moment.clock_ms + duration_ms(after, where=f"{self._step.where}: after")
        to_us = self._checked_watermark(watermark)
        if self._is_backlog:
            self._collected.append(table)
            self._backlog_us = max(self._backlog_us, to_us)
            self._moment = replace(self._moment, clock_ms=later_ms)
        else:
            self._run(table, replace(self._moment, clock_ms=later_ms), to_us)

    def advance_watermark(self, to: Instant) -> None:
        """Run an epoch without records that advances the watermark to `to`. Whatever is due by event time fires."""
        self.feed([], watermark=instant_us(to, where=f"{self._step.where}: watermark"))

    def advance_clock(self, by: Duration) -> None:
        """Run an epoch without records, `by` later. Whatever is due by processing time fires."""
        self.feed([], after=by)

    def start_backlog(self) -> None:
        """Begin another backlog, as after an outage.

        Records are collected until `flip`, which runs them over the present state.
        """
        self._check_goes_on()
        if self._is_backlog:
            msg = f"{self._step.where}: this harness is in backlog already. Call flip() first."
            raise InvalidJobError(msg)
        self._is_backlog = True

    def flip(self) -> None:
        """End the backlog: run its records as one epoch, sorted by key. Live epochs then use its state."""
        self._check_goes_on()
        if not self._is_backlog:
            msg = (
                f"{self._step.where}: there is no backlog to end. Make the harness with backlog=True, or call "
                "start_backlog() before you feed."
            )
            raise InvalidJobError(msg)
        self._run_backlog(fires_all=self._settings.end_of_key_watermark == "max")

    def end(self) -> None:
        """End the input: run a last epoch, in which everything fires. A first backlog is run as in batch mode."""
        self._check_goes_on()
        if self._is_backlog and self._moment.was_backlog is None:
            self._run_backlog(fires_all=True, is_kept=False)
        else:
            if self._is_backlog:
                self.flip()
            self._run(self._step.table([]), self._moment, MIN_TIME_US, fires_all=True)
        self._is_over = True

    def snapshot(self) -> bytes:
        """Return what a checkpoint would hold now, and the rows of `table()`, for `restore`.

        A checkpoint holds the state, the watermark and the clock.
        """
        if self._is_backlog:
            msg = f"{self._step.where}: there are no checkpoints in backlog. Call flip() first."
            raise InvalidJobError(msg)
        table = pa.Table.from_pylist(self.table(), schema=pa.schema(list(self._step.operator.output_fields)))
        return Snapshot(
            identity=dict(self._step.identity),
            state_schema=encode_state_schema(self._step.operator),
            max_parallelism=self._settings.max_parallelism,
            moment=self._moment,
            entries=list(self._entries.items()),
            table=encode_table(table),
        ).encode()

    def restore(self, snapshot: bytes, *, parallelism: int | None = None) -> Self:
        """Return another harness of this step that continues from a snapshot of this step.

        The snapshot may come from this harness or from another one.
        parallelism: the new harness's; by default this harness's. The new harness shares no state with this one.
        Raises InvalidJobError for state of another step, with other key groups, or of types that cannot be read.
        Raises CorruptStateError for bytes that are not a snapshot.
        """
        found = Snapshot.decode(snapshot)
        found.check(self._step, max_parallelism=self._settings.max_parallelism)
        other = copy.copy(self)
        other._settings = self._settings.at(parallelism, where=self._step.where)  # noqa: SLF001 - it is of this class
        rows = decode_table(found.table).to_pylist()
        other._begin(found.moment, is_backlog=False, entries=found.entries, table=rows)  # noqa: SLF001 - as above
        return other

    # --- results ------------------------------------------------------------------------------------------------------

    def take(self) -> list[Row]:
        """Return the rows of the main output since the last call.

        Rows of an aggregate have `_op`: insert, update or delete. Rows of one key are in the order in which they were
        emitted.
        """
        return self._outputs.take()

    def table(self) -> list[Row]:
        """Return the current rows of the main output. An aggregate has one row per key, or per key and window."""
        return self._outputs.table()

    def side(self, tag: str) -> list[Row]:
        """Return the rows of the side output `tag` since the last call.

        The tags `dead-letter` and `skipped` have the records on which the function failed.
        Raises InvalidJobError for an unknown tag.
        """
        tags = [*self._step.operator.side_outputs, SKIPPED_TAG]
        if tag not in tags:
            msg = f"{self._step.where}: the step has no side output {tag!r}. It has {', '.join(tags)}."
            raise InvalidJobError(msg)
        return self._outputs.take_side(tag)

    def late(self) -> list[Row]:
        """Return the records since the last call that were late for all their windows."""
        return self._outputs.take_late()

    @property
    def records_late(self) -> int:
        """The number of records that were late for all their windows, since the beginning."""
        return self._moment.records_late

    @property
    def records_skipped(self) -> int:
        """The number of records that `on_error="skip"` left out, since the beginning."""
        return self._moment.records_skipped

    @property
    def watermark(self) -> int:
        """The watermark after the last epoch, in microseconds since 1970; process.MIN_WATERMARK before any epoch."""
        return self._moment.watermark_us

    @property
    def clock(self) -> int:
        """Processing time, in microseconds since 1970."""
        return self._moment.clock_ms * 1000

    @property
    def is_backlog(self) -> bool:
        """True while records are collected until `flip`."""
        return self._is_backlog

    @property
    def state_entries(self) -> int:
        """The number of entries of the state (keys, windows, timers); 0 when nothing is kept."""
        return len(self._entries)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _run_backlog(self, *, fires_all: bool, is_kept: bool = True) -> None:
        table = pa.concat_tables([self._step.table([]), *self._collected])
        place = Place(self._entries, is_sorted=self._moment.was_backlog is None, is_kept=is_kept)
        self._run(table, self._moment, self._backlog_us, fires_all=fires_all, backlog=place)
        self._is_backlog = False
        self._collected, self._backlog_us = [], MIN_TIME_US

    def _run(
        self, table: pa.Table, now: Moment, to_us: int, *, fires_all: bool = False, backlog: Place | None = None
    ) -> None:
        """Run an epoch: a live one, or a backlog whose state goes to `backlog`. Its watermark is at least `to_us`."""
        is_backlog, times_us = backlog is not None, self._step.times_us(table)
        now = now.with_records(times_us, self._settings.out_of_orderness_us).reaching(to_us)
        output = run_epoch(
            self._step,
            self._operator(is_backlog=is_backlog),
            table,
            now.epoch_time(
                self._moment,
                is_backlog=is_backlog,
                fires_all=fires_all,
                is_final=fires_all and (backlog is None or not backlog.is_kept),
            ),
            self._settings,
            backlog or Place(self._entries, is_sorted=False),
            self._moment.epochs,
        )
        self._outputs.add(output)
        self._moment = now.at_end(
            is_backlog=is_backlog,
            late=sum(late.num_rows for late in output.late),
            skipped=sum(skipped.num_rows for skipped in output.sides.get(SKIPPED_TAG, ())),
        )

    def _operator(self, *, is_backlog: bool) -> KeyedOperator:
        operator = self._step.operator
        gives_all = is_backlog and self._settings.backlog_emit == "all"
        if gives_all and operator.traits.can_emit_running_results:
            return replace(operator, emits_running_results=True)  # type: ignore[type-var]
        return operator

    def _checked_watermark(self, to: Instant | None) -> int:
        if to is None:
            return MIN_TIME_US
        to_us, reached_us = (
            instant_us(to, where=f"{self._step.where}: watermark"),
            max(self.watermark, self._backlog_us),
        )
        if to_us < reached_us:
            msg = (
                f"{self._step.where}: a watermark never goes back. Advance it to a later time. to={to_us}, "
                f"watermark={reached_us}"
            )
            raise InvalidJobError(msg)
        return to_us

    def _check_goes_on(self) -> None:
        if self._is_over:
            msg = f"{self._step.where}: the input of this harness has ended. Make another one, or restore a snapshot."
            raise InvalidJobError(msg)
