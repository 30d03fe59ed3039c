"""`mixedmode state DIR [STEP [KEY...]]`: the state of a job's steps, on the screen or as a file."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
from pyarrow import ipc
from rich.console import Group

from mixedmode.cli.consoles import error_console, plain_table
from mixedmode.cli.messages import screen_print
from mixedmode.cli.state_format import StateFormat
from mixedmode.cli.table import rows_shown
from mixedmode.config.spelling import did_you_mean
from mixedmode.counts import counted
from mixedmode.errors import InvalidJobError
from mixedmode.queryable import LEASE_SECONDS, StateAnswer, StateSnapshot, open_state
from mixedmode.queryable.keys import key_of_text
from mixedmode.sinks.shown import plain_rows, shown_values
from mixedmode.sinks.tables.text import as_text

_KEYS_ON_SCREEN = 20
_KEYS_COMPARED = 1000  # with a key that is not found, for a suggestion


def print_state(  # noqa: PLR0913  # one argument per option, by keyword
    directory: str,
    step: str | None,
    keys: Sequence[str],
    *,
    form: StateFormat = StateFormat.TABLE,
    name: str | None = None,
    epoch: int | None = None,
    limit: int | None = None,
    is_prefix: bool = False,
    has_lease: bool = True,
) -> None:
    """Print the state of a step, or the steps if none is named. limit: of keys; 0: all; None: what the form suits.

    has_lease: the job keeps the checkpoint during the read.
    """
    if limit is None:
        limit = _KEYS_ON_SCREEN if form is StateFormat.TABLE and (is_prefix or not keys) else 0
    with open_state(directory, epoch=epoch, lease_seconds=LEASE_SECONDS if has_lease else 0) as state:
        if step is None:
            screen_print(_steps(state))
            return
        wanted = [key_of_text(text, state.key_fields(step, name), is_prefix=is_prefix) for text in keys]
        if is_prefix and len(wanted) != 1:
            msg = f"--prefix takes one key: the values of the first key columns. keys={len(wanted)}"
            raise InvalidJobError(msg)
        named = {"prefix": wanted[0]} if is_prefix else {"keys": wanted or None}
        answer = state.read(step, name=name, limit=limit or None, **named)
        if wanted and answer.table.num_rows == 0:
            raise InvalidJobError(_not_found(state, answer, keys))
    _print(answer, form)
    if answer.missing:
        missing = ", ".join(dict.fromkeys(keys[at] for at in answer.missing))
        text = f"there is no state of {missing}"
        error_console().print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _steps(state: StateSnapshot) -> Group:
    table = plain_table(("step", "key", "parts"))
    for step in state.steps:
        names = state.names(step)
        key = ", ".join(field.name for field in state.key_fields(step)) if names else ""
        table.add_row(step, key, ", ".join(names) or "keeps no state")
    return Group(f"epoch {state.epoch}", table)


def _not_found(state: StateSnapshot, answer: StateAnswer, keys: Sequence[str]) -> str:
    fields = state.key_fields(answer.step, answer.name)
    near = ""
    if len(fields) == 1 and len(keys) == 1:
        known = state.read(answer.step, name=answer.name, limit=_KEYS_COMPARED).table.column(fields[0].name)
        near = did_you_mean(keys[0], {str(value) for value in shown_values(known)})
    values = f"step={answer.step}, name={answer.name}, epoch={answer.epoch}, key={', '.join(keys)}"
    return f"there is no state of {'this key' if len(keys) == 1 else 'any of these keys'}.{near} {values}"


def _print(answer: StateAnswer, form: StateFormat) -> None:
    if form is StateFormat.TABLE:
        more = "" if answer.next is None else ", and more (--limit 0 shows all)"
        rows = counted(answer.table.num_rows, "row")
        title = f"epoch {answer.epoch}, {answer.step}, {answer.name}: {rows}{more}"
        screen_print(Group(rows_shown(answer.table), title))
    elif form is StateFormat.JSON:
        for row in plain_rows(answer.table):
            sys.stdout.write(_json(row) + "\n")
    elif form is StateFormat.CSV:
        pacsv.write_csv(_flat(answer.table), sys.stdout.buffer)
    else:
        if sys.stdout.isatty():
            msg = "an Arrow stream is no text. Redirect it to a file: mixedmode state ... --format arrow > state.arrow"
            raise InvalidJobError(msg)
        table = answer.as_table()  # its metadata name the epoch
        with ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)


def _flat(table: pa.Table) -> pa.Table:
    """Return a table for CSV: bytes as base64, lists, maps and records as JSON text, and times as text of any year."""
    return pa.table([_flat_column(column) for column in table.columns], names=table.column_names)


def _flat_column(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        values = [row["value"] for row in plain_rows(pa.table([column], names=["value"]))]
        texts = [value if value is None or isinstance(value, str) else _json(value) for value in values]
        return pa.array(texts, pa.string())
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
    return as_text(column.combine_chunks()) if is_time else column


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
