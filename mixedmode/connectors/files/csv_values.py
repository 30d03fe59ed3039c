"""Reads CSV files as text columns of the declared schema: by the names in the header line, or by position without one.

Arrow cuts lines into values, block by block. Python examines only lines whose number of values differs from that of
the first line. A missing value is NULL; a quoted empty value is the empty text.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pc_csv

from mixedmode.config.drift import RAGGED, Drift, missing_column, new_column
from mixedmode.errors import InvalidJobError

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


@dataclass
class _Ragged:
    """Collects the lines that Arrow reports because their number of values differs from that of the first line."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, row: Any) -> str:
        self.lines.append(row.text)
        return "skip"


def read_values(path: str, dialect: CsvDialect, drift: Drift) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a file as the text columns `drift.declared`.
    Raises InvalidJobError for drift that must fail.
    """
    first = _first_line(path, dialect)
    if first is None:
        return
    names = first if dialect.has_header else None
    if names is not None:
        drift.check_names(names, file=path)
        _check_twice(names, path)
    else:
        _check_places(len(first), drift, path)
    ragged = _Ragged()
    for batch in _batches(path, dialect, len(first), ragged):
        yield _in_place(batch.columns, batch.num_rows, names, drift.declared)
        yield from _rest(ragged, dialect, names, drift, path)
    yield from _rest(ragged, dialect, names, drift, path)


def _first_line(path: str, dialect: CsvDialect) -> list[str] | None:
    with _text(path) as lines:
        return next((line for line in _cut(lines, dialect) if line), None)


def _batches(path: str, dialect: CsvDialect, columns: int, ragged: _Ragged) -> Iterator[pa.RecordBatch]:
    names = [str(number) for number in range(columns)]
    reading = pc_csv.ReadOptions(
        use_threads=False,
        block_size=_BLOCK_BYTES,
        column_names=names,
        skip_rows_after_names=1 if dialect.has_header else 0,
    )
    parsing = pc_csv.ParseOptions(
        delimiter=dialect.separator,
        quote_char=dialect.quote,
        double_quote=True,
        escape_char=False if dialect.escape == dialect.quote else dialect.escape,
        newlines_in_values=dialect.is_multiline,
        invalid_row_handler=ragged,
    )
    converting = pc_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        yield from pc_csv.open_csv(pa.input_stream(path), reading, parsing, converting)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # nothing after the header line
            return
        msg = (
            "a source file cannot be read as CSV, and nothing was committed. Correct or remove it; of what options say "
            f"of CSV, check sep, quote, escape and multiLine. file={path}, cause={error}"
        )
        raise InvalidJobError(msg) from error


def _rest(
    ragged: _Ragged, dialect: CsvDialect, names: list[str] | None, drift: Drift, path: str
) -> Iterator[pa.RecordBatch]:
    """Yield the lines that Arrow has skipped since the last call."""
    lines, ragged.lines = ragged.lines, []
    for text in lines:
        (values,) = _cut(io.StringIO(text), dialect)
        if names is not None:
            line = _line_of_first_ragged(path, dialect, len(names))
            found = f"record={text[:200]}, values={len(values)}, names={len(names)}"
            msg = f"{RAGGED} file={path}, line={line}, {found}"
            raise InvalidJobError(msg)
        _check_places(len(values), drift, path)
        arrays = [pa.array([value or None], pa.string()) for value in values]
        yield _in_place(arrays, 1, None, drift.declared)


def _line_of_first_ragged(path: str, dialect: CsvDialect, columns: int) -> int:
    """Return the number of the first line that has another number of values. Arrow's own numbers skip blank lines."""
    with _text(path) as lines:
        rows = _cut(lines, dialect)
        next((row for row in rows if row and len(row) != columns), None)
        return int(rows.line_num)


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


def _text(path: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(pa.input_stream(path)), encoding="utf-8-sig", newline="")


def _cut(lines: Any, dialect: CsvDialect) -> Any:
    """Return a reader of Python's module: an iterator of lists of texts, with `line_num`."""
    escape = None if dialect.escape == dialect.quote else dialect.escape
    return csv.reader(lines, delimiter=dialect.separator, quotechar=dialect.quote, escapechar=escape)
