"""Aggregate calls: what is one call of a known function, and what the message says of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config.calls import AGGREGATE_FUNCTIONS, AggregateCall, column_in, is_column, quoted
from mixedmode.errors import InvalidJobError

SPELLINGS = [(spelling, name) for name, others in AGGREGATE_FUNCTIONS.items() for spelling in (name, *others)]
LISTED = "docs/aggregates.md lists the functions; a process function may compute what none of them does."
#: what follows the first argument where a function needs more than that
REST = {
    "min_by": ", y",
    "max_by": ", y",
    **dict.fromkeys((name for name in AGGREGATE_FUNCTIONS if name.startswith(("corr", "covar", "regr"))), ", x"),
    "percentile": ", 0.5",
    "percentile_disc": ", 0.5",
    "approx_percentile": ", 0.5",
    "collect_list": ", 10",
    "collect_set": ", 10",
}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_every_spelling_of_a_function_in_any_case_is_its_canonical_name(spelling: str, name: str) -> None:
    for text in (spelling, spelling.upper(), spelling.title()):
        call = AggregateCall.parse(f"{text}(delay{REST.get(name, '')})")
        assert (call.function, call.argument) == (name, "delay")


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


@pytest.mark.parametrize("text", ["", "delay", "count", "sum(a) + sum(b)", "1 + sum(a)", "sum(a) x", "(a)"])
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
        ("maxx(a)", f"there is no aggregate function maxx. Did you mean max? {LISTED} found=maxx(a)"),
        ("xyzzy(a)", f"there is no aggregate function xyzzy. {LISTED} found=xyzzy(a)"),
        (
            "min_by(a",
            (
                "the call is cut short: its parenthesis is never closed. Between { and }, YAML ends a value at a "
                "comma, so put the call in quotes there, or each output on a line of its own. found=min_by(a"
            ),
        ),
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
            "median(DISTINCT a)",
            "only count, sum and avg take DISTINCT. Make the rows distinct in a step before. found=median(DISTINCT a)",
        ),
        (
            "count(distinct)",
            ("count has no argument. Write a column or an expression between the parentheses. found=count(distinct)"),
        ),
        (
            "count(distinct *)",
            "only count takes *. Write a column or an expression, such as count(delay). found=count(distinct *)",
        ),
        (
            "count(distinct a, b)",
            "count takes one argument. Compute what it needs in a sql step before. found=count(distinct a, b)",
        ),
        ("sum(a, b)", "sum takes one argument. Compute what it needs in a sql step before. found=sum(a, b)"),
        ("sum(a,)", "sum takes one argument. Compute what it needs in a sql step before. found=sum(a,)"),
        (
            "max_by(city)",
            (
                "max_by takes two arguments: the value to give, and the value to order by, as in max_by(city, delay). "
                "found=max_by(city)"
            ),
        ),
        (
            "min_by(a, )",
            (
                "min_by takes two arguments: the value to give, and the value to order by, as in min_by(city, delay). "
                "found=min_by(a, )"
            ),
        ),
        (
            "min_by(a, b, c)",
            "min_by takes two arguments. Compute what it needs in a sql step before. found=min_by(a, b, c)",
        ),
        (
            "collect_list(x)",
            (
                "collect_list needs how many values to keep at most: all values of a key have no end on an input that "
                "goes on, and its state would grow until the job fails. Write it as in collect_list(x, 100). "
                "found=collect_list(x)"
            ),
        ),
        (
            "collect_set(x, y)",
            (
                "collect_set takes how many values to keep at most: a whole number from 1 to 1,000,000, as in "
                "collect_set(x, 100). found=collect_set(x, y)"
            ),
        ),
        (
            "approx_percentile(x)",
            (
                "approx_percentile needs the share of values below the one asked for: it says which percentile is "
                "meant. Write it as in approx_percentile(x, 0.95). found=approx_percentile(x)"
            ),
        ),
        (
            "approx_percentile(x, 95)",
            (
                "approx_percentile takes the share of values below the one asked for: a number from 0 to 1, as in "
                "approx_percentile(x, 0.95). found=approx_percentile(x, 95)"
            ),
        ),
        (
            "approx_percentile(x, 0.5, 2.5)",
            (
                "approx_percentile takes an accuracy: a whole number from 10 to 10,000, as in "
                "approx_percentile(x, 0.95, 1000). found=approx_percentile(x, 0.5, 2.5)"
            ),
        ),
        (
            "approx_count_distinct(x, 0)",
            (
                "approx_count_distinct takes a relative error: a number from 0.001 to 0.39, as in "
                "approx_count_distinct(x, 0.01). found=approx_count_distinct(x, 0)"
            ),
        ),
        (
            "approx_count_distinct(x, 0.1, 2)",
            ("approx_count_distinct takes one argument, and a relative error. found=approx_count_distinct(x, 0.1, 2)"),
        ),
        (
            "sum(x) filter (x > 1)",
            (
                "a filter is written filter (where condition), as in count(*) filter (where delay > 0). "
                "found=sum(x) filter (x > 1)"
            ),
        ),
        (
            "sum(x) filter (where )",
            (
                "the filter has no condition. Write one after WHERE, as in filter (where delay > 0). "
                "found=sum(x) filter (where )"
            ),
        ),
        (
            "sum(x) filter (where (a)",
            "a parenthesis is never closed. Close it before the end of the argument. found=sum(x) filter (where (a)",
        ),
        (
            "percentile_cont(95) WITHIN GROUP (ORDER BY x)",
            (
                "percentile takes the share of values below the one asked for: a number from 0 to 1, as in "
                "percentile(x, 0.95). found=percentile_cont(95) WITHIN GROUP (ORDER BY x)"
            ),
        ),
        (
            "percentile_cont(p) WITHIN GROUP (ORDER BY x DESC)",
            (
                "percentile takes the share of values below the one asked for: a number from 0 to 1, as in "
                "percentile(x, 0.95). found=percentile_cont(p) WITHIN GROUP (ORDER BY x DESC)"
            ),
        ),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY x, y)",
            (
                "WITHIN GROUP takes one column or expression, as in percentile_cont(0.5) WITHIN GROUP (ORDER BY delay)."
                " found=percentile_cont(0.5) WITHIN GROUP (ORDER BY x, y)"
            ),
        ),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY )",
            (
                "percentile has no argument. Write a column or an expression between the parentheses. "
                "found=percentile_cont(0.5) WITHIN GROUP (ORDER BY )"
            ),
        ),
        (
            "sum(x) WITHIN GROUP (ORDER BY y)",
            (
                "only percentile_cont, percentile_disc and mode take WITHIN GROUP, as in percentile_cont(0.5) WITHIN "
                "GROUP (ORDER BY delay). found=sum(x) WITHIN GROUP (ORDER BY y)"
            ),
        ),
        (
            "mode(x, y)",
            "mode takes one argument. Compute what it needs in a sql step before. found=mode(x, y)",
        ),
        (
            "mode(y) WITHIN GROUP (ORDER BY x)",
            (
                "mode takes one argument. Compute what it needs in a sql step before. "
                "found=mode(y) WITHIN GROUP (ORDER BY x)"
            ),
        ),
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
    ("text", "instead", "instead_in_sql"),
    [
        (
            "string_agg(a)",
            "take collect_list(x, 100), and array_join in a sql step after this one",
            (
                "write array_join(slice(collect_list(x), 1, 100), ', '), or for distinct values in their order "
                "array_join(slice(sort_array(collect_set(x)), 1, 100), ', '). The state keeps at most 100 values of a "
                "key"
            ),
        ),
        (
            "first_value(a)",
            "it goes by the order of rows, which has no meaning here. Take first or last, which go by event time",
            (
                "it goes by the order of rows, which has no meaning here. Take min_by or max_by with the column that "
                "orders the rows"
            ),
        ),
        (
            "TRY_SUM(a)",
            (
                "write sum(x). A result that is too large stops the job, so cast the argument to a wider type where "
                "that may happen: sum(CAST(x AS DECIMAL(38, 0)))"
            ),
            None,
        ),
    ],
)
def test_a_function_of_other_engines_is_refused_with_what_to_write_there(
    text: str, instead: str, instead_in_sql: str | None
) -> None:
    name = text.partition("(")[0]
    for is_sql, expected in ((False, instead), (True, instead_in_sql or instead)):
        with pytest.raises(InvalidJobError) as caught:
            AggregateCall.parse(text, is_sql=is_sql)
        assert str(caught.value) == f"there is no aggregate function {name}: {expected}. found={text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(distinct a)", AggregateCall("count", "a", is_distinct=True)),
        ("COUNT( DISTINCT (a) )", AggregateCall("count", "(a)", is_distinct=True)),
        ("count(distinct(a))", AggregateCall("count", "(a)", is_distinct=True)),
        ("mean(DISTINCT a)", AggregateCall("avg", "a", is_distinct=True)),
        ("max(DISTINCT a)", AggregateCall("max", "a")),
        ("collect_set(DISTINCT a, 3)", AggregateCall("collect_set", "a", parameters=(3,))),
        ("max_by(concat(a, ','), b)", AggregateCall("max_by", "concat(a, ',')", by="b")),
        ("collect_list(x, 007)", AggregateCall("collect_list", "x", parameters=(7,))),
        ("approx_percentile(x, .5)", AggregateCall("approx_percentile", "x", parameters=(0.5,))),
        ("percentile_approx(x, 1, 100)", AggregateCall("approx_percentile", "x", parameters=(1.0, 100))),
        ("approx_count_distinct(x, 1e-2)", AggregateCall("approx_count_distinct", "x", parameters=(0.01,))),
        ("count(*)filter(where a > ')')", AggregateCall("count", None, condition="a > ')'")),
        (
            "min_by(a, b) FILTER\n( WHERE (c) )",
            AggregateCall("min_by", "a", by="b", condition="(c)"),
        ),
        ("sum(filter)", AggregateCall("sum", "filter")),
        ("percentile_cont(x, 0.5)", AggregateCall("percentile", "x", parameters=(0.5,))),
        ("PERCENTILE_CONT(0.9)Within Group(order by x)", AggregateCall("percentile", "x", parameters=(0.9,))),
        ("percentile_disc(x, 0.5)", AggregateCall("percentile_disc", "x", parameters=(0.5,))),
        (
            "percentile_disc(0.9) WITHIN GROUP (ORDER BY x DESC)",
            AggregateCall("percentile_disc", "x", parameters=(0.9,), is_descending=True),
        ),
        ("mode(x)", AggregateCall("mode", "x")),
        ("mode(x, TRUE)", AggregateCall("mode", "x")),
        ("mode() WITHIN GROUP (ORDER BY x ASC)", AggregateCall("mode", "x")),
        (
            "mode() WITHIN GROUP (ORDER BY a + b DESC) FILTER (WHERE c)",
            AggregateCall("mode", "a + b", condition="c", is_descending=True),
        ),
        (
            "percentile_cont(0.25) WITHIN GROUP (ORDER BY (a + b) asc) filter (where a > 0)",
            AggregateCall("percentile", "(a + b)", parameters=(0.25,), condition="a > 0"),
        ),
        (
            "percentile_cont(0.9) WITHIN GROUP (ORDER BY concat(a, ', b') DESC)",
            AggregateCall("percentile", "concat(a, ', b')", parameters=(0.1,)),
        ),
        ("percentile_cont(1) WITHIN GROUP (ORDER BY desc desc)", AggregateCall("percentile", "desc", parameters=(0,))),
    ],
)
def test_more_arguments_numbers_and_a_filter_are_told_apart(text: str, expected: AggregateCall) -> None:
    call = AggregateCall.parse(text)
    assert call == expected
    assert AggregateCall.parse(str(call)) == call


@pytest.mark.parametrize(
    "text", ["sum(a) filter (where b) c", "sum(a) where b", "sum(a) filter (where b) filter (where c)", "sum(a) filt"]
)
def test_what_follows_a_call_and_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError, match=r"^this is not one call of an aggregate function"):
        AggregateCall.parse(text)


def test_the_expressions_of_a_call_are_what_has_to_be_computed_before_the_step() -> None:
    assert AggregateCall.parse("count(*)").expressions == ()
    assert AggregateCall.parse("max_by(a, b + 1) filter (where c)").expressions == ("a", "b + 1", "c")
    assert AggregateCall.parse("collect_set(a, 5)").expressions == ("a",)


def test_an_argument_that_is_computed_is_so_for_the_rows_that_pass_the_filter() -> None:
    call = AggregateCall.parse("max_by(a, 1 / b) filter (where b <> 0)")
    assert [call.sql_of(text) for text in call.expressions] == ["a", "if(b <> 0\n, 1 / b\n, NULL)", "b <> 0"]
    assert AggregateCall.parse("sum(1 / b)").sql_of("1 / b") == "1 / b"
    quoted_names = AggregateCall.parse("sum(`a` / `b`) filter (where b <> 0)")
    assert quoted_names.sql_of("`a` / `b`") == "if(b <> 0\n, `a` / `b`\n, NULL)"


@given(st.text(min_size=1))
def test_a_quoted_name_is_a_column_and_two_of_them_are_none(name: str) -> None:
    assert column_in(quoted(name)) == name
    assert column_in(f"{quoted(name)} + {quoted(name)}") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delay", True),
        ("_d2", True),
        ("a + b", False),
        ("2", False),
        ("a.b", False),
        ("`a`", False),
        ("NULL", False),
        ("true", False),
        ("größe", False),
    ],
)
def test_only_a_plain_identifier_is_a_column(text: str, *, expected: bool) -> None:
    assert is_column(text) is expected


_TEXTS = st.text("ab(),'\"`\\* \n\x85", max_size=12)


@given(st.sampled_from(SPELLINGS), _TEXTS, st.none() | _TEXTS)
def test_a_call_is_read_back_as_it_was_written(spelling: tuple[str, str], argument: str, condition: str | None) -> None:
    text = f"{spelling[0]}({argument}{REST.get(spelling[1], '')})"
    try:
        call = AggregateCall.parse(text if condition is None else f"{text} filter (where {condition})")
    except InvalidJobError:
        return
    assert AggregateCall.parse(str(call)) == call
    assert call.function == spelling[1]


@given(st.floats(0.001, 0.39), st.floats(0, 1), st.integers(1, 10**6))
def test_numbers_are_read_back_to_the_last_digit(error: float, share: float, bound: int) -> None:
    for call in (
        AggregateCall("approx_count_distinct", "x", parameters=(error,)),
        AggregateCall("approx_percentile", "x", parameters=(share, 10_000)),
        AggregateCall("collect_set", "x", parameters=(bound,)),
    ):
        assert AggregateCall.parse(str(call)) == call
