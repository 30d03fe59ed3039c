"""The queries of a pipeline's SQL files, as far as its Python functions read them: their columns and event times."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import items_of
from mixedmode.analysis.catalyst_plans import rows_of_text
from mixedmode.analysis.from_stream import NamedRows
from mixedmode.analysis.pipeline_changes import changed_rows
from mixedmode.config import ApplyChangesStep
from mixedmode.config.document import path_text
from mixedmode.config.load import checked_section
from mixedmode.config.pipeline_project import PipelineProject
from mixedmode.config.sql_changes import Changes
from mixedmode.config.sql_job import SqlJob
from mixedmode.config.sql_statements import View
from mixedmode.durations import parse_duration_ms
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import REFUSALS, spark_text
from mixedmode.spark.frames import stand_in_of
from mixedmode.spark.temporary_views import views

__all__ = ["PipelineSql"]

_DELAY = "spark.watermarkDelayMs"  #: Spark's mark of a column with a watermark


class PipelineSql:
    """The queries of SQL files.  stream_of: returns a stream of the columns of a query of the pipeline, by its name."""

    def __init__(self, session: SparkSession, project: PipelineProject, job: SqlJob) -> None:
        self.stream_of: Callable[[str], DataFrame]
        self._session = session
        self._project = project
        self._job = job

    def has(self, name: str) -> bool:
        """Return whether a SQL file has the query.  name: in lower case."""
        return name in self._job.queries

    def columns(self, name: str) -> StructType:
        """Return the columns of a query. Raise InvalidJobError for SQL that Spark refuses."""
        return self._frame(name, {}).schema

    def rows(self, name: str, known: Mapping[str, NamedRows]) -> NamedRows:
        """Return the rows of a query for its readers.  known: those of functions that it reads."""
        if self._job.queries[name].changes is not None:  # rows that change have no event time
            return NamedRows(self._job.queries[name].name, frozenset(), frozenset())
        timed: dict[str, Any] = {}
        for column in items_of(analysed(self._frame(name, known)).output()):
            if column.metadata().contains(_DELAY):
                timed[str(column.name())] = column.metadata().getLong(_DELAY)
        return NamedRows(self._job.queries[name].name, frozenset(timed), frozenset(map(int, timed.values())))

    def _frame(self, name: str, known: Mapping[str, NamedRows]) -> DataFrame:
        """Return a query over streams without rows. Columns of event time have their watermarks."""
        query = self._job.queries[name]
        frames = {read.name: self._input(read.name.lower(), known) for read in query.query.reads}
        try:
            with views(self._session, frames):
                rows = rows_of_text(self._session, query.query.sql)
                return rows if query.changes is None else changed_rows(_step_of(query.changes), rows)
        except (InvalidJobError, *REFUSALS) as error:
            cause = error if isinstance(error, InvalidJobError) else spark_text(error)
            text = f"query {query.name}: {cause}"
            raise self._project.refusal([(query.line, text)]) from error

    def _input(self, name: str, known: Mapping[str, NamedRows]) -> DataFrame:
        view = self._job.views.get(name)
        if view is not None:
            return self._records(name, view)
        rows = self.rows(name, known) if self.has(name) else known.get(name)
        frame = self.stream_of(name)
        if rows is not None:
            for column in rows.times:
                frame = frame.withWatermark(column, f"{max(rows.delays_ms)} milliseconds")
        return frame

    def _records(self, name: str, view: View) -> DataFrame:
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


def _step_of(changes: Changes) -> ApplyChangesStep:
    """Return the step of a flow of changes."""
    values = {"key-by": list(changes.keys), "apply-changes": changes.settings}
    return checked_section(ApplyChangesStep, values, place="AUTO CDC", name=path_text)
