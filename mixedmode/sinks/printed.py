"""Rows of an epoch as lines of text, where no other display is given."""

import pyarrow as pa

from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.shown import shown_rows


def print_rows(rows: pa.Table, total: int, name: str) -> None:
    """Print rows as lines of name=value, below the epoch and the name of the output ("": the main output)."""
    heading = f"epoch {rows.column(EPOCH_COLUMN)[0].as_py()}" + (f", {name}" if name else "")
    print(f"{heading}: {total} rows" + (f", the first {rows.num_rows}" if rows.num_rows < total else ""))  # noqa: T201
    for row in shown_rows(rows.drop_columns([EPOCH_COLUMN])):
        print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))  # noqa: T201
