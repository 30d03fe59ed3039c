"""Aggregates of several columns, folded in pieces, and the same recomputed from lists in plain Python."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mixedmode.operators.aggregate import AggregateFunction, Column, aggregate_function, aggregator_for
from tests.operators.arguments import column, values_of
from tests.operators.oracle import Record, aggregate, order_of
from tests.operators.partials import Partials, fold, merge, stored


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its group, its event time, and its columns."""

    group: int
    time_us: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call: columns by number, `types` of all columns."""

    function: str
    types: tuple[pa.DataType, ...]
    by: int | None = None
    parameters: tuple[float, ...] = ()
    condition: int | None = None
    has_event_time: bool = True

    @property
    def built(self) -> AggregateFunction:
        """The function over column 0."""
        by, condition = (None if i is None else Column(i, self.types[i]) for i in (self.by, self.condition))
        return aggregate_function(
            self.function,
            0,
            self.types[0],
            has_event_time=self.has_event_time,
            where="job.yaml:7",
            by=by,
            parameters=self.parameters,
            condition=condition,
        )


def found(asked: Asked, rows: Sequence[Row], cuts: Sequence[int] = ()) -> dict[int, Any]:
    """{group: result}: each piece is folded, stored and read back, and then merged with those before it."""
    aggregator = aggregator_for({"a": asked.built}, arguments=len(asked.types), counts_rows=False)
    total: Partials | None = None
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        if start == end:
            continue
        piece = rows[start:end]
        columns = [column([r.values[i] for r in piece], t, skipped=start % 3) for i, t in enumerate(asked.types)]
        times = [r.time_us for r in piece] if asked.has_event_time else None
        partials = stored(aggregator, fold(aggregator, [r.group for r in piece], columns, times_us=times))
        total = partials if total is None else stored(aggregator, merge(aggregator, [total, partials]))
    assert total is not None, "at least one row"
    assert [c.type for c in total.columns] == [f.type for f in aggregator.state_fields], "types do not depend on data"
    (results,) = aggregator.results(total.columns)
    results.validate(full=True)
    assert results.type == aggregator.result_fields[0].type
    return dict(zip(total.groups.tolist(), results.to_pylist(), strict=True))


def expected(asked: Asked, rows: Sequence[Row]) -> dict[int, Any]:
    """{group: result} in plain Python."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    kept = {
        group: [r for r in members if asked.condition is None or r.values[asked.condition]]
        for group, members in groups.items()
    }
    return {group: _ORACLE[asked.function](asked, members) for group, members in kept.items()}


@st.composite
def cases(draw: st.DrawFn, types: Sequence[pa.DataType], max_size: int = 14) -> tuple[list[Row], list[int]]:
    """Rows of three groups with columns of `types`, and where they are cut."""
    pools = [draw(st.lists(values_of(t), min_size=1, max_size=3)) for t in types]
    values = [st.none() | st.sampled_from(pool) | values_of(t) for pool, t in zip(pools, types, strict=True)]
    times = st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1)
    rows = draw(st.lists(st.builds(Row, st.integers(0, 2), times, st.tuples(*values)), min_size=1, max_size=max_size))
    return rows, sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit, values of lists included."""
    if isinstance(one, list) and isinstance(other, list):
        return list(map(order_of, one)) == list(map(order_of, other))
    return type(one) is type(other) and order_of(one) == order_of(other)


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(_normal, value))
    return value + 0.0 if isinstance(value, float) else value


def _values(rows: Sequence[Row]) -> list[Any]:
    return [row.values[0] for row in rows if row.values[0] is not None]


def _distinct(asked: Asked, rows: Sequence[Row]) -> list[Any]:
    return [v for _, v in sorted({order_of(_normal(v)): _normal(v) for v in _values(rows)}.items())]


def _collect_list(asked: Asked, rows: Sequence[Row]) -> list[Any]:
    present = [row for row in rows if row.values[0] is not None]
    ordered = sorted(present, key=lambda r: (r.time_us if asked.has_event_time else 0, order_of(r.values[0])))
    return _values(ordered)[: int(asked.parameters[0])]


def _edge(asked: Asked, rows: Sequence[Row]) -> Any:
    assert asked.by is not None
    by = asked.by
    pick = max if asked.function == "max_by" else min
    present = [row for row in rows if row.values[by] is not None]
    if not present:
        return None
    return pick(present, key=lambda row: (order_of(_normal(row.values[by])), order_of(row.values[0]))).values[0]


def _in_time(asked: Asked, rows: Sequence[Row]) -> Any:
    pick = max if asked.function == "last" else min
    return pick(rows, key=lambda r: (r.time_us, order_of(r.values[0]))).values[0] if rows else None


def _percentile(asked: Asked, rows: Sequence[Row]) -> Any:
    ordered = sorted(map(_normal, _values(rows)), key=order_of)
    return ordered[max(math.ceil(len(ordered) * asked.parameters[0]), 1) - 1] if ordered else None


_ORACLE: Mapping[str, Callable[[Asked, Sequence[Row]], Any]] = {
    "count": lambda asked, rows: len(_values(rows)),
    "sum": lambda asked, rows: sum(_values(rows)) if _values(rows) else None,
    "max": lambda asked, rows: max(_values(rows), key=order_of, default=None),
    "bool_or": lambda asked, rows: any(_values(rows)) if _values(rows) else None,
    "first": _in_time,
    "last": _in_time,
    "mode": lambda asked, rows: aggregate("mode", [Record(value) for value in _values(rows)], asked.types[0]),
    "sum_distinct": lambda asked, rows: sum(_distinct(asked, rows)) if _values(rows) else None,
    "count_distinct": lambda asked, rows: len(_distinct(asked, rows)),
    "approx_count_distinct": lambda asked, rows: len(_distinct(asked, rows)),
    "approx_percentile": _percentile,
    "min_by": _edge,
    "max_by": _edge,
    "collect_list": _collect_list,
    "collect_set": lambda asked, rows: _distinct(asked, rows)[: int(asked.parameters[0])],
}
