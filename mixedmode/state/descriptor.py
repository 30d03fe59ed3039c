"""The description of one keyed state: its id in the key layout, its name, and the columns of a value."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """`state_id` (0..255) is unique within an operator and part of every stored key; `fields` are the value's columns.

    Fields are int64, float64 or large_binary, each nullable, in stored order; () if the operator packs values itself.
    `is_read_by_key`: False if the operator only scans the state, so that its runs need no filter of keys.
    """

    state_id: int
    name: str
    fields: tuple[pa.Field, ...]
    is_read_by_key: bool = True

    def as_json(self) -> Mapping[str, object]:
        """Return a JSON value for the manifest, which is enough to decode the stored values without the program."""
        return {
            "state_id": self.state_id,
            "name": self.name,
            "fields": [{"name": field.name, "type": str(field.type)} for field in self.fields],
        }
