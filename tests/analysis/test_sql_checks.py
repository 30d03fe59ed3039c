"""The judgement of plans, without Spark."""

import pytest

from mixedmode.analysis.plan import DIMENSION, INPUT, Expression, Node
from mixedmode.analysis.sql_checks import (
    check_argument,
    check_joins_added_rows,
    check_query,
    check_repeatable,
    check_stateless,
    dimensions_of,
    inputs_of,
    kept_keys,
)
from mixedmode.errors import InvalidJobError

T = Node(INPUT, name="T", is_streaming=True)
CONSTANTS = Node("LocalRelation")
TABLE = Node(DIMENSION, name="Customers")
OUTER = Expression("OuterReference", "outer")
NOW = Expression("Now", "now")
RAND = Expression("Rand", "rand", is_deterministic=False)


def over(kind: str, *children: Node, name: str = "", expressions: tuple[Expression, ...] = ()) -> Node:
    return Node(
        kind,
        name=name,
        is_streaming=any(child.is_streaming for child in children),
        expressions=expressions,
        children=children or (T,),
    )


def subquery(kind: str, plan: Node) -> tuple[Expression, ...]:
    return (Expression(kind, kind.lower(), plan=plan),)


@pytest.mark.parametrize("kind", ["Aggregate", "DeduplicateWithinWatermark", "FlatMapGroupsWithState", "FromTheFuture"])
def test_a_node_that_is_not_known_to_take_one_record_at_a_time_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"^place: .* found={kind}$"):
        check_stateless(over("Project", over(kind, T)), where="place")


def test_the_same_node_over_constants_is_to_be_written_out() -> None:
    with pytest.raises(InvalidJobError, match=r"write out the rows that it returns as VALUES. found=Aggregate"):
        check_stateless(over("Join", T, over("Aggregate", CONSTANTS), name="Inner"), where="place")


@pytest.mark.parametrize(
    ("kind", "streaming_side", "is_fine"),
    [
        *(("Inner", side, True) for side in (0, 1)),
        *(("Cross", side, True) for side in (0, 1)),
        *((kind, side, side == 0) for kind in ("LeftOuter", "LeftSemi", "LeftAnti") for side in (0, 1)),
        *(("RightOuter", side, side == 1) for side in (0, 1)),
        *(("FullOuter", side, False) for side in (0, 1)),
        *(("AsOf", side, False) for side in (0, 1)),
    ],
)
@pytest.mark.parametrize("table", [CONSTANTS, TABLE])
def test_a_join_with_constants_or_a_dimension_gives_no_row_without_a_record(
    kind: str, streaming_side: int, is_fine: bool, table: Node
) -> None:
    sides = (T, table) if streaming_side == 0 else (table, T)
    plan = over("Join", *sides, name=kind)
    if is_fine:
        check_stateless(plan, where="place")
    else:
        with pytest.raises(InvalidJobError, match=rf"found={kind} join$"):
            check_stateless(plan, where="place")


@pytest.mark.parametrize("table", [CONSTANTS, TABLE])
def test_rows_of_a_table_are_not_added_to_those_of_an_input(table: Node) -> None:
    check_stateless(over("Union", T, T), where="place")
    check_stateless(over("Join", T, over("Union", table, table), name="Inner"), where="place")
    with pytest.raises(InvalidJobError, match=r"again in each epoch. found=UNION of an input and other rows$"):
        check_stateless(over("Project", over("Union", T, table)), where="place")


def test_a_dimension_is_joined_and_not_read_alone() -> None:
    joined = over("Join", T, over("SubqueryAlias", TABLE), name="Inner")
    assert check_query(joined, where="place") is joined
    assert inputs_of(joined) == {"t"}
    assert dimensions_of(joined) == {"customers"}
    with pytest.raises(InvalidJobError, match=r"^place: a sql step is a SELECT over a source"):
        check_query(over("Project", TABLE), where="place")


def test_a_record_may_look_rows_of_a_dimension_up() -> None:
    chosen = over("Project", over("Filter", TABLE, expressions=(OUTER,)))
    for kind in ("Exists", "ScalarSubquery", "ListQuery"):
        check_stateless(over("Filter", T, expressions=subquery(kind, chosen)), where="place")


def test_an_aggregate_over_a_dimension_is_to_be_a_table() -> None:
    with pytest.raises(InvalidJobError, match=r"store the rows that it returns as a table.* found=Aggregate$"):
        check_stateless(over("Join", T, over("Aggregate", TABLE), name="Inner"), where="place")


def test_a_dimension_is_joined_to_rows_that_are_only_added() -> None:
    check_joins_added_rows((), {"totals"}, where="place")
    check_joins_added_rows(("customers",), (), where="place")
    expected = (
        "place: rows of these steps change, and a changed row is retracted by computing it again; but the dimension "
        "may have changed since. Join the dimension in a sql step before them, or make the table a source and use a "
        "step with join. dimensions=customers, steps=totals"
    )
    with pytest.raises(InvalidJobError) as caught:
        check_joins_added_rows(("customers",), {"totals"}, where="place")
    assert str(caught.value) == expected


def test_a_subquery_over_an_input_is_refused_wherever_it_is() -> None:
    inner = over("Project", CONSTANTS, expressions=subquery("Exists", over("Project", T)))
    plan = over("Filter", T, expressions=subquery("ListQuery", inner))
    with pytest.raises(InvalidJobError, match=r"found=a subquery over an input$"):
        check_stateless(plan, where="place")


def test_the_record_may_choose_among_constants_in_a_condition_and_nowhere_else() -> None:
    chosen = over("Project", over("Filter", CONSTANTS, expressions=(OUTER,)))
    check_stateless(over("Project", T, expressions=subquery("ScalarSubquery", chosen)), where="place")
    mixed = over("Project", CONSTANTS, expressions=(OUTER,))
    with pytest.raises(InvalidJobError, match=r"found=a subquery that depends on the record$"):
        check_stateless(over("Project", T, expressions=subquery("ScalarSubquery", mixed)), where="place")


def test_a_generator_that_may_keep_something_between_records_is_refused() -> None:
    check_stateless(over("Generate", T, expressions=(Expression("Explode", "explode"),)), where="place")
    with pytest.raises(InvalidJobError, match=r"Use a map step, whose class sees the rows. found=mine"):
        check_stateless(over("Generate", T, expressions=(Expression("PythonUDTF", "mine"),)), where="place")


@pytest.mark.parametrize("kind", ["LogicalRelation", "HiveTableRelation", "DataSourceV2Relation", "LogicalRDD"])
def test_a_table_is_refused_also_in_a_subquery_of_a_subquery(kind: str) -> None:
    inner = over("Project", CONSTANTS, expressions=subquery("ScalarSubquery", Node(kind, name="prices")))
    plan = over("Filter", T, expressions=subquery("ListQuery", inner))
    with pytest.raises(InvalidJobError, match=r"table=prices$"):
        check_query(plan, where="place")
    with pytest.raises(InvalidJobError, match=r"table=prices$"):
        check_argument(plan, where="place", is_keyed=False)


def test_a_query_reads_an_input() -> None:
    plan = over("Project", over("SubqueryAlias", T))
    assert check_query(plan, where="place") is plan
    assert inputs_of(plan) == {"t"}
    for other in (None, CONSTANTS, over("Project", CONSTANTS)):
        with pytest.raises(InvalidJobError, match=r"^place: a sql step is a SELECT over a source"):
            check_query(other, where="place")


@pytest.mark.parametrize(
    ("is_keyed", "allows_clock", "problem"),
    [
        (False, False, "Set `clock: allowed` on the step if"),
        (False, True, None),
        (True, False, "after a keyed step"),
        (True, True, "after a keyed step"),
    ],
)
def test_a_clock_may_be_allowed_before_the_first_keyed_step(
    is_keyed: bool, allows_clock: bool, problem: str | None
) -> None:
    plan = over("Filter", T, expressions=(Expression("DateAdd", "date_add", children=(NOW,)),))
    if problem is None:
        check_repeatable(plan, where="place", is_keyed=is_keyed, allows_clock=allows_clock)
    else:
        with pytest.raises(InvalidJobError, match=rf"{problem}.* found=now$"):
            check_repeatable(plan, where="place", is_keyed=is_keyed, allows_clock=allows_clock)


def test_chance_is_refused_by_the_name_of_the_function_that_brings_it() -> None:
    sums = Expression("Add", "add", is_deterministic=False, children=(RAND, Expression("Literal", "literal")))
    plan = over("Project", over("Project", T, expressions=(sums,)))
    with pytest.raises(InvalidJobError, match=r"found=rand$"):
        check_repeatable(plan, where="place", is_keyed=False, allows_clock=True)


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (over("Generate", T, expressions=(Expression("Inline", "inline"),)), "inline"),
        (over("Expand", T), "expand"),
        (over("Join", T, CONSTANTS, name="LeftOuter"), "LeftOuter join"),
        (over("LateralJoin", T, name="Inner", expressions=subquery("LateralSubquery", CONSTANTS)), "lateral join"),
        (over("Filter", T), None),
        (over("Join", T, over("Generate", CONSTANTS), name="LeftSemi"), None),
        (over("LateralJoin", T, name="Inner", expressions=subquery("LateralSubquery", Node("OneRowRelation"))), None),
    ],
)
def test_sql_after_the_last_key_keeps_one_row_of_one(plan: Node, found: str | None) -> None:
    ids = {"k": 1}
    if found is None:
        kept_keys(plan, ids, ids, ("K",), where="place")
    else:
        with pytest.raises(InvalidJobError, match=rf"several rows for one key.* found={found}$"):
            kept_keys(plan, ids, ids, ("K",), where="place")


def test_a_key_that_is_computed_or_goes_through_a_union_is_named() -> None:
    before = {"a": 1, "b": 2}
    with pytest.raises(InvalidJobError, match=r"changed=b$"):
        kept_keys(over("Project", T), before, {"a": 1, "b": 3}, ("a", "b"), where="place")
    with pytest.raises(InvalidJobError, match=r"changed=a, b$"):
        kept_keys(over("Union", T, T), before, before, ("a", "b"), where="place")
    with pytest.raises(InvalidJobError, match=r"drops its key.* missing=b$"):
        kept_keys(over("Project", T), before, {"a": 1, "c": 3}, ("a", "b"), where="place")


def test_a_key_is_found_under_its_old_name_or_else_under_its_first_new_one() -> None:
    before = {"a": 1, "b": 2}
    after = {"x": 1, "b": 2, "y": 1, "z": 2, "n": 3}
    assert kept_keys(over("Project", T), before, after, ("a", "B"), where="place") == ("x", "b")
