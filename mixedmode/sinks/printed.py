"""Rows of an epoch as lines of text, where no other display is given."""

import pyarrow as pa

from mixedmode.counts import counted
from mixedmode.errors import RetryableError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.shown import shown_rows


def print_rows(rows: pa.Table, total: int, name: str) -> None:
    """Print rows as lines of name=value, below the epoch and the name of the output ("": the main output).

    When it returns, the lines have left this process, so a kill does not lose them. Raise RetryableError if their
    reader has ended.
    """
    epoch = rows.column(EPOCH_COLUMN)[0].as_py()
    heading = f"epoch {epoch}" + (f", {name}" if name else "")
    lines = [f"{heading}: {counted(total, 'row')}" + (f", the first {rows.num_rows}" if rows.num_rows < total else "")]
    shown = shown_rows(rows.drop_columns([EPOCH_COLUMN]))
    lines += ["  " + "  ".join(f"{name}={value}" for name, value in row.items()) for row in shown]
    try:
        print("\n".join(lines), flush=True)  # noqa: T201
    except BrokenPipeError as error:
        msg = (
            "the program that reads standard output has ended, so the rows of an epoch cannot be printed. Start the "
            "job again with a reader: it prints them then. Or give the output another sink. "
            f"epoch={epoch}, output={name!r}"
        )
        raise RetryableError(msg) from error
