"""DuckDB as a second oracle of joins: its ASOF JOIN and its joins with ranges agree with the nested loops.

The nested loops are what the engine is compared with, in all modes. So DuckDB is asked only about them, which is quick.
"""

from collections import Counter
from collections.abc import Sequence

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.stories import local_cases
from tests.differential.test_joins import KINDS, Kind, as_of, interval, some_condition
from tests.differential.test_regular_joins import regular
from tests.differential.test_time_in_chains import Row
from tests.differential.timelines import MS

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("n", pa.int64()), ("t", pa.int64())])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.none() | st.sampled_from(["", "a", "b"]),
            "v": st.none() | st.integers(-2, 2),
            "n": st.none() | st.integers(0, 2),
            "t": st.integers(0, 12).map(lambda ms: ms * MS // 2),
        }
    ),
    max_size=12,
)


CONNECTION = duckdb.connect()


def answer(sql: str, left: Sequence[Row], right: Sequence[Row]) -> Counter[tuple[object, ...]]:
    for name, rows in (("left_rows", left), ("right_rows", right)):
        CONNECTION.register(name, pa.Table.from_pylist(list(rows), SCHEMA))
    return counted(CONNECTION.sql(sql).to_arrow_table().to_pylist())


def counted(rows: Sequence[Row]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in SCHEMA.names) for row in rows)


def condition_of(text: str | None) -> str:
    return "true" if text is None else text.replace("left.", "l.").replace("right.", "r.")


@given(
    left=ROWS, right=ROWS, keeps_left=st.booleans(), strictly=st.booleans(), tolerance_ms=st.sampled_from([None, 1, 3])
)
@local_cases(0.1)
def test_duckdb_agrees_about_as_of_joins(
    left: list[Row], right: list[Row], *, keeps_left: bool, strictly: bool, tolerance_ms: int | None
) -> None:
    join = as_of(keeps_left=keeps_left, strictly=strictly, tolerance_ms=tolerance_ms)
    holds = "r.t IS NOT NULL" if tolerance_ms is None else f"coalesce(l.t - r.t <= {tolerance_ms * MS}, false)"
    sql = f"""
        WITH r AS (
            SELECT * FROM right_rows
            QUALIFY row_number() OVER (PARTITION BY k, t ORDER BY v DESC NULLS LAST, n DESC NULLS LAST) = 1
        )
        SELECT l.k, CASE WHEN {holds} THEN r.v END AS v, l.n, l.t
        FROM left_rows AS l ASOF LEFT JOIN r ON l.k = r.k AND l.t {">" if strictly else ">="} r.t
        WHERE {keeps_left} OR {holds}"""
    assert counted(join.apply(left, right)) == answer(sql, left, right)


@given(
    left=ROWS,
    right=ROWS,
    kind=st.sampled_from(KINDS),
    bounds=st.lists(st.integers(-4, 4), min_size=2, max_size=2),
    condition=some_condition,
)
@local_cases(0.1)
def test_duckdb_agrees_about_interval_joins(
    left: list[Row], right: list[Row], kind: Kind, bounds: list[int], condition: str | None
) -> None:
    lower_ms, upper_ms = sorted(bounds)
    near = f"r.t - l.t >= {lower_ms * MS} AND r.t - l.t <= {upper_ms * MS}"
    columns = "l.k, l.v, l.n, l.t" if kind in ("semi", "anti") else "l.k, r.v, l.n, greatest(l.t, r.t) AS t"
    sql = f"""
        SELECT {columns} FROM left_rows AS l {kind} JOIN right_rows AS r
        ON l.k = r.k AND {near} AND ({condition_of(condition)})"""
    join = interval(kind, lower_ms, upper_ms, condition)
    assert counted(join.apply(left, right)) == answer(sql, left, right)


@given(left=ROWS, right=ROWS, kind=st.sampled_from(KINDS), condition=some_condition)
@local_cases(0.1)
def test_duckdb_agrees_about_joins_without_a_bound(
    left: list[Row], right: list[Row], kind: Kind, condition: str | None
) -> None:
    key = "r.k" if kind == "right" else "l.k"
    columns = "l.k, l.v, l.n, NULL AS t" if kind in ("semi", "anti") else f"{key}, l.v, r.v AS n, NULL AS t"
    sql = f"""
        SELECT {columns} FROM left_rows AS l {kind} JOIN right_rows AS r
        ON l.k = r.k AND ({condition_of(condition)})"""
    assert counted(regular(kind, condition).apply(left, right)) == answer(sql, left, right)
