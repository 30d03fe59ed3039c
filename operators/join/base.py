"""The properties that all joins share."""

from dataclasses import dataclass

import pyarrow as pa

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import OperatorBase
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.time import EpochTime

__all__ = ["JoinBase"]


@dataclass(frozen=True, slots=True)
class JoinBase(OperatorBase):
    """A join: the columns of its sides and of its output."""

    layout: JoinLayout

    def drops_alone(self, side: int) -> bool:  # noqa: ARG002 - for the joins that do
        """Return whether a row of a side that never has a partner leaves nothing in the result."""
        return False

    def is_done_alone(self, side: int, times_us: Int64s, time: EpochTime) -> Bools:  # noqa: ARG002
        """Return (n,) True for rows of a side that `drops_alone` and that are not kept after the epoch of this time."""
        return time.has_passed(times_us)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The side, and the columns of both sides."""
        return self.layout.input_fields

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The selected columns."""
        return self.layout.output_fields
