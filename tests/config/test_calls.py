"""Aggregate calls: what is one call of a known function, and what the message says of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config.calls import AGGREGATE_FUNCTIONS, AggregateCall
from mixedmode.errors import InvalidJobError

SPELLINGS = [(spelling, name) for name, others in AGGREGATE_FUNCTIONS.items() for spelling in (name, *others)]
KNOWN = (
    "count, sum, min, max, avg, mean, stddev_samp, stddev, std, stddev_pop, var_samp, variance, var_pop, first, last, "
    "bool_and, every, bool_or, some, any"
)


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_every_spelling_of_a_function_in_any_case_is_its_canonical_name(spelling: str, name: str) -> None:
    for text in (spelling, spelling.upper(), spelling.title()):
        assert AggregateCall.parse(f"{text}(delay)") == AggregateCall(name, "delay")


@pytest.mark.parametrize(
    ("text", "function", "argument"),
    [
        ("count(*)", "count", None),
        (" COUNT ( * ) ", "count", None),
        ("count(x)", "count", "x"),
        ("sum(price * qty)", "sum", "price * qty"),
        ("sum((a + b) * (c))", "sum", "(a + b) * (c)"),
        ("max(coalesce(a, b))", "max", "coalesce(a, b)"),
        ("min(concat(a, ')', \"(\", `odd)name`))", "min", "concat(a, ')', \"(\", `odd)name`)"),
        ("min(concat(a, 'it''s)', 'it\\'s)'))", "min", "concat(a, 'it''s)', 'it\\'s)')"),
        ("max(`a\\`)", "max", "`a\\`"),
        ("max(',')", "max", "','"),
        ("sum(\n  case when a then 1\n  else 0 end\n)", "sum", "case when a then 1\n  else 0 end"),
        ("max(distinct_id)", "max", "distinct_id"),
    ],
)
def test_the_argument_is_all_between_the_outer_parentheses(text: str, function: str, argument: str | None) -> None:
    assert AggregateCall.parse(text) == AggregateCall(function, argument)


@pytest.mark.parametrize("text", ["", "delay", "count", "count(*", "sum(a) + sum(b)", "1 + sum(a)", "sum(a) x", "(a)"])
def test_what_is_not_one_call_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        AggregateCall.parse(text)
    assert str(caught.value) == (
        "this is not one call of an aggregate function. Write function(argument), such as count(*), avg(delay) or "
        f"sum(price * qty). found={text}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maxx(a)", f"there is no aggregate function maxx. Did you mean max? Known functions: {KNOWN}. found=maxx(a)"),
        ("xyzzy(a)", f"there is no aggregate function xyzzy. Known functions: {KNOWN}. found=xyzzy(a)"),
        ("sum(*)", "only count takes *. Write a column or an expression, such as sum(delay). found=sum(*)"),
        ("sum()", "sum has no argument. Write a column or an expression between the parentheses. found=sum()"),
        (
            "count( )",
            (
                "count has no argument. Write a column or an expression between the parentheses, or * to count rows. "
                "found=count( )"
            ),
        ),
        (
            "count(DISTINCT a)",
            (
                "DISTINCT is not supported in a keyed aggregate. Make the rows distinct in a step before. "
                "found=count(DISTINCT a)"
            ),
        ),
        ("sum(a, b)", "sum takes one argument. Compute what it needs in a sql step before. found=sum(a, b)"),
        ("sum((a)", "a parenthesis is never closed. Close it before the end of the argument. found=sum((a)"),
        ("max('a)", "a quoted part is never closed. Add the closing '. found=max('a)"),
        ("max('a\\')", "a quoted part is never closed. Add the closing '. found=max('a\\')"),
    ],
)
def test_a_wrong_call_is_refused_with_what_to_do(text: str, message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        AggregateCall.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "is_column"),
    [
        ("sum(delay)", True),
        ("sum(_d2)", True),
        ("count(*)", False),
        ("sum(a + b)", False),
        ("sum(2)", False),
        ("sum(a.b)", False),
        ("sum(`a`)", False),
        ("count(NULL)", False),
        ("bool_or(true)", False),
        ("sum(größe)", False),
    ],
)
def test_only_a_plain_identifier_is_a_column(text: str, *, is_column: bool) -> None:
    assert AggregateCall.parse(text).is_column is is_column


@given(st.sampled_from(SPELLINGS), st.text("ab(),'\"`\\* \n\x85", max_size=12))
def test_a_call_is_read_back_as_it_was_written(spelling: tuple[str, str], argument: str) -> None:
    try:
        call = AggregateCall.parse(f"{spelling[0]}({argument})")
    except InvalidJobError:
        return
    assert AggregateCall.parse(str(call)) == call
    assert call.function == spelling[1]
