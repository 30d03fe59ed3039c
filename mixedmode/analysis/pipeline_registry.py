"""The tables, views and flows that the Python files of a pipeline define with `pyspark.pipelines`."""

import importlib.util
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyspark.pipelines
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import get_caller_source_code_location
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.udf import UDFRegistration
from typing_extensions import override

from mixedmode.analysis.catalyst_plans import rows_of_text
from mixedmode.analysis.pipeline_changes import PipelineChanges
from mixedmode.config.pipeline_project import PYTHON_SUFFIX, PipelineFile, PipelineProject
from mixedmode.config.sql_statements import MaterializedView as SqlView
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import REFUSALS, STREAM_IN_SUBQUERY, condition, spark_text

__all__ = ["OTHER_SOURCES", "PipelineQuery", "PipelineTable", "Registry", "read_files", "user_error", "without_actions"]

#: {class: methods that run a query}
_RUN: Mapping[type, Sequence[str]] = {
    DataFrame: (
        *("collect", "count", "first", "foreach", "foreachPartition", "head", "isEmpty", "show", "tail", "take"),
        *("toArrow", "toLocalIterator", "toPandas", "checkpoint", "localCheckpoint"),
        *("rdd", "write", "writeStream", "writeTo"),
    )
}
#: {class: methods that change the session}
_CHANGE: Mapping[type, Sequence[str]] = {
    RuntimeConfig: ("set", "unset"),
    Catalog: ("setCurrentCatalog", "setCurrentDatabase", "dropTempView", "dropGlobalTempView"),
    DataFrame: ("createTempView", "createOrReplaceTempView", "createGlobalTempView", "createOrReplaceGlobalTempView"),
    UDFRegistration: ("register", "registerJavaFunction", "registerJavaUDAF"),
}
#: what to do for Kafka, Delta and others
OTHER_SOURCES = (
    "Declare a source without files in a SQL file of the project: CREATE TEMPORARY VIEW records (columns) USING kafka "
    "OPTIONS (...), and a view AS SELECT * FROM STREAM records, which the function reads."
)
#: {Spark's condition: what to do}
_INSTEAD = {
    **dict.fromkeys(("DATA_SOURCE_NOT_FOUND", "KAFKA_DATA_SOURCE_NOT_ENABLED"), OTHER_SOURCES),
    STREAM_IN_SUBQUERY: (
        "Join the two with left_semi or left_anti; or write the query in a SQL file of the project, where IN and "
        "EXISTS in WHERE may read its tables."
    ),
}
_FLOW_OF_CHANGES = "create_auto_cdc_flow"  #: since Spark 4.2
_RUNS = "a function of a pipeline returns a query, and runs none: the tables of the pipeline have no rows yet"
_CHANGES = (
    "the session is that of the whole pipeline. Settings belong into `configuration` of the project, and what a query "
    "makes into a @dp.temporary_view"
)


@dataclass(frozen=True, slots=True)
class PipelineQuery:
    """A function that returns the rows of a table or a view.

    name: that of the table, the view or the flow. table: the one that gets its rows; None for a view. kind: what it is,
    for messages. is_batch: it is of a materialized view.  line: as PipelineProject counts.  changes: of a flow of
    changes; then the function returns rows with the columns of the table.
    """

    name: str
    table: str | None
    kind: str
    is_batch: bool
    function: Callable[[], Any]
    line: int
    changes: PipelineChanges | None = None


@dataclass(frozen=True, slots=True)
class PipelineTable:
    """A table that the pipeline writes."""

    name: str
    format: str
    properties: Mapping[str, str]
    partitions: tuple[str, ...]
    schema: Any
    line: int


class Registry(GraphElementRegistry):
    """Collects what the files define.

    tables, queries: {name in lower case: what has it}. wrong: (line, text) of mistakes.
    """

    def __init__(self, project: PipelineProject) -> None:
        self.tables = dict[str, PipelineTable]()
        self.queries = dict[str, PipelineQuery]()
        self.wrong = list[tuple[int, str]]()
        self._project = project
        self._views = dict[str, TemporaryView]()
        self._materialized = set[str]()

    @override
    def register_output(self, output: Output) -> None:
        """Add a table or a view."""
        line = self._line(output)
        if not output.name.isidentifier():
            text = "a name has letters, digits and _ here, in one part: a job has no catalog. Choose another. found="
            self.wrong.append((line, text + output.name))
        other = self.tables.get(output.name.lower()) or self._views.get(output.name.lower())
        if other is not None:
            self.wrong.append((line, f"another table or view has this name. Choose another. found={output.name}"))
        if isinstance(output, Sink):
            text = "a sink is not taken. Make a table with this format, and the options as table_properties. sink="
            self.wrong.append((line, text + output.name))
        elif isinstance(output, TemporaryView):
            self._views[output.name.lower()] = output
        else:
            assert isinstance(output, StreamingTable | MaterializedView), output
            if output.cluster_by:
                self.wrong.append((line, f"cluster_by is not taken. Use partition_cols. table={output.name}"))
            if isinstance(output, MaterializedView):
                self._materialized.add(output.name.lower())
            self.tables[output.name.lower()] = PipelineTable(
                output.name,
                output.format or "parquet",
                {key: str(value) for key, value in output.table_properties.items()},
                tuple(output.partition_cols or ()),
                output.schema,
                line,
            )

    @override
    def register_flow(self, flow: Flow) -> None:
        """Add the function of a table, of a view, or of a flow into a table."""
        line = self._line(flow)
        if flow.spark_conf:
            text = "settings belong to the whole job: write them into `configuration` of the project, or --set. flow="
            self.wrong.append((line, text + flow.name))
        is_batch = flow.target.lower() in self._materialized
        is_view = flow.target.lower() in self._views
        kind = "materialized view" if is_batch else "view" if is_view else "table"
        kind = "flow" if flow.name != flow.target else kind
        query = PipelineQuery(flow.name, None if is_view else flow.target, kind, is_batch, flow.func, line)
        if self.queries.setdefault(flow.name.lower(), query) is not query:
            self.wrong.append((line, f"another query has this name. Choose another. found={flow.name}"))

    @override
    def register_auto_cdc_flow(self, flow: Any) -> None:
        """Refuse the call: PySpark's function needs Spark Connect, and `read_files` puts `add_changes` in its place."""
        raise AssertionError(flow)

    def add_changes(self, session: SparkSession, *given: Any, spark_conf: Any = None, **more: Any) -> None:
        """Add a flow of changes, with the arguments of `dp.create_auto_cdc_flow`."""
        changes = PipelineChanges(*given, **more)
        place = get_caller_source_code_location(stacklevel=1)
        line = self._project.line_of(place.filename, place.line_number or 1)
        target = changes.target
        if spark_conf:
            text = "settings belong to the whole job: write them into `configuration` of the project, or --set. flow="
            self.wrong.append((line, text + target))
        query = PipelineQuery(target, target, "flow", False, partial(changes.rows, session), line, changes)
        if self.queries.setdefault(target.lower(), query) is not query:
            text = "a table that a flow of changes makes has no other flow. Unite the records before. table="
            self.wrong.append((line, text + target))

    @override
    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Refuse the call: SQL files are read elsewhere."""
        raise AssertionError(file_path)

    def add_view(self, session: SparkSession, view: SqlView) -> None:
        """Add a materialized view of a SQL file."""
        table, name = view.table, view.table.name
        properties = {one.key: one.value for one in table.properties}
        self._materialized.add(name.lower())
        self.tables[name.lower()] = PipelineTable(
            name, table.format or "", properties, table.partitions, None, table.line
        )
        query = PipelineQuery(
            name, name, "materialized view", True, partial(rows_of_text, session, view.query.sql), table.line
        )
        if self.queries.setdefault(name.lower(), query) is not query:
            self.wrong.append((table.line, f"another query has this name. Choose another. found={name}"))

    def _line(self, element: Output | Flow) -> int:
        place = element.source_code_location
        return self._project.line_of(place.filename, place.line_number or 1)


def read_files(session: SparkSession, project: PipelineProject, views: Iterable[SqlView]) -> Registry:
    """Import the Python files of a project, and return what they define, and views.  views: those of SQL files.

    Raise InvalidJobError with the user's file and line for an exception in one of them.
    """
    registry = Registry(project)
    with graph_element_registration_context(registry), without_actions(), _flows_of_changes(session, registry):
        for file in project.of_suffix(PYTHON_SUFFIX):
            _import(session, project, file)
    for view in views:
        registry.add_view(session, view)
    if registry.wrong:
        raise project.refusal(registry.wrong)
    return registry


def _import(session: SparkSession, project: PipelineProject, file: PipelineFile) -> None:
    spec = importlib.util.spec_from_file_location(file.path.stem, str(file.path))
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = session  # as Spark's own command does
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise user_error(project, error, "", file.before + 1) from error


def user_error(project: PipelineProject, error: BaseException, what: str, line: int) -> InvalidJobError:
    """Return an exception of the user's code as one error with the file and line that raised it.

    what: begins the text. line: that of the function, if no line of a file of the project is in the stack trace.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        line = project.line_of(error.filename, error.lineno or 1)
        return project.refusal([(line, f"{what}this is not Python. Correct it. cause={error.msg}")])
    known = {str(file.path) for file in project.files}
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in known]
    if frames:
        line = project.line_of(frames[-1].filename, frames[-1].lineno or 1)
    if isinstance(error, InvalidJobError):
        return project.refusal([(line, f"{what}{error}")])
    if isinstance(error, REFUSALS):
        text = f"{what}Spark refuses this. {spark_text(error)} {_INSTEAD.get(condition(error), '')}"
        return project.refusal([(line, text.rstrip())])
    return project.refusal([(line, f"{what}the code raises an exception. Correct it. {type(error).__name__}: {error}")])


@contextmanager
def without_actions() -> Iterator[None]:
    """Refuse, while the block runs, whatever runs a query, changes the session or needs Spark Connect."""
    kept = list[tuple[Any, str, Any]]()
    for why, blocked in ((_RUNS, _RUN), (_CHANGES, _CHANGE)):
        for owner, names in blocked.items():
            for name in names:
                own, refuse = getattr(owner, name), partial(_refuse_call, why, name)
                kept.append((owner, name, own))
                setattr(owner, name, property(refuse) if isinstance(own, property) else refuse)
    try:
        yield
    finally:
        for owner, name, own in kept:
            setattr(owner, name, own)


def _refuse_call(why: str, name: str, *_: object, **__: object) -> NoReturn:
    msg = f"{why}. Write the function without this call. found={name}"
    raise InvalidJobError(msg)


@contextmanager
def _flows_of_changes(session: SparkSession, registry: Registry) -> Iterator[None]:
    """Let `dp.create_auto_cdc_flow`, if this Spark has it, add a flow to the registry while the block runs."""
    own = getattr(pyspark.pipelines, _FLOW_OF_CHANGES, None)
    if own is None:
        yield
        return
    setattr(pyspark.pipelines, _FLOW_OF_CHANGES, partial(registry.add_changes, session))
    try:
        yield
    finally:
        setattr(pyspark.pipelines, _FLOW_OF_CHANGES, own)
