"""Every aggregate in every kind of window: as over the records of the window at once. And every window over RocksDB."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mixedmode.operators.aggregate import Aggregator, Column, aggregate_function, aggregator_for
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.values import Argument
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, Cumulating, Sliding, Tumbling
from tests.operators.epochs import RunState
from tests.operators.window.runs import AGGREGATOR, KEYED, Event, Run, epoch_time, key_values

_NUMBER, _TEXT, _IS_ODD, _DOUBLE = (
    Column(i, data_type) for i, data_type in enumerate([pa.int64(), pa.string(), pa.bool_(), pa.float64()])
)
CALLS: dict[str, tuple[str, Column | None, dict[str, Any]]] = {
    "rows": ("count", None, {}),
    "odd_rows": ("count", None, {"condition": _IS_ODD}),
    "sum": ("sum", _NUMBER, {}),
    "odd_sum": ("sum", _NUMBER, {"condition": _IS_ODD}),
    "sum_double": ("sum", _DOUBLE, {}),
    "avg": ("avg", _DOUBLE, {}),
    "min": ("min", _TEXT, {}),
    "odd_max": ("max", _TEXT, {"condition": _IS_ODD}),
    "first": ("first", _TEXT, {}),
    "last": ("last", _NUMBER, {}),
    "stddev": ("stddev_samp", _NUMBER, {}),
    "bool_or": ("bool_or", _IS_ODD, {}),
    "bool_and": ("bool_and", _IS_ODD, {}),
    "distinct": ("count_distinct", _TEXT, {}),
    "distinct_sum": ("sum_distinct", _NUMBER, {}),
    "odd_distinct_mean": ("avg_distinct", _DOUBLE, {"condition": _IS_ODD}),
    "mode": ("mode", _TEXT, {}),
    "odd_mode": ("mode_descending", _NUMBER, {"condition": _IS_ODD}),
    "approx_distinct": ("approx_count_distinct", _NUMBER, {}),
    "median": ("approx_percentile", _DOUBLE, {"parameters": (0.5,)}),
    "text_of_least": ("min_by", _TEXT, {"by": _NUMBER}),
    "text_of_greatest": ("max_by", _TEXT, {"by": _NUMBER}),
    "numbers": ("collect_list", _NUMBER, {"parameters": (5,)}),
    "exact_median": ("median", _DOUBLE, {}),
    "odd_median": ("median", _NUMBER, {"condition": _IS_ODD}),
    "tenth": ("percentile", _NUMBER, {"parameters": (0.1,)}),
    "odd_tenth": ("percentile_disc_descending", _NUMBER, {"parameters": (0.1,), "condition": _IS_ODD}),
    "about_half": ("approx_median", _NUMBER, {}),
    "bits_of_all": ("bit_and", _NUMBER, {}),
    "bits_of_any": ("bit_or", _NUMBER, {}),
    "odd_bits": ("bit_xor", _NUMBER, {"condition": _IS_ODD}),
    "odd_numbers": ("count_if", _IS_ODD, {}),
    "skewness": ("skewness", _NUMBER, {}),
    "kurtosis": ("kurtosis", _NUMBER, {}),
    **{
        name: (name, _DOUBLE, {"by": _NUMBER})
        for name in ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_count")
    },
    **{name: (name, _NUMBER, {"by": _DOUBLE}) for name in ("regr_avgx", "regr_avgy", "regr_sxx", "regr_syy")},
    "odd_sxy": ("regr_sxy", _NUMBER, {"by": _DOUBLE, "condition": _IS_ODD}),
    "texts": ("collect_set", _TEXT, {"parameters": (5,)}),
}


def every_aggregate() -> Aggregator:
    outputs = {
        name: aggregate_function(
            function,
            None if column is None else column.index,
            None if column is None else column.data_type,
            has_event_time=True,
            where="job.yaml:7",
            **options,
        )
        for name, (function, column, options) in CALLS.items()
    }
    return aggregator_for(outputs, arguments=4, counts_rows=False)


EVERY = every_aggregate()


def arguments_of(events: Sequence[Event]) -> list[pa.Array]:
    numbers = [event.number for event in events]
    return [
        pa.array(numbers, pa.int64()),
        pa.array([event.text for event in events], pa.string()),
        pa.array([None if n is None else n % 2 == 1 for n in numbers], pa.bool_()),
        pa.array([None if n is None else n / 7 for n in numbers], pa.float64()),
    ]


def at_once(events: Sequence[Event]) -> list[Any]:
    """The results over these records, folded together."""
    arguments = {i: Argument(column) for i, column in enumerate(arguments_of(events))}
    rows = Rows(arguments, np.array([event.time_us for event in events], np.int64))
    partials = EVERY.partials(Grouping(np.zeros(len(events), np.int64), 1), rows)
    return [column[0].as_py() for column in EVERY.results(partials)]


def story(seed: int, records: int) -> list[list[Event]]:
    """Records of three keys in four epochs, out of order by up to 10 microseconds, no two at the same time."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.choice(400, records, replace=False))
    times = times[np.argsort(times + rng.integers(0, 10, records), kind="stable")]
    numbers = [None if n < 0 else n for n in rng.integers(-3, 40, records).tolist()]
    texts = [None if n == 0 else "ab\x00ÿ"[n % 4] * (n % 3) for n in rng.integers(0, 12, records).tolist()]
    keys = rng.integers(0, 3, records).tolist()
    events = [Event(*row) for row in zip(keys, times.tolist(), numbers, texts, strict=True)]
    return [events[i : i + -(-records // 4)] for i in range(0, records, -(-records // 4))]


def tell(run: Run, epochs: list[list[Event]]) -> None:
    watermark_us, greatest_us = MIN_TIME_US, MIN_TIME_US
    for number, events in enumerate(epochs):
        greatest_us = max([greatest_us, *(event.time_us for event in events)])
        firing_us = MAX_TIME_US if number == len(epochs) - 1 else greatest_us - 10
        time = epoch_time(
            watermark_us, firing_us, is_backlog=number == 0, was_backlog=None if number == 0 else number == 1
        )
        run.epoch(events, time)
        watermark_us = firing_us


@pytest.mark.parametrize(
    "operator",
    [
        TimeWindowAggregateOperator(EVERY, KEYED, Tumbling(50, 7), 0, None, emits_retractions=False),
        TimeWindowAggregateOperator(EVERY, KEYED, Sliding(60, 25), 0, None, emits_retractions=False),
        TimeWindowAggregateOperator(EVERY, KEYED, Cumulating(100, 20), 0, None, emits_retractions=False),
        SessionAggregateOperator(EVERY, KEYED, 12, 0, None, emits_retractions=False),
        CountWindowAggregateOperator(EVERY, KEYED, 7),
    ],
    ids=["tumbling", "sliding", "cumulating", "session", "count"],
)
def test_every_aggregate_is_over_the_records_of_its_window(operator: Any) -> None:
    epochs = story(1, 120)
    run = Run(operator, arguments=arguments_of)
    tell(run, epochs)
    events = [event for epoch in epochs for event in epoch]
    if isinstance(operator, CountWindowAggregateOperator):
        events = [event for epoch in epochs for event in sorted(epoch, key=lambda event: event.time_us)]
    assert len(run.output.rows) > 10
    for key, row in run.output.rows.items():
        members = members_of(operator, key, row, events)
        found = row[2:] if isinstance(operator, CountWindowAggregateOperator) else row
        for name, one, expected in zip(CALLS, found, at_once(members), strict=True):
            rounded = pytest.approx(expected, rel=1e-11, abs=1e-11) if isinstance(expected, float) else expected
            assert one == rounded, f"{name} of {key}"


def members_of(operator: Any, key: tuple[Any, ...], row: tuple[Any, ...], events: list[Event]) -> list[Event]:
    """The records of the window behind an output row."""
    if isinstance(operator, CountWindowAggregateOperator):
        own = [event for event in events if key_values(KEYED, event.key) == key[:-1]]
        members = own[key[-1] * operator.count :][: operator.count]
        assert (min(e.time_us for e in members), max(e.time_us for e in members) + 1) == row[:2]
        return members
    start, end, *user_key = key
    return [e for e in events if key_values(KEYED, e.key) == tuple(user_key) and start <= e.time_us < end]


@pytest.mark.parametrize(
    "operator",
    [
        TimeWindowAggregateOperator(AGGREGATOR, KEYED, Sliding(60, 25), 30, 1, emits_retractions=True),
        SessionAggregateOperator(AGGREGATOR, KEYED, 12, 30, 1, emits_retractions=True),
        CountWindowAggregateOperator(AGGREGATOR, KEYED, 7),
    ],
    ids=["time", "session", "count"],
)
def test_over_rocksdb_it_is_as_in_memory(operator: Any, tmp_path: Path) -> None:
    in_memory, stored = (
        Run(operator, with_changelog=True),
        Run(operator, with_changelog=True, state=RunState(tmp_path)),
    )
    for run in (in_memory, stored):
        tell(run, story(2, 200))
    assert stored.output.rows == in_memory.output.rows
    assert stored.output.given == in_memory.output.given
