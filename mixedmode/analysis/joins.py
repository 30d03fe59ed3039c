"""Makes the stage of a join from its two inputs. Spark analyses columns, types and expressions."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from mixedmode.analysis.catalyst import compared_type, read_query
from mixedmode.analysis.column_types import input_fields, input_type
from mixedmode.analysis.join_conditions import read_condition
from mixedmode.analysis.keyed_steps import checked_key, rows_change
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.analysis.sql_checks import check_literals, check_query, check_repeatable, check_stateless
from mixedmode.config import JoinStep
from mixedmode.config.calls import named, quoted
from mixedmode.config.two_inputs import TwoInputs, TwoInputStep
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.plan.join_operators import JoinedInput, JoinKey, Selection, join_problems
from mixedmode.plan.joins import JOINED, equal_fields, join_stage, selection
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.reads import SqlText
from mixedmode.plan.stages import KeyedStage
from mixedmode.spark.errors import REFUSALS, refused, refused_expression
from mixedmode.spark.frames import spark_schema, stand_in
from mixedmode.spark.temporary_views import views

__all__ = ["analysed_join", "inputs_of", "pair_keys", "selected_rows"]


def analysed_join(
    session: SparkSession,
    step: JoinStep,
    given: tuple[Relation, Relation],
    event_times: tuple[str | None, str | None],
    upstream: Upstream,
    where: Where,
) -> tuple[KeyedStage, Selection]:
    """Return the stage of a join, and what it emits. Raise InvalidJobError with every mistake, each with its place.

    given, event_times: the rows and the event-time column of each input.
    """
    found: list[MixedmodeError] = []
    if upstream.is_changelog and not step.join.is_regular:
        found.append(rows_change(where("join"), upstream.reads))
    left, right = inputs_of(step.join, given, event_times, where)
    if step.join.is_regular:
        left, right = (replace(one, row_key=rows.row_key) for one, rows in zip((left, right), given, strict=True))
    keys, selected = list[JoinKey](), None
    with collecting(found):
        keys = pair_keys(session, step, (left, right), where)
    condition = None
    if step.join.condition is not None:
        with collecting(found):
            condition = read_condition(session, step.join.condition, (left, right), where)
    with collecting(found):
        selected = selection(step, (left, right), where)
        _check_expressions(session, step, selected, (left, right), where("join", "select"))
        selected = replace(selected, condition=condition)
        found += join_problems(step, (left, right), selected, where)
    raise_all(found)
    assert selected is not None, step
    return join_stage(step, upstream, (left, right), keys, selected, where), selected


def _check_expressions(
    session: SparkSession, step: JoinStep, selected: Selection, inputs: tuple[JoinedInput, JoinedInput], where: str
) -> None:
    """Raise InvalidJobError unless Spark can resolve the expressions of a `select` over the columns of both inputs.

    In the rows that they are computed of, an input is a column with those of its columns that are read.
    """
    if selected.sql is None:
        return
    left, right = (stand_in(session, one.fields).alias(one.alias) for one in inputs)
    own = [(name, side, field) for name, side, field in selected.columns if not name.startswith("_")]
    texts = [named("CAST(NULL AS timestamp)", name) for name in selected.added]
    texts += [named(f"{quoted(inputs[side].alias)}.{quoted(field.name)}", name) for name, side, field in own]
    computed = [(item.expression, str(item.name)) for item in step.join.selected if item.expression is not None]
    pairs, together = left.crossJoin(right), [*texts, *(named(text, name) for text, name in computed)]
    for text in together:
        check_literals(text, where=where)
    try:
        pairs.selectExpr(*together)
    except REFUSALS as error:
        raise_all(_refused_of(pairs, texts, computed, where))
        raise refused(where, error) from error


def _refused_of(
    pairs: DataFrame, texts: Sequence[str], computed: Sequence[tuple[str, str]], where: str
) -> list[MixedmodeError]:
    """Return the mistakes of expressions one by one: each may read the names of those before it.

    texts: the columns that are no expression. computed: expressions and their names.
    """
    known, found = list(texts), list[MixedmodeError]()
    for text, name in computed:
        try:
            pairs.selectExpr(*known, named(text, name))
            known.append(named(text, name))
        except REFUSALS as error:
            found.append(refused_expression(f"{where}: {text}", text, error))
            known.append(named("NULL", name))
    return found


def selected_rows(session: SparkSession, rows: Relation, sql: str, where: str) -> Relation:
    """Return the rows that the sql of a `select` makes of the rows of a join. Raise InvalidJobError for wrong sql."""
    frames = {JOINED: rows.frame}
    try:
        with views(session, frames):
            query = read_query(session, sql, inputs=frames)
            plan = check_query(query.node, where=where)
            result = query.frame(session)
    except REFUSALS as error:
        raise refused(where, error) from error
    check_stateless(plan, where=where)
    check_repeatable(plan, where=where, is_keyed=False, allows_clock=False)
    makes = f"{rows.name}-select"
    return replace(rows, name=makes, frame=result, sql=(SqlText(sql, {JOINED: rows.name}, makes),))


def inputs_of(
    pair: TwoInputs, given: tuple[Relation, Relation], event_times: tuple[str | None, str | None], where: Where
) -> tuple[JoinedInput, JoinedInput]:
    """Return the inputs of a step with two.  given, event_times: the rows and the event-time column of each.

    Raise InvalidJobError, beginning with the place of the step, for a column of a type that no step reads.
    """

    def read(alias: str, one: Relation, time: str | None) -> JoinedInput:
        fields = input_fields(one.frame.schema, f"{where()}: {alias}")
        return JoinedInput(alias, fields, time, (*one.sources, *one.stages))

    sides = zip(pair.inputs, given, event_times, strict=True)
    left, right = (read(of.alias, one, time) for of, one, time in sides)
    return left, right


def pair_keys(
    session: SparkSession, step: TwoInputStep, inputs: tuple[JoinedInput, JoinedInput], where: Where
) -> list[JoinKey]:
    """Return the key columns of a step with two inputs, in the types in which Spark compares those of `on`.

    Raise InvalidJobError for columns that are not there, cannot be a key, or cannot be compared.
    """
    place, found = where(step.section, "on"), []
    for left, right in equal_fields(step.pair, inputs, place):
        data_type, casts = left.type, (quoted(left.name), quoted(right.name))
        if left.type != right.type:
            common = _common_type(session, left, right, place)
            data_type, ddl = input_type(common, place), common.simpleString()
            casts = (f"CAST({casts[0]} AS {ddl})", f"CAST({casts[1]} AS {ddl})")
        found.append(JoinKey(checked_key(pa.field(left.name, data_type), place), right.name, casts))
    return found


def _common_type(session: SparkSession, left: pa.Field, right: pa.Field, where: str) -> DataType:
    """Return the type in which Spark compares two columns. Raise InvalidJobError if it does not compare them."""
    types = [field.dataType.simpleString() for field in spark_schema([left, right])]
    try:
        return compared_type(session, *types)
    except REFUSALS as error:
        msg = (
            f"{where}: Spark does not compare columns of these types. Cast one of them in a sql step before. "
            f"left={left.name} {types[0]}, right={right.name} {types[1]}"
        )
        raise InvalidJobError(msg) from error
