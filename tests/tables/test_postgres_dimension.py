"""PostgreSQL tables as dimensions: their types, what is refused and why, and what an epoch reads."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from mixedmode.config.load import job_spec_from_mapping
from mixedmode.connectors.postgres.dimension import PostgresDimension
from mixedmode.connectors.postgres.spec import PostgresTableSpec
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.services.fixtures import Database

URL = "postgresql://u:${env:SECRET}@db.example:5432/shop"


def run_sql(database: Database, *statements: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def opened(url: str, table: str = "t", **settings: Any) -> PostgresDimension:
    spec = Source.postgres(url, table, replay="latest", **settings)
    return PostgresDimension(spec, where="dimensions.t")


def test_every_type_comes_as_it_is_and_null_is_not_the_empty_text(database: Database) -> None:
    run_sql(
        database,
        "CREATE TYPE mood AS ENUM ('ok')",
        "CREATE DOMAIN short AS varchar(5)",
        'CREATE TABLE t (b bool, s int2, i int4, l bigint, f real, d double precision, n numeric(38, 5), "T x" text, '
        "u uuid, e mood, o short, y date, z timestamptz, w timestamp)",
        "INSERT INTO t VALUES (true, -1, 2, 9223372036854775807, 0.1, 'NaN', 123456789012345678901234567890.12345, "
        "E'a,\"b\"\\n\\\\.', '00000000-0000-0000-0000-000000000001', 'ok', 'x', '0001-01-01', "
        "'2024-03-31 02:30:00.000001+02', '1969-12-31 23:59:59.999999')",
        "INSERT INTO t (\"T x\", d) VALUES ('', '-Infinity')",
        "INSERT INTO t (i) VALUES (NULL)",
    )
    name, rows = opened(database.url).rows()
    assert name.startswith("3 rows, ")
    first, second, third = rows.to_pylist()
    assert math.isnan(first.pop("d"))
    assert first == {
        "b": True,
        "s": -1,
        "i": 2,
        "l": 2**63 - 1,
        "f": pytest.approx(0.1, rel=1e-7),
        "n": Decimal("123456789012345678901234567890.12345"),
        "T x": 'a,"b"\n\\.',
        "u": "00000000-0000-0000-0000-000000000001",
        "e": "ok",
        "o": "x",
        "y": date(1, 1, 1),
        "z": datetime(2024, 3, 31, 0, 30, 0, 1, tzinfo=UTC),
        "w": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - a time without a zone
    }
    assert (second["T x"], second["d"]) == ("", -math.inf)
    assert set(third.values()) == {None}


def test_no_setting_of_the_server_changes_what_is_read(database: Database) -> None:
    run_sql(
        database,
        "CREATE TABLE t (d double precision, f real, a text, y date, z timestamptz, l bigint)",
        "INSERT INTO t VALUES (0.1::float8 + 0.2, 16777217.0 / 3, 'ä', '2024-02-01', '2024-02-01 00:00Z', -1)",
    )
    rows = opened(database.url).rows()
    for setting in (
        "extra_float_digits = -3",
        "client_encoding = 'latin1'",
        "DateStyle = 'German, DMY'",
        "TimeZone = 'Asia/Kolkata'",
        "standard_conforming_strings = off",
        "search_path = 'nowhere'",
    ):
        statement = f"format('ALTER DATABASE %I SET {quoted(setting)}', current_database())"
        run_sql(database, f"DO $$BEGIN EXECUTE {statement}; END$$")
        assert opened(database.url).rows() == rows, setting


def quoted(text: str) -> str:
    """Return a text as it is written within quotes of SQL."""
    return text.replace("'", "''")


def test_a_value_of_several_megabytes_is_read(database: Database) -> None:
    run_sql(database, "CREATE TABLE t (a text, b int)", "INSERT INTO t VALUES (repeat('x', 5000000), 1), ('y', 2)")
    _, rows = opened(database.url).rows()
    assert [(len(row["a"]), row["b"]) for row in rows.to_pylist()] == [(5_000_000, 1), (1, 2)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "infinity"),
        ("timestamptz", "-infinity"),
        ("timestamp", "infinity"),
        ("numeric(5, 1)", "NaN"),
    ],
)
def test_a_value_without_an_equal_in_spark_is_refused_as_one(database: Database, kind: str, value: str) -> None:
    run_sql(database, f"CREATE TABLE t (a {kind})", f"INSERT INTO t VALUES ('{value}')")
    with pytest.raises(InvalidJobError) as caught:
        opened(database.url).rows()
    assert "has a value that has no equal in Spark" in str(caught.value)
    assert "Leave such rows out in a view" in str(caught.value)


def test_one_column_that_is_null_and_an_empty_table_are_read(database: Database) -> None:
    run_sql(database, "CREATE TABLE t (a int, b int[])", "INSERT INTO t VALUES (NULL), (1), (NULL)")
    table = opened(database.url, columns="a")
    name, rows = table.rows()
    assert rows.column("a").to_pylist() == [None, 1, None]
    assert table.rows()[0] == name
    run_sql(database, "DELETE FROM t")
    assert table.rows()[1].num_rows == 0
    run_sql(database, "ALTER TABLE t ALTER a TYPE bigint")
    with pytest.raises(InvalidJobError, match=r"^dimensions\.t: the columns of the table are others than when the run"):
        table.rows()
    run_sql(database, "CREATE TABLE n (x numeric(3, 1), z timestamptz)", "INSERT INTO n VALUES ('NaN', NULL)")
    with pytest.raises(InvalidJobError, match=r"has a value that has no equal in Spark, such as"):
        opened(database.url, "n").rows()


def test_a_new_column_is_left_out_and_a_dropped_one_is_refused(database: Database) -> None:
    run_sql(database, "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'x')")
    table = opened(database.url)
    name, rows = table.rows()
    run_sql(database, "ALTER TABLE t ADD c int[], DROP b, ADD b text", "UPDATE t SET b = 'x'")
    assert table.rows() == (name, rows)
    run_sql(database, "ALTER TABLE t RENAME b TO d")
    with pytest.raises(InvalidJobError, match=r"^dimensions\.t: the columns of the table are others than when the run"):
        table.rows()
    run_sql(database, "DROP TABLE t")
    with pytest.raises(InvalidJobError, match=r"^dimensions\.t\.table: there is no such table"):
        table.rows()


@pytest.mark.parametrize(
    ("table", "settings", "found"),
    [
        ("customer", {}, r"^dimensions\.t\.table: there is no such table.* Did you mean customers\?"),
        ("customers", {"table_schema": "other"}, r"^dimensions\.t\.table: there is no such table"),
        (
            "customers",
            {"columns": ["id", "regoin"]},
            r"^dimensions\.t\.columns: .* Did you mean region\? Columns here: id",
        ),
        ("customers", {}, r"types that have no equal in Spark\. .*columns=tags text\[\], any_number numeric, table="),
    ],
)
def test_a_wrong_table_or_column_is_named(database: Database, table: str, settings: Any, found: str) -> None:
    run_sql(database, "CREATE TABLE customers (id int, region text, tags text[], any_number numeric)")
    with pytest.raises(InvalidJobError, match=found):
        opened(database.url, table, **settings)


@pytest.mark.parametrize("columns", [[], ["id", "Region", "region"], ["region", "id", "region"]])
def test_columns_of_one_name_are_refused_unless_one_is_chosen(database: Database, columns: Sequence[str]) -> None:
    run_sql(database, 'CREATE TABLE t (id int, region text, "Region" text)', "INSERT INTO t VALUES (1, 'a', 'b')")
    with pytest.raises(InvalidJobError, match=r"^dimensions\.t: columns have one name.* columns=[rR]egion, [rR]egion"):
        opened(database.url, "t", columns=columns)
    assert opened(database.url, "t", columns=["id", "Region"]).rows()[1].to_pylist() == [{"id": 1, "Region": "b"}]


def test_a_wrong_login_or_host_says_so_without_the_password(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret/word")
    server = database.url.partition("@")[2]
    with pytest.raises(InvalidJobError, match=r"the database refuses this login\. Correct user") as refused:
        opened(f"postgresql://nobody_known:${{env:SECRET}}@{server}")
    with pytest.raises(RetryableError, match=r"cannot be reached\. See that it runs, and that host and port") as away:
        opened("postgresql://u:${env:SECRET}@127.0.0.1:1/shop")
    assert "s3cret" not in f"{refused.value} {away.value}"
    monkeypatch.delenv("SECRET")
    with pytest.raises(InvalidJobError, match="SECRET"):
        opened("postgresql://u:${env:SECRET}@127.0.0.1:1/shop")


def document(**changes: Any) -> dict[str, Any]:
    table = {"format": "postgres", "url": URL, "table": "customers", "replay": "latest", **changes}
    return {
        "name": "shop",
        "execution.runtime-mode": "batch",
        "sources": {"orders": {"format": "parquet", "path": "/orders"}},
        "dimensions": {"customers": {key: value for key, value in table.items() if value is not None}},
        "steps": [{"sql": "SELECT o.id, c.region FROM orders o JOIN customers c ON o.customer = c.name"}],
        "sink": {"format": "parquet", "path": "/out"},
    }


def refusal(given: dict[str, Any]) -> str:
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(given)
    return str(caught.value)


def test_replay_latest_has_to_be_said_and_the_message_says_what_that_means() -> None:
    spec = job_spec_from_mapping(document()).dimensions["customers"]
    assert isinstance(spec, PostgresTableSpec)
    assert spec.place == "postgres db.example:5432/shop public.customers"
    found = refusal(document(replay=None))
    assert found.startswith(
        "dimensions.customers.replay is missing. PostgreSQL keeps no older rows of a table: each epoch"
    )
    assert "joined with other rows if the table has changed. Write replay: latest if that will do" in found
    made = Job("shop", sources={"o": Source.parquet("/o")}, mode="batch")
    with pytest.raises(InvalidJobError, match=r"^Job\.dimension: table\['replay'\] is missing\. PostgreSQL keeps"):
        made.dimension("c", Source.postgres(URL, "customers"))


def test_a_table_is_no_source_and_has_no_event_time() -> None:
    sources = document() | {"sources": {"orders": {"format": "postgres", "url": URL, "table": "orders"}}}
    found = refusal(sources)
    assert found.startswith("sources.orders.format cannot be postgres. A table of it can only be a dimension")
    assert "event-time has no effect on a dimension" in refusal(document(**{"event-time": "at"}))
    assert "url is not one of PostgreSQL's" in refusal(document(url="mysql://x"))
    sink = document() | {"sink": {"format": "postgres", "url": URL, "table": "customers"}}
    assert "reads this place" in refusal(sink)
    assert Source.of("postgres", url=URL, table="t", replay="latest") == Source.postgres(URL, "t", replay="latest")
    assert Sink.of("postgres", url=URL, table="t") == Sink.postgres(URL, "t")
