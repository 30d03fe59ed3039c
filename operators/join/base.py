"""The properties that all joins share."""

from dataclasses import dataclass

import pyarrow as pa

from mixedmode.operators.interface import NoSideOutputs, OperatorAttributes
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.sort import Combine

__all__ = ["JoinBase"]


@dataclass(frozen=True, slots=True)
class JoinBase(NoSideOutputs):
    """A join: the columns of its sides and of its output."""

    layout: JoinLayout

    attributes = OperatorAttributes()

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The side, and the columns of both sides."""
        return self.layout.input_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """None: equal rows of a side make equal rows of the result."""
        return ()

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The selected columns."""
        return self.layout.output_fields

    @property
    def combine(self) -> Combine | None:
        """None: every row is kept."""
        return None
