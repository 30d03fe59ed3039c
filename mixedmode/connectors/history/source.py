"""A history and its live continuation as one source: the union of two sources, each cut at the seam.

Both are in one streaming query, so Spark fixes the end of both together, one epoch reads both, and one manifest
commits both. The seam is a condition on each record, never on files or on the position where reading begins. So it
does not matter if a side has more than its part, or in what order its records arrive.

Invariants (tests/history/test_seam.py):
  I1  a record with a value in the seam's column is read from exactly one side, whichever sides have it
  I2  a record without a value is treated as the seam's `nulls` says; it is never skipped if that is `fail`
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.config.spelling import did_you_mean
from mixedmode.connectors.history.spec import HistoryAndLiveSpec, Side
from mixedmode.errors import InvalidJobError
from mixedmode.sources.dead_letters import HasDeadLetters
from mixedmode.sources.open import open_source
from mixedmode.sources.sides import UnitesSides, batches_of_sides, sides_of, streams_of_sides, united
from mixedmode.sources.source import Admission, ChecksBeginning, NotesBeginning, OpenSource

_IN_LOG: tuple[Side, Side] = ("history", "live")  # the order of their lines in Spark's log


def open_history_and_live(session: SparkSession, source: HistoryAndLiveSpec, *, where: str) -> "HistoryAndLive":
    """Return the source with both of its sides open. Raises InvalidJobError, beginning with `where` or a side of it."""
    sides = {side: open_source(session, one, where=f"{where}.{side}") for side, one in source.sides.items()}
    return HistoryAndLive(source, sides, where=where)


class HistoryAndLive(UnitesSides, ChecksBeginning, NotesBeginning, HasDeadLetters):
    """Two open sources, read as one."""

    def __init__(self, source: HistoryAndLiveSpec, sides: Mapping[Side, OpenSource], *, where: str) -> None:
        """`sides`: the two open sources.
        Raises InvalidJobError, beginning with `where`, if they differ in their columns.
        """
        self._source = source
        self._sides = sides
        self.schema = _common_schema(sides["history"].schema, sides["live"].schema, source, where=where)
        self._column = _seam_column({side: opened.schema for side, opened in sides.items()}, source, where=where)

    @override
    def batch_sides(self) -> tuple[DataFrame, ...]:
        return tuple(frame for side in _IN_LOG for frame in batches_of_sides(self._sides[side]))

    @override
    def stream_sides(self, admission: Admission) -> tuple[DataFrame, ...]:
        return tuple(
            frame for side in _IN_LOG for frame in streams_of_sides(self._sides[side], self._of(side, admission))
        )

    @override
    def united(self, sides: Sequence[DataFrame]) -> DataFrame:
        history, live = sides
        return self._cut("history", history).union(self._cut("live", live))

    @override
    def check_beginning(self) -> None:
        for opened in self._sides.values():
            if isinstance(opened, ChecksBeginning):
                opened.check_beginning()

    @override
    def notices(self) -> Iterator[str]:
        for opened in self._sides.values():
            if isinstance(opened, NotesBeginning):
                yield from opened.notices()

    @override
    def reads_once(self, path: str) -> bool:
        return any(isinstance(opened, NotesBeginning) and opened.reads_once(path) for opened in self._sides.values())

    @property
    @override
    def sides_in_log(self) -> tuple[OpenSource, ...]:
        return tuple(opened for side in _IN_LOG for opened in sides_of(self._sides[side]))

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the history or the live side reports a backlog."""
        return any(
            side.is_backlog(before[number : number + 1], now[number : number + 1])
            for number, side in enumerate(self.sides_in_log)
            if hasattr(side, "is_backlog")
        )

    @property
    @override
    def dead_letter_fields(self) -> tuple[pa.Field, ...]:
        """Return the fields of the live side, also for records from before the seam."""
        live = self._sides["live"]
        return live.dead_letter_fields if isinstance(live, HasDeadLetters) else ()

    def _of(self, side: Side, admission: Admission) -> Admission:
        """Return the admission of a side: the side's own limits apply if there is any limit at all;
        see Phases for the rest.

        A history with event time is read as a whole. Live records in the same epoch move the watermark past the seam,
        so all of the history that a later epoch would read is late.
        """
        if side == "history" and self._source.event_time is not None:
            return Admission()
        limits = self._source.sides[side].limits_per_epoch
        return Admission(**limits) if limits and admission != Admission() else admission

    def _cut(self, side: Side, frame: DataFrame) -> DataFrame:
        """Return the records of a side, with the columns of the whole source in its order."""
        frame = united(self._sides[side], [frame])
        if self._column is not None:
            frame = frame.where(self._is_of(side, F.col(quoted(self._column)).cast("timestamp")))
        there = {name.lower() for name in frame.columns}
        return frame.select(
            *(
                (F.col(quoted(field.name)) if field.name.lower() in there else F.lit(None).cast(field.dataType)).alias(
                    field.name
                )
                for field in self.schema
            )
        )

    def _is_of(self, side: Side, at: Column) -> Column:
        """Return whether a record of a side is read from that side."""
        seam = self._source.seam
        assert seam.timestamp is not None, "there is a column to compare it with"
        bound = F.expr(f"TIMESTAMP '{seam.timestamp.isoformat(sep=' ')}'")  # F.lit moves times before 1582 by days
        if seam.nulls == "fail":
            msg = (
                f"a record of the {side} side has no value in the column of the seam, so it cannot be told which side "
                "has to give it, and nothing was committed. Correct the record, or set the seam's `nulls` to history "
                f"or live. column={self._column}"
            )
            without = F.raise_error(F.lit(msg)).cast("boolean")
        else:
            without = F.lit(seam.nulls == side)
        return F.when(at.isNull(), without).otherwise(at < bound if side == "history" else at >= bound)


def _common_schema(history: StructType, live: StructType, source: HistoryAndLiveSpec, *, where: str) -> StructType:
    """Return the columns of the whole source: those of the history, then those that only the live side has.
    Case is ignored.
    """
    ours, theirs = _by_name(history), _by_name(live)
    problems = [
        f"{field.name} is {field.dataType.simpleString()} in the history and "
        f"{theirs[name].dataType.simpleString()} live"
        for name, field in ours.items()
        if name in theirs and field.dataType.simpleString().lower() != theirs[name].dataType.simpleString().lower()
    ]
    if source.missing_columns == "fail":
        problems += [f"{field.name} is in the history only" for name, field in ours.items() if name not in theirs]
        problems += [f"{field.name} is live only" for name, field in theirs.items() if name not in ours]
    if problems:
        msg = (
            f"{where}: the history and the live side have to have the same columns. Correct the `schema` of a side; "
            "where a column is missing on purpose, set missing-columns to nulls, and it is NULL in the records of that "
            f"side. differences={'; '.join(problems)}"
        )
        raise InvalidJobError(msg)
    return StructType([*ours.values(), *(field for name, field in theirs.items() if name not in ours)])


def _seam_column(sides: Mapping[Side, StructType], source: HistoryAndLiveSpec, *, where: str) -> str | None:
    """Return the seam's column, which both sides have; None for a seam of offsets."""
    wanted = source.seam_column
    if wanted is None:
        return None
    names = {_seam_field(schema, side, wanted, where=where) for side, schema in sides.items()}
    return min(names)  # the names differ only in case


def _seam_field(schema: StructType, side: Side, wanted: str, *, where: str) -> str:
    field = _by_name(schema).get(wanted.lower())
    if field is None:
        names: Sequence[str] = schema.names
        msg = (
            f"{where}: the {side} side has no column {wanted}, with which the seam's timestamp would be compared."
            f"{did_you_mean(wanted, names)} Columns there: {', '.join(names)}."
        )
        raise InvalidJobError(msg)
    if not isinstance(field.dataType, TimestampType | TimestampNTZType | DateType):
        msg = (
            f"{where}: the seam's timestamp can be compared with a timestamp or a date only. Name another column, or "
            f"give it the type timestamp in `schema`. column={wanted}, type={field.dataType.simpleString()}"
        )
        raise InvalidJobError(msg)
    return str(field.name)


def _by_name(schema: StructType) -> dict[str, StructField]:
    return {field.name.lower(): field for field in schema}
