"""Conversion of a SQL file to the tree of a job file, so that both are validated, explained and run by the same code.

A view with USING is a source if queries read it with STREAM, and otherwise a dimension. Each query is a sql step under
the name of its table, view or flow, and each streaming table is an output of this name. Queries may stand in any order.

Example: this file

    SET execution.checkpointing.dir = run/checkpoints;
    CREATE TEMPORARY VIEW orders (customer STRING, amount BIGINT) USING json OPTIONS (path 'data/orders');
    CREATE STREAMING TABLE totals USING parquet TBLPROPERTIES ('path' = 'run/totals')
      AS SELECT customer, sum(amount) AS total FROM STREAM orders GROUP BY customer;

is this job file, of which each value has the line that it has in the SQL file

    name: FILE
    execution.checkpointing.dir: run/checkpoints
    sources:
      orders: {format: json, schema: "customer STRING, amount BIGINT", path: data/orders}
    steps:
      - {name: totals, from: [orders], sql: "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"}
    outputs:
      totals: {from: totals, format: parquet, path: run/totals}

Invariants (tests/config/test_sql_file.py):
  I1  every word of the file is in the tree, or a mistake names it
  I2  the order of the statements does not matter, except of SET for one key: it is given twice
"""

from collections.abc import Iterable, Iterator
from typing import get_origin

import yaml

from mixedmode.config.connectors import Role, kinds_with
from mixedmode.config.document import Mark, Problem, path_text
from mixedmode.config.fields import Section, key_of
from mixedmode.config.registry import connector_kinds, formats_of
from mixedmode.config.sql_changes import Changes
from mixedmode.config.sql_job import SqlJob
from mixedmode.config.sql_statements import Property, Setting, Table, WrittenStatement, read_statement
from mixedmode.config.sql_tokens import WrongSqlError, statements_of
from mixedmode.config.tree_nodes import (
    Entry,
    mapping_node,
    scalar_node,
    sequence_node,
    text_node,
    texts_node,
    value_node,
)
from mixedmode.errors import InvalidJobError

__all__ = [
    "has_setting",
    "input_entries",
    "setting_entries",
    "sql_tree",
    "statements_in",
    "step_nodes",
    "table_entries",
]


def sql_tree(text: str, place: str, name: str) -> yaml.MappingNode:
    """Return the tree of the job file that means the same as a SQL file.

    place: the file, for messages.  name: of a job that does not SET its own. Raises InvalidJobError with the mistakes
    of all statements.
    """
    wrong = list[WrongSqlError]()
    statements = statements_in(text, wrong)
    if wrong:
        raise _invalid(place, wrong)
    if not statements:
        msg = f"{place}: the SQL file is empty. A job needs at least a view, and a streaming table with its query."
        raise InvalidJobError(msg)
    job = SqlJob(statements)
    wrong = list(job.mistakes())
    if wrong:
        raise _invalid(place, wrong)
    steps = sequence_node([*step_nodes(job)], 1)
    named = [] if has_setting(job.settings, "name") else [("name", text_node(name, 1), 1)]
    tables = table_entries(job.tables.values())
    return mapping_node([*named, *setting_entries(job.settings), *input_entries(job), ("steps", steps, 1), *tables], 1)


def statements_in(text: str, wrong: list[WrongSqlError]) -> list[WrittenStatement]:
    """Return the statements of a file. Add mistakes to `wrong`."""
    written: list[WrittenStatement] = []
    try:
        for statement in statements_of(text):
            try:
                written.append(read_statement(text, statement))
            except WrongSqlError as error:
                wrong.append(error)
    except WrongSqlError as error:
        wrong[:] = [error]
    return written


def has_setting(settings: Iterable[Setting], key: str) -> bool:
    """Return whether a setting is set."""
    return any(setting.key == key for setting in settings)


def setting_entries(settings: Iterable[Setting]) -> Iterator[Entry]:
    """Yield settings of the job."""
    for one in settings:
        yield one.key, (text_node if one.is_quoted else scalar_node)(one.value, one.line), one.line


def input_entries(job: SqlJob) -> Iterator[Entry]:
    """Yield the views with USING, which are sources and dimensions, and the functions."""
    for one in job.functions:
        yield f"functions.{one.name}.function", text_node(one.function, one.line), one.line
    streams, times = job.streams, job.event_times
    for name, view in job.views.items():
        role: Role = "source" if name in streams else "dimension"
        at, line = f"{role}s.{view.name}", view.line
        section = _section(role, view.format)
        if section is None or formats_of(section):  # history and live have a format each
            yield f"{at}.format", text_node(view.format, line), line
        if view.columns is not None:
            yield f"{at}.{_columns_key(section)}", text_node(view.columns, line), line
        yield from _properties(at, role, view.format, view.options)
        time = times.get(name)
        if time is not None:
            yield f"{at}.event-time", text_node(time.column, time.line), time.line
            yield f"{at}.watermark.out-of-orderness", text_node(time.delay, time.line), time.line
            if time.expression is not None:
                yield f"{at}.computed-columns.{time.column}", text_node(time.expression, time.line), time.line


def step_nodes(job: SqlJob) -> Iterator[yaml.MappingNode]:
    """Yield the queries, and the steps that apply the changes that they return."""
    for one in job.in_order():
        line, changes = one.query.line, one.changes
        name, inputs = one.name, ("from", texts_node(job.inputs(one.query), line), line)
        if changes is None or changes.reads_query:
            name = one.name if changes is None else f"{one.name}_records"
            sql = ("sql", text_node(one.query.sql, line), line)
            yield mapping_node([("name", text_node(name, one.line), one.line), inputs, sql], one.line)
            inputs = ("from", texts_node([name], line), line)
        if changes is not None:
            named = ("name", text_node(one.name, one.line), one.line)
            yield mapping_node([named, inputs, *_of_changes(changes, line)], one.line)


def _of_changes(changes: Changes, line: int) -> Iterator[Entry]:
    """Yield the settings of a step that applies changes."""
    yield "key-by", texts_node(changes.keys, line), line
    yield "apply-changes", value_node(changes.settings, line), line


def table_entries(tables: Iterable[Table], *, root: str | None = None) -> Iterator[Entry]:
    """Yield the outputs that streaming tables are.  root: a folder, in which tables without a `path` have theirs."""
    for table in tables:
        at, line = f"outputs.{table.name}", table.line
        assert table.format is not None, "views with a query are no tables"
        yield f"{at}.from", text_node(table.name, line), line
        yield f"{at}.format", text_node(table.format, line), line
        if table.partitions:
            yield f"{at}.partition-by", texts_node(table.partitions, line), line
        yield from _properties(at, "sink", table.format, table.properties)
        section = _section("sink", table.format)
        has_path = section is not None and "path" in section.model_fields
        if root is not None and has_path and not any(one.key == "path" for one in table.properties):
            yield f"{at}.path", text_node(f"{root}/{table.name}", line), line


def _properties(at: str, role: Role, format_: str, properties: Iterable[Property]) -> Iterator[Entry]:
    """Yield the settings of a source or sink. A key that is none of them, and has no `-`, is an option of Spark's."""
    section = _section(role, format_)
    fields = {} if section is None else {key_of(name): field for name, field in section.model_fields.items()}
    lists = {key for key, field in fields.items() if get_origin(field.annotation) is tuple}
    for one in properties:
        is_option = one.key.partition(".")[0] not in fields and "-" not in one.key and "options" in fields
        key = f"{at}.options.{one.key}" if is_option else f"{at}.{one.key}"
        if one.key in lists:
            yield key, texts_node([part.strip() for part in one.value.split(",")], one.line), one.line
        else:
            yield key, scalar_node(one.value, one.line), one.line


def _columns_key(section: type[Section] | None) -> str:
    """Return the key of the columns of a source, such as `schema`; of a topic, they are those of the value."""
    kind = next((kind for kind in connector_kinds().values() if section is not None and kind.source is section), None)
    arguments = {} if kind is None else kind.source_arguments
    return next((path_text(path) for path, argument in arguments.items() if argument == "schema"), "schema")


def _section(role: Role, format_: str) -> type[Section] | None:
    """Return the settings of a format; None if there is no such format. `history_and_live` is a kind without one."""
    kinds = kinds_with(role)
    named = kinds.get(format_.replace("_", "-"))
    if named is not None and not formats_of(named):
        return named
    return next((section for section in kinds.values() if format_ in formats_of(section)), None)


def _invalid(place: str, wrong: Iterable[WrongSqlError]) -> InvalidJobError:
    problems = [Problem(Mark(place, error.line), error.text) for error in sorted(wrong, key=lambda error: error.line)]
    return InvalidJobError("\n".join(map(str, problems)))
