"""Every kind of expression on the list gives what Spark gives, for hostile values of each type.

Spark computes all expressions in one query over one table, whose rows are all pairs of the hostile values of a type.
Where Spark raises an error on a value, its `try_` function gives NULL, which says for each row whether to raise.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_queries_of, read_query_of
from mixedmode.errors import InvalidJobError, LeftToSparkError
from mixedmode.expressions import KINDS, Call, Query, evaluate
from mixedmode.expressions.evaluate import raising_nodes
from mixedmode.spark.frames import stand_in_of
from mixedmode.spark.temporary_views import views

NAN, INFINITY = float("nan"), float("inf")
COUNT = 15  # hostile values of a type, of which the last is NULL
ROWS = list(product(range(COUNT), repeat=2))


def _whole(bits: int) -> list[int]:
    limit = 2 ** (bits - 1)
    return [0, 1, -1, 2, -2, 3, 7, -7, 100, -100, limit - 1, -limit, limit - 2, -limit + 1]


FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, NAN, INFINITY, -INFINITY, 5e-324, 1e300, 16777217.0, 3.5, -0.3]
TEXTS = ["", "a", "A", "ab", "a\nb", "a%b", "a_b", "ä", "😀b", "a😀b", " a ", "e\u0301", "ß", "a.b"]
SMALL = [
    Decimal(text) for text in ("0", "0.01", "-0.01", "0.05", "-0.05", "1.5", "-1.5", "9.95", "-9.95", "0.04", "2.45")
]
SMALL += [Decimal("9999999.99"), Decimal("-9999999.99"), Decimal(3)]
LARGE = [Decimal(v) for v in ("0", "1", "-1", "0.00001", "9.99995", "-9.99995", "0.00002", "12345.67891")]
LARGE += [Decimal("9" * 25 + "." + "9" * 5), Decimal("-" + "9" * 25 + "." + "9" * 5), Decimal("0.5"), Decimal("1.5")]
LARGE += [Decimal("-0.5"), Decimal(99999999999999999999)]
DAYS = [0, 1, -1, 59, 365, 11016, 19782, -719162, -719163, -719528, 2**31 - 1, 2932896, 2932897, -141427]
DAY_US = 86_400_000_000
TIMES = [
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63) + 10**10,
    DAY_US,
    -DAY_US,
    DAY_US - 1,
    1_700_000_000_123_456,
    -62_135_596_800_000_000,
]
TIMES += [-62_135_596_800_000_001, 253_402_300_799_999_999, 253_402_300_800_000_000, -12_219_292_800_000_001]
VALUES: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "b": ("tinyint", pa.int8(), _whole(8)),
    "s": ("smallint", pa.int16(), _whole(16)),
    "i": ("int", pa.int32(), _whole(32)),
    "l": ("bigint", pa.int64(), _whole(64)),
    "f": ("float", pa.float32(), FLOATS),
    "d": ("double", pa.float64(), FLOATS),
    "t": ("string", pa.string(), TEXTS),
    "y": ("boolean", pa.bool_(), [True, False] * 7),
    "n": ("decimal(9,2)", pa.decimal128(9, 2), SMALL),
    "m": ("decimal(30,5)", pa.decimal128(30, 5), LARGE),
    "dt": ("date", pa.date32(), DAYS),
    "ts": ("timestamp", pa.timestamp("us", "UTC"), TIMES),
    "tn": ("timestamp_ntz", pa.timestamp("us"), TIMES),
    "x": ("binary", pa.binary(), [text.encode() + b"\xff" for text in TEXTS]),
}


def _table() -> pa.Table:
    """The columns b1, b2, s1, s2, ...: all pairs of values. Below a NULL lies a 0, which nobody may see."""
    columns = {}
    for name, (_, data_type, values) in VALUES.items():
        assert len(values) == COUNT - 1, name
        for side in (0, 1):
            given = [None if row[side] == COUNT - 1 else values[row[side]] for row in ROWS]
            if pa.types.is_signed_integer(data_type):
                numbers = np.array([0 if value is None else value for value in given], data_type.to_pandas_dtype())
                column = pa.array(numbers, mask=np.array([value is None for value in given]))
            else:
                column = pa.array(given, data_type)
            columns[f"{name}{side + 1}"] = column
    return pa.table(columns)


TABLE = _table()
PATTERNS = ("yyyy-MM-dd", "yyyyMMdd", "yyyy-MM", "HH:mm", "yyyy/MM/dd HH:mm:ss")
TRIED = (("+", "add"), ("-", "subtract"), ("*", "multiply"))
NARROWED = (("s1", "tinyint"), ("i1", "smallint"), ("l1", "int"), ("l1", "decimal(5, 2)"), ("i1", "decimal(5, 2)"))
TIMES_DRAWN = tuple(f"if(ts{side} > '0001-01-01', ts{side}, NULL)" for side in (1, 2))  # others may overflow
KINDS_DRAWN = ("flag", "number", "text", "time")
COMPARED = ("=", "<=>", "<>", "<", "<=", ">", ">=")
EXPRESSIONS = [
    *(f"{name}1 {sign} {name}2" for name in VALUES for sign in COMPARED),
    *(f"{name}1 IS {no}NULL" for name in VALUES for no in ("", "NOT ")),
    *(f"y1 {word} y2" for word in ("AND", "OR")),
    "NOT y1",
    "y1 AND NULL",
    "l1 = 3 AND l2 > 5 OR i1 IN (1, 2)",
    "isnan(d1)",
    "isnan(f1)",
    *(f"{name}1 IN (1, 2, -7, 100)" for name in "bsil"),
    "l1 IN (1, NULL)",
    "l1 NOT IN (1, NULL)",
    "t1 IN ('a', 'ä', '')",
    "dt1 IN (DATE '2000-02-29', NULL)",
    "dt1 IN (DATE '+10000-01-01', DATE '-0001-01-01')",
    "l1 BETWEEN 1 AND 100",
    "dt1 >= '2024-01-01'",
    "ts1 < '2024-01-01'",
    "t1 > 'a'",
    "n1 > 1",
    *(f"{name}1 {sign} {name}2" for name in "fd" for sign in "+-*"),
    "-d1",
    "abs(f1)",
    "l1 / 3",
    "d1 / 0.1D",
    *(f"{name}1 % {value}Y" for name in "bsil" for value in (7, 123, -5)),
    *(f"pmod({name}1, CAST(7 AS {VALUES[name][0]}))" for name in "bsil"),
    "pmod(l1, CAST(-7 AS bigint))",
    "l1 div 3",
    "l1 & l2",
    "i1 | i2",
    "s1 ^ s2",
    "n1 + n2",
    "n1 - n2",
    "n1 * n2",
    "n1 + m1",
    "0.908 * l1",
    *(f"CAST({name}1 AS {kind})" for name in "bsi" for kind in ("bigint", "double", "float", "string")),
    "CAST(l1 AS double)",
    "CAST(l1 AS float)",
    "CAST(l1 AS string)",
    "CAST(l1 AS decimal(20, 0))",
    "CAST(i1 AS decimal(12, 2))",
    "CAST(f1 AS double)",
    "CAST(y1 AS string)",
    "CAST(y1 AS int)",
    "CAST(n1 AS decimal(12, 4))",
    "CAST(n1 AS decimal(9, 1))",
    "CAST(m1 AS decimal(30, 0))",
    "CAST(dt1 AS string)",
    "CAST(ts1 AS date)",
    "to_date(ts1)",
    "CAST(tn1 AS date)",
    "CAST(tn1 AS timestamp)",
    "CAST(ts1 AS timestamp_ntz)",
    "CASE WHEN l1 > 3 THEN 'x' WHEN l1 < 0 THEN t1 END",
    "CASE l1 WHEN 1 THEN i1 WHEN 2 THEN i2 ELSE 0 END",
    "if(y1, l1, l2)",
    "coalesce(l1, l2, 5)",
    "nvl(t1, 'none')",
    "nvl2(t1, 1, 2)",
    "nullif(l1, 3)",
    "greatest(l1, l2)",
    "least(i1, i2, 5)",
    "greatest(dt1, dt2)",
    *(f"t1 LIKE '{pattern}'" for pattern in ("a%", "%b", "a_b", "%", "", "_", "%a%", "a.b", "a%b", "a", "%ä%", "__")),
    *(f"{name}(t1, '{text}')" for name in ("startswith", "endswith", "contains") for text in ("a", "", "😀", "ä")),
    *(f"substring(t1, {position}, {length})" for position in (0, 1, 2, 9) for length in (-1, 0, 1, 2, 99)),
    *(f"substr(t1, {position})" for position in (-2147483647, -9, -2, -1, 0, 1, 2, 9)),
    *(f"split_part(t1, '{text}', {number})" for text in ("a", "😀", ".", "xx") for number in (1, 2, 3, -1, -2, -9)),
    "left(t1, 2)",
    "right(t1, 2)",
    "length(t1)",
    "length(x1)",
    "concat(t1, '-', t2)",
    "t1 || t2",
    *(f"date_format({name}1, '{pattern}')" for name in ("ts", "tn") for pattern in PATTERNS),
    *(f"{name}({column}1)" for name in ("year", "month", "day") for column in ("dt", "ts")),
    *(f"{name}(ts1)" for name in ("hour", "minute", "second", "unix_micros", "unix_millis", "unix_seconds")),
    *(f"timestamp_{unit}({n}1)" for unit in ("seconds", "millis", "micros") for n in "bsi"),
    "timestamp_micros(l1)",
    *(f"date_trunc('{unit}', ts1)" for unit in ("MINUTE", "hour", "SECOND")),
]
MOVED = (
    ("+ INTERVAL 90 MINUTES", 5_400_000_000),
    ("- INTERVAL '2 03:00:01' DAY TO SECOND", -183_601_000_000),
)
UNITS_US = (("seconds", 1_000_000), ("millis", 1000))
THREE = "CASE WHEN l1 = 3.5 THEN CAST(raise_error('it is three') AS bigint) ELSE l1 END"
#: (expression, the same that gives NULL where the expression raises)
RAISING = [
    *((f"{n}1 {sign} {n}2", f"try_{word}({n}1, {n}2)") for n in "bsil" for sign, word in TRIED),
    *((f"{n}1 % {n}2", f"try_mod({n}1, {n}2)") for n in "bsil"),
    *((f"timestamp_{unit}(l1)", f"timestamp_micros(try_multiply(l1, {us}))") for unit, us in UNITS_US),
    ("l1 div l2", "if(l2 = 0 or l2 = -1 and l1 = -9223372036854775808, null, l1 div l2)"),
    ("d1 / d2", "try_divide(d1, d2)"),
    ("l1 / l2", "try_divide(l1, l2)"),
    ("-l1", "try_subtract(0, l1)"),
    ("abs(i1)", "if(i1 = -2147483648, null, abs(i1))"),
    *((f"pmod({n}1, {n}2)", f"if({n}2 = 0, null, pmod({n}1, {n}2))") for n in "bsil"),
    *((f"CAST({name} AS {kind})", f"try_cast({name} AS {kind})") for name, kind in NARROWED),
    ("CAST(n1 AS decimal(5, 1))", "try_cast(n1 AS decimal(5, 1))"),
    ("CAST(m1 AS decimal(24, 1))", "try_cast(m1 AS decimal(24, 1))"),
    ("CAST(0.908 * l1 AS decimal(10, 1))", "try_cast(0.908 * l1 AS decimal(10, 1))"),
    ("CAST(dt1 AS timestamp)", "try_cast(dt1 AS timestamp)"),
    *((f"ts1 {text}", f"timestamp_micros(try_add(unix_micros(ts1), {us}))") for text, us in MOVED),
    ("date_trunc('DAY', ts1)", "if(unix_micros(ts1) < -9223372000000000000, NULL, date_trunc('DAY', ts1))"),
]
#: each computed only for rows in which it does not raise
GUARDED = [
    "if(year(ts1) BETWEEN 1 AND 9999, ts1 - INTERVAL '0.000001' SECOND, NULL)",
    "if(year(tn1) BETWEEN 1 AND 9999, tn1 + INTERVAL '1 02' DAY TO HOUR, NULL)",
    "if(l1 BETWEEN -1000 AND 1000, timestamp_seconds(l1), NULL)",
    "CASE WHEN l2 <> 0 AND l2 <> -1 THEN l1 % l2 ELSE 7 END",
    "if(l2 = 0, -1, pmod(l1, l2))",
    "d2 <> 0 AND d1 / d2 > 1",
    "d2 = 0 OR d1 / d2 > 1",
    "coalesce(l1 * 0, 5)",
    "coalesce(i1, 1 % i1 * 0, 7)",
    "nvl(if(i2 = 0, null, i1 % i2), 3)",
    "if(y1, 1, if(l1 between -1000 and 1000, l1 * l1 * l1, 0))",
    "NULL + l1 % l2",
    "l1 % l2 + NULL",
    "CASE WHEN l1 % l2 > 1 THEN 1 ELSE 1 END",
    "(CAST(NULL AS bigint) * l1) % (l1 % l2)",
    "if(NOT (true AND NULL IS NULL), 1, CAST(NULL AS bigint)) * (l1 % l2)",
    "nvl2(coalesce(1, i1), CAST(NULL AS bigint), l1) % (l1 % l2)",
    "(9223372036854775807L + CAST(b1 AS bigint)) + (-1000L - CAST(b2 AS bigint))",
    "(100L * l1) * if(l2 > 0, 0L, NULL) + if(l1 BETWEEN -1000 AND 1000, 2L * (l1 * 3L), 5L) * 1L",
    "coalesce(l1 % l2, 1L) * if(y1, 0L, 0L) * 3L",
    "date_trunc('HOUR', coalesce(TIMESTAMP '2024-02-29 12:34:56', ts1))",
    "coalesce(-(l1 % NULL), CASE WHEN CAST(NULL AS boolean) THEN l1 % l2 ELSE 3 END)",
    *(f"l1 % l2 = 1 {word}" for word in ("OR true", "AND false")),
    *(f"{word} l1 % l2 = 1" for word in ("true OR", "false AND")),
    *(f"coalesce(l1 % l2, 5) IS {word}" for word in ("NULL", "NOT NULL")),
    "named_struct('a', l1, 'b', t1)",
    "named_struct('a', l1) IS NULL",
    "struct(if(y1, 1, i1) AS `y z`, 2L AS two, d1)",
    "named_struct('a', l1 % l2, 'b', t1).b",
    "named_struct('a', l1, 'b', named_struct('c', t1).c).b",
]


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    """TABLE, which is also the view x."""
    path = tmp_path_factory.mktemp("hostile") / "a.parquet"
    pq.write_table(TABLE, path)
    schema = ", ".join(f"{name}{side} {kind}" for name, (kind, _, _) in VALUES.items() for side in (1, 2))
    found = spark.read.schema(schema).parquet(str(path))
    with views(spark, {"x": found}):
        yield found


def _shown(column: pa.ChunkedArray) -> list[str]:
    """Values as text that tells -0.0 from 0.0, and that has times beyond those of Python."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return list(map(repr, column.to_pylist()))


def _ours(query: Query, rows: pa.Table = TABLE) -> pa.Table:
    return pa.Table.from_batches(list(evaluate([query], rows.combine_chunks().to_batches())))


def test_every_value_is_the_one_that_spark_computes(frame: DataFrame) -> None:
    selected = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(EXPRESSIONS)))
    ours, spark = _ours(read_query_of(selected, until=frame)), selected.toArrow()
    wrong = []
    for number, text in enumerate(EXPRESSIONS):
        found, expected = ours.column(number), spark.column(number)
        assert found.type == expected.type, text
        rows = zip(range(len(ROWS)), _shown(found), _shown(expected), strict=True)
        differing = [(row, one, other) for row, one, other in rows if one != other]
        wrong += [(text, *differing[0], _given(differing[0][0], text))] if differing else []
    assert wrong == [], "expression, row, ours, Spark's, its columns"


def test_a_union_is_a_query_for_each_branch_over_the_frame_in_which_it_ends(frame: DataFrame) -> None:
    session = frame.sparkSession
    other = session.createDataFrame([(5, 1), (None, 2)], "n int, m long")
    text = """
        WITH lines AS (SELECT n, m FROM other WHERE m < 2 UNION ALL SELECT i1, l1 FROM x WHERE i1 BETWEEN 1 AND 99)
        SELECT n + 1 AS n, m FROM (SELECT n, m FROM lines UNION ALL (SELECT m, n FROM other WHERE m < 9)) WHERE m <> 3
        UNION ALL SELECT * FROM other WHERE m = 1 UNION ALL SELECT * FROM other
    """
    with views(session, {"other": other}):
        selected = session.sql(text)
    of_other = read_queries_of(selected, until=other, others=[frame])
    of_ours = read_queries_of(selected, until=frame, others=[other])
    assert (len(of_other), len(of_ours)) == (4, 1)
    rows = [*evaluate(of_ours, TABLE.combine_chunks().to_batches()), *evaluate(of_other, other.toArrow().to_batches())]
    found, expected = pa.Table.from_batches(rows), selected.toArrow()
    assert [*zip(*map(_shown, found.columns), strict=True)] != []
    assert Counter(zip(*map(_shown, found.columns), strict=True)) == Counter(
        zip(*map(_shown, expected.columns), strict=True)
    )
    with pytest.raises(OnlySparkError, match="it has"):
        read_queries_of(selected, until=frame)  # nobody would make the rows of the other branches


def test_a_branch_that_renames_columns_has_each_under_its_new_name(spark: SparkSession) -> None:
    """To Spark, a copy of a plan with other names has the same result, so the names tell nothing."""
    tables = {
        "one": pa.table({"a": [1], "b": [2], "c": [3]}),
        "two": pa.table({"a": [4], "b": [5], "c": [6], "d": [7]}),
    }
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    streams = {name: stand_in_of(spark, frame.schema) for name, frame in frames.items()}
    for names in permutations("abcd", 3):
        renamed = ", ".join(old if old == new else f"{old} AS {new}" for old, new in zip("abc", names, strict=True))
        text = f"""
            SELECT {renamed} FROM one UNION ALL SELECT a, b, c FROM two
            UNION ALL SELECT {renamed} FROM two UNION ALL SELECT a + 10, b, c FROM one
        """
        with views(spark, frames):
            expected = Counter(map(tuple, spark.sql(text).collect()))
        with views(spark, streams):
            selected = spark.sql(text)
        rows = Counter[tuple[Any, ...]]()
        for until, others in (("one", "two"), ("two", "one")):
            for query in read_queries_of(selected, until=streams[until], others=[streams[others]]):
                found = evaluate([query], tables[until].to_batches())
                rows += Counter(tuple(row.values()) for batch in found for row in batch.to_pylist())
        assert rows == expected, text


def _given(row: int, text: str) -> dict[str, str]:
    return {name: repr(_shown(TABLE.column(name).slice(row, 1))) for name in TABLE.column_names if name in text}


def _drawn(rng: random.Random, kind: str, depth: int) -> str:
    """A random expression of a kind of value, which raises nothing."""

    def a(other: str = kind) -> str:
        return _drawn(rng, other, depth - 1)

    if depth == 0:
        of_kind = {
            "flag": ("y1", "CAST(NULL AS boolean)", "true"),
            "text": ("t1", "t2", "'a'", "''"),
            "time": TIMES_DRAWN,
        }
        return rng.choice(
            of_kind.get(kind, ("CAST(s1 AS bigint)", "CAST(b2 AS bigint)", "3L", "0L", "CAST(NULL AS bigint)"))
        )
    choices: dict[str, Callable[[], str]] = {
        "if": lambda: f"if({a('flag')}, {a()}, {a()})",
        "case": lambda: f"CASE WHEN {a('flag')} THEN {a()} WHEN {a('flag')} THEN {a()} END",
        "coalesce": lambda: f"coalesce({a()}, {a()})",
    }
    match kind:
        case "flag":
            choices["and"] = lambda: f"({a()} {rng.choice(['AND', 'OR'])} {a()})"
            choices["not"] = lambda: f"(NOT {a()})"
            choices["null"] = lambda: f"({a(rng.choice(KINDS_DRAWN))} IS NULL)"
            other = rng.choice(KINDS_DRAWN)
            choices["compare"] = lambda: f"({a(other)} {rng.choice(COMPARED)} {a(other)})"
            choices["guarded"] = lambda: f"(l2 <> 0 AND {a('number')} % l2 > 1 OR {a()})"
            choices["in"] = lambda: f"({a('text')} IN ('a', '', NULL))"
        case "number":
            choices["add"] = lambda: f"({a()} {rng.choice('+-')} {a()})"
            choices["rest"] = lambda: f"({a()} % 7)"
            choices["safe"] = lambda: f"if(l1 = 0, {a()}, {a()} % l1)"
            choices["length"] = lambda: f"CAST(length({a('text')}) AS bigint)"
            choices["hour"] = lambda: f"CAST(hour({a('time')}) AS bigint)"
        case "text":
            choices["concat"] = lambda: f"concat({a()}, {a()})"
            choices["part"] = lambda: f"substring({a()}, 2, 1)"
            choices["number"] = lambda: f"CAST({a('number')} AS string)"
            choices["day"] = lambda: f"date_format({a('time')}, 'yyyy-MM-dd HH')"
        case "time":
            choices["hour"] = lambda: f"date_trunc('HOUR', {a()})"
            choices["day"] = lambda: f"CAST(CAST({a()} AS date) AS timestamp)"
    return choices[rng.choice(sorted(choices))]()


@settings(max_examples=1)
@given(seed=st.integers(0, 2**32))
def test_random_expressions_have_the_values_and_the_rows_of_spark(frame: DataFrame, seed: int) -> None:
    rng = random.Random(seed)
    texts = [_drawn(rng, rng.choice(KINDS_DRAWN), 3) for _ in range(60)]
    for number in range(3):
        filters = [_drawn(rng, "flag", 3) for _ in range(2)]
        selected = frame.where(" AND ".join(filters)) if number else frame
        selected = selected.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(texts[20 * number :][:20])))
        ours, spark = _ours(read_query_of(selected, until=frame)), selected.toArrow()
        for i, text in enumerate(texts[20 * number :][:20]):
            assert _shown(ours.column(i)) == _shown(spark.column(i)), (seed, filters if number else [], text)


def test_some_text_functions_compute_ascii_and_leave_other_text_to_spark(spark: SparkSession) -> None:
    texts = ["", "a", "aZ09_", "x&channel_id=7&b", "channel_id=", "&channel_id=1&channel_id=2", "ab=c", None]
    frame = spark.createDataFrame([(text,) for text in texts], "t1 string")
    patterns = ("(&|^)channel_id=([^&]*)", "([a]+)(b|Z)?", "x|(b)=", "^a*", "[^a]+")
    calls = [f"regexp_extract(t1, '{one}', {n})" for one in patterns[:1] for n in (0, 1, 2)]
    calls += [f"regexp_extract(t1, '{one}', 0)" for one in patterns if ")?" not in one]
    calls += ["lower(t1)", "upper(t1)", "regexp_extract(t1, 'x|(b)=', 1)"]
    selected = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(calls)))
    (query,) = read_queries_of(selected, until=frame, may_leave=True)
    assert _ours(query, pa.table({"t1": texts})).to_pydict() == selected.toArrow().to_pydict()
    for call in calls:
        alone = frame.selectExpr(f"{call} AS c")
        (query,) = read_queries_of(alone, until=frame, may_leave=True)
        with pytest.raises(LeftToSparkError):
            _ours(query, pa.table({"t1": ["a", "ä"]}))
        with pytest.raises(OnlySparkError):
            read_query_of(alone, until=frame)
    for pattern in ("a.b", "(?i)a", "a*?", "(a)*", "[a&&b]", "a$", "([a]+)(b|Z)?", "[a-z]"):
        with pytest.raises(OnlySparkError):
            read_queries_of(frame.selectExpr(f"regexp_extract(t1, '{pattern}', 0)"), until=frame, may_leave=True)


#: values of which most are no UTF-8: single bytes, cut characters, an overlong slash, half of a surrogate pair
NOT_UTF_8 = [b"\xff", b"\xc0\xaf", b"a\xc3", b"\xe2\x82", b"a\x80b", b"\xed\xa0\x80", b"a\xff\xffb", b"\xf0\x9f\x98"]
NOT_UTF_8 += ["ä".encode(), b"ab"]
OF_CHARACTERS = ("length(", "substr", "left(", "right(", "LIKE", "lower(", "upper(", "regexp_extract(", "split_part(")


def test_text_that_is_not_utf_8_is_computed_as_by_spark_or_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    columns = [pa.array([pair[side] for pair in product(NOT_UTF_8, repeat=2)], pa.binary()) for side in (0, 1)]
    table = pa.table([_as_text(column) for column in columns], names=["t1", "t2"])
    pq.write_table(table, tmp_path / "a.parquet")
    frame = spark.read.schema("t1 string, t2 string").parquet(str(tmp_path / "a.parquet"))
    names = {text: {*re.findall(r"\b[a-z]+[12]\b", text)} for text in EXPRESSIONS}
    texts = [text for text in EXPRESSIONS if names[text] and names[text] <= {"t1", "t2"}]
    texts += ["lower(t1)", "upper(t1)", "regexp_extract(t1, 'a', 0)"]
    spark_columns = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(texts))).toArrow().columns
    computed = []
    for text, expected in zip(texts, spark_columns, strict=True):
        (query,) = read_queries_of(frame.selectExpr(f"{text} AS c"), until=frame, may_leave=True)
        with suppress(LeftToSparkError):
            assert _as_bytes(_ours(query, table).column(0)) == _as_bytes(expected), text
            computed.append(text)
    assert computed == [text for text in texts if not any(word in text for word in OF_CHARACTERS)]
    assert {"t1 < t2", "t1 = t2", "t1 || t2"} <= set(computed), "bytes are enough for these"


def _as_text(column: pa.Array) -> pa.Array:
    """Bytes as text, which Arrow does not check."""
    return pa.StringArray.from_buffers(len(column), *column.buffers()[1:])


def _as_bytes(column: pa.ChunkedArray) -> list[Any]:
    return list(column.cast(pa.binary()).to_pylist() if pa.types.is_string(column.type) else column.to_pylist())


def test_a_value_is_refused_where_spark_refuses_it(frame: DataFrame) -> None:
    tried = frame.selectExpr(*(f"{text} AS c{number}" for number, (_, text) in enumerate(RAISING))).toArrow()
    for number, (text, _) in enumerate(RAISING):
        query = read_query_of(frame.selectExpr(f"{text} AS c"), until=frame)
        assert any(raising_nodes(query.nodes)), f"rows that do not need {text} would be refused"
        names = [column.name for column in query.reads]
        expected = _shown(tried.column(number))
        rows = [(row, [TABLE.column(name)[row] for name in names], value) for row, value in enumerate(expected)]
        refused = [row for row, given, value in rows if value == "None" and all(one.is_valid for one in given)]
        assert refused or text.startswith("CAST(dt1"), text
        fine = [row for row, _, _ in rows if row not in refused]
        found = _shown(_ours(query, TABLE.take(fine)).column(0))
        assert found == [expected[row] for row in fine], text
        for row in refused:
            with pytest.raises(
                InvalidJobError, match=r"^a value of a computed column, .* cause=.+, expression=.+, values="
            ):
                _ours(query, TABLE.slice(row, 1))


def test_an_error_that_sql_raises_is_raised_only_for_rows_that_reach_it(frame: DataFrame) -> None:
    ours = _ours(read_query_of(frame.selectExpr(f"{THREE} AS c").where("c > 4 OR c < 4"), until=frame))
    assert ours.num_rows > 0, "no row has the value"
    with pytest.raises(InvalidJobError, match=r"^it is three$"):
        _ours(read_query_of(frame.selectExpr(THREE.replace("= 3.5", "> 0")), until=frame))
    with pytest.raises(OnlySparkError, match="raise_error"):  # a text of each row
        read_query_of(frame.selectExpr("CAST(raise_error(t1) AS boolean) AS c"), until=frame)


def test_a_value_that_raises_is_computed_only_for_rows_that_need_it(frame: DataFrame) -> None:
    selected = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(GUARDED)))
    ours, spark = _ours(read_query_of(selected, until=frame)), selected.toArrow()
    for number, text in enumerate(GUARDED):
        assert _shown(ours.column(number)) == _shown(spark.column(number)), text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l1, l1 % l2 AS r FROM x WHERE l2 <> 0 AND l1 % l2 = 1",
        "SELECT l1 % l2 AS r FROM x WHERE l2 > 0 AND y1 AND t1 LIKE 'a%'",
        "SELECT r FROM (SELECT l1, 1 / d1 AS r, upper(t1) AS u, l2 FROM x) WHERE l1 > 5 AND l2 < 5 AND l1 < 0",
        "WITH y AS (SELECT i1 AS a, i2 AS b FROM x WHERE i1 <> 0) SELECT b % a AS c FROM y WHERE b > 1",
        "SELECT l1 AS a, i2 + 1L AS b, 'k' AS c, NULL AS d FROM x WHERE NOT y1",
        "SELECT 1 AS one FROM x WHERE y1",
        "SELECT l1 FROM x WHERE l1 % l2 > 1 AND 1 > 2",
    ],
)
def test_a_query_has_the_rows_of_spark_in_its_order(spark: SparkSession, frame: DataFrame, sql: str) -> None:
    selected = spark.sql(sql)
    if "NULL AS d" in sql:
        with pytest.raises(OnlySparkError):  # a column without a type
            read_query_of(selected, until=frame)
        return
    ours, expected = _ours(read_query_of(selected, until=frame)), selected.toArrow()
    assert ours.column_names == expected.column_names
    assert [_shown(one) for one in ours.columns] == [_shown(one) for one in expected.columns]


def test_an_error_names_the_first_row_that_cannot_be_computed(frame: DataFrame) -> None:
    query = read_query_of(frame.selectExpr("l1 * l2 AS c"), until=frame)
    with pytest.raises(InvalidJobError) as caught:
        _ours(query)
    assert str(caught.value) == (
        "a value of a computed column, of a sql step or of an argument cannot be computed, and nothing was committed. "
        "Correct the SQL, let it return NULL for such a value, as try_cast does, or filter such records out in a sql "
        "step before it. cause=overflow, expression=(l1 * l2), values=-1, -9223372036854775808"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("upper(t1)", "upper(t1)"),
        ("try_add(l1, l2)", "(l1 + l2)"),
        ("current_timestamp()", "current_timestamp()"),
        ("m1 * m2", "(m1 * m2)"),
        ("l1 IN (l2)", "(l1 IN (l2))"),
        ("t1 LIKE '!%a' ESCAPE '!'", "t1 LIKE '!%a' ESCAPE '!'"),
        ("t1 LIKE t2", "t1 LIKE t2"),
        ("substring(t1, -5, 2)", "substring(t1, -5, 2)"),
        ("substr(t1, -2147483648)", "substr(t1, -2147483648, "),
        ("concat(t1, CAST(x'ff' AS string))", "CAST(X'FF' AS STRING)"),
        ("date_format(ts1, 'EEEE')", "date_format(ts1, 'EEEE')"),
        ("CAST(t1 AS int)", "CAST(t1 AS INT)"),
        ("CAST(m1 AS double)", "CAST(m1 AS DOUBLE)"),
        ("CAST(CAST(i1 AS float) AS double)", "CAST(CAST(i1 AS FLOAT) AS DOUBLE)"),
        ("l1 + 1L % 0L", "(1L % 0L)"),
        ("rand()", "rand("),
        ("array(l1)", "array(l1)"),
        ("named_struct('a', l1) = named_struct('a', l2)", "named_struct('a', "),
        ("if(y1, named_struct('a', l1), named_struct('a', l2))", "named_struct('a', "),
        ("named_struct('a', named_struct('b', l1))", "named_struct('a', "),
        ("t1 COLLATE UNICODE = 'a'", ""),
    ],
)
def test_what_may_differ_is_left_to_spark(frame: DataFrame, text: str, why: str) -> None:
    with pytest.raises(OnlySparkError) as caught:
        read_query_of(frame.selectExpr(f"{text} AS c"), until=frame)
    assert why in str(caught.value)


@pytest.mark.parametrize("count", range(1, 7))
def test_only_runs_of_letters_that_are_numbers_are_formatted_on_arrow(frame: DataFrame, count: int) -> None:
    for letter in "yMdHms":
        selected = frame.selectExpr(f"date_format(ts1, 'yyyy-{letter * count}/HH') AS c")
        if count != (4 if letter == "y" else 2):
            with pytest.raises(OnlySparkError):
                read_query_of(selected, until=frame)
        else:
            assert read_query_of(selected, until=frame).columns


@pytest.mark.parametrize("name", VALUES)
def test_every_cast_is_read_or_left_to_spark(frame: DataFrame, name: str) -> None:
    kinds = [*(kind for kind, _, _ in VALUES.values()), "decimal(38,0)", "decimal(3,3)"]
    left: list[str] = []
    read: list[tuple[str, int]] = []
    for kind in kinds:
        with suppress(AnalysisException):  # such as a date as a number
            selected = frame.selectExpr(f"CAST({name}1 AS {kind}) AS c")
            try:
                read += read_query_of(selected, until=frame).columns
            except OnlySparkError:
                left.append(kind)
    assert read
    assert bool(left) == (name != "dt"), "Spark itself refuses the other casts of dates"


def test_every_kind_on_the_list_is_compared_with_spark(frame: DataFrame) -> None:
    texts = [*EXPRESSIONS, *GUARDED, *(text for text, _ in RAISING), THREE]
    query = read_query_of(frame.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts))), until=frame)
    found = {node.kind for node in query.nodes if isinstance(node, Call)}
    assert found | {"Lower", "Upper", "RegExpExtract"} == KINDS, "those three have a test of their own"


def test_sql_under_a_legacy_setting_is_left_to_spark(spark: SparkSession, frame: DataFrame) -> None:
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        with pytest.raises(OnlySparkError, match=r"^spark\.sql\.legacy\.timeParserPolicy is set$"):
            read_query_of(frame.selectExpr("l1 AS c"), until=frame)
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_days_of_another_time_zone_are_left_to_spark(spark: SparkSession, frame: DataFrame, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = frame.selectExpr("*")
        for text in ("ts1 + INTERVAL '23' HOUR", "tn1 + INTERVAL '1' DAY"):
            assert read_query_of(frame.selectExpr(f"{text} AS c"), until=frame).columns
        for text in ("CAST(ts1 AS DATE)", "ts1 + INTERVAL '1' DAY"):
            selected = frame.selectExpr(f"{text} AS c")
            if zone == "UTC":
                assert read_query_of(selected, until=frame).columns
            else:
                with pytest.raises(OnlySparkError, match=re.escape(text)):
                    read_query_of(selected, until=frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
