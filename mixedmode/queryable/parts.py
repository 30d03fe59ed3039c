"""A part of a step's state: where its entries are, and what they mean."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mixedmode.keys import KeySchema, key_widths
from mixedmode.state import StateRange
from mixedmode.state.arrow_bytes import large_binary
from mixedmode.state.keys import PREFIX_BYTES

__all__ = ["Columns", "Moment", "Part", "StateView", "free_name"]

Columns = Callable[[Sequence[bytes]], Mapping[str, pa.Array | Sequence[Any]]]


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name of a column that a view adds: with underscores before it while the job has one of this name.

    >>> free_name("_time", ["k", "_time"])
    '__time'
    """
    while name in taken:
        name = f"_{name}"
    return name


@dataclass(frozen=True, slots=True)
class Moment:
    """The watermark and the processing time of an epoch; None if it has none."""

    watermark_us: int | None
    clock_ms: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """One readable part of a state.

    `decode` turns entries of whole keys into rows. `bytes_before`: how many bytes are between state id and key; then
    entries are ordered by a time before the key. `is_exact`: nothing follows the key, so a key has one entry.
    `columns`, of an exact part: turns the values of entries into the columns behind the key columns, a row for each. A
    column is an array, or a list of Python's values that are such in JSON, too.
    """

    name: str
    state_id: int
    decode: Callable[[StateRange], pa.Table]
    bytes_before: int = 0
    is_exact: bool = False
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class StateView:
    """A part, the schema of its stored keys, and the user's key columns: () for un-keyed input."""

    schema: KeySchema
    key_fields: tuple[pa.Field, ...]
    part: Part

    def keys_of(self, stored: Sequence[bytes]) -> list[bytes]:
        """Return the encoded keys (n,) in stored keys (n,)."""
        first = PREFIX_BYTES + self.part.bytes_before
        if self.part.is_exact:
            return [key[first:] for key in stored]
        if self.schema.width is not None:
            return [key[first : first + self.schema.width] for key in stored]
        widths = key_widths(large_binary(stored), self.schema, after=first).tolist()
        return [key[first : first + width] for key, width in zip(stored, widths, strict=True)]
