"""Parses JSON texts into records, and checks that no part of a text is ignored.

Every JSON parser of Spark reads the first value of a text and ignores the rest: of `{"id":1}{"id":2}` it returns one
record, without an error. So a text is parsed between two marks. The second mark is found only if the parser has read
the whole text:

    {"<mark>":[[   text   ],[{"<mark>":1}]]}

A text that closes one of our brackets either hides the second mark or adds a list. For example, the text `1],[2` makes
three lists instead of two. The mark is random, so no text contains it.

Invariants (tests/sources/test_json_files.py):
  I1  a text that is not exactly one JSON value is not whole
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

__all__ = ["JsonRecords"]

_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """Parses texts into records of `fields`, with the options of Spark's parser."""

    fields: StructType
    options: Mapping[str, str]
    _mark: str = field(default_factory=lambda: f"_mixedmode_{secrets.token_hex(8)}")

    def decoded(self, text: Column, *, takes_arrays: bool) -> Column:
        """Return the value that the other methods read; the text holds one object, or, if `takes_arrays`, an array of
        objects.

        The value is expensive: use a plan in which Spark computes it once.
        """
        begin, end = f'{{"{self._mark}":[', f'\n,[{{"{self._mark}":1}}]]}}'
        inside = F.concat(F.lit(f"{begin}["), text, F.lit(f"\n]{end[1:]}"))
        if takes_arrays:
            inside = F.when(_is_array(text), F.concat(F.lit(begin), text, F.lit(end))).otherwise(inside)
        record = StructType([*self.fields, StructField(self._mark, IntegerType())])
        schema = StructType(
            [StructField(self._mark, ArrayType(ArrayType(record))), StructField(self._corrupt, StringType())]
        )
        options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": self._corrupt}
        return F.from_json(inside, schema, options)

    def is_whole(self, decoded: Column) -> Column:
        """Return whether the text is one JSON value, and each value in it has the type of its field; never NULL."""
        lists = decoded.getField(self._mark)
        has_mark = F.get(F.get(lists, F.lit(1)), F.lit(0)).getField(self._mark) == 1
        fits = (F.size(lists) == 2) & has_mark & decoded.getField(self._corrupt).isNull()
        return F.coalesce(fits, F.lit(False))

    def records(self, decoded: Column) -> Column:
        """Return the records in a whole text: those of an array, else one record, or none if the text is blank."""
        return F.get(decoded.getField(self._mark), F.lit(0))

    def is_single(self, text: Column, decoded: Column) -> Column:
        """Return whether a whole text is an array, or has at most one record; `{"id":1},{"id":2}` is neither."""
        return _is_array(text) | (F.size(self.records(decoded)) <= 1)

    @property
    def _corrupt(self) -> str:
        return f"{self._mark}_corrupt"


def _is_array(text: Column) -> Column:
    return F.startswith(F.ltrim(text, F.lit(_BLANK)), F.lit("["))
