"""The changes of a join whose rows may be retracted."""

from dataclasses import dataclass

import pyarrow as pa
from typing_extensions import override

from mixedmode.errors import InternalError
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.interface import WEIGHT_COLUMN, AppendedRows, Changes

__all__ = ["JoinedRows"]


@dataclass(frozen=True, slots=True)
class JoinedRows(Changes):
    """Rows of a join that changes: added or retracted ones, by their weight of +1 or -1."""

    rows: pa.Table
    weights: Int64s

    @override
    def upserts(self) -> pa.Table:
        """Return added rows. Raise InternalError for retracted ones: a row has no key by which to find it."""
        if (self.weights < 0).any():
            msg = "a join retracts rows, and its output has no key by which to find them. This is a defect; report it."
            raise InternalError(msg)
        return AppendedRows(self.rows).upserts()

    @override
    def changelog(self) -> pa.Table:
        return self.rows.append_column(WEIGHT_COLUMN, pa.array(self.weights))
