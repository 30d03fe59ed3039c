"""Random trees of expressions over hostile rows: value by value what Spark computes, and an error where Spark raises.

Spark computes all trees in one query, each in Catalyst's TryEval, which makes NULL of an error. The value is in an
array there, so an error (NULL) is told from a value that is NULL ([NULL]).
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ArithmeticException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_objects import items_of
from mixedmode.analysis.catalyst_queries import read_queries_of
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.expressions import Query, evaluate
from tests.expressions.test_against_spark import VALUES
from tests.expressions.trees import KINDS, Trees
from tests.random_cases import random_cases

pytestmark = pytest.mark.spark

TREES, DEPTH, ROWS = random_cases(40), 4, 60
TREES_OF_A_QUERY = 200
EXCLUDED = "spark.sql.optimizer.excludedRules"
ERROR, LEFT = "an error", "left to Spark"
#: rules by which Spark leaves out parts of an expression, as of x in `(x AND y) OR y`. A task may raise an error there
LEAVES_OUT = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        *("BooleanSimplification", "NullPropagation", "ReplaceNullWithFalseInPredicate", "SimplifyConditionals"),
        *("SimplifyBinaryComparison", "PushFoldableIntoBranches", "OptimizeIn", "UnwrapCastInBinaryComparison"),
    )
)
DAYS = (-719_529, 2_932_895, 106_751_991, -106_751_992, -(2**31), 18_321)
INSTANTS = (1_583_020_800_000_000, -1_000_000, 999_999, 2**53, -(2**63))
TEXTS = (
    "\x00",
    "1",
    " 1 ",
    "a\\b",
    "%",
    "_",
    "\\",
    "..",
    "aXXb",
    "İ",
    "ǅ",
    "\U0010ffff",
    "\ufeffa",
    "\r\n",
    "&channel_id=x&y",
)
FLOATS = (1e-320, 2147483648.0, 9007199254740993.0, 0.5, -0.5, 2.5)
MORE: dict[str, Sequence[Any]] = {"dt": DAYS, "ts": INSTANTS, "tn": INSTANTS, "t": TEXTS, "d": FLOATS, "f": FLOATS}


def hostile_rows(rng: random.Random) -> pa.Table:
    """Rows of hostile values; a seventh of them is NULL, and something else lies below it."""
    columns = {}
    for name, (_, data_type, values) in VALUES.items():
        pool = [*values, *MORE.get(name, ())]
        for side in (1, 2):
            given = [rng.choice(pool) for _ in range(ROWS)]
            is_null = np.array([rng.random() < 0.15 for _ in given])
            if pa.types.is_temporal(data_type) or pa.types.is_signed_integer(data_type):
                numbers = pa.array(np.array(given, f"i{data_type.bit_width // 8}"), mask=is_null)
                columns[f"{name}{side}"] = numbers.view(data_type)
            else:
                shown = [None if null else value for value, null in zip(given, is_null, strict=True)]
                columns[f"{name}{side}"] = pa.array(shown, data_type)
    return pa.table(columns)


def shown(column: pa.Array) -> list[str]:
    """Values as text that tells -0.0 from 0.0, and that has times beyond those of Python."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return list(map(repr, column.to_pylist()))


def by_spark(frame: DataFrame, texts: Sequence[str], *, without: str = "") -> dict[str, list[str]]:
    """The values of each tree, or ERROR, but for trees that Spark refuses as a whole.  without: rules of the optimiser.

    The optimiser computes a part that it finds to be constant, such as `coalesce(127Y, x) + 1Y`, before any row.
    """
    conf = frame.sparkSession.conf
    conf.set(EXCLUDED, without)
    try:
        return _by_spark(frame, texts)
    except ArithmeticException:
        half = len(texts) // 2
        parts = (texts[:half], texts[half:]) if half else ()
        return {text: cells for part in parts for text, cells in by_spark(frame, part, without=without).items()}
    finally:
        conf.unset(EXCLUDED)


def _by_spark(frame: DataFrame, texts: Sequence[str]) -> dict[str, list[str]]:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    analysed_trees = analysed(frame.selectExpr(*(f"array({text}) AS c" for text in texts))).projectList()
    tried = []
    for number, tree in enumerate(items_of(analysed_trees)):
        wrapped = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(tree.child())
        column = Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(wrapped))
        tried.append(column.alias(f"c{number}"))
    found = {}
    for text, column in zip(texts, frame.select(*tried).toArrow().columns, strict=True):
        arrays = column.combine_chunks()
        values = iter(shown(arrays.flatten()))
        found[text] = [next(values) if is_valid else ERROR for is_valid in arrays.is_valid().to_pylist()]
    return found


def by_tasks(query: Query, rows: pa.Table) -> list[str]:
    """The values of a query of one column, or what is raised for a row."""
    try:
        (batch,) = evaluate([query], rows.combine_chunks().to_batches())
        return shown(batch.column(0))
    except (InvalidJobError, LeftToSparkError) as error:
        if rows.num_rows == 1:
            return [ERROR if isinstance(error, InvalidJobError) else LEFT]
    half = rows.num_rows // 2
    return by_tasks(query, rows.slice(0, half)) + by_tasks(query, rows.slice(half))


def readable_trees(rng: random.Random, frame: DataFrame, count: int) -> dict[str, Query]:
    """So many trees that tasks compute, and the query of each."""
    found: dict[str, Query] = {}
    while len(found) < count:
        text = Trees(rng).drawn(DEPTH)
        try:
            (found[text],) = read_queries_of(frame.selectExpr(f"{text} AS c"), until=frame, may_leave=True)
        except (OnlySparkError, PySparkException):  # nobody, or only Spark, can compute it
            continue
    return found


def differing(own: Sequence[str], others: Sequence[str]) -> list[tuple[int, str, str]]:
    """(row, value, Spark's value) where both differ."""
    pairs = enumerate(zip(own, others, strict=True))
    return [(row, one, other) for row, (one, other) in pairs if one not in (other, LEFT)]


def given(rows: pa.Table, row: int, text: str) -> dict[str, str]:
    return {
        name: shown(rows.column(name).slice(row, 1).combine_chunks())[0] for name in rows.column_names if name in text
    }


def test_random_trees_have_the_values_and_the_errors_of_spark(
    spark: SparkSession, tmp_path: Path, record_property: Any
) -> None:
    seed = random.randrange(10**9)
    record_property("seed", seed)
    rng = random.Random(seed)
    schema = ", ".join(f"{name}{side} {kind}" for name, kind in KINDS.items() for side in (1, 2))
    for number in range(0, TREES, TREES_OF_A_QUERY):
        rows = hostile_rows(rng)
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        frame = spark.read.schema(schema).parquet(str(tmp_path / f"{number}.parquet"))
        queries = readable_trees(rng, frame, min(TREES_OF_A_QUERY, TREES - number))
        expected = by_spark(frame, list(queries))
        assert len(expected) > 0.9 * len(queries)
        found = {text: differing(by_tasks(queries[text], rows), cells) for text, cells in expected.items()}
        found = {text: cells for text, cells in found.items() if cells}
        if found:
            expected = by_spark(frame, list(found), without=LEAVES_OUT)
        for text, cells in found.items():
            for row, own, other in cells:
                assert own == ERROR == expected[text][row], (text, row, own, other, given(rows, row, text))
