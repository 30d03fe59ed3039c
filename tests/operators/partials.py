"""Partial aggregates as the engine makes them: one per group of a slice of rows, merged when slices meet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate import Aggregator, aggregate_function, aggregator_for
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument
from mixedmode.state import RowCodec


@dataclass(frozen=True, slots=True)
class Partials:
    """Registers of some groups: `groups` (g,) are their distinct numbers, `columns` the state columns (g,) each."""

    groups: npt.NDArray[np.int64]
    columns: list[pa.Array]


def aggregator_of(*calls: tuple[str, pa.DataType | None], counts_rows: bool = False) -> Aggregator:
    """An aggregator with one argument column per call of (function, type); None is count(*)."""
    outputs = {
        f"{function}_{i}": aggregate_function(
            function, None if data_type is None else i, data_type, has_event_time=True, where="job.yaml:7"
        )
        for i, (function, data_type) in enumerate(calls)
    }
    return aggregator_for(outputs, arguments=len(calls), counts_rows=counts_rows)


def fold(
    aggregator: Aggregator,
    groups: Sequence[int],
    arguments: Sequence[pa.Array],
    *,
    times_us: Sequence[int] | None = None,
    weights: Sequence[int] | None = None,
) -> Partials:
    """One partial per group that has rows, as the map side makes them."""
    present, codes = np.unique(np.array(groups, np.int64), return_inverse=True)
    rows = Rows(
        {i: Argument(column) for i, column in enumerate(arguments)},
        None if times_us is None else np.array(times_us, np.int64),
    )
    grouping = Grouping(codes, len(present), None if weights is None else np.array(weights, np.int64))
    return Partials(present, aggregator.partials(grouping, rows))


def merge(aggregator: Aggregator, parts: Sequence[Partials]) -> Partials:
    """One partial per group of all parts."""
    every = np.concatenate([part.groups for part in parts])
    present, codes = np.unique(every, return_inverse=True)
    columns = [pa.concat_arrays(columns) for columns in zip(*(part.columns for part in parts), strict=True)]
    return Partials(present, aggregator.merge(Grouping(codes, len(present)), columns))


def stored(aggregator: Aggregator, partials: Partials) -> Partials:
    """The partials after they were written to the state and read from it again."""
    codec = RowCodec(aggregator.state_fields)
    return Partials(partials.groups, codec.unpack(codec.pack(partials.columns)))
