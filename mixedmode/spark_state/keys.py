"""The key of a step in Spark's state and in ours: which columns are the same. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.errors import InvalidJobError

__all__ = ["KeyColumns", "is_bounds", "match_keys", "shown_fields"]

#: the name that Spark gives to a key that is an expression
_EXPRESSION = "_groupingexpression"


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The places of key columns in Spark's.  positions: of the columns of ours; window: of the bounds, if any."""

    fields: tuple[pa.Field, ...]
    positions: tuple[int, ...]
    window: int | None = None

    def columns(self, spark: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns of our key, with its types."""
        return [spark[at].cast(field.type) for at, field in zip(self.positions, self.fields, strict=True)]


def is_bounds(field: pa.Field) -> bool:
    """Return whether a column has the bounds of windows."""
    kind = field.type
    return bool(pa.types.is_struct(kind) and [one.name for one in kind] == ["start", "end"])


def match_keys(
    ours: Sequence[pa.Field], spark: Sequence[pa.Field], where: str, *, sql: str = "", has_window: bool = False
) -> KeyColumns:
    """Return where our key columns are in Spark's: by name, and keys without a name in their order.

    sql: the text that makes the rows of the step; a key may have another name by it. has_window: one of Spark's columns
    has the bounds of windows instead. Raise InvalidJobError, beginning with `where`, if the keys are not the same.
    """
    windows = [number for number, field in enumerate(spark) if is_bounds(field)]
    if len(windows) != has_window or len(ours) != len(spark) - has_window:
        raise _other_keys(ours, spark, where)
    window = windows[0] if windows else None
    left = [number for number in range(len(spark)) if number != window]
    by_name = {spark[number].name.lower(): number for number in left if spark[number].name != _EXPRESSION}
    found = {index: by_name.get(field.name.lower()) for index, field in enumerate(ours)}
    unnamed = iter(number for number in left if number not in found.values())
    positions = tuple(at if at is not None else next(unnamed) for at in found.values())
    for field, at in zip(ours, positions, strict=True):
        if not _is_named(field.name, spark[at].name, sql) or not _is_same(field.type, spark[at].type):
            raise _other_keys(ours, spark, where)
    return KeyColumns(tuple(ours), positions, window)


def shown_fields(fields: Sequence[pa.Field]) -> str:
    """Return columns as text for a message."""
    return ", ".join(f"{field.name} {field.type}" for field in fields) or "none"


def _is_named(ours: str, spark: str, sql: str) -> bool:
    """Return whether a key of ours may be the one that Spark names so.

    >>> _is_named("u", "user", "SELECT `user` AS u FROM records")
    True
    """
    if spark == _EXPRESSION or spark.lower() == ours.lower():
        return True
    return re.search(rf"`?\b{re.escape(spark)}\b`? AS `?{re.escape(ours)}\b", sql, re.IGNORECASE) is not None


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    texts = (pa.string(), pa.large_string())
    return one.equals(other) or (one in texts and other in texts)


def _other_keys(ours: Sequence[pa.Field], spark: Sequence[pa.Field], where: str) -> InvalidJobError:
    return InvalidJobError(
        f"{where}: the step and the operator of Spark have other keys, so they are not the same query. Nothing was "
        "imported. Write the keys as in the query of Spark, with their names and types. "
        f"keys_here={shown_fields(ours)}, keys_in_spark={shown_fields(spark)}"
    )
