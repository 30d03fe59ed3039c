"""The function of query 14, which SQL calls."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import LongType


def _count_char(text: pa.Array, character: pa.Array) -> pa.Array:
    """Count how often the character, which is the same in all rows, occurs in each text."""
    return pc.count_substring(text, character[0].as_py() if len(character) else "").cast(pa.int64())


#: PySpark's types want the kind of function as an argument, and PySpark warns where it is given
count_char = arrow_udf(_count_char, LongType())  # type: ignore[call-overload]
