"""The harnesses of top, deduplicate and over: the rows of a step over its life, and the refusals of a job."""

from collections.abc import Callable

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.testing import ApplyChangesHarness, DeduplicateHarness, OverHarness, TopHarness

SCHEMA = "k string, v bigint, at timestamp"


def test_a_better_row_moves_the_others_down_and_the_last_one_out() -> None:
    harness = TopHarness(2, order_by="v desc", schema="k string, v bigint", key_by="k", parallelism=2)
    harness.feed([{"k": "a", "v": 1}, {"k": "a", "v": 3}])
    assert [(row["rank"], row["v"], row["_op"]) for row in harness.take()] == [(1, 3, "insert"), (2, 1, "insert")]
    harness = harness.restore(harness.snapshot(), parallelism=1)
    harness.feed([{"k": "a", "v": 2}, {"k": "a", "v": 0}])
    assert [(row["rank"], row["v"], row["_op"]) for row in harness.take()] == [(2, 2, "update")]
    assert harness.table() == [{"k": "a", "rank": 1, "v": 3}, {"k": "a", "rank": 2, "v": 2}]


def test_a_retracted_row_lets_the_next_one_move_up() -> None:
    harness = TopHarness(1, order_by="v", schema="k string, v bigint, _weight bigint", key_by="k")
    harness.feed([{"k": "a", "v": number, "_weight": 1} for number in (1, 2)])
    harness.feed([{"k": "a", "v": 1, "_weight": -1}])
    assert harness.table() == [{"k": "a", "rank": 1, "v": 2}]
    harness.feed([{"k": "a", "v": 2, "_weight": -1}])
    assert harness.table() == []


def test_a_harness_applies_changes_and_keeps_versions() -> None:
    harness = ApplyChangesHarness(
        {"delete_when": "gone", "columns": "v", "history": True},
        sequence_by="seq",
        schema="k string, seq bigint, gone boolean, v bigint",
        key_by="k",
        backlog=True,
    )
    harness.feed([{"k": "a", "seq": 4, "gone": False, "v": 1}, {"k": "a", "seq": 6, "gone": True, "v": 1}])
    harness.flip()
    harness = harness.restore(harness.snapshot(), parallelism=2)
    harness.feed([{"k": "a", "seq": 5, "gone": False, "v": 2}])
    assert [tuple(row.values()) for row in harness.table()] == [("a", 4, 1, 5), ("a", 5, 2, 6)]


@pytest.mark.parametrize(("keep", "expected"), [("first", 2), ("last", 1), ("any", 2)])
def test_each_way_keeps_its_row(keep: str, expected: int) -> None:
    harness = DeduplicateHarness(
        keep=keep,  # type: ignore[arg-type]
        schema=SCHEMA,
        key_by="k",
        event_time="at",
        backlog=True,
    )
    harness.feed([{"k": "a", "v": 1, "at": 20}, {"k": "a", "v": 2, "at": 10}])
    harness.flip()
    harness.end()
    assert [row["v"] for row in harness.table()] == [expected]


def test_the_values_of_a_row_go_on_from_those_of_the_backlog() -> None:
    harness = OverHarness(
        {"before": "lag(v)", "total": "sum(v)", "n": "row_number()"},
        tie_break="v",
        schema=SCHEMA,
        key_by="k",
        event_time="at",
        backlog=True,
    )
    harness.feed([{"k": "a", "v": v, "at": at} for v, at in ((1, 20), (3, 10), (2, 10))], watermark=11)
    harness.flip()
    found = [(row["v"], row["before"], row["total"], row["n"]) for row in harness.take()]
    assert found == [(2, None, 2, 1), (3, 2, 5, 2)]
    harness = harness.restore(harness.snapshot(), parallelism=2)
    harness.end()
    assert [(row["v"], row["before"], row["total"], row["n"]) for row in harness.take()] == [(1, 3, 6, 3)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: TopHarness(1, order_by="v + 1", schema=SCHEMA, key_by="k"),
            (
                "TopHarness: `v + 1` is an SQL expression, which Spark computes, and the harness runs without Spark. "
                "Name a column, and give the rows of the test the value that the expression would have."
            ),
        ),
        (
            lambda: TopHarness(1, order_by="w", schema=SCHEMA, key_by="k"),
            "TopHarness: there is no column w. Columns here: k, v, at.",
        ),
        (
            lambda: OverHarness({"n": "lag(w)"}, schema=SCHEMA, key_by="k", event_time="at"),
            "OverHarness: n: there is no column w. Columns here: k, v, at.",
        ),
        (
            lambda: OverHarness({"n": "rank()"}, tie_break="w", schema=SCHEMA, key_by="k", event_time="at"),
            "OverHarness: tie_break: there is no column w. Columns here: k, v, at.",
        ),
        (
            lambda: OverHarness(
                {"n": "rank()"}, schema="k string, _weight int, at timestamp", key_by="k", event_time="at"
            ),
            "OverHarness: schema: an over step reads rows that never change, so they have no weight. Remove _weight.",
        ),
        (
            lambda: DeduplicateHarness(keep="first", schema=SCHEMA, key_by="k"),
            (
                "DeduplicateHarness: deduplicate: it goes by event time, and this step's input has none. Set "
                "`event-time` on every source, or on the process step before this one, and keep that column in the sql "
                "between."
            ),
        ),
    ],
)
def test_what_a_job_refuses_a_harness_refuses(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        build()
    assert str(caught.value) == message
