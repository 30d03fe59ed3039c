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

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_origin

import yaml

from mixedmode.config.connectors import Role, kinds_with
from mixedmode.config.document import Mark, Problem, path_text
from mixedmode.config.fields import Section, key_of
from mixedmode.config.registry import connector_kinds, formats_of
from mixedmode.config.sql_job import SqlJob
from mixedmode.config.sql_statements import Property, WrittenStatement, read_statement
from mixedmode.config.sql_tokens import WrongSqlError, statements_of
from mixedmode.errors import InvalidJobError

__all__ = ["sql_tree"]

_TAG = "tag:yaml.org,2002:"
_NUMBER_OR_FLAG = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false", re.ASCII)
_Entry = tuple[str, yaml.Node, int]  # a dotted key, its value, and its line


def sql_tree(text: str, place: str, name: str) -> yaml.MappingNode:
    """Return the tree of the job file that means the same as a SQL file.

    place: the file, for messages.  name: of a job that does not SET its own. Raises InvalidJobError with the mistakes
    of all statements.
    """
    job = SqlJob(_statements(text, place))
    wrong = list(job.mistakes())
    if wrong:
        raise _invalid(place, wrong)
    entries = [*_settings(job, name), *_sources(job), *_functions(job), ("steps", _steps(job), 1), *_outputs(job)]
    return _mapping(entries, 1)


def _statements(text: str, place: str) -> list[WrittenStatement]:
    wrong: list[WrongSqlError] = []
    written: list[WrittenStatement] = []
    try:
        for statement in statements_of(text):
            try:
                written.append(read_statement(text, statement))
            except WrongSqlError as error:
                wrong.append(error)
    except WrongSqlError as error:
        wrong = [error]
    if wrong:
        raise _invalid(place, wrong)
    if not written:
        msg = f"{place}: the SQL file is empty. A job needs at least a view, and a streaming table with its query."
        raise InvalidJobError(msg)
    return written


def _settings(job: SqlJob, name: str) -> Iterator[_Entry]:
    if not any(setting.key == "name" for setting in job.settings):
        yield "name", _text(name, 1), 1
    for setting in job.settings:
        value = _text(setting.value, setting.line) if setting.is_quoted else _scalar(setting.value, setting.line)
        yield setting.key, value, setting.line


def _sources(job: SqlJob) -> Iterator[_Entry]:
    """Yield the views with USING: sources and dimensions."""
    streams, times = job.streams, job.event_times
    for name, view in job.views.items():
        role: Role = "source" if name in streams else "dimension"
        at, line = f"{role}s.{view.name}", view.line
        section = _section(role, view.format)
        if section is None or formats_of(section):  # history and live have a format each
            yield f"{at}.format", _text(view.format, line), line
        if view.columns is not None:
            yield f"{at}.{_columns_key(section)}", _text(view.columns, line), line
        yield from _properties(at, role, view.format, view.options)
        time = times.get(name)
        if time is not None:
            yield f"{at}.event-time", _text(time.column, time.line), time.line
            yield f"{at}.watermark.out-of-orderness", _text(time.delay, time.line), time.line
            if time.expression is not None:
                yield f"{at}.computed-columns.{time.column}", _text(time.expression, time.line), time.line


def _functions(job: SqlJob) -> Iterator[_Entry]:
    for one in job.functions:
        yield f"functions.{one.name}.function", _text(one.function, one.line), one.line


def _steps(job: SqlJob) -> yaml.SequenceNode:
    nodes: list[yaml.Node] = []
    for one in job.in_order():
        entries: list[_Entry] = [
            ("name", _text(one.name, one.line), one.line),
            ("from", _texts(job.inputs(one.query), one.query.line), one.query.line),
            ("sql", _text(one.query.sql, one.query.line), one.query.line),
        ]
        nodes.append(_mapping(entries, one.line))
    return yaml.SequenceNode(f"{_TAG}seq", nodes, *_marks(1))


def _outputs(job: SqlJob) -> Iterator[_Entry]:
    """Yield the streaming tables."""
    for table in job.tables.values():
        at, line = f"outputs.{table.name}", table.line
        assert table.format is not None, "views with a query are no tables"
        yield f"{at}.from", _text(table.name, line), line
        yield f"{at}.format", _text(table.format, line), line
        if table.partitions:
            yield f"{at}.partition-by", _texts(table.partitions, line), line
        yield from _properties(at, "sink", table.format, table.properties)


def _properties(at: str, role: Role, format_: str, properties: Iterable[Property]) -> Iterator[_Entry]:
    """Yield the settings of a source or sink. A key that is none of them, and has no `-`, is an option of Spark's."""
    section = _section(role, format_)
    fields = {} if section is None else {key_of(name): field for name, field in section.model_fields.items()}
    lists = {key for key, field in fields.items() if get_origin(field.annotation) is tuple}
    for one in properties:
        is_option = one.key.partition(".")[0] not in fields and "-" not in one.key and "options" in fields
        key = f"{at}.options.{one.key}" if is_option else f"{at}.{one.key}"
        if one.key in lists:
            yield key, _texts([part.strip() for part in one.value.split(",")], one.line), one.line
        else:
            yield key, _scalar(one.value, one.line), one.line


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


def _marks(line: int) -> tuple[Any, Any]:
    mark = yaml.Mark("", 0, line - 1, 0, None, 0)
    return mark, mark


def _mapping(entries: Iterable[_Entry], line: int) -> yaml.MappingNode:
    pairs = [(_text(key, at), node) for key, node, at in entries]
    return yaml.MappingNode(f"{_TAG}map", pairs, *_marks(line))


def _text(text: str, line: int) -> yaml.ScalarNode:
    return yaml.ScalarNode(f"{_TAG}str", text, *_marks(line))


def _texts(texts: Sequence[str], line: int) -> yaml.SequenceNode:
    return yaml.SequenceNode(f"{_TAG}seq", [_text(text, line) for text in texts], *_marks(line))


def _scalar(text: str, line: int) -> yaml.ScalarNode:
    """Return a value: a decimal number, true or false as such, and anything else as text."""
    if _NUMBER_OR_FLAG.fullmatch(text) is None:
        return _text(text, line)
    resolver: Any = yaml.resolver.Resolver()
    return yaml.ScalarNode(resolver.resolve(yaml.ScalarNode, text, (True, False)), text, *_marks(line))
