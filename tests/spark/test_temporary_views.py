"""Temporary views are there for as long as their block, and those of the session come back."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_plans import analysed_plan
from mixedmode.spark import temporary_views
from mixedmode.spark.active_session import active
from mixedmode.spark.temporary_views import set_view, views


def rows(session: SparkSession, number: int) -> DataFrame:
    return session.range(1).selectExpr(f"{number} AS number")


def number_in(session: SparkSession, view: str) -> int:
    return int(session.sql(f"SELECT number FROM {view}").collect()[0][0])


def test_views_end_with_their_block(spark: SparkSession) -> None:
    with views(spark, {"first": rows(spark, 1), "an odd.näme": rows(spark, 2)}):
        assert number_in(spark, "FIRST") == 1
        assert number_in(spark, "`an odd.näme`") == 2
        plan = spark.sql("SELECT * FROM first")._jdf.queryExecution().analyzed().toString()
    assert "View (`first`, [number#" in plan
    assert not spark.catalog.tableExists("first")
    assert not spark.catalog.tableExists("`an odd.näme`")


def test_views_of_the_session_and_of_an_outer_block_come_back(spark: SparkSession) -> None:
    rows(spark, 1).createOrReplaceTempView("mine")
    try:
        with views(spark, {"mine": rows(spark, 2)}):
            with views(spark, {"Mine": rows(spark, 3)}):
                assert number_in(spark, "mine") == 3
            assert number_in(spark, "mine") == 2
        assert number_in(spark, "mine") == 1
    finally:
        spark.catalog.dropTempView("mine")


def test_names_are_compared_as_the_session_says_whatever_session_is_active(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    rows(session, 1).createOrReplaceTempView("Mine")
    for other in (spark, session):
        with active(other):
            with views(session, {"Mine": rows(session, 2)}):
                assert number_in(session, "Mine") == 2
                assert analysed_plan(session, "SELECT * FROM Mine WHERE number IN (SELECT number FROM Mine)").resolved()
            assert number_in(session, "Mine") == 1
            assert not session.catalog.tableExists("mine")


def test_a_view_stays_until_another_one_has_its_name(spark: SparkSession) -> None:
    set_view(spark, "stays", rows(spark, 1))
    set_view(spark, "stays", rows(spark, 2))
    assert number_in(spark, "stays") == 2
    assert spark.catalog.dropTempView("stays")


def test_sessions_in_several_threads_may_begin_at_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread finds no entry yet, and stores its own after the others have begun."""
    both, made = Barrier(2, timeout=60), temporary_views._entries_of

    def together(session: SparkSession) -> object:
        both.wait()
        found = made(session)
        both.wait()
        return found

    def read(number: int) -> int:
        session = spark.newSession()
        with views(session, {"one": rows(session, number)}):
            return number_in(session, "one")

    monkeypatch.setattr(temporary_views, "_entries", {})
    monkeypatch.setattr(temporary_views, "_entries_of", together)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(read, [1, 2])) == [1, 2]
