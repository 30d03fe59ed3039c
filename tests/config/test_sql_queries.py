"""Queries of SQL files: which names they read, which of them as streams, and the text that is left for the sql step."""

import pytest

from mixedmode.config.sql_queries import EventTime, WrittenQuery, read_query
from mixedmode.config.sql_tokens import WrongSqlError, statements_of


def query(text: str) -> WrittenQuery:
    (statement,) = statements_of(text)
    return read_query(text, statement.tokens)


def reads(text: str) -> list[str]:
    """The names that a query reads; those that it reads with STREAM have a `*`."""
    return [f"{read.name}*" if read.is_stream else read.name for read in query(text).reads]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM STREAM a", ["a*"]),
        ("select * from stream(a) as x", ["a*"]),
        ("SELECT * FROM STREAM `a b` x JOIN b ON x.k = b.k", ["a b*", "b"]),
        ("SELECT * FROM a, STREAM b, c WHERE k IN (1, 2)", ["a", "b*", "c"]),
        ("SELECT * FROM (a JOIN STREAM b USING (k, l)) LEFT JOIN c", ["a", "b*", "c"]),
        ("SELECT * FROM (SELECT x, y FROM STREAM a WHERE f(x, y)), b", ["a*", "b"]),
        ("SELECT * FROM a LEFT ANTI JOIN STREAM(b) USING (k) CROSS JOIN c", ["a", "b*", "c"]),
        ("SELECT * FROM STREAM a UNION ALL SELECT * FROM STREAM b", ["a*", "b*"]),
        ("FROM STREAM a SELECT *", ["a*"]),
        ("WITH c AS (SELECT * FROM STREAM a), d AS (SELECT 1) SELECT * FROM c, D JOIN e", ["a*", "e"]),
        ("SELECT CAST(a AS (x)) FROM STREAM b", ["b*"]),
        ("SELECT * FROM STREAM a LATERAL VIEW explode(x) t AS y", ["a*"]),
        ("SELECT * FROM STREAM a, LATERAL (SELECT x + 1 AS y)", ["a*"]),
        ("SELECT * FROM explode(array(1)), VALUES (1), (2), STREAM a", ["a*"]),
        ("SELECT a IS DISTINCT FROM b, x IS NOT DISTINCT FROM y FROM c", ["c"]),
        ("SELECT count(*) FILTER (WHERE x IN (SELECT y FROM b)) FROM STREAM a", ["b", "a*"]),
        ("SELECT stream, a.stream FROM stream", ["stream"]),
        ("SELECT 'FROM STREAM x' FROM STREAM a -- FROM y", ["a*"]),
        ("SELECT * FROM STREAM a GROUP BY x, y HAVING z ORDER BY b, c", ["a*"]),
        ("SELECT k, v FROM STREAM a WINDOW w AS (PARTITION BY k), v AS (PARTITION BY l)", ["a*"]),
    ],
)
def test_names_after_from_and_join_are_read(text: str, expected: list[str]) -> None:
    assert reads(text) == expected


def test_the_words_of_streams_become_spaces() -> None:
    text = "SELECT *\nFROM STREAM(a) WATERMARK at\n  DELAY OF INTERVAL 1 HOUR x JOIN STREAM b ON x.k = b.k"
    found = query(text)
    assert found.sql == ("SELECT *\nFROM        a  " + " " * 12 + "\n" + " " * 26 + " x JOIN        b ON x.k = b.k")
    assert len(found.sql) == len(text)
    assert [read.line for read in found.reads] == [2, 3]


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        ("at DELAY OF INTERVAL 10 MINUTES", ("at", None, "10m")),
        ("`my time` delay of interval '10' minute", ("my time", None, "10m")),
        ("at DELAY OF INTERVAL 1 HOUR '30' MINUTES", ("at", None, "1h30m")),
        ("at DELAY OF INTERVAL 1 WEEK 2 DAYS 3 HOURS", ("at", None, "9d3h")),
        ("at DELAY OF INTERVAL 500 MILLISECONDS", ("at", None, "500ms")),
        ("at DELAY OF INTERVAL 0 SECONDS", ("at", None, "0s")),
        ("timestamp_millis(ts) AS at DELAY OF INTERVAL 1 SECOND", ("at", "timestamp_millis(ts)", "1s")),
    ],
)
def test_a_watermark_has_an_event_time_and_a_delay(watermark: str, expected: tuple[str, str | None, str]) -> None:
    found = query(f"SELECT * FROM STREAM a WATERMARK {watermark} AS x WHERE y")
    (read,) = found.reads
    assert read.event_time == EventTime(*expected, line=1)
    assert found.sql.split() == ["SELECT", "*", "FROM", "a", "AS", "x", "WHERE", "y"]


@pytest.mark.parametrize(
    ("watermark", "about"),
    [
        ("at", "a watermark has a column and a delay"),
        ("at DELAY 10 MINUTES", "a watermark has a column and a delay"),
        ("at DELAY OF 10 MINUTES", "a watermark has a column and a delay"),
        ("DELAY OF INTERVAL 1 HOUR", "a watermark has a column and a delay"),
        ("f(at) DELAY OF INTERVAL 1 HOUR", r"an event time that is computed needs a name.* found=f\(at\)"),
        ("at DELAY OF INTERVAL", "this delay is not in weeks, days.* found=INTERVAL"),
        ("at DELAY OF INTERVAL 1 MONTH", "this delay is not in weeks, days.* found=1 MONTH"),
        ("at DELAY OF INTERVAL '1 hour'", "this delay is not in weeks, days.* found='1 hour'"),
        ("at DELAY OF INTERVAL '1:30' HOUR TO MINUTE", "this delay is not in weeks, days.* found=1:30 HOUR"),
        ("at DELAY OF INTERVAL -1 HOUR", "this delay is not in weeks, days.* found=-"),
        ("at DELAY OF INTERVAL '1.5' HOURS", "this delay is not in weeks, days.* found=1.5 HOURS"),
    ],
)
def test_what_no_source_can_have_is_refused(watermark: str, about: str) -> None:
    with pytest.raises(WrongSqlError, match=about) as caught:
        query(f"SELECT *\nFROM STREAM a WATERMARK {watermark}")
    assert caught.value.line == 2
