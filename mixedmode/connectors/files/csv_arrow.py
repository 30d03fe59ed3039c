"""Lines of CSV that map tasks read on Arrow, where Spark's reader returns the same rows (tasks/direct.py).

Only the plainest dialect is read here: one separator, and quotes around whole values, without any quote or line end in
a value. A block with anything else is doubtful, and Spark reads its file.

Invariants (tests/sources/test_lines_on_arrow.py):
  I1  a block that is not doubtful has the rows that Spark's reader returns in the mode FAILFAST
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from mixedmode.connectors.files.csv_quotes import are_around_values
from mixedmode.connectors.files.file_blocks import is_utf8
from mixedmode.connectors.files.strict_values import DoubtfulTextError, as_times, check_doubles, is_time
from mixedmode.plan.job_plan import LinesFormat

__all__ = ["lines_with_text", "plain_csv", "read_block"]

_QUOTE, _LINE_END = b'"\n'
_MARK = b"\xef\xbb\xbf"
_SPECIAL = (b"\r", b"\\", b"\0")
_BLANKS = bytes(range(33))  # Spark skips a line of nothing else
#: what Arrow's numbers may have and Spark's may not, or with another meaning: blanks around them, and other bases
_NOT_IN_NUMBERS = (b" ", b"\t", b"x", b"X")
_WHOLE_NUMBER, _NUMBER = r"^-?[0-9]+$", r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_OPTIONS = {"header", "sep", "delimiter"}


def plain_csv(options: Mapping[str, str]) -> LinesFormat | None:
    """Return the format of a source with these options of Spark's reader; None if only Spark reads it."""
    given = {name.lower(): value for name, value in options.items()}
    separator = given.get("sep", given.get("delimiter", ","))
    is_plain = (
        len(separator) == 1 and separator.isascii() and not separator.isalnum() and separator not in '"\\\r\n-+.: '
    )
    if not is_plain or not given.keys() <= _OPTIONS or {"sep", "delimiter"} <= given.keys():
        return None
    return LinesFormat(separator, given.get("header", "").lower() == "true")


def read_block(block: bytes, fields: Sequence[pa.Field], csv: LinesFormat, *, is_first: bool) -> pa.RecordBatch:
    """Return the records in a block of whole lines. Raise DoubtfulTextError if Spark might read another record.

    fields: all columns of the source, of EXACT_TYPES, as Spark's reader also checks those that nobody reads.
    is_first: the block is at the beginning of its file.
    """
    assert csv.separator is not None, csv
    lines, block = block, lines_with_text(block)
    if is_first and csv.has_header:
        if lines and not block:
            msg = "blank lines, after which the header may be in the next block"
            raise DoubtfulTextError(msg)
        header, _, block = block.partition(b"\n")
        if b"\r" in header:
            msg = "a line end within the header"
            raise DoubtfulTextError(msg)
    if not block:
        return pa.record_batch([pa.nulls(0, field.type) for field in fields], schema=pa.schema(fields))
    # Arrow drops a byte order mark at the beginning of any block
    if block.startswith(_MARK) or any(one in block for one in _SPECIAL) or not is_utf8(block):
        msg = "a character with a meaning of its own"
        raise DoubtfulTextError(msg)
    has_quotes = b'"' in block
    if has_quotes and not are_around_values(block, _QUOTE, ord(csv.separator)):
        msg = "a quote within a value"
        raise DoubtfulTextError(msg)
    table = _parsed(block, fields, csv, has_quotes=has_quotes)
    if table.num_rows != block.count(b"\n") + (not block.endswith(b"\n")):
        msg = "records that are not one line each"
        raise DoubtfulTextError(msg)
    arrays = [_converted(table.column(number).combine_chunks(), field) for number, field in enumerate(fields)]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def lines_with_text(block: bytes) -> bytes:
    """Return the lines that have more than blanks, with one kind of line end."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not block:  # of a file with a byte order mark and nothing else
        return block
    found = np.frombuffer(block, np.uint8)
    begins = np.append(0, np.flatnonzero(found[:-1] == _LINE_END) + 1)
    if (found[begins] > _BLANKS[-1]).all():
        return block
    lines = (line for line in block.split(b"\n") if line.strip(_BLANKS))
    return b"".join(line + b"\n" for line in lines)


def _parsed(block: bytes, fields: Sequence[pa.Field], csv: LinesFormat, *, has_quotes: bool) -> pa.Table:
    is_typed = not any(one in block for one in _NOT_IN_NUMBERS)
    types = {
        field.name: pa.string() if is_time(field.type) or (_is_number(field) and not is_typed) else field.type
        for field in fields
    }
    try:
        return pcsv.read_csv(
            pa.BufferReader(block),
            read_options=pcsv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=[field.name for field in fields]
            ),
            parse_options=pcsv.ParseOptions(
                delimiter=csv.separator,
                quote_char='"' if has_quotes else False,
                double_quote=False,
                escape_char=False,
                ignore_empty_lines=False,
            ),
            convert_options=pcsv.ConvertOptions(
                column_types=types,
                null_values=[""],
                true_values=["true"],
                false_values=["false"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
            ),
        )
    except pa.ArrowException as error:
        raise DoubtfulTextError(str(error)) from error


def _converted(array: pa.Array, field: pa.Field) -> pa.Array:
    if is_time(field.type):
        return as_times(array, field.type)
    if array.type != field.type:
        array = _number(array, field.type)
    if pa.types.is_floating(field.type):
        check_doubles(array)
        if not pc.all(pc.is_finite(array)).as_py() and len(array) > array.null_count:
            msg = "a double without a finite value"
            raise DoubtfulTextError(msg)
    return array


def _number(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert texts to numbers, without the blanks and other bases that Arrow allows."""
    usual = _NUMBER if pa.types.is_floating(data_type) else _WHOLE_NUMBER
    if not pc.all(pc.match_substring_regex(texts, usual)).as_py() and len(texts) > texts.null_count:
        msg = "a number of another form"
        raise DoubtfulTextError(msg)
    try:
        return texts.cast(data_type)
    except pa.ArrowInvalid as error:
        raise DoubtfulTextError(str(error)) from error


def _is_number(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
