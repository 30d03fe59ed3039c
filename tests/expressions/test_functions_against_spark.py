"""Calls of the job's functions on Arrow: the values, the calls and the errors that Spark has, for hostile values."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, LongType, StringType, _parse_datatype_string
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from mixedmode.analysis.catalyst_queries import OnlySparkError, read_queries_of, read_query_of
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.expressions import Bounds, Query, evaluate, may_pass
from mixedmode.spark.custom_errors import custom_problem
from mixedmode.spark.temporary_views import views
from mixedmode.tasks.sql_functions import ImportedFunction, SqlFunction
from tests.expressions import called
from tests.expressions.test_against_spark import TABLE, VALUES, _shown
from tests.random_cases import random_cases

pytestmark = pytest.mark.spark

CASES = random_cases(1)

RECORDS, BATCHED = PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF
ARROW, PANDAS = PythonEvalType.SQL_SCALAR_ARROW_UDF, PythonEvalType.SQL_SCALAR_PANDAS_UDF
DAYS = "if(dt1 BETWEEN DATE '0001-01-01' AND DATE '9999-12-31', dt1, NULL)"
TIMES = "if({0} BETWEEN TIMESTAMP '0001-01-02' AND TIMESTAMP '9999-12-30', {0}, NULL)"
#: {name of a column: the argument with those of its values that Python has}
ARGUMENTS = {name: f"{name}1" for name in VALUES if name != "x"}
ARGUMENTS |= {"dt": DAYS, "ts": TIMES.format("ts1"), "tn": "if(year(CAST(tn1 AS date)) BETWEEN 2 AND 9998, tn1, NULL)"}


def register(
    session: SparkSession, name: str, function: str, result: DataType | str, kind: int = RECORDS, **settings: bool
) -> None:
    """Let SQL call a function of tests/expressions/called.py, as analysis/functions.py does."""
    data_type = _parse_datatype_string(result) if isinstance(result, str) else result
    checked = data_type if kind in (RECORDS, BATCHED) else None
    sql = SqlFunction(ImportedFunction(called.__name__, function, None), checked)
    session.udf.register(name, UserDefinedFunction(sql, data_type, name, evalType=kind, **settings))


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = tmp_path_factory.mktemp("hostile") / "a.parquet"
    pq.write_table(TABLE, path)
    schema = ", ".join(f"{name}{side} {kind}" for name, (kind, _, _) in VALUES.items() for side in (1, 2))
    return spark.read.schema(schema).parquet(str(path))


def query_of(frame: DataFrame, until: DataFrame, *, may_leave: bool = True) -> Query:
    (query,) = read_queries_of(frame, until=until, may_leave=may_leave)
    return query


def ours(query: Query, rows: pa.Table = TABLE, size: int = 100) -> pa.Table:
    return pa.Table.from_batches(list(evaluate([query], rows.combine_chunks().to_batches(max_chunksize=size))))


def cells(table: pa.Table) -> list[list[str]]:
    return [_shown(one) for one in table.columns]


def assert_same(selected: DataFrame, until: DataFrame, rows: pa.Table = TABLE) -> None:
    found, expected = ours(query_of(selected, until), rows), selected.toArrow()
    assert found.schema.types == expected.schema.types
    for one, other, field in zip(cells(found), cells(expected), expected.schema, strict=True):
        assert one == other, field.name


@pytest.mark.parametrize("kind", [RECORDS, BATCHED])
def test_a_function_of_records_gets_the_values_that_it_gets_from_spark(frame: DataFrame, kind: int) -> None:
    register(frame.sparkSession, "shown", "shown", "string", kind)
    names = ARGUMENTS if kind == RECORDS else list("bsilfdty")
    each = [f"shown({ARGUMENTS[name]}) AS {name}" for name in names]
    assert_same(
        frame.selectExpr(*each, "shown('c', l1, CAST(NULL AS int), 1.5D, t2) AS several", "shown(5) AS one"), frame
    )


@pytest.mark.parametrize("kind", [RECORDS, BATCHED])
def test_results_become_the_values_that_spark_makes_of_them(frame: DataFrame, kind: int) -> None:
    plain = ("boolean", "tinyint", "smallint", "int", "bigint", "double", "string")
    texts = []
    for number, data_type in enumerate(called.RESULTS if kind == RECORDS else plain):
        register(frame.sparkSession, f"r{number}", "result", data_type, kind)
        texts.append(f"r{number}('{data_type}', pmod(l1, 97L)) AS c{number}")
    assert_same(frame.where("l1 IS NOT NULL").selectExpr(*texts), frame)


def test_halves_of_characters_are_replaced_as_in_spark(frame: DataFrame) -> None:
    register(frame.sparkSession, "half", "half", "string")
    assert_same(frame.where("l1 IS NOT NULL").selectExpr("half(pmod(l1, 97L)) AS c"), frame)
    register(frame.sparkSession, "half", "half", "string", BATCHED)  # there, Spark raises an error
    with pytest.raises(LeftToSparkError):
        ours(query_of(frame.where("l1 IS NOT NULL").selectExpr("half(pmod(l1, 97L)) AS c"), frame))


def test_text_that_is_no_text_is_left_to_spark(frame: DataFrame) -> None:
    register(frame.sparkSession, "shown", "shown", "string")
    rows = TABLE.set_column(TABLE.column_names.index("t1"), "t1", TABLE.column("x1").combine_chunks().view(pa.string()))
    with pytest.raises(LeftToSparkError, match="codec can't decode byte 0xff"):
        ours(query_of(frame.selectExpr("shown(t1) AS c"), frame), rows)


@pytest.mark.parametrize(
    "text", ["shown(dt1)", "shown(ts1)", "shown(tn1)", "d('decimal(7,2)', {n})", "t('timestamp', {n})"]
)
def test_values_that_only_spark_has_are_left_to_it(frame: DataFrame, text: str) -> None:
    for name, function, result in (
        ("shown", "shown", "string"),
        ("d", "left", "decimal(7,2)"),
        ("t", "left", "timestamp"),
    ):
        register(frame.sparkSession, name, function, result)
    for number in range(4 if text[0] == "d" else 1):
        selected = frame.selectExpr(f"{text.format(n=number)} AS c")
        with pytest.raises(LeftToSparkError):
            ours(query_of(selected, frame))
        with pytest.raises(OnlySparkError):
            query_of(selected, frame, may_leave=False)


def test_a_function_of_batches_gets_the_arrays_that_it_gets_from_spark(frame: DataFrame) -> None:
    session = frame.sparkSession
    register(session, "types", "types_of", "string", ARROW)
    register(session, "lengths", "lengths", "bigint", ARROW)
    for sql, _, _ in VALUES.values():
        register(session, f"same_{sql.partition('(')[0]}", "same", sql, ARROW)
    texts = [f"types({name}1) AS a{name}" for name in VALUES if name not in ("dt", "ts", "tn")]
    texts += [f"types({argument}) AS b{name}" for name, argument in ARGUMENTS.items() if name in ("dt", "ts", "tn")]
    texts += [
        f"same_{sql.partition('(')[0]}({name}1) AS c{name}" for name, (sql, _, _) in VALUES.items() if name != "n"
    ]
    assert_same(frame.selectExpr(*texts, "lengths(t1, 'äb') AS n", "types('x', l1 + 0, 1Y) AS several"), frame)


def test_a_function_of_pandas_gets_the_series_that_it_gets_from_spark(frame: DataFrame) -> None:
    session = frame.sparkSession
    register(session, "series", "series_of", "string", PANDAS)
    register(session, "halved", "halved", "double", PANDAS)
    register(session, "halved_float", "halved", "float", PANDAS)
    texts = [
        "series(d1, f2, t1)",
        "series(d1 + 1D, 5, true, 'c')",
        "halved(d1)",
        "halved_float(f1)",
        "halved(halved(d1))",
    ]
    for kind in ("boolean", "tinyint", "int", "bigint", "string"):
        register(session, f"chosen_{kind}", "chosen", kind, PANDAS)
        texts.append(f"chosen_{kind}('{kind}', d1)")
    assert_same(frame.where("t2 <> 'a'").selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts))), frame)


@pytest.mark.parametrize("kind", ["floats", "list", "short", "mixed"])
def test_a_series_that_spark_converts_or_refuses_is_left_to_it(frame: DataFrame, kind: str) -> None:
    for result in ("bigint", "string"):
        register(frame.sparkSession, "f", "wrong_series", result, PANDAS)
        with pytest.raises(LeftToSparkError):
            ours(query_of(frame.selectExpr(f"f('{kind}', d1) AS c"), frame))


@pytest.mark.parametrize("function", ["narrow", "short"])
def test_a_batch_that_spark_converts_or_refuses_is_left_to_it(frame: DataFrame, function: str) -> None:
    register(frame.sparkSession, "f", function, "bigint", ARROW)
    with pytest.raises(LeftToSparkError):
        ours(query_of(frame.selectExpr("f(i1 + 0L) AS c"), frame))


def test_a_batch_has_no_more_rows_than_spark_would_send(frame: DataFrame) -> None:
    session, setting = frame.sparkSession, "spark.sql.execution.arrow.maxRecordsPerBatch"
    register(session, "types", "types_of", "string", ARROW)
    before = session.conf.get(setting)
    session.conf.set(setting, "7")
    try:
        assert_same(frame.where("t1 <> 'a'").selectExpr("types(t1, l1) AS c"), frame)
    finally:
        session.conf.set(setting, str(before))


NUMBERS = pa.table({"x": pa.array([*range(-5, 20), None]), "z": pa.array([n % 4 for n in range(26)])})
#: what of a query calls functions; {f} and the like are calls that are noted
NOTED = [
    "SELECT CASE WHEN x > 0 THEN {f}(x) END AS c FROM t",
    "SELECT x FROM t WHERE {f}(x) > 1 AND x > 0",
    "SELECT x FROM t WHERE {f}(x) > 1 OR x > 0",
    "SELECT x FROM t WHERE x > 2 AND {f}(x) > 1 AND (x % 3 = 1 OR {g}(x) > 9)",
    "SELECT x FROM t WHERE {f}(x) > 1 AND {g}(x) > 3 AND {f}(x) < 9",
    "SELECT {g}(x) AS c FROM t WHERE {f}(x) > 1",
    "SELECT y FROM (SELECT {f}(x) AS y FROM t) WHERE y > 1",
    "SELECT y FROM (SELECT {f}(x) AS y, x FROM t) WHERE x > 0",
    "SELECT y FROM (SELECT {h}(x) AS y FROM t WHERE {f}(x) > 1) WHERE y > 3",
    "SELECT x FROM (SELECT x, z FROM t WHERE {f}(x) > 1) WHERE {g}(x) > 3 AND z = 1",
    "SELECT x FROM (SELECT {f}(x) AS y, x FROM t)",
    "SELECT coalesce(x, {f}(x)) AS c, if(x > 3, {g}(x), {h}(z)) AS d, NULL + {g}(17L) AS e FROM t WHERE z > 0",
    "SELECT CASE WHEN z <> 0 THEN {f}({g}(x) % 7) END AS c FROM t WHERE {h}(x) > 0",
    "SELECT {f}(x) AS c FROM t WHERE coalesce({f}(x), 5L) > 4 OR z = 1 AND {f}(x) < 0",
    "SELECT x FROM t WHERE {a}(x) > 3 OR {f}(x) > 1",
    "SELECT {f}(x) + {a}(z) AS c FROM t WHERE {a}(x) > 3",
    "SELECT false AND {f}(x) > 1 AS c, x FROM t WHERE z = 2 OR {g}(x) > 1",
]


@pytest.fixture(scope="module")
def numbers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """NUMBERS, which is also the view t."""
    path = tmp_path_factory.mktemp("numbers")
    pq.write_table(NUMBERS, path / "a.parquet")
    for name in "fgh":
        register(spark, name, "noted", LongType())
    register(spark, "a", "noted_arrow", LongType(), ARROW)
    register(spark, "picky", "picky", LongType())
    register(spark, "same", "same", LongType())
    found = spark.read.schema("x long, z long").parquet(str(path))
    with views(spark, {"t": found}):
        yield found


@pytest.mark.parametrize("text", NOTED)
def test_functions_are_called_for_the_rows_for_which_spark_calls_them(
    numbers: DataFrame, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "calls"
    calls = {name: f"{name}('{file}', '{name}', " for name in "fgha"}
    for name, call in calls.items():
        text = text.replace(f"{{{name}}}(", call)
    selected = numbers.sparkSession.sql(text)

    def noted() -> list[str]:
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    expected, by_spark = selected.toArrow(), noted()
    assert cells(ours(query_of(selected, numbers), NUMBERS)) == cells(expected)
    by_tasks = noted()
    assert set(by_tasks) == set(by_spark)
    ((_, often),) = Counter(Counter(by_tasks).values()).most_common(1) if by_tasks else ((0, 0),)
    assert len(by_tasks) <= len(by_spark), "Spark computes a call of a condition again for a column"
    assert often or not by_spark


def _outcome(selected: DataFrame) -> list[list[str]] | str:
    try:
        return cells(selected.toArrow())
    except PySparkException as error:
        problem = custom_problem(str(error))
        return "the function" if problem else "another error"


def _drawn(rng: random.Random, depth: int = 2) -> str:
    """A condition in which functions are called, some of which raise for some rows."""
    if depth and rng.random() < 0.6:
        word = rng.choice(("AND", "OR", "AND"))
        return f"({_drawn(rng, depth - 1)} {word} {_drawn(rng, depth - 1)})"
    plain = ("x > 5", "x < 13", "z = 1", "x <> 13 AND x <> 7", "60 % (x - 3) > 1", "x IS NULL", "x BETWEEN 8 AND 12")
    calls: tuple[str, ...] = (
        "picky(x) > 4",
        "same(x) % 3 = 1",
        "picky(x + 1) IS NULL",
        "coalesce(picky(x), 3) > 2",
        "picky(x) IN (2, 10)",
    )
    calls += ("CASE WHEN x > 14 THEN picky(x) > 2 END", "NOT (x <= 14 OR picky(x) > 2)")
    return rng.choice(plain + calls)


@pytest.mark.parametrize("seed", range(CASES))
def test_random_queries_have_the_rows_of_spark_or_an_error_where_it_has_one(numbers: DataFrame, seed: int) -> None:
    rng, seen = random.Random(seed), Counter[str]()
    for _ in range(40):
        first, second = _drawn(rng), _drawn(rng, 1)
        column = rng.choice(("picky(z)", "x", "picky(x)", "coalesce(z, picky(x))", "if(x > 13, picky(x), 0)"))
        text = f"SELECT x, {column} AS c FROM (SELECT x, z, same(x) AS s FROM t WHERE {first}) WHERE {second}"
        selected = numbers.sparkSession.sql(text)
        expected = _outcome(selected)
        try:
            found: Any = cells(ours(query_of(selected, numbers), NUMBERS))
        except OnlySparkError:
            seen["left to Spark"] += 1
            continue
        except InvalidJobError as error:
            found = "the function" if "a function that SQL calls" in str(error) else "another error"
        seen["an error" if isinstance(found, str) else "rows"] += 1
        assert isinstance(found, str) == isinstance(expected, str), text
        assert isinstance(found, str) or found == expected, text
    assert seen["an error"] > 2, seen
    assert seen["rows"] > 2, seen


def test_an_error_of_a_function_has_the_words_that_it_has_in_spark(numbers: DataFrame) -> None:
    for condition in ("x > 10", "x > 4", "x BETWEEN 7 AND 13"):
        selected = numbers.where(condition).selectExpr("picky(x) AS c")
        with pytest.raises(PySparkException) as by_spark:
            selected.toArrow()
        with pytest.raises(InvalidJobError) as by_tasks:
            ours(query_of(selected, numbers), NUMBERS)
        assert str(by_tasks.value) == str(custom_problem(str(by_spark.value)))


def test_functions_of_functions_hand_over_their_results_as_in_spark(frame: DataFrame) -> None:
    session = frame.sparkSession
    register(session, "shown", "shown", "string")
    register(session, "r", "result", "bigint")
    register(session, "s", "result", "string")
    register(session, "types", "types_of", "string", ARROW)
    register(session, "same", "same", "bigint", ARROW)
    number = "pmod(coalesce(l1, 0L), 97L)"
    texts = (
        f"shown(r('bigint', {number}))",
        f"shown(r('bigint', {number}), s('string', {number}))",
        f"shown(shown(s('string', {number})))",
        "types(same(l1))",
        "types(same(l1), l2)",
        f"types(r('bigint', {number}))",
        "shown(same(l1))",
    )
    assert_same(frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(texts))), frame)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("letters(t1)", "its result is array<string>"),
        ("none()", "it has no argument"),
        ("chance(l1)", "it may return another value each time"),
        ("other(l1)", "it is no function of the job"),
        ("large(l1)", "it cannot be read from Spark's plan"),
        ("shown(x1)", "an argument is binary"),
        ("shown(n1 + 1)", "an argument is a computed decimal"),
        ("shown(1.5)", "an argument is a computed decimal"),
        ("batched(dt1)", "an argument is date32[day]"),
        ("batched_float(d1)", "its result is float of batches"),
        ("panda(l1)", "an argument is a series of int64"),
        ("panda_date(d1)", "its result is a series of date32[day]"),
        ("each(d1)", "it is a function over an iterator of batches"),
    ],
)
def test_the_reason_is_told_if_only_spark_calls_a_function(frame: DataFrame, text: str, why: str) -> None:
    session = frame.sparkSession
    register(session, "letters", "shown", "array<string>")
    register(session, "none", "shown", "string")
    register(session, "shown", "shown", "string")
    register(session, "chance", "same", "bigint", deterministic=False)
    register(session, "batched", "shown", "string", BATCHED)
    register(session, "batched_float", "same", "float", BATCHED)
    register(session, "panda", "halved", "bigint", PANDAS)
    register(session, "panda_date", "halved", "date", PANDAS)
    register(session, "each", "halved", "double", PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF)
    many = "x" * (1 << 21)
    session.udf.register("other", lambda value: value, LongType())
    session.udf.register("large", lambda value: value if many else None, LongType())
    with pytest.raises(OnlySparkError) as told:
        query_of(frame.selectExpr(f"{text} AS c"), frame)
    assert str(told.value).startswith("only Spark computes ")
    assert str(told.value).endswith(f": {why}")


def test_conditions_whose_calls_spark_orders_itself_are_left_to_it(numbers: DataFrame) -> None:
    session = numbers.sparkSession
    register(session, "batch", "same", LongType(), ARROW)
    for text in ("batch(x) > 3 AND picky(x) > 1", "picky(same(x) + 1) > 1 AND same(z) > 2"):
        with pytest.raises(OnlySparkError, match=r"^several conditions call functions of different kinds, or"):
            query_of(session.sql(f"SELECT x FROM t WHERE {text}"), numbers)
    for text in (
        "CASE WHEN x > 0 THEN picky(x) > 1 ELSE false END",
        "if(x > 0, picky(x), NULL) > 1",
        "NOT (x <= 0 OR picky(x) > 1)",
        "x > 0 AND picky(x) > 1 OR x > 0 AND z = 1",
        "x > 0 AND (picky(x) > 1 OR x > 0)",
        "(x > 0 AND picky(x) > 1) = true",
        "coalesce(x > 0 AND picky(x) > 1, false)",
    ):
        with pytest.raises(OnlySparkError, match=r"^the optimiser of Spark may take apart a condition in which CASE"):
            query_of(session.sql(f"SELECT x FROM t WHERE {text}"), numbers)
    with pytest.raises(OnlySparkError, match="only Spark computes same"):
        read_query_of(session.sql("SELECT same(x) AS c FROM t"), until=numbers)  # a condition of a join calls none


def test_row_groups_are_skipped_by_conditions_without_calls_only(numbers: DataFrame) -> None:
    query = query_of(numbers.sparkSession.sql("SELECT x FROM t WHERE picky(x) > 3 AND x > 9 AND z > 0"), numbers)
    assert not may_pass(query, {"x": Bounds(0, 9, has_null=False)})
    assert may_pass(query, {"x": Bounds(0, 10, has_null=False)})
    either = query_of(numbers.sparkSession.sql("SELECT x FROM t WHERE picky(x) > 3 AND x > 9 OR x > 12"), numbers)
    assert may_pass(either, {"x": Bounds(0, 9, has_null=False)}), "the function may raise an error"


def test_a_function_of_total_values_may_be_called_between_steps(frame: DataFrame) -> None:
    register(frame.sparkSession, "shown", "shown", StringType())
    query = query_of(frame.selectExpr("shown(l1, d1, f1, y1) AS c"), frame, may_leave=False)
    assert cells(ours(query)) == cells(frame.selectExpr("shown(l1, d1, f1, y1) AS c").toArrow())
