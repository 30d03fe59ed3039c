"""Windowed and process steps: what belongs together in a step, and where in a job such a step may stand."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import (
    ApplyChangesStep,
    DeduplicateStep,
    JobSpec,
    KeyedAggregateStep,
    OverStep,
    ProcessStep,
    SqlStep,
    TopStep,
)
from mixedmode.config.fields import Section
from mixedmode.config.registry import connector_kinds
from tests.config.refusals import SMALLEST_JOB, messages

SEVERAL_SOURCES = (
    "steps[0]: this step reads one input, and the job has several sources. Add `from` with one source, or with several "
    "to read their rows together. sources=a, b"
)
COUNT = {"n": "count(*)"}
TIMED = {"flights": {"format": "parquet", "path": "/flights", "event-time": "at"}}
PROCESS = {"key-by": "k", "process": "a.b:C", "output": "k string"}
TOP = {"key-by": "k", "top": {"n": 2, "order-by": "v desc"}}
FIRST = {"key-by": "k", "deduplicate": {"keep": "first"}}
LAST = {"key-by": "k", "deduplicate": {"keep": "last", "tie-break": "v"}}
OVER = {"key-by": "k", "over": {"columns": {"before": "lag(v)"}}}
TAKEN = "has this name already (case does not count). Choose another."


CHANGE = "cannot read the rows of the aggregate in steps[{}], which change and have no event time"


@pytest.mark.parametrize(
    ("model", "values", "expected"),
    [
        (
            KeyedAggregateStep,
            {
                "aggregate": COUNT,
                "window": {"global": {"count": 3}},
                "allowed-lateness": "1m",
                "early-results-every": "1s",
                "late": {"format": "console"},
            },
            [
                f"{key} has no effect on a global window, which does not end with time. Remove it."
                for key in ("allowed-lateness", "early-results-every", "late")
            ],
        ),
        (
            KeyedAggregateStep,
            {
                "aggregate": {"window_end": "count(*)", "Window_Number": "count(*)", "k": "count(*)"},
                "key-by": ["WINDOW_START", "k"],
                "window": {"session": "1h"},
            },
            [
                (
                    "key-by: the window adds a column of this name. Rename yours in a sql step before. "
                    "found=WINDOW_START"
                ),
                f"aggregate.window_end: a column of the window {TAKEN}",
                f"aggregate.Window_Number: a column of the window {TAKEN}",
                f"aggregate.k: a key column {TAKEN}",
            ],
        ),
        (
            KeyedAggregateStep,
            {"aggregate": COUNT, "window": {"tumbling": "1h"}, "allowed-lateness": "36501d"},
            ["allowed-lateness is longer than event times can be moved. Write at most 36500d. found=36501d"],
        ),
        (
            KeyedAggregateStep,
            {"aggregate": COUNT, "window": {"tumbling": "1h"}, "early-results-every": 0, "late": {"format": "json"}},
            [
                "early-results-every must be more than 0. found=0",
                "late.path is missing: the directory or URL to write files in. Add it.",
            ],
        ),
        (
            ProcessStep,
            {},
            [
                (
                    "key-by is missing: one or several: columns, or expressions with a name, such as date(at) AS day. "
                    "Add it."
                ),
                (
                    "output is missing: columns of the result as Spark DDL, such as customer string, orders long. "
                    "Add it."
                ),
                "process is missing: the class, such as package.module:Class. Add it.",
            ],
        ),
        (
            ProcessStep,
            PROCESS | {"key-by": ["a", "A"], "on-error": "dead-letter"},
            [
                "key-by names a column twice. Remove one. found=A",
                (
                    "dead-letter is missing: with on-error: dead-letter, failed records need a place. Add format and "
                    "path."
                ),
            ],
        ),
        (
            ProcessStep,
            PROCESS | {"dead-letter": {"format": "console"}},
            ["dead-letter has no effect unless on-error is dead-letter. Remove one of the two. on-error=fail"],
        ),
        (
            ProcessStep,
            PROCESS | {"outputs": {tag: {"format": "console", "schema": "k string"} for tag in ("slow", "Slow")}},
            [f"outputs.Slow: another one {TAKEN}"],
        ),
        (
            TopStep,
            {"key-by": ["Rank", "k", "K"], "top": {"n": 1, "order-by": "v"}},
            [
                "key-by names a column twice. Remove one. found=K",
                "key-by: the step emits a column of this name. Rename yours in a sql step before. found=Rank",
            ],
        ),
        (
            TopStep,
            TOP | {"top": {"n": 0, "order-by": ["desc", " "]}},
            [
                "top.n must be at least 1. found=0",
                "top.order-by[0]: an order needs an expression before its direction. Write `price desc`. found=desc",
                "top.order-by[1] must not be empty.",
            ],
        ),
        (TopStep, TOP | {"top": {"n": 1, "order-by": []}}, ["top.order-by must hold at least one entry. Add one."]),
        (
            DeduplicateStep,
            FIRST | {"deduplicate": {"keep": "newest"}},
            ["deduplicate.keep cannot be newest. Known values: first, last, any."],
        ),
        (
            DeduplicateStep,
            FIRST | {"deduplicate": {"keep": "any", "tie-break": ["a", "A"]}},
            [
                "deduplicate.tie-break names a column twice. Remove one. found=A",
                (
                    "deduplicate.tie-break has no effect with keep: any, which takes the first row that arrives. "
                    "Remove it."
                ),
            ],
        ),
        (
            DeduplicateStep,
            FIRST | {"deduplicate": {"keep": "last", "within": "1h"}},
            [
                (
                    "deduplicate.within is for keep: first and keep: any. With keep: last, a key has one row, which a "
                    "newer one replaces however late it comes. Remove it."
                )
            ],
        ),
        (
            OverStep,
            OVER | {"over": {"columns": {"a": "lagg(v)", "K": "lag(v)", "b": 3, "_op": "lag(v)"}}},
            [
                (
                    "over.columns.a: there is no function lagg of an over step. Did you mean lag? "
                    "docs/running-values.md lists the functions; a process function may compute what none of them "
                    "does. found=lagg(v)"
                ),
                "over.columns.b must be text, such as count(*), not a whole number. found=3",
                (
                    "over.columns._op: names that start with _ are kept for columns such as _op and _epoch. Choose "
                    "another."
                ),
            ],
        ),
        (
            OverStep,
            OVER | {"over": {"columns": {"n": "rank()"}, "tie-break": ["a", "A"]}},
            ["over.tie-break names a column twice. Remove one. found=A"],
        ),
        (
            OverStep,
            OVER | {"over": {"columns": {"n": "sum(v) range 1h preceding"}, "tie-break": "v"}},
            [
                (
                    "over.columns.n: a frame of a span of time has all rows of one event time, and `tie-break` orders "
                    "them. Put this column into a step of its own, without `tie-break`."
                )
            ],
        ),
        (
            OverStep,
            OVER | {"over": {"columns": {"K": "lag(v)", "n": "rank()", "N": "rank()"}}},
            [
                f"over.columns.K: a key column {TAKEN}",
                f"over.columns.N: another one {TAKEN}",
            ],
        ),
        (OverStep, {"over": {"columns": {}}}, ["over.columns must hold at least one entry. Add one."]),
        (
            OverStep,
            {"over": {"columns": {"n": "rank()"}, "tie_brake": "v"}},
            [("over.tie_brake is not a known key. Did you mean tie-break? Known keys here: columns, tie-break.")],
        ),
        (
            ApplyChangesStep,
            {"key-by": "k", "apply-changes": {"history": "yes", "delete_when": "a"}},
            [
                (
                    "apply-changes.sequence-by is missing: one or several: columns or SQL expressions by which the "
                    "records of a key are ordered, such as lsn; the record with the greatest values counts, whatever "
                    "the order of arrival. Add it."
                ),
                "apply-changes.history must be true or false, not text. found=yes",
                (
                    "apply-changes.delete_when is not a known key. Did you mean delete-when? Known keys here: "
                    "sequence-by, delete-when, columns, except-columns, history, track, track-except."
                ),
            ],
        ),
        (
            ApplyChangesStep,
            {
                "key-by": "k",
                "apply-changes": {
                    "sequence-by": ["a", "b"],
                    "columns": ["x", "X"],
                    "except-columns": "y",
                    "history": True,
                    "track": "x",
                    "track-except": "y",
                },
            },
            [
                "apply-changes.columns names a column twice. Remove one. found=X",
                "apply-changes.except-columns and `columns` say the same in two ways. Remove one of them.",
                "apply-changes.track-except and `track` say the same in two ways. Remove one of them.",
                (
                    "apply-changes.sequence-by has several values, and with history a version begins at one. Make one "
                    "of them in a sql step before. found=a, b"
                ),
            ],
        ),
        (
            ApplyChangesStep,
            {"key-by": "k", "apply-changes": {"sequence-by": "a", "track": "x"}},
            [
                (
                    "apply-changes.track is about versions, which a table without history does not have. Add `history: "
                    "true`."
                )
            ],
        ),
        (
            ApplyChangesStep,
            {"key-by": ["k", "__End_At"], "apply-changes": {"sequence-by": "a", "history": True}},
            ["key-by: history adds a column of this name. Rename yours. found=__End_At"],
        ),
        (ProcessStep, PROCESS | {"output": " "}, ["output must not be empty."]),
        (ProcessStep, PROCESS | {"args": [1]}, ["args must be a section of keys, not a list."]),
        (connector_kinds()["console"].side_output, {"format": "console", "schema": ""}, ["schema must not be empty."]),
    ],
)
def test_what_does_not_belong_together_in_a_step_is_refused(
    model: type[Section], values: dict[str, Any], expected: list[str]
) -> None:
    assert messages(model, values) == expected


@pytest.mark.parametrize("name", ["a", "a.b", ":C", "a:", "a:C:D", "a b:C", "a.:C", "1a:C", "a:C()", "a/b.py:C", ""])
def test_a_class_is_named_by_module_and_name(name: str) -> None:
    assert messages(ProcessStep, PROCESS | {"process": name}) == [
        f"process: this does not name a class. Write it as package.module:Class. found={name}"
    ]


@pytest.mark.parametrize("name", ["a:C", "a.b:C", "_a.b2:C_", "a:Outer.Inner", "modül:Größe"])
def test_a_class_of_any_module_and_one_in_another_class_is_taken(name: str) -> None:
    assert ProcessStep.model_validate(PROCESS | {"process": name}).process == name


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"a": object}, "args.a"),
        ({"a": {"b": [1, {2}]}}, "args.a.b[1]"),
        ({"a": math.nan}, "args.a"),
        ({"a": [math.inf]}, "args.a[0]"),
        ({"a": {1: 2}}, "args.a"),
        ({"a": {"": 2}}, "args.a"),
    ],
)
def test_an_argument_that_a_job_file_cannot_hold_is_refused(args: dict[str, Any], path: str) -> None:
    found: Any = args
    for part in path.replace("[", ".").replace("]", "").split(".")[1:]:
        found = found[int(part) if part.isdigit() else part]
    assert messages(ProcessStep, PROCESS | {"args": args}) == [
        (
            f"{path} is nothing that a job file can hold. Make it of text, whole or finite numbers, true, false, lists "
            f"and sections with names. found={found!r}"
        )
    ]


def test_arguments_are_kept_as_a_file_would_give_them() -> None:
    step = ProcessStep.model_validate(PROCESS | {"args": {"a": (1, {"b": (None, "x")})}})
    assert step.args == {"a": [1, {"b": [None, "x"]}]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"steps": [{"window": {"tumbling": "1h"}, "aggregate": COUNT}]},
            [
                (
                    "sources.flights.event-time is missing: windows go by the time of a record. Name the column that "
                    "says when it happened."
                )
            ],
        ),
        (
            {
                "sources": TIMED,
                "steps": [
                    {"key-by": "k", "aggregate": COUNT},
                    {"sql": "SELECT 1"},
                    {"key-by": "k", "aggregate": COUNT, "window": {"tumbling": "1h"}},
                    {"key-by": "k", "aggregate": COUNT},
                    PROCESS,
                    {"key-by": "k", "aggregate": COUNT, "window": {"tumbling": "1h"}},
                    {"key-by": "k", "aggregate": COUNT, "window": {"session": "1h"}, "early-results-every": "1m"},
                    {"key-by": "k", "aggregate": COUNT, "window": {"tumbling": "1h"}},
                ],
            },
            [
                (
                    f"steps[2].window {CHANGE.format(0)}: a window fires once no row of it can change any more. Give "
                    "the aggregate a window, put this step before it, or use an aggregate here."
                ),
                (
                    f"steps[4].process {CHANGE.format(3)}: a function cannot retract a row. Give the aggregate a "
                    "window, put this step before it, or use an aggregate here."
                ),
                (
                    "steps[5].window goes by event time, and the rows of the function before it have none. Add "
                    "`event-time` to steps[4], the column of its output that says when a row happened."
                ),
            ],
        ),
        (
            {"steps": [FIRST]},
            [
                (
                    "sources.flights.event-time is missing: deduplicate goes by the time of a record. Name the column "
                    "that says when it happened."
                )
            ],
        ),
        (
            {"sources": TIMED, "steps": [TOP, FIRST, LAST, {"key-by": "k", "deduplicate": {"keep": "any"}}]},
            [
                (
                    "steps[1].deduplicate cannot read the rows of steps[0], which change when a better row comes: a "
                    "row that was kept cannot be retracted. Put this step before it, let its key have `window_start` "
                    "and `window_end` of a window, or use an aggregate here."
                ),
                (
                    "steps[3].deduplicate cannot read the rows of steps[2], which change when a better row comes: a "
                    "row that was kept cannot be retracted. Put this step before it, let its key have `window_start` "
                    "and `window_end` of a window, or use an aggregate here."
                ),
            ],
        ),
        (
            {"steps": [OVER]},
            [
                (
                    "sources.flights.event-time is missing: over goes by the time of a record. Name the column that "
                    "says when it happened."
                )
            ],
        ),
        (
            {"sources": TIMED, "steps": [{"key-by": "k", "aggregate": COUNT}, OVER, TOP, OVER]},
            [
                (
                    f"steps[1].over {CHANGE.format(0)}: a row that was emitted cannot be retracted. Give the aggregate "
                    "a window, put this step before it, or use an aggregate here."
                ),
                (
                    "steps[3].over cannot read the rows of steps[2], which change when a better row comes: a row that "
                    "was emitted cannot be retracted. Put this step before it, let its key have `window_start` and "
                    "`window_end` of a window, or use an aggregate here."
                ),
            ],
        ),
        (
            {"sources": TIMED, "steps": [PROCESS, OVER]},
            [
                (
                    "steps[1].over goes by event time, and the rows of the function before it have none. Add "
                    "`event-time` to steps[0], the column of its output that says when a row happened."
                )
            ],
        ),
        (
            {
                "sources": dict.fromkeys(("a", "b"), TIMED["flights"]),
                "steps": [{"aggregate": COUNT, "window": {"tumbling": "1h"}}],
            },
            [SEVERAL_SOURCES],
        ),
    ],
)
def test_a_job_with_such_a_step_in_a_wrong_place_is_refused(changes: dict[str, Any], expected: list[str]) -> None:
    assert messages(JobSpec, SMALLEST_JOB | changes) == expected


@pytest.mark.parametrize(
    "steps",
    [
        [{"sql": "SELECT 1"}, {"window": {"session": "1h"}, "aggregate": COUNT}, {"key-by": "k", "aggregate": COUNT}],
        [PROCESS, {"sql": "SELECT 1"}, {"key-by": "k", "aggregate": COUNT}],
        [{"key-by": "k", "window": {"global": {"count": 3}}, "aggregate": COUNT}, {"sql": "SELECT 1"}],
        [FIRST, TOP, LAST, {"key-by": "k", "aggregate": COUNT}],
        [OVER, FIRST, {"over": {"columns": {"n": "row_number()"}, "tie-break": "before"}}, TOP],
        [{"key-by": "k", "window": {"tumbling": "1h"}, "aggregate": COUNT}, OVER],
    ],
)
def test_steps_may_follow_the_first_keyed_one(steps: list[dict[str, Any]]) -> None:
    spec = JobSpec.model_validate(SMALLEST_JOB | {"sources": TIMED, "steps": steps})
    assert JobSpec.model_validate(spec.as_document()) == spec


def test_a_process_step_needs_no_event_time() -> None:
    spec = JobSpec.model_validate(SMALLEST_JOB | {"steps": [PROCESS]})
    assert spec.sources["flights"].event_time is None


def test_every_output_of_a_job_has_its_place() -> None:
    console = {"format": "console"}
    steps = [
        PROCESS
        | {"outputs": {"a": console | {"schema": "k string"}}, "on-error": "dead-letter", "dead-letter": console},
    ]
    windowed = [{"window": {"tumbling": "1h"}, "aggregate": COUNT, "late": console}]
    found = [
        list(JobSpec.model_validate(SMALLEST_JOB | {"sources": TIMED, "steps": one}).sinks) for one in (steps, windowed)
    ]
    assert found == [
        [("sink",), ("steps", 0, "outputs", "a"), ("steps", 0, "dead-letter")],
        [("sink",), ("steps", 0, "late")],
    ]


_single = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_plain = st.recursive(
    _single, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3)
)


@given(st.dictionaries(st.text(min_size=1).filter(str.strip), _plain, max_size=3))
def test_arguments_are_the_same_when_they_are_read_from_their_own_document(args: dict[str, Any]) -> None:
    step = ProcessStep.model_validate(PROCESS | {"args": args})
    assert step.args == args
    document = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert ProcessStep.model_validate(document) == step


def test_a_tag_names_one_output_of_the_whole_job() -> None:
    """Otherwise the rows of one step would go to the sink of the other one."""
    sink = {"schema": "k string", "format": "parquet"}
    steps = [
        {**PROCESS, "outputs": {"alerts": {**sink, "path": "/a"}}},
        {**PROCESS, "outputs": {"Alerts": {**sink, "path": "/b"}, "others": {**sink, "path": "/c"}}},
    ]
    assert messages(JobSpec, {**SMALLEST_JOB, "steps": steps}) == [f"steps[1].outputs.Alerts: another step {TAKEN}"]


def test_a_global_window_has_no_event_time_for_the_next_window() -> None:
    counted = {"key-by": "k", "aggregate": COUNT, "window": {"global": {"count": 3}}}
    steps = [counted, {"key-by": "k", "aggregate": COUNT, "window": {"tumbling": "1h"}}]
    assert messages(JobSpec, {**SMALLEST_JOB, "sources": TIMED, "steps": steps}) == [
        (
            "steps[1].window goes by event time, and the rows of the global window in steps[0] have none. Use a window "
            "there that ends with event time, or an aggregate here."
        )
    ]
    process = {**SMALLEST_JOB, "sources": TIMED, "steps": [counted, PROCESS]}
    assert isinstance(JobSpec.model_validate(process).steps[1], ProcessStep)


@pytest.mark.parametrize(
    ("sql", "may_be"),
    [
        ("SELECT a, b FROM t WHERE coalesce(k, b) IN (1, 2)", False),
        ("WITH x AS (SELECT a, b FROM t) SELECT a, b FROM x", False),
        ("SELECT a FROM t group  BY a", True),
        ("SELECT DISTINCT a FROM t", True),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", False),
        ("SELECT a FROM t UNION SELECT a FROM u", True),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", True),
        ("SELECT a FROM t WHERE a IN (VALUES (1))", False),
        ("SELECT a FROM t WHERE NOT EXISTS(/* of u */ SELECT 1 FROM u WHERE u.a = t.a)", True),
        ("SELECT a FROM t WHERE a IN ( -- of u\n WITH v AS (SELECT a FROM u) SELECT a FROM v)", True),
        ("SELECT x.a FROM t x LEFT JOIN u USING (a)", True),
        ("SELECT x.a FROM t x, u WHERE x.a = u.a", True),
        ("SELECT 1 FROM (SELECT f(a, g(b)) AS c FROM t) x, u WHERE x.c = u.c", True),
    ],
)
def test_a_sql_step_may_be_keyed_if_its_text_brings_rows_together(sql: str, *, may_be: bool) -> None:
    assert SqlStep(sql=sql).may_be_keyed is may_be
