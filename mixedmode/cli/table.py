"""`mixedmode table DIR`: the current table of an upsert output."""

from pathlib import Path

import pyarrow as pa
from rich.console import Group
from rich.table import Table

from mixedmode.errors import InvalidJobError
from mixedmode.sinks.table import current_table

_CELL_CHARACTERS = 40


def table_report(directory: Path | str, limit: int) -> Group:
    """The first `limit` rows by key (0: all), and how many there are."""
    output = None if Path(directory).is_file() else current_table(str(directory))
    if output is None:
        raise InvalidJobError(_no_output(Path(directory)))
    rows = output.rows if limit == 0 else output.rows.slice(0, limit)
    return _shown(rows, output.rows.num_rows)


def _no_output(folder: Path) -> str:
    """Why there is nothing to show, and what to do instead. Only file sinks write a folder that this program reads."""
    if (folder / "_delta_log").is_dir():
        what = "this is a Delta table, which keeps its own current rows. Read it with Spark or another engine for Delta"
    elif any(folder.glob("metadata/*.metadata.json")):
        what = "this is an Iceberg table, which keeps its own current rows. Read it with Spark or another engine for it"
    else:
        what = (
            "this is not the output of a job: there is no _mixedmode.json in it. Name the folder that the job file "
            "gives in sink.path. A sink without a folder is read where it writes: PostgreSQL with psql, Kafka with a "
            "consumer, a table of a catalog with Spark"
        )
    return f"{what}. folder={folder}"


def _shown(rows: pa.Table, total: int) -> Group:
    count = f"{total:,} rows" if rows.num_rows == total else f"the first {rows.num_rows:,} of {total:,} rows"
    table = Table(box=None, pad_edge=False)
    for field in rows.schema:
        is_number = (
            pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        )
        table.add_column(field.name, justify="right" if is_number else "left", overflow="fold")
    for row in rows.to_pylist():
        table.add_row(*(_cell(value) for value in row.values()))
    return Group(table, count)


def _cell(value: object) -> str:
    text = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
