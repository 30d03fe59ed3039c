"""Decides if the rows of a stage stay in Arrow on their way to its readers.

The columns of a reader are made of the rows of a stage by SQL: the sql steps in between, the computed keys and the
arguments of the reader. If tasks compute all of it exactly as Spark does (mixedmode/expressions), for every reader of
the stage, its rows are Arrow blocks in one column of Spark's frame. Otherwise they are rows of Spark, and Spark runs
the SQL of all readers.
"""

from dataclasses import replace

import pyarrow as pa

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_queries_of
from mixedmode.analysis.direct_reads import StageInputs, reader_columns
from mixedmode.expressions import Column, Query
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.plan.dimensions import dimensions_of
from mixedmode.plan.job_plan import JobPlan

__all__ = ["with_inner_reads"]


def with_inner_reads(plan: JobPlan, inputs: StageInputs) -> JobPlan:
    """Return the plan with the queries of the readers of stages, or with the reasons why Spark runs their SQL."""
    found: dict[str, dict[str, tuple[Query, ...]]] = {}
    by_spark: dict[str, str] = {}  # {stage: why}
    for reader, reads in plan.readers.items():
        found[reader] = {}
        for stage in reads.stages:
            try:
                found[reader][stage] = _queries(plan, reader, stage, inputs)
            except OnlySparkError as error:
                by_spark.setdefault(stage, str(error))
    return plan.with_inner(found, by_spark)


def _queries(plan: JobPlan, reader: str, stage: str, inputs: StageInputs) -> tuple[Query, ...]:
    """Return how a reader makes its rows of those of a stage, of each relation that has rows of it."""
    found: list[Query] = []
    for number, relation in enumerate(inputs.relations[reader]):
        if stage in relation.stages:
            frame, others = reader_columns(plan, reader, relation, number), inputs.others(relation, stage)
            found += read_queries_of(frame, until=inputs.stages[stage], others=others, dimensions=dimensions_of(plan))
    is_changelog = stage in plan.readers[reader].changelogs
    return tuple(_with_weights(query) if is_changelog else query for query in found)


def _with_weights(query: Query) -> Query:
    """Return the same query, whose rows have the weights of the rows that they are made of.

    Sql sees no weights. It makes each row of one row, so it makes the same row of one that adds and of one that
    retracts.
    """
    weight = len(query.nodes)
    columns = [(name, weight if name == WEIGHT_COLUMN else number) for name, number in query.columns]
    return replace(query, nodes=(*query.nodes, Column(WEIGHT_COLUMN, pa.int64())), columns=tuple(columns))
