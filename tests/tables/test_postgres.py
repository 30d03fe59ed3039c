"""Cases that only PostgreSQL has: connections that are lost, secrets, schemas, privileges."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.postgres.spec import PostgresSinkSpec
from mixedmode.connectors.postgres.table import PostgresTable, PostgresTransaction
from mixedmode.crash_points import CrashPoint
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Sink
from mixedmode.sinks.tables import table_sink
from mixedmode.sinks.tables.database import LostConnectionError
from mixedmode.time.window_range import Bound, ReplacedRows
from tests.services.fixtures import Database, Postgres
from tests.tables.places import FIELDS, Place, up


class LosesAnswers(PostgresTable):
    """Commits, and then the answer to the commit is lost, as often as it is told."""

    losses = 0

    @contextmanager
    def transaction(self, *, creates: bool = False) -> Iterator[PostgresTransaction]:
        with super().transaction(creates=creates) as transaction:
            yield transaction
        if self.losses:
            self.losses -= 1
            msg = "the answer is lost"
            raise LostConnectionError(msg)


def test_a_commit_whose_answer_was_lost_is_not_repeated(postgres_place: Place) -> None:
    place, waits = postgres_place, list[float]()
    database = LosesAnswers(place.url, "public", "totals", place.place())
    sink = place.sink(database=database, sleep=waits.append)
    fields = [FIELDS[0], FIELDS[1]]
    sink.prepare(fields, (), is_fresh=True)
    database.losses = 1
    sink.publish(Epoch(0), [place.stage(sink, 0, [("a", 1)])])
    assert waits == [0.1]
    assert place.rows() == [("a", 1, 0)], "without a key, a second insert would show"


def test_a_server_that_only_reads_for_a_moment_is_waited_for(postgres_place: Place) -> None:
    """As after a failover, while the name still leads to the server that is now a standby."""
    place, waits = postgres_place, list[float]()
    name = place.url.rpartition("/")[2].partition("?")[0]

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            place.sql(f'SET transaction_read_only = off; ALTER DATABASE "{name}" RESET default_transaction_read_only')

    sink = place.sink(sleep=wait)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    place.sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1)))])
    assert (waits, place.rows()) == ([0.1, 0.5], [("a", 1)])


def test_a_server_that_crashes_in_the_middle_and_comes_back(
    own_postgres: Postgres, sqlite_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_postgres.server
    place = Place("postgres", sqlite_place.folder, server.url())
    reached, waits = list[CrashPoint](), list[float]()

    def crash_once(point: CrashPoint, epoch: int) -> None:
        if point == "table-applied" and not reached:
            server.crash()
        reached.append(point)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            server.start()

    monkeypatch.setattr(table_sink, "reach", crash_once)
    sink = place.sink(sleep=wait)
    sink.prepare(FIELDS, (), is_fresh=True)
    sink.publish(Epoch(0), [place.stage(sink, 0, [(f"k{i}", i) for i in range(1000)])])
    assert (reached, waits) == (["table-applied", "table-applied", "table-committed"], [0.1, 0.5])
    assert place.sql("SELECT count(*), sum(n) FROM totals") == [(1000, 499_500)]
    assert not place.staged(sink)
    server.stop()
    waits.clear()
    monkeypatch.setattr(table_sink, "RETRY_SECONDS", (1.0, 3.0, 5.0, 7.0))
    gone = place.sink(sleep=waits.append)
    with pytest.raises(RetryableError) as caught:
        gone.newest_published()
    text = str(caught.value)
    assert text.startswith("the database cannot be reached, ended the connection, has no space left, or is locked by ")
    assert f'attempts=5, cause=connection failed: connection to server at "127.0.0.1", port {server.port}' in text
    assert server.password not in text
    assert waits == [1.0, 3.0, 5.0, 7.0]


def test_a_password_is_never_told(postgres_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres_place.url
    password = url.split(":")[2].split("@")[0]
    odd = "p@ss/w:rd#100% ?"
    postgres_place.sql(f"CREATE ROLE app LOGIN PASSWORD '{odd}'")
    monkeypatch.setenv("PG_PASSWORD", odd)
    spec = Sink.postgres(url.replace(f"mixedmode:{password}", "app:${env:PG_PASSWORD}"), "totals")
    assert password not in spec.place
    database = PostgresTable(spec.url, "public", "totals", spec.place)
    sink = postgres_place.sink(database=database)
    with pytest.raises(InvalidJobError) as caught:
        sink.prepare(FIELDS, ["k"], is_fresh=True)
    text = str(caught.value)
    assert "permission denied for schema public" in text, "it could connect, and may not create"
    assert text.startswith("the database refuses what the job has to do there. ")
    monkeypatch.setenv("PG_PASSWORD", "wrong secret")
    with pytest.raises(RetryableError) as refused:
        postgres_place.sink(database=database, sleep=lambda _: None).is_new()
    assert 'password authentication failed for user "app"' in str(refused.value)
    for secret in (odd, "wrong secret", password):
        assert secret not in f"{caught.value}{refused.value}{spec.place}"


def test_a_url_that_cannot_be_read_does_not_show_its_password() -> None:
    table = PostgresTable("postgresql://app:a%secret@host:99/shop", "public", "totals", "place")
    with (
        pytest.raises(InvalidJobError, match="PostgreSQL cannot read this url") as caught,
        table.transaction(),
    ):
        pass
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_schema_is_created_and_has_bookkeeping_of_its_own(database: Database, postgres_place: Place) -> None:
    for schema in ("one", "two words"):
        table = PostgresTable(database.url, schema, "totals", "place")
        sink = postgres_place.sink(database=table, base=postgres_place.folder / schema)
        sink.prepare(FIELDS, ["k"], is_fresh=True)
        sink.publish(Epoch(0), [postgres_place.stage(sink, 0, up((schema, 1)))])
    assert database.sql('SELECT * FROM one.totals UNION ALL SELECT * FROM "two words".totals') == [
        ("one", 1),
        ("two words", 1),
    ]


#: columns with the bounds of windows
START, END = "from %s", "to %(t)s"


@pytest.mark.parametrize("keys", [(), ("k", START)], ids=["appends", "upserts"])
def test_a_percent_sign_in_any_name_is_no_placeholder(
    database: Database, postgres_place: Place, keys: tuple[str, ...]
) -> None:
    """Each statement of the sink runs: creating, writing, going back, replacing windows."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    bounds = [pa.field(name, pa.timestamp("us", "UTC")) for name in (START, END)]
    fields = [*FIELDS, pa.field("100%s", pa.int64()), *bounds]
    rows = [("a", 1, 5, start, start + timedelta(hours=1)), ("b", 2, 6, start, start + timedelta(hours=9))]
    sink = postgres_place.sink(database=PostgresTable(database.url, "%s %", "a %(b)s", "place"))
    sink.prepare(fields, keys, is_fresh=True)
    for epoch in range(2):
        staged = [("upsert", *row) if keys else row for row in rows]
        sink.publish(Epoch(epoch), [postgres_place.stage(sink, epoch, staged, fields=fields)])
    assert sink.roll_back(Epoch(0)) >= 2
    start_us = int(start.timestamp()) * 1_000_000
    replaced = ReplacedRows(Bound(START, start_us), Bound(END, start_us + 10**10))
    sink.replace_windows(pa.table([[]] * 5, pa.schema(fields)), replaced, Epoch(0))
    assert database.sql('SELECT k, n, "100%s" FROM "%s %"."a %(b)s"') == [("b", 2, 6)]


def test_a_name_that_the_server_would_cut_off_is_refused(postgres_place: Place) -> None:
    name = "n" * 62 + "ö"
    for table, schema in ((name, "public"), ("t", name)):
        with pytest.raises(InvalidJobError, match=f"longer than the 63 bytes of a name.* found={name}"):
            Sink.postgres(postgres_place.url, table, table_schema=schema)
    with pytest.raises(InvalidJobError, match=f"longer than the 63 bytes of a name.* name={name}$"):
        postgres_place.sink().prepare([*FIELDS, pa.field(name, pa.int64())], ["k"], is_fresh=True)


def test_a_value_that_is_too_long_and_a_trigger_that_objects_are_told_with_their_row(postgres_place: Place) -> None:
    place = postgres_place
    place.sql("CREATE TABLE totals (k varchar(3) PRIMARY KEY, n bigint)")
    place.sql(
        "CREATE FUNCTION objects() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 13 THEN RAISE EXCEPTION "
        "'not thirteen'; END IF; RETURN NEW; END $$"
    )
    place.sql("CREATE TRIGGER t BEFORE INSERT OR UPDATE ON totals FOR EACH ROW EXECUTE FUNCTION objects()")
    sink = place.sink()
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    with pytest.raises(
        InvalidJobError, match=r"value too long for type character varying\(3\).*row=\{k: 'long', n: 2\}"
    ):
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1), ("long", 2), ("b", 3)))])
    with pytest.raises(InvalidJobError, match=r"a row: not thirteen\. .*row=\{k: 'x', n: 13\}, epoch=0"):
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1), ("b", 3), ("x", 13)))])
    assert place.rows() == []


def of(kind: pa.DataType) -> list[pa.Field]:
    return [FIELDS[0], pa.field("n", kind)]


MONEY, WIDE, TIME = pa.decimal128(10, 2), pa.decimal128(20, 6), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "value", "change"),
    [
        (MONEY, Decimal("1.25"), "ALTER COLUMN n TYPE numeric(10, 0)"),
        (TIME, datetime(2024, 1, 1, 1, 1, 1, 600_000, tzinfo=UTC), "ALTER COLUMN n TYPE timestamptz(0)"),
        (pa.int64(), 7, "ALTER COLUMN n TYPE real"),
        (pa.int64(), 7, "DROP CONSTRAINT totals_pkey, ADD UNIQUE (k, n)"),
        (pa.int64(), 7, "ALTER COLUMN k TYPE citext"),
    ],
)
def test_a_table_that_would_change_rows_since_it_was_altered_gets_none(
    postgres_place: Place, kind: pa.DataType, value: object, change: str
) -> None:
    place = postgres_place
    place.sql("CREATE EXTENSION citext")
    sink = place.sink()
    sink.prepare(of(kind), ["k"], is_fresh=True)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", value)), fields=of(kind))])
    place.sql(f"ALTER TABLE totals {change}")
    before = place.rows()
    with pytest.raises(InvalidJobError, match=r"changed while the job runs.* cause="):
        sink.publish(Epoch(1), [place.stage(sink, 1, up(("b", value)), fields=of(kind))])
    assert place.rows() == before


@pytest.mark.parametrize(
    ("kinds", "columns", "newer"),
    [
        ((pa.string(), pa.string()), ("varchar(3)", "varchar(10)"), "abcdef"),
        ((MONEY, WIDE), ("numeric(10, 2)", "numeric(20, 6)"), Decimal("1.255555")),
        ((pa.int32(), pa.int64()), ("integer", "bigint"), 2**40),
        ((pa.string(), pa.string()), ("char(2)", "char(4)"), "abc "),
        ((pa.string(), pa.string()), ("short", "text"), "abcdef"),
    ],
)
def test_a_table_with_wider_columns_has_a_history_with_wider_columns(
    postgres_place: Place, kinds: tuple[pa.DataType, pa.DataType], columns: tuple[str, str], newer: object
) -> None:
    place = postgres_place
    place.sql("CREATE DOMAIN short AS varchar(4)")
    place.sql(f"CREATE TABLE totals (k text PRIMARY KEY, n {columns[0]})")
    before, after = map(of, kinds)
    sink = place.sink()
    sink.prepare(before, ["k"], is_fresh=True)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", None)), fields=before)])
    place.sql(f"ALTER TABLE totals ALTER COLUMN n TYPE {columns[1]}")
    sink = place.sink(generation=2)
    sink.prepare(after, ["k"], is_fresh=False)
    sink.publish(Epoch(1), [place.stage(sink, 1, up(("a", newer)), fields=after)])
    sink.publish(Epoch(2), [place.stage(sink, 2, up(("a", None)), fields=after)])
    sink.roll_back(Epoch(1))
    assert place.rows() == [("a", newer)]


def test_readers_see_an_epoch_all_at_once(postgres_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place, seen = postgres_place, list[object]()
    sink = place.sink(generation=0, replaces=True)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1)))])
    monkeypatch.setattr(table_sink, "reach", lambda point, _: seen.append((point, place.rows())))
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("b", 2), ("c", 3)))])
    assert seen == [("table-applied", [("a", 1)]), ("table-committed", [("b", 2), ("c", 3)])]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("postgresql://app:${env:PG_PASSWORD}@db.example:6432/shop?sslmode=require", "db.example:6432/shop"),
        ("postgres://host/shop", "host:5432/shop"),
        ("postgresql://u:p@[::1]/shop", "[::1]:5432/shop"),
        ("postgresql:///shop", "localhost:5432/shop"),
        ("${env:DATABASE_URL}", "${env:DATABASE_URL}"),
    ],
)
def test_a_place_is_host_port_database_and_table(url: str, server: str) -> None:
    assert Sink.postgres(url, "totals", table_schema="sales").place == f"postgres {server} sales.totals"


def test_a_url_of_something_else_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidJobError, match="url is not one of PostgreSQL's") as caught:
        Sink.postgres("mysql://root:secret@host/shop", "totals")
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidJobError, match="url names no database"):
        Sink.postgres("postgresql://app@host", "totals")


def test_the_spec_keeps_the_text_of_the_url(postgres_place: Place) -> None:
    spec = PostgresSinkSpec.model_validate({"format": "postgres", "url": "postgresql://a:${env:P}@h/d", "table": "t"})
    assert (spec.url, spec.table_schema, spec.create) == ("postgresql://a:${env:P}@h/d", "public", True)
    assert re.fullmatch(r"postgres h:5432/d public\.t", spec.place)
