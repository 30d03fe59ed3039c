"""The text around GROUP BY and DISTINCT: words are found outside of quotes, comments and other queries."""

import pytest

from mixedmode.analysis.query_text import (
    before_group_by,
    before_qualify,
    has_groups,
    inner_queries,
    ordered_queries,
    parts_of_operator,
    with_parentheses,
    without_distinct,
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, sum(v) FROM t GROUP BY k", ("", "FROM t ")),
        ("select k from t where v > 0\ngroup\n by k", ("", "from t where v > 0\n")),
        ("WITH c AS (SELECT 1 FROM t) SELECT k FROM c GROUP BY k", ("WITH c AS (SELECT 1 FROM t) ", "FROM c ")),
        ("SELECT extract(year FROM at) FROM t GROUP BY 1", ("", "FROM t ")),
        ("SELECT k IS DISTINCT FROM s AS d FROM t GROUP BY 1", ("", "FROM t ")),
        ('SELECT \'FROM x\', `from`, "it\\" FROM" FROM t GROUP BY 1', ("", "FROM t ")),
        ("SELECT k -- FROM x GROUP BY y\nFROM t /* GROUP BY z */ GROUP BY k", ("", "FROM t /* GROUP BY z */ ")),
        ("SELECT 'it''s' AS s FROM t WHERE s = 'a group by b' GROUP BY s", ("", "FROM t WHERE s = 'a group by b' ")),
        (
            "SELECT max(n) FROM (SELECT count(*) AS n FROM t) HAVING max(n) > 1",
            ("", "FROM (SELECT count(*) AS n FROM t) "),
        ),
        ("SELECT max(v) FROM t WHERE v > 1", ("", "FROM t WHERE v > 1")),
        ("SELECT max(v)", None),
        (
            "SELECT k FROM (SELECT * FROM t WHERE v IN (1, 2)) AS x GROUP BY k",
            ("", "FROM (SELECT * FROM t WHERE v IN (1, 2)) AS x "),
        ),
        ("SELECT k FROM (SELECT k FROM t GROUP BY k) GROUP BY k", ("", "FROM (SELECT k FROM t GROUP BY k) ")),
        ("SELECT k FROM t GROUP BY k UNION SELECT k FROM t GROUP BY k", None),
        ("FROM t SELECT k, sum(v) GROUP BY k", None),
        (")) SELECT k FROM t GROUP BY k", (")) ", "FROM t ")),
        ("FROM t |> WHERE v > 1 |> AGGREGATE sum(v) GROUP BY k", ("FROM t |> WHERE v > 1 |> ", "")),
    ],
)
def test_the_text_before_a_group_by(sql: str, expected: tuple[str, str] | None) -> None:
    assert before_group_by(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DISTINCT k FROM t", "SELECT k FROM t"),
        ("select  distinct\n k FROM t WHERE a IS DISTINCT FROM b", "select  k FROM t WHERE a IS DISTINCT FROM b"),
        ("SELECT /* DISTINCT */ DISTINCT k FROM t", "SELECT /* DISTINCT */ k FROM t"),
        ("SELECT count(DISTINCT k) FROM t", None),
        ("SELECT DISTINCT k FROM (SELECT DISTINCT k FROM t)", "SELECT k FROM (SELECT DISTINCT k FROM t)"),
        ("SELECT DISTINCT k FROM t UNION SELECT DISTINCT k FROM t", None),
        ("SELECT k FROM (SELECT DISTINCT k FROM t)", None),
        ("SELECT 'SELECT DISTINCT' FROM t", None),
        ("(SELECT k FROM t) union distinct (SELECT k FROM u)", "(SELECT k FROM t) UNION ALL (SELECT k FROM u)"),
        ("WITH t AS (SELECT 1) (TABLE a) UNION (TABLE b)", "WITH t AS (SELECT 1) (TABLE a) UNION ALL (TABLE b)"),
        ("(TABLE a) UNION (TABLE b) EXCEPT (TABLE c)", None),
    ],
)
def test_the_text_without_distinct(sql: str, expected: str | None) -> None:
    assert without_distinct(sql) == expected


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        (
            "SELECT avg(n) FROM (SELECT k, count(*) n FROM t GROUP BY k) AS x GROUP BY k",
            ["SELECT k, count(*) n FROM t GROUP BY k", "SELECT avg(n) FROM (SELECT * FROM r1) AS x GROUP BY k"],
        ),
        (
            (
                "WITH a AS (SELECT 1), `g h`(k, n) AS (SELECT k, count(*) FROM t GROUP BY k), "
                "b AS (SELECT n FROM `g h` GROUP BY n) SELECT n FROM b, a"
            ),
            [
                "SELECT k, count(*) FROM t GROUP BY k",
                "WITH `g h`(k, n) AS (SELECT * FROM r1) SELECT n FROM `g h` GROUP BY n",
                "WITH a AS (SELECT 1), b AS (SELECT * FROM r2) SELECT n FROM b, a",
            ],
        ),
        (
            "SELECT * FROM (WITH t AS (SELECT DISTINCT k FROM t) SELECT k FROM t GROUP BY k)",
            [
                "SELECT DISTINCT k FROM t",
                "WITH t AS (SELECT * FROM r1) SELECT k FROM t GROUP BY k",
                "SELECT * FROM (SELECT * FROM r2)",
            ],
        ),
        (
            (
                "WITH RECURSIVE a (n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n FROM a) "
                "SELECT k FROM (WITH b AS (SELECT * FROM a) SELECT k FROM t, b GROUP BY k)"
            ),
            [
                (
                    "WITH RECURSIVE a (n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n FROM a), "
                    "b AS (SELECT * FROM a) SELECT k FROM t, b GROUP BY k"
                ),
                "SELECT k FROM (SELECT * FROM r1)",
            ],
        ),
        (
            "(SELECT k FROM t GROUP BY k) UNION ALL (SELECT DISTINCT k FROM t -- )\n)",
            [
                "SELECT k FROM t GROUP BY k",
                "SELECT DISTINCT k FROM t -- )\n",
                "(SELECT * FROM r1) UNION ALL (SELECT * FROM r2)",
            ],
        ),
        (
            "SELECT k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY (v)) AS n FROM t) WHERE n = 1",
            [
                "SELECT *, row_number() OVER (PARTITION BY k ORDER BY (v)) AS n FROM t",
                "SELECT k FROM (SELECT * FROM r1) WHERE n = 1",
            ],
        ),
        (
            "SELECT n FROM (SELECT count(*) AS n FROM t)",
            ["SELECT count(*) AS n FROM t", "SELECT n FROM (SELECT * FROM r1)"],
        ),
        ("SELECT count(DISTINCT k), max(v) OVER (PARTITION BY k) FROM t", []),
        ("SELECT k FROM (SELECT k FROM t WHERE k LIKE ANY ('a%', 'b%'))", []),
        ("SELECT ')' FROM (SELECT k FROM t WHERE s = '(SELECT DISTINCT k)')", []),
    ],
)
def test_the_queries_inside_others(sql: str, texts: list[str]) -> None:
    found, rest = list[str](), sql
    while inner := inner_queries(rest):
        found.append(inner[0].sql)
        rest = inner[0].rest(f"r{len(found)}")
    assert [*found, *([rest] if found else [])] == texts


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, row_number() OVER (ORDER BY v) FROM t WHERE v > 0", ("", "FROM t WHERE v > 0")),
        ("WITH a AS (SELECT 1 FROM b) SELECT k FROM a QUALIFY n = 1", ("WITH a AS (SELECT 1 FROM b) ", "FROM a ")),
        ("SELECT k FROM (SELECT k FROM t QUALIFY n = 1)", ("", "FROM (SELECT k FROM t QUALIFY n = 1)")),
        ("SELECT 1", None),
    ],
)
def test_the_text_before_qualify(sql: str, expected: tuple[str, str] | None) -> None:
    assert before_qualify(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM a UNION ALL SELECT k FROM b", None),
        ("SELECT * EXCEPT (k) FROM a UNION ALL SELECT 'union', `except` FROM b", None),
        ("SELECT k FROM a UNION SELECT k FROM b", "(SELECT k FROM a) UNION (SELECT k FROM b)"),
        (
            "WITH t AS (SELECT 1) SELECT k FROM a GROUP BY k union  all (SELECT k FROM b)",
            "WITH t AS (SELECT 1) (SELECT k FROM a GROUP BY k) UNION ALL (SELECT k FROM b)",
        ),
        (
            "TABLE a UNION TABLE b UNION DISTINCT (TABLE c) UNION (TABLE d) LIMIT 3",
            ("(TABLE a) UNION (TABLE b) UNION (TABLE c) UNION ((TABLE d) LIMIT 3)"),
        ),
        (
            "TABLE a UNION ALL TABLE b UNION TABLE c INTERSECT TABLE d INTERSECT TABLE e EXCEPT TABLE f MINUS TABLE g",
            (
                "((((TABLE a) UNION ALL (TABLE b)) UNION (((TABLE c) INTERSECT (TABLE d)) INTERSECT (TABLE e))) EXCEPT "
                "(TABLE f)) MINUS (TABLE g)"
            ),
        ),
        (
            "FROM a |> AGGREGATE sum(v) AS n GROUP BY k |> WHERE n > 1 |> AGGREGATE count(*) AS m |> EXTEND m + 1",
            (
                "((FROM a |> AGGREGATE sum(v) AS n GROUP BY k) |> WHERE n > 1 |> AGGREGATE count(*) AS m) "
                "|> EXTEND m + 1"
            ),
        ),
        (
            "WITH t AS (SELECT 1), u (n) (SELECT 2) SELECT k FROM t UNION (WITH v AS (TABLE t) TABLE v EXCEPT TABLE u)",
            (
                "WITH t AS (SELECT 1), u (n) (SELECT 2) (SELECT k FROM t) UNION (WITH v AS (TABLE t) (TABLE v) EXCEPT "
                "(TABLE u))"
            ),
        ),
        ("TABLE a) UNION (((SELECT 1", None),
        ("FROM a |> UNION (TABLE b) |> SELECT k", "(FROM a |> UNION (TABLE b)) |> SELECT k"),
        ("TABLE a UNION TABLE b |> SELECT k", "((TABLE a) UNION (TABLE b)) |> SELECT k"),
        (
            "SELECT k FROM (TABLE a UNION -- of b\n TABLE b -- c\n) WHERE k NOT IN (1)",
            "SELECT k FROM ((TABLE a) UNION (-- of b\n TABLE b -- c\n)) WHERE k NOT IN (1)",
        ),
    ],
)
def test_parts_are_in_parentheses_as_spark_reads_them(sql: str, expected: str | None) -> None:
    assert with_parentheses(sql) == (expected or sql)
    assert with_parentheses(with_parentheses(sql)) == with_parentheses(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH t AS (SELECT 1) (TABLE t) EXCEPT (TABLE u)", ("WITH t AS (SELECT 1) ", "(TABLE t)", "(TABLE u)")),
        ("FROM t |> SELECT k |> INTERSECT (TABLE u)", ("", "(FROM t |> SELECT k)", "(TABLE u)")),
        ("(TABLE t) EXCEPT (TABLE u) EXCEPT (TABLE v)", None),
        ("(TABLE t) EXCEPT (TABLE u) |> SELECT k", None),
        ("TABLE t", None),
    ],
)
def test_the_parts_of_an_operator(sql: str, expected: tuple[str, str, str] | None) -> None:
    assert parts_of_operator(sql) == expected


def test_a_text_with_groups() -> None:
    assert has_groups("SELECT * FROM (SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) FROM t)")
    assert has_groups("SELECT * FROM (SELECT k FROM t group by k)")
    assert has_groups("select DISTINCT k FROM t")
    assert has_groups("select Max(k) FROM t")
    assert has_groups("SELECT coalesce(string(count(*)), 'none') FROM t")
    assert has_groups("SELECT (1 + (row_number() OVER (ORDER BY v))) FROM t")
    assert has_groups("TABLE t UNION TABLE u")
    assert not has_groups("TABLE t UNION ALL TABLE u INTERSECT ALL TABLE v")
    assert not has_groups("SELECT v FROM t WHERE (max > (1))")
    assert not has_groups("SELECT max FROM t WHERE k LIKE ANY ('a%', 'b%')")
    assert not has_groups("SELECT 'GROUP BY', a IS DISTINCT FROM b FROM t")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM t ORDER BY k LIMIT 3", [("SELECT k FROM t ", "", "")]),
        ("SELECT k FROM t\norder\nby k -- LIMIT 9\nlimit 3", [("SELECT k FROM t\n", "", "")]),
        ("SELECT k FROM t LIMIT 3", []),
        ("SELECT k FROM t ORDER BY k", []),
        ("SELECT row_number() OVER (ORDER BY k) AS n FROM t LIMIT 3", []),
        ("FROM t |> ORDER BY k |> LIMIT 3", []),
        (
            "SELECT * FROM (SELECT k FROM t ORDER BY k LIMIT 3) WHERE k > 1",
            [("SELECT k FROM t ", "SELECT * FROM (", ") WHERE k > 1")],
        ),
        (
            "SELECT k FROM (SELECT k FROM t ORDER BY 1 LIMIT 9) ORDER BY k LIMIT 3",
            [
                ("SELECT k FROM t ", "SELECT k FROM (", ") ORDER BY k LIMIT 3"),
                ("SELECT k FROM (SELECT k FROM t ORDER BY 1 LIMIT 9) ", "", ""),
            ],
        ),
    ],
)
def test_a_query_with_order_by_and_limit_is_divided_at_order_by(sql: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.body, one.before, one.after) for one in ordered_queries(sql)] == expected


def test_a_query_with_a_limit_is_read_with_the_definitions_that_it_names() -> None:
    sql = "WITH a AS (SELECT 1 AS k), b AS (SELECT 2 AS k) SELECT k FROM b ORDER BY k LIMIT 3"
    (found,) = ordered_queries(sql)
    assert found.rows == "WITH b AS (SELECT 2 AS k) SELECT k FROM b "
    assert found.whole == f"{found.rows}ORDER BY k LIMIT 3"
    assert f"{found.before}{found.body}" == sql.removesuffix("ORDER BY k LIMIT 3")
