"""The DataFrames of a pipeline's functions. A table that one reads is an empty one of a database of its own.

Spark itself resolves `spark.readStream.table("orders")` then, in the session without Connect, and the plan ends at the
table. If a function reads a table that does not exist yet, the function of that table is called first, and then it is
called again; so the order of the definitions does not matter, as in Spark.

A materialized view reads tables of the pipeline as a whole. Here it keeps up with them instead, so its function gets
streams under the names of the tables.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import items_of, kind_of
from mixedmode.analysis.pipeline_registry import PipelineQuery, Registry, user_error, without_actions
from mixedmode.analysis.stream_source import LEAVES, TABLE
from mixedmode.config.pipeline_project import PipelineProject
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import REFUSALS, condition, spark_text
from mixedmode.spark.temporary_views import set_view, views

__all__ = ["PipelineQueries"]

_Java = Any  # an object of the JVM

_DATABASE = "mixedmode_pipeline"
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_NAME = re.compile(r"`?(\w+)`?")


class PipelineQueries:
    """The queries of a pipeline as DataFrames.

    frames: {name in lower case: DataFrame} of functions, each after those that it reads. Views of files alone are not
    in it: they are dimensions, whose plan is in those of their readers. views: the names of those that read tables of
    the pipeline as a whole. flows: {table: the names of its functions}.
    others: {name in lower case: what returns the columns} of queries that are no functions.
    """

    def __init__(
        self,
        session: SparkSession,
        project: PipelineProject,
        registry: Registry,
        folder: Path,
    ) -> None:
        """Begin.  folder: an empty one, for tables. The database exists in a `with` block."""
        self.frames = dict[str, DataFrame]()
        self.views = set[str]()
        self.flows = dict[str, list[str]]()
        for name, query in registry.queries.items():
            self.flows.setdefault((query.table or query.name).lower(), []).append(name)
        self._session = session
        self._project = project
        self._registry = registry
        self._folder = folder
        self.others = dict[str, Callable[[], StructType]]()
        self._declared = set[str]()  # those that exist in the database
        self._tables = set[str]()  # views of files
        self._open = list[str]()

    def __enter__(self) -> Self:
        """Create the database."""
        self._session.sql(f"CREATE DATABASE {_DATABASE} LOCATION '{self._folder.as_uri()}'")
        self._session.catalog.setCurrentDatabase(_DATABASE)
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the database."""
        self._session.catalog.setCurrentDatabase("default")
        self._session.sql(f"DROP DATABASE {_DATABASE} CASCADE")

    def call(self) -> None:
        """Call all functions.

        Raise InvalidJobError for an exception in a function, and for a query that a job cannot take.
        """
        for name in self._registry.queries:
            self._add(name)

    def stream_of(self, name: str) -> DataFrame:
        """Return a stream of the columns of a table or view, without rows. Raises as `call`."""
        self._declare(name.lower())
        return self._session.readStream.table(f"{_DATABASE}.`{name}`")

    def is_of_files(self, name: str) -> bool:
        """Return whether this is a view of files alone."""
        return name.lower() in self._tables

    def table_of(self, leaf: _Java) -> str | None:
        """Return the name, in lower case, of the table of the pipeline that a node of a plan reads."""
        relation = leaf.dataSource() if kind_of(leaf) == "StreamingRelation" else leaf
        if kind_of(leaf) not in {"StreamingRelation", TABLE} or not relation.catalogTable().isDefined():
            return None
        found = relation.catalogTable().get().identifier()
        return str(found.table()).lower() if str(found.database().get()) == _DATABASE else None

    def refuse(self, query: PipelineQuery, text: str) -> NoReturn:
        """Raise the error of a function."""
        raise self._project.refusal([(query.line, f"{query.kind} {query.name}: {text}")])

    def _declare(self, name: str) -> None:
        """Let a table or view of the pipeline exist for functions.  name: in lower case."""
        if name in self._declared or name in self._tables:
            return
        if name in self.others:
            self._create(name, self.others[name]())
            return
        for flow in self.flows[name]:
            self._add(flow)
        if name in self._tables:
            return
        flow = self.flows[name][0]
        try:
            self._create(name, self.frames[flow].schema)
        except REFUSALS as error:
            text = "other queries read this one, and a column has a type that no table has. CAST it."
            self.refuse(self._registry.queries[flow], f"{text} cause={spark_text(error)}")

    def _create(self, name: str, columns: StructType) -> None:
        place = self._folder / name
        place.mkdir(parents=True)
        self._session.sql(
            f"CREATE TABLE {_DATABASE}.`{name}` ({columns.toDDL()}) USING parquet LOCATION '{place.as_uri()}'"
        )
        self._declared.add(name)

    def _add(self, name: str) -> None:
        """Call a function, unless that is done."""
        if name in self.frames or name in self._tables:
            return
        query = self._registry.queries[name]
        if name in self._open:
            names = ", ".join(self._open[self._open.index(name) :])
            self.refuse(
                query, f"these queries read each other, so none can be first. Break the circle. queries={names}"
            )
        self._open.append(name)
        frame = self._called(query, is_batch=query.is_batch)
        leaves = list(items_of(analysed(frame).collectLeaves()))
        read = [self.table_of(leaf) for leaf in leaves]
        if query.table is None and not frame.isStreaming:
            if not any(read):
                set_view(self._session, query.name, frame)
                self._tables.add(name)
                self._open.pop()
                return
            self._check_view(query, leaves, read)
            frame = self._called(query, is_batch=True)
            self.views.add(name)
        elif query.is_batch:
            self.views.add(name)
            self._check_view(query, leaves, read)
        else:
            self._check_stream(query, frame, leaves, read)
        self.frames[name] = frame
        self._open.pop()

    def _called(self, query: PipelineQuery, *, is_batch: bool) -> DataFrame:
        """Return what a function returns. Tables that it reads are declared first.  is_batch: it gets streams."""
        while True:
            try:
                with self._streams(is_asked=is_batch), without_actions():
                    found = query.function()
            except (Exception, SystemExit) as error:
                missing = self._missing(error)
                if missing is not None and missing.lower() in {*self.flows, *self.others}:
                    self._declare(missing.lower())
                    continue
                told = error
                if missing is not None:
                    near = did_you_mean(missing, [*self.flows, *self.others])
                    msg = f"the pipeline has no table or view of this name.{near} found={missing}"
                    told = InvalidJobError(msg).with_traceback(error.__traceback__)
                what = f"{query.kind} {query.name}: "
                raise user_error(self._project, told, what, query.line) from error
            if not isinstance(found, DataFrame):
                self.refuse(query, f"the function returns no DataFrame. Return one. found={type(found).__name__}")
            return found

    def _missing(self, error: BaseException) -> str | None:
        """Return the name of a table, of one part, that an exception says does not exist."""
        if condition(error) != _NOT_FOUND:
            return None
        name = _NAME.fullmatch(str(error.getMessageParameters().get("relationName", "")))  # type: ignore[attr-defined]
        return None if name is None or name[1].lower() in {*self._declared, *self._tables} else name[1]

    @contextmanager
    def _streams(self, *, is_asked: bool) -> Iterator[None]:
        """Let the names of all tables mean streams of them while the block runs, also without readStream."""
        names = self._declared if is_asked else ()
        frames = {name: self._session.readStream.table(f"{_DATABASE}.`{name}`") for name in names}
        with views(self._session, frames):
            yield

    def _check_view(self, query: PipelineQuery, leaves: list[_Java], read: list[str | None]) -> None:
        """Refuse a materialized view that reads more than tables of the pipeline."""
        if None in read:
            self.refuse(
                query,
                "a batch query reads tables of the pipeline here, and keeps up with them; it is not computed "
                "anew when files change. Read records with spark.readStream in a table, and tables that rows are "
                "joined with in a @dp.temporary_view, which a @dp.table joins. "
                f"found={kind_of(leaves[read.index(None)])}",
            )

    def _check_stream(
        self, query: PipelineQuery, frame: DataFrame, leaves: list[_Java], read: list[str | None]
    ) -> None:
        """Refuse a query of a streaming table that is no stream, or reads a table of the pipeline as it is now."""
        for leaf, name in zip(leaves, read, strict=True):
            if name is not None and kind_of(leaf) not in LEAVES:
                self.refuse(
                    query,
                    f"this table changes while the pipeline runs, and its rows at one moment are read. Read it with "
                    f"spark.readStream.table, or make the query a @dp.materialized_view. found={name}",
                )
        if not frame.isStreaming:
            self.refuse(
                query, "the query is no stream. Begin it with spark.readStream, or make it a @dp.temporary_view."
            )
