"""Suggestions: the word that was misspelt, and never a word with another meaning."""

import pytest

from mixedmode.config.calls import AGGREGATE_FUNCTIONS, AggregateCall
from mixedmode.config.spelling import did_you_mean, nearest
from mixedmode.errors import InvalidJobError

KNOWN = [spelling for name, others in AGGREGATE_FUNCTIONS.items() for spelling in (name, *others)]
#: aggregates of PostgreSQL, DuckDB, Snowflake, Flink and ClickHouse that are not here
OF_OTHER_ENGINES = [
    "any_value",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "range_agg",
    "range_intersect_agg",
    "string_agg",
    "xmlagg",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "grouping",
    "row_number",
    "ntile",
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "arbitrary",
    "approx_quantile",
    "approx_top_k",
    "bitstring_agg",
    "entropy",
    "geomean",
    "geometric_mean",
    "group_concat",
    "histogram",
    "kahan_sum",
    "kurtosis_pop",
    "list",
    "listagg",
    "mad",
    "max_n",
    "product",
    "quantile",
    "quantile_cont",
    "quantile_disc",
    "reservoir_quantile",
    "sem",
    "sumkahan",
    "weighted_avg",
    "first_value",
    "last_value",
    "nth_value",
    "lag",
    "lead",
    "approximate_jaccard_index",
    "approximate_similarity",
    "array_union_agg",
    "array_unique_agg",
    "bitand_agg",
    "bitor_agg",
    "bitxor_agg",
    "booland_agg",
    "boolor_agg",
    "boolxor_agg",
    "hash_agg",
    "hll",
    "hll_accumulate",
    "minhash",
    "minhash_combine",
    "object_agg",
    "skew",
    "variance_pop",
    "variance_samp",
    "collect",
    "multiset",
    "json_arrayagg",
    "json_objectagg",
    "anylast",
    "groupArray",
    "quantileExact",
    "sumMap",
    "topK",
    "uniq",
    "uniqExact",
]
#: a name of another engine beside ours that means the same
SAME_MEANING = {"skew": "skewness"}


def test_the_names_of_other_engines_are_not_ours() -> None:
    assert not {name.lower() for name in OF_OTHER_ENGINES} & set(KNOWN), "or they need no suggestion"


@pytest.mark.parametrize("name", OF_OTHER_ENGINES)
def test_no_aggregate_of_another_meaning_is_suggested_for_one_that_is_not_here(name: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        AggregateCall.parse(f"{name}(x)")
    assert str(caught.value).startswith(f"there is no aggregate function {name}")
    assert nearest(name, KNOWN) in (None, SAME_MEANING.get(name))
    if nearest(name, KNOWN) is None:
        assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("removed", ["median", "bit_and", "var", "var_pop", "count_if", "corr", "bool_and", "max"])
def test_a_function_that_were_not_here_would_not_be_taken_for_another_one(removed: str) -> None:
    assert nearest(removed, [name for name in KNOWN if name != removed]) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("summ", "sum"),
        ("coutn", "count"),
        ("stdev", "stddev"),
        ("mediann", "median"),
        ("AVGG", "avg"),
        ("aprox_percentil", "approx_percentile"),
        ("Bool-And", "bool_and"),
        ("regr_slop", "regr_slope"),
    ],
)
def test_a_slip_of_the_fingers_is_understood(written: str, meant: str) -> None:
    assert did_you_mean(written, KNOWN) == f" Did you mean {meant}?"


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("median", "mean"),
        ("bit_and", "bool_and"),
        ("var", "var_pop"),
        ("mad", "max"),
        ("list", "last"),
        ("least", "greatest"),
        ("v1", "v2"),
        ("stddev", "stddev_pop"),
        ("start", "stop"),
        ("", "a word"),
    ],
)
def test_a_word_with_a_meaning_of_its_own_is_not_taken_for_another(written: str, other: str) -> None:
    assert did_you_mean(written, [other]) == ""


def test_a_word_between_two_others_is_taken_for_neither() -> None:
    assert nearest("medan", ["mean", "median"]) is None


def test_the_nearest_of_several_words_is_suggested() -> None:
    assert nearest("source-folders", ["source-foldr", "source-folder"]) == "source-folder"


@pytest.mark.parametrize("name", ["any_value", "ANY_VALUE", "first_value", "quantile_cont", "listagg"])
def test_for_some_functions_of_other_engines_the_message_says_what_to_write(name: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"^there is no aggregate function {name}: .*\. found={name}\(x\)$"):
        AggregateCall.parse(f"{name}(x)")
