"""The server is a real one: databases of one's own, and what was committed stays when it is stopped or crashes."""

import psycopg
import pytest

from tests.services.fixtures import Database, Postgres


def test_each_test_has_an_empty_database(postgres: Postgres, database: Database) -> None:
    database.sql("CREATE TABLE t (a int PRIMARY KEY, b text)")
    database.sql("INSERT INTO t VALUES (%s, %s), (2, NULL)", [1, "x"])
    assert database.sql("SELECT * FROM t ORDER BY a") == [(1, "x"), (2, None)]
    with postgres.new_database() as other:
        assert other.sql("SELECT count(*) FROM pg_tables WHERE tablename = 't'") == [(0,)]
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        other.sql("SELECT 1")


def test_a_wrong_password_is_refused(database: Database, postgres: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database.url.replace(postgres.server.password, "guessed"))


def test_commits_stay_after_a_stop_and_after_a_crash(own_postgres: Postgres) -> None:
    server = own_postgres.server
    with own_postgres.new_database() as database:
        database.sql("CREATE TABLE t (a int)")
        server.stop()
        assert not server.is_running
        server.start()
        database.sql("INSERT INTO t VALUES (1)")
        with psycopg.connect(database.url) as open_one:
            open_one.execute("INSERT INTO t VALUES (2)")
            server.crash()
            with pytest.raises(psycopg.OperationalError):
                open_one.execute("SELECT 1")
        server.start()
        assert database.sql("SELECT a FROM t") == [(1,)], "what was not committed is gone"
