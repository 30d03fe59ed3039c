"""The encoding of each column of a Parquet file, chosen from its first rows. Pure.

    values that repeat                                    a dictionary
    whole numbers and times near the one before           the difference from it (DELTA_BINARY_PACKED)
    others                                                as they are

Each is chosen where it makes the file smaller and takes less time. Texts always have a dictionary, because examining
them takes as long as building it does.

Source: https://parquet.apache.org/docs/file-format/data-pages/encodings/. Spark reads all of them in batches.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import distinct_part
from mixedmode.keys.values import payload_words

__all__ = ["Encodings", "encodings_of"]

_ROWS_LOOKED_AT = 2**15  # fewer rows get dictionaries for all columns, without a look
_DISTINCT_PART = 0.5  # with more distinct values per row, or run of equal values, a dictionary is useless
_LONG_RUN = 64  # rows: what a dictionary makes of such a run is much smaller than what a compression does
_NEAR_PART = 0.75  # of the bits of a value: where differences have more, they take longer to write


@dataclass(frozen=True, slots=True)
class Encodings:
    """The columns with a dictionary, or True for all; and the encodings of others by their name, None for none."""

    dictionaries: list[str] | bool
    others: dict[str, str] | None


def encodings_of(first: pa.Table, *, is_compressed: bool) -> Encodings:
    """Return how to encode the columns of a file that begins with these rows.

    A dictionary of values that hardly repeat makes a file larger, and takes longer to build than the values take to
    write; the key of an aggregate's rows is an example. Values that repeat in neighbouring rows only, as those of a
    join do, are made about as small by compression, in less time.
    """
    if first.num_rows < _ROWS_LOOKED_AT or any(pa.types.is_nested(field.type) for field in first.schema):
        return Encodings(dictionaries=True, others=None)
    looked_at = first.slice(0, _ROWS_LOOKED_AT).combine_chunks()
    columns = {name: looked_at.column(name).chunk(0) for name in first.column_names}
    repeated = [name for name, column in columns.items() if _repeats(column, is_compressed=is_compressed)]
    near = [name for name, column in columns.items() if name not in repeated and _are_near(column)]
    return Encodings(repeated, dict.fromkeys(near, "DELTA_BINARY_PACKED"))


def _repeats(column: pa.Array, *, is_compressed: bool) -> bool:
    if payload_words(column.type) is None:
        return True
    runs = pc.run_end_encode(column).values if is_compressed else column
    return len(runs) * _LONG_RUN <= len(column) or distinct_part([runs]) < _DISTINCT_PART


def _are_near(column: pa.Array) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_duration)
    if not any(is_kind(column.type) for is_kind in kinds):
        return False
    bits = max(32, column.type.bit_width)  # as in the file
    values = column.drop_null().view(f"int{column.type.bit_width}").to_numpy().astype(np.float64)
    return bool(np.median(np.abs(np.diff(values))) < 2.0 ** (_NEAR_PART * bits))
