"""Slices of files of JSON and CSV that map tasks read on Arrow (tasks/direct.py), where that is exact.

A file in which anything is in doubt is left to Spark: the reader raises LeftToSparkError, and the epoch runs again with
Spark as its reader (executor/spark.py). So an unusual form of a value costs time, and never another answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from mixedmode.connectors.files import csv_arrow, json_arrow
from mixedmode.connectors.files.csv_arrow import plain_csv
from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines, is_compressed, is_left_to_spark
from mixedmode.connectors.files.file_slices import FileSlice
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.connectors.files.strict_values import EXACT_TYPES, DoubtfulTextError
from mixedmode.errors import LeftToSparkError
from mixedmode.plan.job_plan import LinesFormat

__all__ = ["lines_format", "only_spark_parses", "read_text_slices"]

_BLOCK_BYTES = 4 * 1024 * 1024


def only_spark_parses(source: FileSourceSpec, types: Mapping[str, str]) -> str | None:
    """Return what a source of JSON or CSV has that only Spark parses; None if tasks can parse its usual lines.

    types: {column: Spark's name of its type}.
    """
    if source.schema_drift is not None:
        return "schema-drift"
    if source.undecodable != "fail":
        return "dead letters"
    if (source.format == "json" and source.options) or lines_format(source) is None:
        return "options of Spark's reader"
    for column, name in types.items():
        if name not in EXACT_TYPES:
            return f"a column of a type that only Spark parses: {column} {name}"
    return None


def lines_format(source: FileSourceSpec) -> LinesFormat | None:
    """Return how tasks parse the lines of a source; None for Parquet, and for what only Spark parses."""
    return {"json": LinesFormat(), "csv": plain_csv(source.options), "parquet": None}[source.format]


def read_text_slices(
    slices: Sequence[FileSlice], fields: Sequence[pa.Field], lines: LinesFormat, tell: Callable[[float], object]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices as batches of `fields`, which are all columns of the source.

    Raise LeftToSparkError for a file that only Spark may read. tell: called before each batch with its bytes.
    """
    for piece in slices:
        try:
            part = _part(piece)
            for number, block in enumerate(blocks_of_lines(part, _BLOCK_BYTES)):
                is_first = number == part.begin == 0
                rows = _read_block(block, fields, lines, is_first=is_first)
                tell(len(block))
                yield rows
        except (DoubtfulTextError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            msg = f"file={piece.path}, cause={error}"
            raise LeftToSparkError(msg) from error


def _read_block(block: bytes, fields: Sequence[pa.Field], lines: LinesFormat, *, is_first: bool) -> pa.RecordBatch:
    if lines.separator is None:
        return json_arrow.read_block(block, fields)
    return csv_arrow.read_block(block, fields, lines, is_first=is_first)


def _part(piece: FileSlice) -> FilePart:
    if is_left_to_spark(piece.path):
        msg = "a compression that only Spark reads"
        raise DoubtfulTextError(msg)
    if is_compressed(piece.path):
        return FilePart(piece.path, 0, None)
    return FilePart(piece.path, piece.begin, piece.end)
