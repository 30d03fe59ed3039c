"""The aggregates of one keyed step: they turn rows into partials, merge partials, and compute the results.

Invariant (tests/operators/test_aggregator.py): aggregates that need the same register share it. So avg(x), sum(x) and
count(x) of a double keep two columns of state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.calls import AggregateFunction
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Count, Register, Rows
from mixedmode.operators.aggregate.values import Values


@dataclass(frozen=True, slots=True)
class Aggregator:
    """The aggregates of one keyed step and their registers. Picklable; holds no data."""

    outputs: Mapping[str, AggregateFunction]
    registers: tuple[Register, ...]
    arguments: int  # number of argument columns, named `argument_name(i)`

    @property
    def state_fields(self) -> tuple[pa.Field, ...]:
        """The columns of one key's state, in the order in which they are stored."""
        return tuple(
            pa.field(f"_r{index}_{part}", data_type)
            for index, register in enumerate(self.registers)
            for part, data_type in enumerate(register.fields)
        )

    @property
    def result_fields(self) -> tuple[pa.Field, ...]:
        """The result columns, in the order of the job file."""
        return tuple(pa.field(name, function.result_type) for name, function in self.outputs.items())

    @property
    def is_invertible(self) -> bool:
        """True if rows can be retracted exactly, by weight -1."""
        return all(register.is_invertible for register in self.registers)

    @property
    def goes_by_time(self) -> bool:
        """True if results depend on the event times of rows."""
        return any(register.goes_by_time for register in self.registers)

    def partials(self, grouping: Grouping, rows: Rows) -> list[pa.Array]:
        """Return one partial per group of rows: columns of `state_fields`, (grouping.size,) each."""
        with np.errstate(invalid="ignore", over="ignore"):  # as in SQL, inf - inf is NaN
            parts = [register.from_rows(grouping, rows) for register in self.registers]
        return _to_arrow(parts)

    def merge(self, grouping: Grouping, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Merge partials into one per group: the same columns, (grouping.size,) each."""
        with np.errstate(invalid="ignore", over="ignore"):
            parts = [register.merge(grouping, values) for register, values in self._by_register(columns).items()]
        return _to_arrow(parts)

    def results(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the result columns of state columns, row by row. Raise InvalidJobError if a sum overflows its type."""
        state = self._by_register(columns)
        with np.errstate(invalid="ignore", over="ignore"):
            return [function.result(state) for function in self.outputs.values()]

    def row_counts(self, columns: Sequence[pa.Array]) -> "np.typing.NDArray[np.int64]":
        """Return the number of rows (n,) of each key. Only a step over a changelog always counts its rows."""
        return self._by_register(columns)[Count(None)][0].integers

    def _by_register(self, columns: Sequence[pa.Array]) -> dict[Register, tuple[Values, ...]]:
        waiting = iter(columns)
        return {
            register: tuple(Values.from_arrow(next(waiting)) for _ in register.fields) for register in self.registers
        }


def aggregator_for(outputs: Mapping[str, AggregateFunction], *, arguments: int, counts_rows: bool) -> Aggregator:
    """Return the aggregator of `outputs`. `counts_rows` adds a row count, which shows when a key has no rows left."""
    wanted: list[Register] = [Count(None)] if counts_rows else []
    wanted.extend(register for function in outputs.values() for register in function.registers)
    return Aggregator(dict(outputs), tuple(dict.fromkeys(wanted)), arguments)


def argument_name(index: int) -> str:
    """Return the name of argument column `index` in the operator's input tables."""
    return f"_arg{index}"


def _to_arrow(parts: Sequence[tuple[Values, ...]]) -> list[pa.Array]:
    return [values.to_arrow() for register_parts in parts for values in register_parts]
