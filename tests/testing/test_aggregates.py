"""AggregateHarness takes keys, windows and aggregates as a job does, and refuses what a job refuses at its start."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.testing import AggregateHarness

SCHEMA = "k string, v bigint, ok boolean, t timestamp"


def harness_of(**changes: Any) -> AggregateHarness:
    given: dict[str, Any] = {"key_by": "k", "schema": SCHEMA, "aggregate": {"n": "count(*)"}, "event_time": "t"}
    return AggregateHarness(**(given | changes))


def record(t: int, v: int = 1, k: str = "a") -> dict[str, Any]:
    return {"k": k, "v": v, "ok": v > 2, "t": t}


def test_calls_are_written_as_in_a_job() -> None:
    calls = {
        "n": "count(*)",
        "s": "sum(v)",
        "d": "count(distinct v)",
        "latest": "last(v)",
        "best": "max_by(t, v)",
        "some": "collect_list(v, 2)",
        "oks": "count(*) filter (where ok)",
    }
    harness = harness_of(aggregate=calls, parallelism=2)
    harness.feed([record(3, 5), record(1, 2), record(2, 5)])
    at = datetime(1970, 1, 1, microsecond=3, tzinfo=UTC)
    expected = {"k": "a", "n": 3, "s": 12, "d": 2, "latest": 5, "best": at, "some": [2, 5], "oks": 2}
    assert harness.table() == [expected]


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        ({"tumbling": "10ms"}, [0, 20_000]),
        ({"tumbling": "10ms", "offset": "5ms"}, [-5_000, 15_000]),
        ({"sliding": "10ms", "slide": "5ms"}, [-5_000, 0, 15_000, 20_000]),
        ({"cumulating": "10ms", "step": "5ms"}, [0, 0, 20_000, 20_000]),
        ({"session": "10ms"}, [3_000, 22_000]),
    ],
)
@pytest.mark.parametrize("key_by", ["k", ()])
def test_windows_are_written_as_in_a_job(window: Any, starts: list[int], key_by: Any) -> None:
    harness = harness_of(window=window, key_by=key_by, backlog=True)
    harness.feed([record(3_000), record(22_000)])
    harness.end()
    found = [row["window_start"] for row in harness.table()]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert sorted(round((start - epoch).total_seconds() * 1e6) for start in found) == starts
    assert ("k" in harness.table()[0]) == (key_by == "k")


def test_windows_of_days_go_by_their_time_zone() -> None:
    harness = harness_of(window={"tumbling": "1d", "time_zone": "Europe/Berlin"})
    harness.feed([{"k": "a", "t": datetime(2024, 3, 31, 12, tzinfo=UTC)}])
    harness.end()
    (row,) = harness.table()
    assert row["window_end"] - row["window_start"] == (datetime(2024, 1, 1, 23) - datetime(2024, 1, 1))  # noqa: DTZ001


def test_count_windows_need_no_event_time_of_their_own() -> None:
    harness = harness_of(window={"count": 2})
    harness.feed([record(1), record(2), record(3)])
    assert [(row["window_number"], row["n"]) for row in harness.table()] == [(0, 2)]
    harness.feed([record(4)])
    assert [(row["window_number"], row["n"]) for row in harness.take()] == [(0, 2), (1, 2)]


def test_late_but_allowed_records_change_a_window_and_later_ones_are_late() -> None:
    harness = harness_of(window={"tumbling": "10ms", "allowed_lateness": "5ms"}, out_of_orderness=0)
    harness.feed([record(1_000), record(12_000)])
    harness.feed([record(2_000), record(15_000)])
    harness.feed([record(3_000)])
    assert [(row["n"], row["_op"]) for row in harness.take()] == [(1, "insert"), (2, "update")]
    assert [late["t"].microsecond for late in harness.late()] == [3_000]


def test_open_windows_are_shown_early_as_the_clock_goes() -> None:
    harness = harness_of(window={"tumbling": "1h", "early_results_every": "10s"})
    harness.feed([record(1)])
    harness.feed([record(2)], after="9s")
    harness.take()
    harness.advance_clock("1s")
    assert [(row["n"], row["_op"]) for row in harness.take()] == [(2, "update")]


def test_nan_is_one_key() -> None:
    harness = AggregateHarness(key_by="x", schema="x double", aggregate={"n": "count(*)"})
    for x in (float("nan"), 1.0, float("nan")):
        harness.feed([{"x": x}])
    assert sorted(row["n"] for row in harness.table()) == [1, 2]


def test_rows_with_a_weight_are_a_changelog() -> None:
    harness = AggregateHarness(key_by="k", schema="k string, v bigint, _weight bigint", aggregate={"s": "sum(v)"})
    harness.feed([{"k": "a", "v": 5, "_weight": 1}, {"k": "a", "v": 2, "_weight": 1}])
    harness.feed([{"k": "a", "v": 5, "_weight": -1}])
    harness.feed([{"k": "a", "v": 2, "_weight": -1}])
    assert [(row["s"], row["_op"]) for row in harness.take()] == [(7, "insert"), (2, "update"), (None, "delete")]
    assert harness.table() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aggregate": {"n": "sum(v * 2)"}}, "AggregateHarness: aggregate: `v * 2` is an SQL expression, which Spark"),
        ({"aggregate": {"n": "count(*) filter (where v > 2)"}}, "AggregateHarness: aggregate: `v > 2` is an SQL"),
        ({"aggregate": {"n": "sum(w)"}}, "AggregateHarness: aggregate: there is no column w. Columns here: k, v,"),
        ({"aggregate": {"n": "sum(k)"}}, "AggregateHarness: aggregate: n: sum needs a number"),
        ({"aggregate": {"n": "summ(v)"}}, "Job.aggregate: n: there is no aggregate function summ. Did you mean sum?"),
        (
            {"aggregate": {"n": "last(v)"}, "event_time": None},
            "AggregateHarness: aggregate: n: last goes by event time",
        ),
        ({"aggregate": {}}, "Job.aggregate: outputs must hold at least one entry."),
        ({"key_by": ()}, "Job.aggregate: columns must hold at least one entry."),
        ({"key_by": "x"}, "AggregateHarness: key_by: there is no column x."),
        ({"event_time": "v"}, "AggregateHarness: event_time: event time must be a timestamp."),
        ({"window": {"tumbling": "1h"}, "event_time": None}, "AggregateHarness: window: a window goes by event time"),
        ({"window": {"tumbling": "1h", "slide": "1m"}}, "Job.window: slide is not"),
        ({"window": {}}, "Job.window: a window is of one kind. Give one of tumbling,"),
        ({"window": {"count": 5, "allowed_lateness": "5m"}}, "Job.window: allowed_lateness has no effect on a global"),
    ],
)
def test_what_a_job_would_be_refused_for_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        harness_of(**changes)
    assert str(caught.value).startswith(message)
