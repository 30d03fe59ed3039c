"""Checks the analysed plan of a sql step or an argument, and raises an error for SQL that is not allowed. Pure.

A record must have the same result rows in every mode, every run and every epoch. So only kinds of nodes that are known
to work on one record at a time are allowed; unknown kinds are refused.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from mixedmode.analysis.plan import (
    CLOCK_TEXT,
    DIMENSION,
    INPUT,
    Expression,
    Node,
    expressions_of,
    nodes_of,
    nodes_with_subqueries,
    subqueries_of,
)
from mixedmode.config.steps import RANK_COLUMN
from mixedmode.errors import InvalidJobError

_PER_RECORD = frozenset(
    {
        DIMENSION,
        INPUT,
        "CTERelationDef",
        "CTERelationRef",
        "Expand",  # GROUPING SETS have an Aggregate above it; sliding windows and UNPIVOT do not
        "Filter",
        "Generate",
        "Join",
        "LateralJoin",
        "PipeOperator",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "Union",
        "WithCTE",
    }
)
_CONSTANT = frozenset({"LocalRelation", "OneRowRelation", "Range", "ResolvedInlineTable"})
_LIMIT = (
    "ORDER BY before LIMIT, over columns of the SELECT and with a number that is written out, keeps the best of all "
    "rows. Otherwise use a step with top, or limit the rows where the output is read."
)
_SETS = "In SQL, write INTERSECT or EXCEPT without ALL, of two inputs; constants belong into WHERE k IN ('a', 'b')."
#: {kind of node that needs several records: what to write instead}
_OVER_RECORDS: Mapping[str, str] = {
    "Aggregate": (
        "Use a keyed step for it: aggregate, with key-by and `window`; or GROUP BY in SQL, with nothing but SELECT and "
        "HAVING around it in the same parentheses."
    ),
    "Distinct": (
        "Put the SELECT DISTINCT into parentheses, with nothing else in them; or use key-by on these columns, with "
        "deduplicate: {keep: any}."
    ),
    "Except": f"{_SETS} Or use a step with join, of type anti.",
    "GlobalLimit": _LIMIT,
    "Intersect": f"{_SETS} Or use a step with join, of type semi.",
    "LocalLimit": _LIMIT,
    "Offset": "Filter with WHERE, or skip the rows where the output is read.",
    "Sample": "Take a sample by a column, as in WHERE pmod(xxhash64(id), 100) < 50.",
    "ScriptTransformation": "Use a map step, whose class sees the rows.",
    "Sort": "Sort the rows where the output is read.",
    "Window": (
        "Write functions with OVER in a query of their own in parentheses, in the order of the event time; ROW_NUMBER "
        "in another order as its only one, with WHERE n <= 3 around it; or use a process step."
    ),
    "EventTimeWatermark": "Set `event-time` and `watermark` on the source.",
}
_WRITTEN_OUT = "This one is over constants: write out the rows that it returns as VALUES."
_OF_DIMENSION = "This one is over a dimension: store the rows that it returns as a table, and make that the dimension."
#: {column of a key that no text names: how to select it}
_UNNAMED = {
    RANK_COLUMN: "`rank` is the number of the row, so select that of ROW_NUMBER; in place of a LIMIT, write "
    "ROW_NUMBER() OVER (ORDER BY ...) AS place in a query in parentheses, and WHERE place <= 10 around it. ",
    "grouping_id": "`grouping_id` says which of the sets of keys a row is of, so select grouping_id(). ",
}
_INSTEAD = "Use key-by and aggregate, or a process step, for what goes over many records."
_GENERATORS = frozenset({"Explode", "GeneratorOuter", "Inline", "JsonTuple", "PosExplode", "Stack", "VariantExplode"})
_CLOCKS = frozenset({CLOCK_TEXT, "CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"})
#: a time of the clock as a literal, such as DATE 'today'
_CLOCK_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b[^'\"]*\1", re.IGNORECASE
)
_OUTWARD = frozenset({"OuterReference", "OuterScopeReference"})
_BOTH_INPUTS = (
    "Put the join into a sql step of its own, with SELECT, WHERE, LATERAL VIEW and UNION ALL around it; or use a step "
    "with join. Its type may be semi, for IN and EXISTS, or anti."
)
_NUMBERS = "Number the records in a map step, whose list goes on from epoch to epoch."
_FILES = "Write it into the records before they come here."
#: {SQL name of a function that differs from run to run: what to use instead}
_REPEATABLE: Mapping[str, str] = {
    "monotonically_increasing_id": _NUMBERS,
    "spark_partition_id": _NUMBERS,
    "input_file_name": _FILES,
    "input_file_block_start": _FILES,
    "input_file_block_length": _FILES,
    "aes_encrypt": "Give it an initialization vector that is made of the record.",
}
_COMPUTED = (
    "Compute it from the record, as in pmod(xxhash64(id), 100) for a sample, or sha2(concat_ws('|', a, b), 256) for an "
    "id."
)
#: {join that keeps rows of one side: the number of that side, 0 is left}; those in _MATCHES keep matching rows
_KEEPS = {"LeftOuter": 0, "LeftSemi": 0, "LeftAnti": 0, "RightOuter": 1}
_MATCHES = frozenset({"Inner", "Cross"})
_FILTERING = frozenset({"LeftSemi", "LeftAnti"})
_ONE_ROW = frozenset({"OneRowRelation", "Project", "SubqueryAlias"})


def check_query(plan: Node | None, *, where: str) -> Node:
    """Return the plan of a query. Raise InvalidJobError unless it reads an input, and nothing but inputs."""
    if plan is not None:
        check_tables(plan, where=where)
    if plan is None or not inputs_of(plan):
        msg = (
            f"{where}: a sql step is a SELECT over a source or over the step before it, and this one reads neither. "
            "Name one of them after FROM."
        )
        raise InvalidJobError(msg)
    return plan


def check_tables(plan: Node, *, where: str) -> None:
    """Raise InvalidJobError for a table, a view or a file that is not an input of the step."""
    for node in nodes_with_subqueries(plan):
        is_leaf = not node.children and node.kind not in _PER_RECORD
        if node.kind == "View" or (is_leaf and node.kind not in {*_CONSTANT, "UnionLoopRef"}):
            msg = (
                f"{where}: SQL reads the sources of the job or the step before it, and constants. Another table or "
                "file may change while the job runs, and its rows would be those of one moment. Add it to `dimensions` "
                "and join it; make it a source, and use a step with join; or write its rows as VALUES. "
                f"table={node.name or node.kind}"
            )
            raise InvalidJobError(msg)


def check_literals(text: str, *, where: str) -> None:
    """Raise InvalidJobError if SQL has a literal that Spark computes from the clock, once, when it analyses the SQL."""
    found = _CLOCK_LITERAL.search(text)
    if found is not None:
        msg = (
            f"{where}: this is the time at which the job starts, and another one after the next start. Use a time that "
            "is in the record; or current_date() or current_timestamp() in a sql step with `clock: allowed`, if the "
            f"time at which the record is processed is meant. found={found[0]}"
        )
        raise InvalidJobError(msg)


def inputs_of(plan: Node) -> frozenset[str]:
    """Return the names of the inputs that a plan reads, in lower case."""
    return frozenset(node.name.lower() for node in nodes_with_subqueries(plan) if node.kind == INPUT)


def dimensions_of(plan: Node) -> frozenset[str]:
    """Return the names of the dimensions that a plan joins, in lower case."""
    return frozenset(node.name.lower() for node in nodes_with_subqueries(plan) if node.kind == DIMENSION)


def check_joins_added_rows(dimensions: Collection[str], changelogs: Collection[str], *, where: str) -> None:
    """Raise InvalidJobError if sql joins dimensions to rows that change.

    A row is retracted by computing it again, and another version of the dimension would return another row.
    """
    if dimensions and changelogs:
        msg = (
            f"{where}: rows of these steps change, and a changed row is retracted by computing it again; but the "
            "dimension may have changed since. Join the dimension in a sql step before them, or make the table "
            f"a source and use a step with join. dimensions={', '.join(dimensions)}, "
            f"steps={', '.join(sorted(changelogs))}"
        )
        raise InvalidJobError(msg)


def check_stateless(plan: Node, *, where: str) -> None:
    """Raise InvalidJobError for SQL over more than one record at a time: it would see only one epoch."""
    for node in nodes_of(plan):
        for found, instead in _problems(node):
            msg = (
                f"{where}: SQL sees one record at a time here, because an epoch has only some of the records. The "
                f"result over several records would not be the same live and in batch. {instead} found={found}"
            )
            raise InvalidJobError(msg)


def check_repeatable(plan: Node, *, where: str, is_keyed: bool, allows_clock: bool, is_argument: bool = False) -> None:
    """Raise InvalidJobError for an expression that may have another value when it is computed again.

    is_keyed: there is a keyed step upstream, so the SQL computes retracted rows again. allows_clock: the step may read
    the clock, unless `is_keyed`. is_argument: the plan is the argument of an aggregate.
    """
    for found in _all_expressions(plan):
        if found.kind in _CLOCKS:
            if is_keyed or not allows_clock:
                raise InvalidJobError(_clock_message(found, where, is_keyed=is_keyed, is_argument=is_argument))
        elif _is_chance(found):
            msg = (
                f"{where}: this has another value each time it is computed. So no two runs and no two modes would "
                "agree, and rows may be lost or doubled when Spark repeats a task. "
                f"{_REPEATABLE.get(found.name, _COMPUTED)} found={found.name}"
            )
            raise InvalidJobError(msg)


def check_argument(plan: Node, *, where: str, is_keyed: bool) -> None:
    """Raise InvalidJobError unless an argument of an aggregate has one value per record, always the same."""
    check_tables(plan, where=where)
    check_stateless(plan, where=where)
    check_repeatable(plan, where=where, is_keyed=is_keyed, allows_clock=False, is_argument=True)
    if any(node.kind == "Generate" for node in nodes_of(plan)):
        msg = (
            f"{where}: an argument is one value of a record, and this returns several or none. Put it in a sql step "
            "before the key-by, and aggregate the column that it returns there."
        )
        raise InvalidJobError(msg)


def kept_keys(
    plan: Node, before: Mapping[str, int], after: Mapping[str, int], keys: tuple[str, ...], *, where: str
) -> tuple[str, ...]:
    """Return the columns that have the key, after the sql `plan` that follows the last key-by; they may have new names.

    before, after: {column name in lower case: column id}. Raise InvalidJobError unless the sql returns at most one row
    per row of a key. A key column with a new id was computed, so two keys could become equal. For example, `SELECT
    lower(k) AS k` makes one key of A and a. The columns of a union have the ids of its first part, so a union is always
    refused.
    """
    streaming = [node for node in nodes_of(plan) if node.is_streaming]
    is_union = any(node.kind == "Union" for node in streaming)
    by_id = {number: name for name, number in reversed(list(after.items()))}
    by_id |= {after[key.lower()]: key.lower() for key in keys if key.lower() in after}  # an old name is better
    lost = [key for key in keys if before[key.lower()] not in by_id]
    missing = [key for key in lost if key.lower() not in after]
    if missing:
        msg = (
            f"{where}: the sql after the last key-by drops its key, so a changed row could not be found again in "
            "the output. Select the key columns too, or name columns that identify a row in the `key` of the output. "
            f"{''.join(_UNNAMED.get(name, '') for name in missing)}missing={', '.join(missing)}"
        )
        raise InvalidJobError(msg)
    changed = list(keys) if is_union else lost
    if changed:
        msg = (
            f"{where}: the sql after the last key-by changes its key, so rows of several keys could end as one, and "
            "which one would depend on the epoch. Select the key columns as they are (no expression, no UNION), put a "
            "key-by after the sql, or name columns that identify a row in the `key` of the output. "
            f"changed={', '.join(changed)}"
        )
        raise InvalidJobError(msg)
    found = next((name for node in streaming for name in _multiplying(node)), "UNION" if is_union else None)
    if found is not None:
        msg = (
            f"{where}: the sql after the last key-by may return several rows for one key, and the output has one row "
            "per key. Put a key-by after the sql, keep the values in an array, look one value up with a scalar "
            f"subquery over VALUES, or name columns that identify a row in the `key` of the output. found={found}"
        )
        raise InvalidJobError(msg)
    return tuple(by_id[before[key.lower()]] for key in keys)


def _problems(node: Node) -> Iterator[tuple[str, str]]:
    """Yield (SQL that needs several records, what to write instead) of one node and its subqueries."""
    if node.kind == "Join":
        yield from _join_problems(node)
    elif node.kind == "Union" and node.is_streaming and not all(child.is_streaming for child in node.children):
        yield "UNION of an input and other rows", "It would return these other rows again in each epoch."
    elif node.kind not in _PER_RECORD | _CONSTANT:
        yield node.kind, _instead(node)
    if node.kind == "Generate":
        for generator in node.expressions:
            if generator.kind not in _GENERATORS:
                yield generator.name, "Use a map step, whose class sees the rows."
    for expression in expressions_of(node):
        if expression.plan is not None:
            yield from _subquery_problems(node, expression, expression.plan)


def instead_of(kind: str) -> str:
    """Return what to write instead of a node over several records of an input."""
    return _OVER_RECORDS.get(kind, _INSTEAD)


def _instead(node: Node) -> str:
    """Return what to write instead of a node that needs several records."""
    if _sees_records(node):
        return instead_of(node.kind)
    return _OF_DIMENSION if dimensions_of(node) else _WRITTEN_OUT


def _join_problems(node: Node) -> Iterator[tuple[str, str]]:
    sides = [_sees_records(child) for child in node.children]
    if all(sides):
        yield f"{node.name} join of two inputs", _BOTH_INPUTS
    elif any(sides) and node.name not in _MATCHES:
        kept = _KEEPS.get(node.name)
        if kept is None or not sides[kept]:
            instead = (
                "A join may keep all rows of the input. It would return those of VALUES or of a dimension again in "
                "each epoch."
            )
            yield f"{node.name} join", instead


def _subquery_problems(node: Node, expression: Expression, plan: Node) -> Iterator[tuple[str, str]]:
    if any(part.is_streaming for part in nodes_with_subqueries(plan)):
        yield "a subquery over an input", _BOTH_INPUTS
        return
    for part in nodes_of(plan):
        yield from _problems(part)
    is_simple = not _refers_outward(plan) or _is_lookup(plan) or _is_per_record(node, expression, plan)
    is_nested = any(_refers_outward(inner) for part in nodes_of(plan) for inner in subqueries_of(part))
    if is_nested or not is_simple:
        instead = (
            "Spark would join the input with itself for it. Use LATERAL VIEW, a function of arrays (transform, filter, "
            "aggregate), or a join with VALUES."
        )
        yield "a subquery that depends on the record", instead


def _is_lookup(plan: Node) -> bool:
    """Return whether a subquery picks constant rows, and refers to the record only in its conditions."""
    for node in nodes_of(plan):
        if node.kind not in (DIMENSION, "Filter", "Join", "LocalRelation", "Project", "Range", "SubqueryAlias"):
            return False
        if node.kind != "Filter" and any(found.kind in _OUTWARD for found in expressions_of(node)):
            return False
    return True


def _is_per_record(node: Node, expression: Expression, plan: Node) -> bool:
    """Return whether a subquery has only expressions over the record, in SELECT or after LATERAL."""
    kinds = {part.kind for part in nodes_of(plan)}
    if expression.kind == "LateralSubquery":
        return node.name in _MATCHES and kinds <= {*_ONE_ROW, "Generate"}
    return expression.kind == "ScalarSubquery" and kinds <= _ONE_ROW


def _sees_records(node: Node) -> bool:
    """Return whether a node passes rows of an input, or depends on a record outside of its subquery."""
    return node.is_streaming or _refers_outward(node)


def _refers_outward(plan: Node) -> bool:
    return any(found.kind in _OUTWARD for node in nodes_of(plan) for found in expressions_of(node))


def _multiplying(node: Node) -> Iterator[str]:
    """Yield the names of operations in a node that may make several rows of one."""
    if node.kind == "Generate":
        yield from (generator.name for generator in node.expressions)
    if node.kind == "Expand":
        yield "expand"
    if node.kind == "Join" and node.name not in _FILTERING:
        yield f"{node.name} join"
    if node.kind == "LateralJoin" and any(
        part.kind not in _ONE_ROW for s in subqueries_of(node) for part in nodes_of(s)
    ):
        yield "lateral join"


def _all_expressions(plan: Node) -> Iterator[Expression]:
    return (expression for node in nodes_with_subqueries(plan) for expression in expressions_of(node))


def _is_chance(found: Expression) -> bool:
    """Return whether an expression differs from run to run by itself, and not because of one of its children."""
    is_whole = found.plan is None and all(child.is_deterministic for child in found.children)
    return is_whole and not found.is_deterministic


def _clock_message(found: Expression, where: str, *, is_keyed: bool, is_argument: bool) -> str:
    if is_keyed:
        return (
            f"{where}: after a keyed step, sql must return the same row for the same input at any time, because a "
            "changed row is retracted by computing it again, and this reads the clock. Compute it in a sql step before "
            f"the first key-by. found={found.name}"
        )
    instead = "Compute it in a sql step with `clock: allowed`" if is_argument else "Set `clock: allowed` on the step"
    return (
        f"{where}: this reads the clock, so a record becomes another row in another mode, and when its epoch runs "
        f"again. Use a time that is in the record. {instead} if the time at which the record is processed is meant. "
        f"found={found.name}"
    )
