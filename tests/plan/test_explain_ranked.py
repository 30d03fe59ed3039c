"""The text of `explain` on steps with top, deduplicate and over. No Spark: the plan is made from columns alone."""

from collections.abc import Callable
from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.interface import Changelog
from mixedmode.plan.explain import explain_plan
from mixedmode.testing.local_plan import local_plan

DDL = "k string, v bigint, seq int, at timestamp"


def explained(steps: Callable[[Job], Job], **source: Any) -> list[str]:
    """The lines of each stage's own."""
    given = {"schema": DDL, "event_time": "at", **source}
    job = Job("ranked", sources={"t": Source.parquet("/in", **given)}, checkpoint_dir="/c", parallelism=1)
    complete = steps(job).write(Sink.parquet("/out"))
    lines = explain_plan(complete.spec, local_plan(complete.spec, complete.where), cores=1).splitlines()
    wanted = {"keeps", "adds", "order", "emits", "forgets", "late", "state", "computes", "upserts", "rows"}
    wanted |= {"exchange", "fires", "deletes", "history"}
    return [line for line in lines if line.startswith("  ") and line.split()[0] in wanted]


def test_top_says_its_order_and_what_it_keeps() -> None:
    assert explained(lambda job: job.key_by("k").top(10, order_by=["v desc nulls first", "seq"])) == [
        "  exchange    by key (k string), Arrow blocks, cut to the best 10 per key before the shuffle, 128 key groups",
        "  keeps       the best 10 rows of a key by v desc nulls first, seq, then the whole row",
        "  computes    rank int32, v int64, seq int32, at timestamp[us, tz=UTC]",
        "  state       the best 10 rows of a key",
        "  upserts     one row per changed key (k, rank) and epoch, with _op and _epoch",
    ]


def test_top_over_a_changelog_keeps_every_row() -> None:
    found = explained(lambda job: job.key_by("k", "v").aggregate(n="count(*)").key_by("v").top(2, order_by="n desc"))
    assert "  state       every row of a key, because a retraction lets a row move up" in found


def test_top_without_a_key_is_of_all_rows() -> None:
    assert explained(lambda job: job.top(10, order_by="v desc")) == [
        (
            "  exchange    without a key, so all to one subtask, Arrow blocks, cut to the best 10 before the shuffle, "
            "128 key groups"
        ),
        "  keeps       the best 10 rows by v desc, then the whole row",
        "  computes    rank int32, k string, v int64, seq int32, at timestamp[us, tz=UTC]",
        "  state       the best 10 rows",
        "  upserts     one row per changed key (_all, rank) and epoch, with _op and _epoch",
    ]
    found = explained(lambda job: job.key_by("k").aggregate(n="count(*)").top(2, order_by="n desc"))
    assert "  state       every row, because a retraction lets a row move up" in found


def test_a_first_row_says_when_it_is_given() -> None:
    steps: Callable[[Job], Job] = lambda job: job.key_by("k").deduplicate(keep="first", tie_break="seq", within="1d")  # noqa: E731
    assert explained(steps) == [
        ("  exchange    by key (k string), Arrow blocks, combined per key and time before the shuffle, 128 key groups"),
        "  keeps       the first row of a key by at, seq, then the whole row",
        "  emits       a row once the watermark has passed its time",
        "  forgets     a key 1d after its row",
        "  late        records before the watermark are counted and dropped",
        "  computes    k string, v int64, seq int32, at timestamp[us, tz=UTC]",
        "  state       the keys that have their row, and rows that the watermark has not passed",
        "  fires       in the backlog up to its greatest watermark; the rest live, as the watermark moves",
        "  rows        each with _op and _epoch",
    ]


def test_any_row_says_what_is_certain() -> None:
    found = explained(lambda job: job.key_by("k").deduplicate(keep="any"))
    assert "  keeps       the first row of a key that arrives: the keys are certain, the other columns are not" in found
    assert "  state       the keys that have their row" in found


def test_the_last_row_is_the_last_by_event_time_and_tie_break() -> None:
    found = explained(lambda job: job.key_by("k").deduplicate(keep="last", tie_break="seq"))
    assert "  keeps       the last row of a key by at desc, seq desc, then the whole row" in found
    assert "  state       the best 1 row of a key" in found
    assert "  upserts     one row per changed key (k) and epoch, with _op and _epoch" in found


def test_over_says_what_it_adds_and_in_which_order() -> None:
    steps: Callable[[Job], Job] = lambda job: job.key_by("k").over(  # noqa: E731
        before="LAG(v, 2)", n="row_number()", mean="mean(v) rows 9 preceding", tie_break="seq"
    )
    assert explained(steps) == [
        "  exchange    by key (k string), Arrow blocks, 128 key groups",
        "  adds        before: lag(v, 2)",
        "  adds        n: row_number()",
        "  adds        mean: avg(v) rows between 9 preceding and current row",
        "  order       rows of a key by at, seq, then by the whole row",
        "  emits       a row once the watermark has passed its time",
        "  late        records before the watermark are counted and dropped",
        "  computes    k string, v int64, seq int32, at timestamp[us, tz=UTC], before int64, n int32, mean double",
        "  state       the values so far and the last 9 rows of a key, and rows that the watermark has not passed",
        "  fires       in the backlog up to its greatest watermark; the rest live, as the watermark moves",
        "  rows        each with _op and _epoch",
    ]


def test_over_without_a_key_is_of_all_rows() -> None:
    found = explained(lambda job: job.over(total="sum(v)"))
    assert found[0] == "  exchange    without a key, so all to one subtask, Arrow blocks, 128 key groups"
    assert "  order       rows by at, then by the whole row" in found
    assert "  computes    k string, v int64, seq int32, at timestamp[us, tz=UTC], total int64" in found
    assert "  state       the values so far, and rows that the watermark has not passed" in found
    found = explained(lambda job: job.over(total="sum(v) range 90m preceding", before="lag(v)"))
    kept = "the values so far and the last 1 row and those of the last 1h30m"
    assert f"  state       {kept}, and rows that the watermark has not passed" in found


def test_a_step_that_applies_changes_says_what_counts_and_what_deletes() -> None:
    found = explained(lambda job: job.key_by("k").apply_changes(sequence_by=["at", "seq"], except_columns="at"))
    assert found[1:] == [
        "  order       records of a key by at, seq; the last one counts",
        "  computes    v int64, seq int32",
        "  state       the last record of a key, also if it deletes",
        "  upserts     one row per changed key (k) and epoch, with _op and _epoch",
    ]
    found = explained(lambda job: job.key_by("k").apply_changes(sequence_by="seq", history=True, track="v"))
    assert "  history     a version of a row for each change of v" in found
    assert "  computes    __START_AT int32, v int64, seq int32, at timestamp[us, tz=UTC], __END_AT int32" in found
    assert "  state       all records of a key" in found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("lag(w)", "there is no column w. Columns here: k, v, seq, at."),
        ("lag(_all)", "there is no column _all. Columns here: k, v, seq, at."),
        *(
            (
                f"lag({column}, 1, {default})",
                (
                    "the default of lag is no value of its column's type. Write one, or compute it with coalesce in a "
                    f"sql step after this one. default={default}, type={kind}"
                ),
            )
            for column, default, kind in [
                ("v", "'a'", "int64"),
                ("v", "1.5", "int64"),
                ("seq", "3000000000", "int32"),
                ("k", "1", "string"),
                ("at", "'2024-01-01'", "timestamp[us, tz=UTC]"),
                ("v", "true", "int64"),
            ]
        ),
        ("lag(seqs)", "there is no column seqs. Did you mean seq? Columns here: k, v, seq, at."),
        (
            "sum(k)",
            "sum takes numbers. Cast the column in a sql step before. type=string",
        ),
    ],
)
def test_a_call_of_over_that_does_not_fit_the_columns_is_refused(call: str, message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        explained(lambda job: job.over(n=call))
    assert str(caught.value) == f"steps[0].over.columns.n: {message}"


def test_a_column_that_the_input_has_is_refused() -> None:
    message = r"^steps\[0\]\.over\.columns\.V: the input has a column of this name \(case does not count\)\. Choose"
    with pytest.raises(InvalidJobError, match=message):
        explained(lambda job: job.over(V="lag(seq)"))


def test_the_last_row_of_rows_without_event_time_needs_a_tie_break() -> None:
    with pytest.raises(InvalidJobError, match=r"deduplicate.*tie-break.* is missing: this step's input has no event"):
        explained(lambda job: job.key_by("k").deduplicate(keep="last"), event_time=None)


def test_only_operators_that_replace_no_row_emit_append_only() -> None:
    def is_append_only(steps: Callable[[Job], Job]) -> bool:
        job = Job("a", sources={"t": Source.parquet("/in", schema=DDL, event_time="at")}, checkpoint_dir="/c")
        complete = steps(job).write(Sink.parquet("/out"))
        (stage,) = local_plan(complete.spec, complete.where).stages
        return stage.operator.traits.emits is Changelog.APPEND

    windowed: dict[str, Any] = {"tumbling": "1h"}
    assert is_append_only(lambda job: job.key_by("k").deduplicate(keep="any"))
    assert is_append_only(lambda job: job.key_by("k").over(before="lag(v)"))
    assert is_append_only(lambda job: job.key_by("k").window(**windowed).aggregate(n="count(*)"))
    assert is_append_only(lambda job: job.key_by("k").window(session="1h").aggregate(n="count(*)"))
    assert is_append_only(lambda job: job.key_by("k").window(count=3).aggregate(n="count(*)"))
    assert not is_append_only(lambda job: job.key_by("k").deduplicate(keep="last"))
    assert not is_append_only(lambda job: job.key_by("k").top(2, order_by="v"))
    assert not is_append_only(lambda job: job.key_by("k").aggregate(n="count(*)"))
    late: dict[str, Any] = {**windowed, "allowed_lateness": "1m"}
    early: dict[str, Any] = {**windowed, "early_results_every": "1m"}
    for settings in (late, early):
        steps = lambda job, given=settings: job.key_by("k").window(**given).aggregate(n="count(*)")  # noqa: E731
        assert not is_append_only(steps), settings
