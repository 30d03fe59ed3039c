"""The harness: one keyed step, epoch by epoch, in one process, with the code that runs in a job.

The one idea: a test says what a job would meet: records of an epoch, a watermark, time passing, the flip, a checkpoint,
a restart. The rest is the engine's: operators, sorter, key groups, backends and watermarks are those of a job; only
Spark, RocksDB and files are left out.

Invariants (tests/testing/test_harness.py):
  I1  an epoch that fails changes nothing
  I2  neither parallelism, nor slices, nor snapshot and restore at any place, change an answer
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

import pyarrow as pa
from sortedcontainers import SortedDict

from mixedmode.errors import InvalidJobError
from mixedmode.job.arguments import Duration
from mixedmode.keys.groups import check_parallelism
from mixedmode.operators.aggregate import AggregateOperator
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
    """A keyed step between its epochs. Make one of the classes that derive from this one.

    Each of `feed`, `advance_watermark`, `advance_clock` and `end` is an epoch. In backlog they only collect, and the
    epoch is run by `flip` (or, as in batch, by `end`).
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
        self._begin(Moment.initial(self._settings.clock_ms), is_backlog=self._settings.is_backlog)

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
        self._backlog_us = MIN_TIME_US  #: the watermark that the backlog was given
        keys = [field.name for field in self._step.operator.output_key]
        fires_once = self._settings.end_of_key_watermark != "max"  # else late windows fire again, as if they were new
        self._outputs = Outputs(keys, is_strict=fires_once, table=table)

    # --- what happens -------------------------------------------------------------------------------------------------

    def feed(self, rows: Rows, *, watermark: Instant | None = None, after: Duration = 0) -> None:
        """One epoch over these records, in backlog a part of it.

        rows: {column: value} each; a column that is left out is NULL, a timestamp may be an int of microseconds. Or a
        pyarrow.Table. watermark: as `advance_watermark`, but of the epoch of these records, which are judged late by
        the watermark before. after: as `advance_clock`, before the epoch begins.
        Raises what a job raises; then nothing has changed.
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
        """An epoch without records, in which the watermark comes to `to`: what is due by event time fires."""
        self.feed([], watermark=to)

    def advance_clock(self, by: Duration) -> None:
        """An epoch without records, so much later: what is due by processing time fires."""
        self.feed([], after=by)

    def start_backlog(self) -> None:
        """From now on records are backlog, as after an outage: collected until `flip`, over the state that there is."""
        self._check_goes_on()
        if self._is_backlog:
            msg = f"{self._step.where}: this harness is in backlog already. Call flip() first."
            raise InvalidJobError(msg)
        self._is_backlog = True

    def flip(self) -> None:
        """The end of the backlog: its records become one epoch, sorted by key, whose state the live epochs find."""
        self._check_goes_on()
        if not self._is_backlog:
            msg = (
                f"{self._step.where}: there is no backlog to end. Make the harness with backlog=True, or call "
                "start_backlog() before you feed."
            )
            raise InvalidJobError(msg)
        self._run_backlog(fires_all=self._settings.end_of_key_watermark == "max")

    def end(self) -> None:
        """The input has ended: a last epoch, in which everything fires. A first backlog is run as batch mode would."""
        self._check_goes_on()
        if self._is_backlog and self._moment.was_backlog is None:
            self._run_backlog(fires_all=True, is_kept=False)
        else:
            if self._is_backlog:
                self.flip()
            self._run(self._step.table([]), self._moment, MIN_TIME_US, fires_all=True)
        self._is_over = True

    def snapshot(self) -> bytes:
        """What a checkpoint holds now: state, watermark, clock; and the rows of `table()`. For `restore`."""
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
        """Another harness of this step, that goes on from a snapshot: of this harness, or of another one of the step.

        Raises InvalidJobError for state of another step, under other key groups, or of types that cannot be read;
        CorruptStateError for what is no snapshot. Nothing of this harness's own state is in the new one.
        """
        found = Snapshot.decode(snapshot)
        found.check(self._step, max_parallelism=self._settings.max_parallelism)
        subtasks = self._settings.parallelism if parallelism is None else parallelism
        check_parallelism(subtasks, found.max_parallelism)
        other = copy.copy(self)
        other._settings = replace(self._settings, parallelism=subtasks)  # noqa: SLF001 - it is of this class
        rows = decode_table(found.table).to_pylist()
        other._begin(found.moment, is_backlog=False, entries=found.entries, table=rows)  # noqa: SLF001 - as above
        return other

    # --- what has come of it ------------------------------------------------------------------------------------------

    def take(self) -> list[Row]:
        """Rows of the main output since the last call; of an aggregate with `_op`: insert, update or delete.

        Rows of one key are in the order in which they were given.
        """
        return self._outputs.take()

    def table(self) -> list[Row]:
        """All rows of the main output as a reader sees them now: an aggregate's are one per key, or key and window."""
        return self._outputs.table()

    def side(self, tag: str) -> list[Row]:
        """Rows of the side output `tag` since the last call; `dead-letter` and `skipped` are records that failed."""
        tags = [*self._step.operator.side_outputs, SKIPPED_TAG]
        if tag not in tags:
            msg = f"{self._step.where}: the step has no side output {tag!r}. It has {', '.join(tags)}."
            raise InvalidJobError(msg)
        return self._outputs.take_side(tag)

    def late(self) -> list[Row]:
        """Records since the last call that came too late for all of their windows."""
        return self._outputs.take_late()

    @property
    def records_late(self) -> int:
        """How many records came too late for all of their windows, since the beginning."""
        return self._moment.records_late

    @property
    def records_skipped(self) -> int:
        """How many records were left out by `on_error="skip"`, since the beginning."""
        return self._moment.records_skipped

    @property
    def watermark(self) -> int:
        """The watermark after the last epoch, in microseconds since 1970; process.MIN_WATERMARK before it has begun."""
        return self._moment.watermark_us

    @property
    def clock(self) -> int:
        """Processing time, in microseconds since 1970."""
        return self._moment.clock_ms * 1000

    @property
    def is_backlog(self) -> bool:
        """Whether records are being collected until `flip`."""
        return self._is_backlog

    @property
    def state_entries(self) -> int:
        """How many entries the state has: keys, windows, timers; 0 when nothing is kept."""
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
        """An epoch: a live one, unless `backlog` is where its state goes. The watermark comes at least to `to_us`."""
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
        if gives_all and isinstance(operator, AggregateOperator) and not operator.is_changelog:
            return replace(operator, emits_running_results=True)
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
