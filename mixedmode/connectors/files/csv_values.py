"""Reads CSV files as text columns of the declared schema: by the names in the header line, or by position without one.

Arrow cuts lines into values, block by block. If a block has quotes or escapes of which Arrow would make other values
than Spark's reader (csv_quotes.py), the file is refused. A missing value is NULL; a quoted empty value is the empty
text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pc_csv

from mixedmode.config.drift import RAGGED, Drift, missing_column, new_column
from mixedmode.connectors.files.csv_arrow import lines_with_text
from mixedmode.connectors.files.csv_quotes import is_understood, odd_quotes, without_escaped
from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines, is_left_to_spark
from mixedmode.errors import InvalidJobError

_SHOWN = 200  # limit for a line in a message, in characters
_NOT_UNDERSTOOD = (
    "a source file has quotes or escapes of which only Spark's reader can make values, and with schema-drift, tasks "
    "read it; nothing was committed. Put quotes around whole values only, and in a value before each quote the "
    "character of the option `escape`, which is \\ by default; or remove schema-drift. Where quotes in a value are "
    "doubled, set `escape` to the quote."
)
_BLOCK_BYTES = 4 * 1024 * 1024
_TRUE = "true"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The rules by which lines are cut into values, from the options of Spark's reader."""

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    has_header: bool = False
    is_multiline: bool = False

    #: names of the options, in lower case
    OPTIONS = ("sep", "delimiter", "quote", "escape", "header", "multiline")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the dialect for these options; the case of their names does not matter."""
        found = {name.lower(): value for name, value in options.items()}
        return cls(
            separator=found.get("sep", found.get("delimiter", ",")),
            quote=found.get("quote", '"'),
            escape=found.get("escape", "\\"),
            has_header=found.get("header", "").lower() == _TRUE,
            is_multiline=found.get("multiline", "").lower() == _TRUE,
        )


def read_values(path: str, dialect: CsvDialect, drift: Drift) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a file as the text columns `drift.declared`.
    Raises InvalidJobError for drift that must fail, and for a file of which Arrow would make other values than Spark.
    """
    if is_left_to_spark(path):
        msg = (
            "a source file is compressed in a form that only Spark's reader knows, and with schema-drift, tasks read "
            f"it; nothing was committed. Compress it with gzip, bzip2 or zstd, or remove schema-drift. file={path}"
        )
        raise InvalidJobError(msg)
    names: list[str] | None = None
    columns, line = 0, 1
    for block in _blocks(path, dialect):
        for text in _texts(block, dialect, path, line):
            ragged: list[tuple[bytes, int]] = []
            begins, columns = columns == 0, columns or _columns_of(text, dialect, path)
            values = _parsed(text, dialect, columns, ragged, path)
            if begins and columns > 0 and dialect.has_header:
                names = _names(values, drift, path)
                values = [array.slice(1) for array in values]
            elif begins and columns > 0:
                _check_places(columns, drift, path)
            if values:
                yield _in_place(values, len(values[0]), names, drift.declared)
            for row, count in ragged:
                if names is not None:
                    place = f"line={line + _lines_before(block, row)}, record={row.decode()[:_SHOWN]}"
                    msg = f"{RAGGED} file={path}, {place}, values={count}, names={len(names)}"
                    raise InvalidJobError(msg)
                _check_places(count, drift, path)
                yield _in_place(_parsed(row, dialect, count, [], path), 1, None, drift.declared)
        line += block.count(b"\n")


def _blocks(path: str, dialect: CsvDialect) -> Iterator[bytes]:
    """Yield the file in blocks of whole records."""
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    open_blocks: list[bytes] = []
    is_open = False
    try:
        for block in blocks_of_lines(FilePart(path, 0, None), _BLOCK_BYTES):
            if not dialect.is_multiline:
                yield block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
                continue
            is_open ^= odd_quotes(block, quote, escape)
            open_blocks.append(block)
            if not is_open:
                yield b"".join(open_blocks)
                open_blocks = []
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, and not about the bytes of the file
        raise InvalidJobError(_not_csv(path, error)) from error
    if open_blocks:
        yield b"".join(open_blocks)


def _texts(block: bytes, dialect: CsvDialect, path: str, line: int) -> Iterator[bytes]:
    """Yield the records of a block in texts that Arrow cuts as Spark does, each with one set of options.

    line: the number of the first line of the block. Raises InvalidJobError if there is a record of another form.
    """
    text = block if dialect.is_multiline else lines_with_text(block)
    if _is_understood(text, dialect):
        yield text
        return
    lines = enumerate([block] if dialect.is_multiline else block.split(b"\n"), line)
    for _, alike in groupby(lines, lambda numbered: _form(numbered[1], dialect)):
        numbered = list(alike)
        wrong = next(((number, one) for number, one in numbered if not _is_understood(one, dialect)), None)
        if wrong is not None:
            found = f"line={wrong[0]}, record={wrong[1].decode(errors='replace')[:_SHOWN]}"
            msg = f"{_NOT_UNDERSTOOD} file={path}, {found}"
            raise InvalidJobError(msg)
        yield lines_with_text(b"\n".join(one for _, one in numbered))


def _is_understood(text: bytes, dialect: CsvDialect) -> bool:
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    separator = ord(dialect.separator)
    return b"\0" not in text and (
        quote not in text or is_understood(text, quote, escape, separator, is_multiline=dialect.is_multiline)
    )


def _form(text: bytes, dialect: CsvDialect) -> tuple[bool, bool]:
    """Return whether a text has quotes, and then, whether Arrow has to remove escapes."""
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    return quote in text, quote in text and without_escaped(text, quote, escape) != text


def _columns_of(text: bytes, dialect: CsvDialect, path: str) -> int:
    """Return the number of values in the first record of a text; 0 if there is no record."""
    found = _read(text, dialect, pc_csv.ReadOptions(autogenerate_column_names=True), {}, [], path)
    return 0 if found is None else found.num_columns


def _parsed(
    text: bytes, dialect: CsvDialect, columns: int, ragged: list[tuple[bytes, int]], path: str
) -> list[pa.Array]:
    """Return the values of records as columns of texts; those with another number of values are added to `ragged`."""
    names = [str(number) for number in range(columns)]
    types = dict.fromkeys(names, pa.string())
    found = _read(text, dialect, pc_csv.ReadOptions(column_names=names), types, ragged, path) if names else None
    if found is None:
        return [pa.nulls(0, pa.string())] * columns
    return [column.combine_chunks() for column in found.columns]


def _read(
    text: bytes,
    dialect: CsvDialect,
    reading: pc_csv.ReadOptions,
    types: Mapping[str, pa.DataType],
    ragged: list[tuple[bytes, int]],
    path: str,
) -> pa.Table | None:
    """Return the records of a text; None if it has none."""

    def skip(row: Any) -> str:
        ragged.append((row.text.encode(), row.actual_columns))
        return "skip"

    text = text if text.endswith(b"\n") else text + b"\n"  # Arrow finds no names of columns in a line without an end
    reading.use_threads, reading.block_size = False, len(text) + 1
    has_quotes, has_escapes = _form(text, dialect)
    parsing = pc_csv.ParseOptions(
        delimiter=dialect.separator,
        quote_char=dialect.quote if has_quotes else False,
        double_quote=dialect.quote == dialect.escape,
        escape_char=dialect.escape if has_escapes else False,
        newlines_in_values=dialect.is_multiline,
        invalid_row_handler=skip,
    )
    converting = pc_csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    try:
        return pc_csv.read_csv(pa.BufferReader(text), reading, parsing, converting)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return None
        raise InvalidJobError(_not_csv(path, error)) from error


def _names(values: Sequence[pa.Array], drift: Drift, path: str) -> list[str]:
    """Return the names in the header, which is the first of some records."""
    names = [array[0].as_py() or "" for array in values]
    drift.check_names(names, file=path)
    _check_twice(names, path)
    return names


def _lines_before(block: bytes, row: bytes) -> int:
    """Return the number of lines before a record in a block that has it."""
    found = re.search(rb"(?m)^" + re.escape(row) + rb"\r?$", block)
    return 0 if found is None else block.count(b"\n", 0, found.start())


def _not_csv(path: str, cause: object) -> str:
    return (
        "a source file cannot be read as CSV, and nothing was committed. Correct or remove it; of what options say "
        f"of CSV, check sep, quote, escape and multiLine. file={path}, cause={cause}"
    )


def _in_place(
    arrays: Sequence[pa.Array], rows: int, names: list[str] | None, declared: Sequence[str]
) -> pa.RecordBatch:
    nothing = pa.nulls(rows, pa.string())
    if names is None:
        found = [*arrays[: len(declared)], *([nothing] * (len(declared) - len(arrays)))]
    else:
        by_name = {name.lower(): array for name, array in zip(names, arrays, strict=True)}
        found = [by_name.get(name.lower(), nothing) for name in declared]
    return pa.record_batch(found, names=list(declared))


def _check_places(values: int, drift: Drift, path: str) -> None:
    if values > len(drift.declared) and drift.new_column == "fail":
        raise InvalidJobError(new_column(path, [f"the {values - len(drift.declared)} after the last one"]))
    if values < len(drift.declared) and drift.missing_column == "fail":
        raise InvalidJobError(missing_column(path, drift.declared[values:]))


def _check_twice(names: list[str], path: str) -> None:
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        msg = (
            "a source file has two columns of one name, so it cannot be told which is meant; nothing was committed. "
            f"Rename one of them in the file. file={path}, column={twice}"
        )
        raise InvalidJobError(msg)
