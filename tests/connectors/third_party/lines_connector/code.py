"""The source and the sink themselves."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.staged import StagedSink
from mixedmode.sources.source import Admission, OpenSource

from .kind import LinesSinkSpec, LinesSourceSpec


class LinesSource(OpenSource):
    """Lines of text, read by Spark."""

    def __init__(self, session: SparkSession, source: LinesSourceSpec, *, where: str) -> None:
        """`where`: the start of messages; nothing can be wrong here."""
        assert where
        self._session = session
        self._path = source.path
        self.schema = StructType().add(source.column_name, StringType())

    @override
    def batch(self) -> DataFrame:
        return self._session.read.text(self._path).toDF(*self.schema.names)

    @override
    def stream(self, admission: Admission) -> DataFrame:
        return self._session.readStream.text(self._path).toDF(*self.schema.names)


class LinesSink(StagedSink):
    """Writes the rows of an epoch to a file of its own, which a repeat replaces."""

    def __init__(self, sink: LinesSinkSpec, context: SinkContext) -> None:
        """Store the settings; access nothing outside."""
        super().__init__(context.staging)
        self._folder = Path(sink.path)
        self._separator = sink.separator

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        rows = [row for batch in self.staged_rows(staged) for row in batch.to_pylist()] if staged else []
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = sorted(self._separator.join(map(str, row.values())) for row in rows)
        (self._folder / f"{epoch}.txt").write_text("".join(f"{line}\n" for line in lines))
        self.delete_staged(staged)
