"""Makes a job of a project of Spark's declarative pipelines, in a process of its own.

The functions of the project run in this process, with a session and a catalog that no run of the job has: whatever they
import or change ends with it. The process writes the job as values, with the file and the line of each.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mixedmode.analysis.pipeline_queries import PipelineQueries
from mixedmode.analysis.pipeline_registry import PipelineTable, Registry, read_files
from mixedmode.analysis.pipeline_sql import PipelineSql
from mixedmode.analysis.pipeline_steps import PipelineSteps
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.config import job_spec_from_mapping
from mixedmode.config.pipeline_project import PipelineProject, read_project
from mixedmode.config.reader import document_of
from mixedmode.config.sql_file import (
    has_setting,
    input_entries,
    setting_entries,
    statements_in,
    step_nodes,
    table_entries,
)
from mixedmode.config.sql_job import SqlJob
from mixedmode.config.sql_statements import MaterializedView, Property, Setting, Table, WrittenStatement
from mixedmode.config.sql_tokens import WrongSqlError
from mixedmode.config.tree_nodes import Entry, mapping_node, sequence_node, text_node, value_node
from mixedmode.connectors.calls import source_of
from mixedmode.errors import MixedmodeError
from mixedmode.spark.errors import REFUSALS, errors_explained, spark_text
from mixedmode.spark.session import open_session

__all__ = ["main", "pipeline_values"]

_CHECKPOINTS = "execution.checkpointing.dir"


def main(arguments: Sequence[str]) -> int:
    """Write the job of a project to the standard output, as JSON.  arguments: the file in this folder, the same for
    messages, and overrides.
    """
    result, output = sys.stdout, os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever functions print is no part of the answer
    sys.stdout = sys.stderr
    try:
        with errors_explained("not kept"):
            sys.path.append(str(Path.cwd()))
            answer = pipeline_values(Path(arguments[0]), arguments[1], arguments[2:])
    except KeyboardInterrupt:
        return 130
    except MixedmodeError as error:
        kind = next(one for one in type(error).__mro__ if one.__module__ == MixedmodeError.__module__)
        answer = {"error": kind.__name__, "text": str(error)}
    finally:
        sys.stdout = result
    json.dump(answer, output)
    output.close()
    return 0


def pipeline_values(path: Path, place: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the job of a project: its values as in a job file, and {path of a value: (file, line)}.

    path: its spec file, or a file of Python. place: the same for messages. overrides: settings of the job, of which
    those of Spark count here.

    Raise InvalidJobError with the mistakes of the project.
    """
    project = read_project(path, place)
    statements = _statements(project)
    settings = _settings(project, statements)
    named = [] if has_setting(settings, "name") else [("name", text_node(project.name, 1), 1)]
    entries = [*named, *setting_entries(settings)]
    values = document_of(mapping_node(entries, 1), place, overrides).values
    with temporary_folder("mixedmode-pipeline-") as folder:
        session = _session(str(values["name"]), values.get("spark", {}), folder / "warehouse")
        entries += _job(session, project, statements, folder / "tables")
    document = document_of(mapping_node(entries, 1), place)
    if document.problems:
        raise project.refusal([(one.mark.line, _placed(project, place, one.text)) for one in document.problems])
    marks = {path: project.mark(mark.line) for path, mark in document.marks.items()}
    return {"values": document.values, "marks": {path: [mark.place, mark.line] for path, mark in marks.items()}}


def _placed(project: PipelineProject, place: str, text: str) -> str:
    """Return a message with the files of the lines that it names."""
    return re.sub(rf"{re.escape(place)}:(\d+)", lambda found: str(project.mark(int(found[1]))), text)


def _statements(project: PipelineProject) -> list[WrittenStatement]:
    wrong = list[WrongSqlError]()
    found = [
        statement
        for file in project.of_suffix(".sql")
        for statement in statements_in("\n" * file.before + file.text, wrong)
    ]
    if wrong:
        raise project.refusal([(error.line, error.text) for error in wrong])
    return found


def _settings(project: PipelineProject, statements: Sequence[WrittenStatement]) -> list[Setting]:
    found = [Setting(one.key, one.value, one.line) for one in project.settings]
    found += [one for one in statements if isinstance(one, Setting)]
    if project.storage is not None and not has_setting(found, _CHECKPOINTS):
        found.append(Setting(_CHECKPOINTS, f"{project.storage}/checkpoints", 1, is_quoted=True))
    return found


def _session(name: str, spark: Mapping[str, Any], warehouse: Path) -> SparkSession:
    """Return a session with the settings of the job, on this machine, whose catalog nobody else sees."""
    place = {"format": "parquet", "path": "none"}
    own = {"master": "local[1]", "sql.catalogImplementation": "in-memory", "sql.warehouse.dir": str(warehouse)}
    others = {key: value for key, value in spark.items() if key.removeprefix("spark.") not in own}
    values = {
        "name": name,
        "spark": {**others, **own},
        "execution": {"runtime-mode": "batch"},
        "sources": {"records": {**place, "schema": "a INT"}},
        "steps": [{"sql": "SELECT * FROM records"}],
        "sink": {**place, "path": "other"},
    }
    return open_session(job_spec_from_mapping(values))


def _job(
    session: SparkSession, project: PipelineProject, statements: Sequence[WrittenStatement], folder: Path
) -> list[Entry]:
    """Return the sources, dimensions, steps and outputs of a project."""
    views = [one for one in statements if isinstance(one, MaterializedView)]
    registry = read_files(session, project, views)
    others = {name: query.name for name, query in registry.queries.items()}
    others |= {name: table.name for name, table in registry.tables.items()}
    sql = SqlJob([one for one in statements if not isinstance(one, MaterializedView)], others)
    wrong = [*_wrong_tables(registry, sql), *((error.line, error.text) for error in sql.mistakes())]
    if not wrong and not registry.tables and not sql.tables:
        wrong = [(1, "the project has no table. Define one with @dp.table, and a query.")]
    if wrong:
        raise project.refusal(wrong)
    of_sql = PipelineSql(session, project, sql)
    with PipelineQueries(session, project, registry, folder) as queries:
        of_sql.stream_of = queries.stream_of
        for name in sql.queries:
            queries.others[name] = partial(of_sql.columns, name)
        queries.call()
        _check_reads(project, sql, queries)
        steps = PipelineSteps(session, registry, queries, of_sql)
        steps.read()
        _check_columns(registry, queries)
    root = None if project.storage is None else f"{project.storage}/tables"
    tables = [*map(_table, registry.tables.values()), *sql.tables.values()]
    nodes = _by_name(project, [*_step_nodes(steps), *step_nodes(sql)])
    graph = {name: [one for one in _reads(node)[1] if one in nodes] for name, node in nodes.items()}
    needed = _reachable(graph, [*(table.name for table in tables), *(one.name for one in sql.queries.values())])
    ordered = [nodes[name] for name in TopologicalSorter(graph).static_order() if name in needed]
    return [
        *input_entries(sql),
        *_inputs(steps, needed),
        ("steps", sequence_node(ordered, 1), 1),
        *table_entries(tables, root=root),
    ]


def _by_name(project: PipelineProject, nodes: Iterable[yaml.MappingNode]) -> dict[str, yaml.MappingNode]:
    """Return {name of a step: step}."""
    found = dict[str, yaml.MappingNode]()
    for node in nodes:
        name = _reads(node)[0]
        if found.setdefault(name, node) is not node:
            text = "a part of another query gets this name. Choose another for the query. found="
            raise project.refusal([(found[name].start_mark.line + 1, text + name)])
    return found


def _reachable(graph: Mapping[str, Sequence[str]], names: Iterable[str]) -> set[str]:
    """Return the steps that these need. Views that no table needs are left out, as in Spark."""
    found, rest = set[str](), [*names]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += graph[name]
    return found


def _wrong_tables(registry: Registry, sql: SqlJob) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with tables and flows taken together."""
    targets = {query.table.lower() for query in registry.queries.values() if query.table is not None}
    for query in registry.queries.values():
        if query.table is not None and query.table.lower() not in registry.tables:
            text = "no Python file creates a table of this name. Call dp.create_streaming_table. found="
            yield query.line, f"{query.kind} {query.name}: {text}{query.table}"
        own = registry.queries.get((query.table or "").lower())
        if own is not None and own is not query:
            text = "this table has a query of its own. Make that a flow too, into dp.create_streaming_table. table="
            yield query.line, f"{query.kind} {query.name}: {text}{query.table}"
    for name, table in registry.tables.items():
        if name not in targets:
            yield table.line, f"nothing writes to this table. Add a @dp.append_flow. table={table.name}"
    for name in {*registry.queries, *registry.tables} & {*sql.queries, *sql.views}:
        line = (registry.tables.get(name) or registry.queries[name]).line
        yield line, f"a SQL file has a table, view or flow of this name, too. Choose another. found={name}"


def _check_reads(project: PipelineProject, sql: SqlJob, queries: PipelineQueries) -> None:
    """Refuse a query in SQL that reads a view of files of a function."""
    text = "a SQL file joins tables of files as a view with USING of its own. Write CREATE TEMPORARY VIEW. found="
    wrong = [
        (read.line, text + read.name)
        for query in sql.queries.values()
        for read in query.query.reads
        if queries.is_of_files(read.name)
    ]
    if wrong:
        raise project.refusal(wrong)


def _check_columns(registry: Registry, queries: PipelineQueries) -> None:
    """Refuse a table whose query has other columns than it says."""
    for name, table in registry.tables.items():
        if table.schema is None:
            continue
        flow = queries.flows[name][0]
        try:
            asked: Any = StructType.fromDDL(table.schema) if isinstance(table.schema, str) else table.schema
        except REFUSALS as error:
            queries.refuse(registry.queries[flow], f"Spark refuses the schema of the table. {spark_text(error)}")
        found = queries.frames[flow].schema
        pairs = [[(one.name, one.dataType.simpleString()) for one in columns] for columns in (asked, found)]
        if pairs[0] != pairs[1]:
            text = "the table has other columns than its query. Cast and name them in the query, or leave out `schema`."
            queries.refuse(
                registry.queries[flow], f"{text} schema={asked.simpleString()}, query={found.simpleString()}"
            )


def _table(table: PipelineTable) -> Table:
    properties = tuple(Property(key, value, table.line) for key, value in table.properties.items())
    return Table(table.name, table.format, properties, table.partitions, None, table.line)


def _inputs(steps: PipelineSteps, needed: Collection[str]) -> Iterator[Entry]:
    """Yield sources and dimensions of queries that are needed."""
    for section, found in (("sources", steps.sources), ("dimensions", steps.tables)):
        for name, (one, query) in found.items():
            if query.name not in needed:
                continue
            spec = source_of(one.format, one.arguments, call=f"{query.kind} {query.name}")
            yield f"{section}.{name}", value_node(_values(spec), query.line), query.line


def _step_nodes(steps: PipelineSteps) -> Iterator[yaml.MappingNode]:
    for step, line in steps.steps:
        yield mapping_node([(key, value_node(value, line), line) for key, value in _values(step).items()], line)


def _values(section: Any) -> dict[str, Any]:
    return dict(section.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def _reads(node: yaml.MappingNode) -> tuple[str, list[str]]:
    """Return the name of a step, and the names of what it reads."""
    values = {key.value: value for key, value in node.value}
    return values["name"].value, [read.value for read in values["from"].value]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
