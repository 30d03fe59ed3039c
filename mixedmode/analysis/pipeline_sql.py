"""The queries of a pipeline's SQL files, as far as its Python functions read them: their columns and event times."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import items_of
from mixedmode.analysis.from_stream import NamedRows
from mixedmode.config.pipeline_project import PipelineProject
from mixedmode.config.sql_job import SqlJob
from mixedmode.config.sql_queries import Read
from mixedmode.durations import parse_duration_ms
from mixedmode.spark.errors import REFUSALS, spark_text
from mixedmode.spark.frames import stand_in_of, views

__all__ = ["PipelineSql"]

_DELAY = "spark.watermarkDelayMs"  #: Spark's mark of a column with a watermark


class PipelineSql:
    """The queries of SQL files.  named: {name in lower case: the rows} of those whose columns were asked for."""

    def __init__(self, session: SparkSession, project: PipelineProject, job: SqlJob) -> None:
        self.named = dict[str, NamedRows]()
        self._session = session
        self._project = project
        self._job = job

    def columns(self, name: str, stream_of: Callable[[str], DataFrame]) -> StructType:
        """Return the columns of a query.  stream_of: returns a stream of the columns of another query, by its name.

        Raise InvalidJobError for SQL that Spark refuses.
        """
        query = self._job.queries[name]
        frames = {read.name: self._frame(read, stream_of) for read in query.query.reads}
        try:
            with views(self._session, frames):
                found = self._session.sql(query.query.sql)
                plan = analysed(found)
        except REFUSALS as error:
            text = f"query {query.name}: {spark_text(error)}"
            raise self._project.refusal([(query.line, text)]) from error
        timed = {str(one.name()): one.metadata() for one in items_of(plan.output()) if one.metadata().contains(_DELAY)}
        delays_ms = frozenset(int(metadata.getLong(_DELAY)) for metadata in timed.values())
        self.named[name] = NamedRows(query.name, frozenset(timed), delays_ms)
        return found.schema

    def _frame(self, read: Read, stream_of: Callable[[str], DataFrame]) -> DataFrame:
        name = read.name.lower()
        view = self._job.views.get(name)
        if view is None:
            frame = stream_of(name)
            known = self.named.get(name)
            for column in () if known is None else known.times:
                assert known is not None, name
                frame = frame.withWatermark(column, f"{max(known.delays_ms)} milliseconds")
            return frame
        if view.columns is None:
            text = (
                "functions of Python read what a query makes of this view, so its columns have to be known before. "
                f"Write them after its name. view={view.name}"
            )
            raise self._project.refusal([(view.line, text)])
        columns = StructType.fromDDL(view.columns)
        assert isinstance(columns, StructType), view.columns
        frame = stand_in_of(self._session, columns)
        time = self._job.event_times.get(name)
        if time is None:
            return frame
        if time.expression is not None:
            frame = frame.selectExpr("*", f"{time.expression} AS {time.column}")
        return frame.withWatermark(time.column, f"{parse_duration_ms(time.delay)} milliseconds")
