"""A source with columns that SQL makes of those of a record, such as an event time of a number of milliseconds.

They are computed where Spark reads the source, or where tasks read its files (analysis/direct_reads.py), before
everything else: watermark, seam and steps see them as columns of the source.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.calls import named
from mixedmode.errors import InvalidJobError
from mixedmode.sources.dead_letters import HasDeadLetters
from mixedmode.sources.sides import UnitesSides, batches_of_sides, sides_of, streams_of_sides, united
from mixedmode.sources.source import Admission, ChecksBeginning, NotesBeginning, OpenSource
from mixedmode.spark.errors import REFUSALS, refused_expression
from mixedmode.spark.frames import stand_in_of

__all__ = ["ComputedColumns"]


class ComputedColumns(UnitesSides, ChecksBeginning, NotesBeginning, HasDeadLetters):
    """An open source, and its computed columns after its own."""

    def __init__(self, session: SparkSession, source: OpenSource, columns: Mapping[str, str], *, where: str) -> None:
        """Store the source.  columns: {name: SQL expression over the columns of the source}.

        Raise InvalidJobError with a line, beginning with `where`, for each name that the source has, and for each SQL
        that Spark refuses.
        """
        self._source = source
        self._columns = [named(text, name) for name, text in columns.items()]
        frame, fields = stand_in_of(session, source.schema), list(source.schema)
        own = {name.lower() for name in source.schema.names}
        wrong = []
        for name, text in columns.items():
            place = f"{where}.computed-columns.{name}"
            if name.lower() in own:
                wrong.append(f"{place}: the source has a column of this name (case does not count). Choose another.")
                continue
            try:
                fields += frame.selectExpr(named(text, name)).schema
            except REFUSALS as error:
                wrong.append(str(refused_expression(place, text, error)))
        if wrong:
            raise InvalidJobError("\n".join(wrong))
        self.schema = StructType(fields)

    @override
    def batch_sides(self) -> tuple[DataFrame, ...]:
        return batches_of_sides(self._source)

    @override
    def stream_sides(self, admission: Admission) -> tuple[DataFrame, ...]:
        return streams_of_sides(self._source, admission)

    @override
    def united(self, sides: Sequence[DataFrame]) -> DataFrame:
        return self._computed(united(self._source, sides))

    @property
    @override
    def sides_in_log(self) -> tuple[OpenSource, ...]:
        return sides_of(self._source)

    @override
    def check_beginning(self) -> None:
        if isinstance(self._source, ChecksBeginning):
            self._source.check_beginning()

    @override
    def notices(self) -> Iterator[str]:
        if isinstance(self._source, NotesBeginning):
            yield from self._source.notices()

    @override
    def reads_once(self, path: str) -> bool:
        return isinstance(self._source, NotesBeginning) and self._source.reads_once(path)

    def is_backlog(self, before: Sequence[str], now: Sequence[str]) -> bool:
        """Return whether the source reports a backlog."""
        return hasattr(self._source, "is_backlog") and bool(self._source.is_backlog(before, now))

    @property
    @override
    def dead_letter_fields(self) -> tuple[pa.Field, ...]:
        return self._source.dead_letter_fields if isinstance(self._source, HasDeadLetters) else ()

    def _computed(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("*", *self._columns)
