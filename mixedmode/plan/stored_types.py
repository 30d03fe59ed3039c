"""The types of columns that a step stores, such as those of rows that wait, and of those that it orders rows by."""

from collections.abc import Iterable

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.row_columns import is_scalar, is_storable

__all__ = ["unordered", "unstorable"]


def unstorable(fields: Iterable[pa.Field], where: str, *, alias: str = "") -> list[InvalidJobError]:
    """Return the mistake of each column whose type cannot be stored.  alias: the name of the input that has them."""
    return [
        InvalidJobError(
            f"{where}: the step stores the columns of its input, and cannot store this type. Leave the column out in a "
            "sql step before, or cast it there, as with CAST(x AS STRING). "
            f"column={alias}{'.' if alias else ''}{field.name}, type={field.type}"
        )
        for field in fields
        if not is_storable(field.type)
    ]


def unordered(columns: Iterable[tuple[str, pa.DataType]], where: str) -> list[InvalidJobError]:
    """Return the mistake of each column by which rows cannot be ordered.  columns: (name or expression, type)."""
    return [
        InvalidJobError(
            f"{where}: rows cannot be ordered by values of this type. Order them by a field or an element of it, or "
            f"cast it, as with to_json. column={name}, type={data_type}"
        )
        for name, data_type in columns
        if not is_scalar(data_type)
    ]
