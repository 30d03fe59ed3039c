"""The numbers that sums and means of an `over` step are made of. Whole numbers are in limbs (operators/aggregate)."""

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.exact import sum_type as exact_sum_type
from mixedmode.operators.aggregate.values import Int64s, integer_limbs
from mixedmode.operators.floats import Floats

__all__ = ["floats_of", "limbs_of", "sum_type"]


def sum_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of a sum of numbers, as in Spark."""
    return pa.float64() if pa.types.is_floating(data_type) else exact_sum_type(data_type)


def floats_of(values: pa.Array) -> Floats:
    """Return integers or floats (n,) as doubles, with 0 for NULL."""
    return pc.fill_null(values.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def limbs_of(values: pa.Array, result_type: pa.DataType) -> tuple[Int64s, ...]:
    """Return integers or decimals (n,) in as many limbs as a sum of `result_type` has, with 0 for NULL."""
    return integer_limbs(values.cast(result_type))
