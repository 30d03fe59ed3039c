"""Calls of over steps: their spellings, their frames, and what the message says of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config.over_calls import FRAME_ROWS_MAX, OVER_FUNCTIONS, OverCall
from mixedmode.errors import InvalidJobError

SPELLINGS = [(spelling, name) for name, others in OVER_FUNCTIONS.items() for spelling in (name, *others)]
RANKS = ("row_number", "rank", "dense_rank")
LISTED = "docs/running-values.md lists the functions; a process function may compute what none of them does."
NO_CALL = "this is no call of a function, such as lag(price) or sum(price) rows between 9 preceding and current row."
ONE_COLUMN = "takes one column here. Compute an expression in a sql step before, and write its name."
HOW_MANY = "lag takes how many rows before: a whole number from 1 to 1,000, as in lag(price, 2)."
NO_FRAME = (
    "this is no frame that is known here. Write rows between N preceding and current row, where N is a number or "
    "unbounded; or end it with M preceding; or range between interval 1 hour preceding and current row."
)
TOO_MANY = (
    "a frame has at most 1,000 rows before a row, as the state has as many of each key. Use an aggregate with a window "
    "of time."
)
LEAD = (
    "lead reads a row that comes later, and it may never come. Turn it round: lag gives each row the value of the row "
    "before."
)


@st.composite
def calls(draw: st.DrawFn) -> OverCall:
    """Calls of every function over every frame."""
    function = draw(st.sampled_from(sorted(OVER_FUNCTIONS)))
    if function in RANKS:
        return OverCall(function)
    column = draw(st.sampled_from(["x", "`a b`", "`)`", "rows"]))
    if function == "lag":
        rows = draw(st.integers(1, FRAME_ROWS_MAX))
        return OverCall("lag", column, rows, rows)
    argument = draw(st.sampled_from([column, None])) if function == "count" else column
    ignores_nulls = function in ("first_value", "last_value") and draw(st.booleans())
    if draw(st.booleans()):
        span_ms = draw(st.none() | st.integers(0, 10**12))
        return OverCall(function, argument, has_peers=True, ignores_nulls=ignores_nulls, span_ms=span_ms)
    last = draw(st.integers(0, FRAME_ROWS_MAX))
    first = draw(st.none() | st.integers(last, FRAME_ROWS_MAX))
    return OverCall(function, argument, first, last, ignores_nulls=ignores_nulls)


def of_span(function: str, span_ms: int) -> OverCall:
    return OverCall(function, "x", has_peers=True, span_ms=span_ms)


@given(calls())
def test_a_call_is_read_back_as_it_was_written(call: OverCall) -> None:
    assert OverCall.parse(str(call)) == call
    assert OverCall.parse(str(call).upper().replace(str(call.argument).upper(), str(call.argument))) == call


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_every_spelling_of_a_function_in_any_case_is_its_canonical_name(spelling: str, name: str) -> None:
    argument = "" if name in RANKS else "x"
    for text in (spelling, spelling.upper(), spelling.title()):
        assert OverCall.parse(f"{text}({argument})").function == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lag(x)", OverCall("lag", "x", 1, 1)),
        (" LAG ( x , 007 ) respect nulls", OverCall("lag", "x", 7, 7)),
        ("lag(x, 1, -1.5)", OverCall("lag", "x", 1, 1, default="-1.5")),
        ("lag(x, 2, 'a, b')", OverCall("lag", "x", 2, 2, default="'a, b'")),
        ("lag(x, 1, null)", OverCall("lag", "x", 1, 1)),
        ("count(*)", OverCall("count", None, has_peers=True)),
        ("sum(x) range unbounded preceding", OverCall("sum", "x", has_peers=True)),
        ("sum(x) RANGE BETWEEN unbounded preceding AND current row", OverCall("sum", "x", has_peers=True)),
        ("sum(x) rows unbounded preceding", OverCall("sum", "x")),
        ("sum(x) range 90m preceding", of_span("sum", 5_400_000)),
        ("sum(x) range between interval '2' DAYS preceding and current row", of_span("sum", 172_800_000)),
        ("avg(x) range between interval 1 hour preceding and current row", of_span("avg", 3_600_000)),
        ("sum(x)rows 2 preceding", OverCall("sum", "x", 2)),
        ("avg(x)\n rows  between 3 preceding\n and 1  preceding", OverCall("avg", "x", 3, 1)),
        ("min(x) rows between unbounded preceding and 4 preceding", OverCall("min", "x", None, 4)),
        ("max(x) rows between 0 preceding and current row", OverCall("max", "x", 0)),
        ("first(x) ignore nulls", OverCall("first_value", "x", has_peers=True, ignores_nulls=True)),
        ("last_value(x, TRUE) rows 2 preceding", OverCall("last_value", "x", 2, ignores_nulls=True)),
        ("last_value(x, false)", OverCall("last_value", "x", has_peers=True)),
    ],
)
def test_the_frame_and_the_treatment_of_null_are_read(text: str, expected: OverCall) -> None:
    assert OverCall.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", NO_CALL),
        ("price", NO_CALL),
        ("1 + lag(x)", NO_CALL),
        ("lagg(x)", f"there is no function lagg of an over step. Did you mean lag? {LISTED}"),
        ("ntile(4)", f"there is no function ntile of an over step. {LISTED}"),
        ("Lead(x, 2)", LEAD),
        ("row_number(x)", "row_number has no argument. Write row_number()."),
        ("lag(x, 0)", HOW_MANY),
        ("lag(x, 1001)", HOW_MANY),
        ("lag(x, y)", HOW_MANY),
        (
            "lag(x, 1, y)",
            (
                "lag has a column, how many rows before, and a default: a number, a text in quotes, true or false. "
                "Compute another default with coalesce in a sql step after this one."
            ),
        ),
        ("lag()", f"lag {ONE_COLUMN}"),
        ("lag(x + 1)", f"lag {ONE_COLUMN}"),
        ("sum(*)", f"sum {ONE_COLUMN}"),
        ("sum(x, y)", f"sum {ONE_COLUMN}"),
        ("count(distinct x)", f"count {ONE_COLUMN}"),
        ("sum(x) ignore nulls", "only first_value and last_value take IGNORE NULLS here."),
        ("lag(x) ignore nulls", "only first_value and last_value take IGNORE NULLS here."),
        ("sum(x) rows between 1001 preceding and current row", TOO_MANY),
        ("sum(x) rows between unbounded preceding and 1001 preceding", TOO_MANY),
        (
            "sum(x",
            (
                "the call is cut short: its parenthesis is never closed. Between { and }, YAML ends a value at a "
                "comma, so put the call in quotes there, or each output on a line of its own."
            ),
        ),
        ("sum((x)", "a parenthesis is never closed. Close it before the end of the argument."),
    ],
)
def test_a_wrong_call_is_refused_with_what_to_do(text: str, message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        OverCall.parse(text)
    assert str(caught.value) == f"{message} found={text}"


@pytest.mark.parametrize(
    ("call", "frame", "message"),
    [
        ("rank()", "rows 2 preceding", "rank has no frame: it goes by the rows before a row. Remove it."),
        ("lag(x)", "over (order by t)", "lag has no frame: it goes by the rows before a row. Remove it."),
        (
            "sum(x)",
            "rows between 1 preceding and 3 preceding",
            "the frame ends before it begins. Exchange its numbers.",
        ),
        ("sum(x)", "rows between 2 preceding and 2 following", NO_FRAME),
        ("sum(x)", "range between interval 1 hour preceding and interval 1 minute preceding", NO_FRAME),
        ("sum(x)", "range between 1 preceding and current row", NO_FRAME),
        ("sum(x)", "filter (where x > 1)", NO_FRAME),
    ],
)
def test_a_wrong_frame_is_refused_with_what_to_write(call: str, frame: str, message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        OverCall.parse(f"{call} {frame}")
    assert str(caught.value) == f"{message} found={frame}"
