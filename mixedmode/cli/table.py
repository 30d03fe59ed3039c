"""`mixedmode table DIR`: the current table of an upsert output, or its files."""

from pathlib import Path

import pyarrow as pa
from rich.console import Group
from rich.table import Table

from mixedmode.cli.consoles import plain_table
from mixedmode.counts import counted
from mixedmode.sinks.shown import shown_rows
from mixedmode.sinks.table import output_files, read_output

_CELL_CHARACTERS = 40


def table_report(directory: Path | str, limit: int) -> Group:
    """Return the first `limit` rows by key (0: all rows), and the total number of rows."""
    everything = read_output(directory)
    rows = everything if limit == 0 else everything.slice(0, limit)
    return _shown(rows, everything.num_rows)


def files_report(directory: Path | str) -> str:
    """Return the files that make up the current table, one per line."""
    return "\n".join(output_files(directory))


def _shown(rows: pa.Table, total: int) -> Group:
    count = counted(total, "row") if rows.num_rows == total else f"the first {rows.num_rows:,} of {total:,} rows"
    return Group(rows_shown(rows), count)


def rows_shown(rows: pa.Table) -> Table:
    """Return rows as a table for the screen."""
    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    numbers = {field.name for field in rows.schema if any(is_of(field.type) for is_of in is_number)}
    table = plain_table(rows.column_names, numbers=numbers)
    for row in shown_rows(rows):
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: object) -> str:
    text = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
