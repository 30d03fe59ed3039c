"""Tables as outputs, over PostgreSQL and SQLite: each epoch once, by one writer, also with repeats and rollbacks."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError
from mixedmode.sinks.tables.table_sink import TableSink
from tests.tables.places import FIELDS, Place, up

KEYLESS = [pa.field("tag", pa.string()), pa.field("n", pa.int64())]


def prepared(place: Place, *, is_fresh: bool = True, **settings: object) -> TableSink:
    sink = place.sink(**settings)  # type: ignore[arg-type]
    sink.prepare(FIELDS, ["k"], is_fresh=is_fresh)
    return sink


def test_a_row_per_key_is_inserted_updated_and_deleted(place: Place) -> None:
    sink = prepared(place)
    sink.publish(
        Epoch(0), [place.stage(sink, 0, up(("a", 1), ("b", 2))), place.stage(sink, 0, up(("c", 3)), subtask=1)]
    )
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]
    changes = [*up(("a", 10), ("d", None)), ("delete", "b", None), ("delete", "never there", None)]
    sink.publish(Epoch(1), [place.stage(sink, 1, changes)])
    assert place.rows() == [("a", 10), ("c", 3), ("d", None)]
    assert not place.staged(sink), "what is in the table is staged no more"


@pytest.mark.parametrize("epoch", [0, 1])
def test_of_several_rows_of_a_key_in_an_epoch_the_last_one_counts(place: Place, epoch: int) -> None:
    sink = prepared(place)
    if epoch:
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("b", 0), ("x", 7)))])
    rows = [*up(("a", 1), ("b", 1), ("a", 2)), ("delete", "b", None), ("delete", "c", None), *up(("c", 3))]
    sink.publish(Epoch(epoch), [place.stage(sink, epoch, rows)])
    assert place.rows() == [("a", 2), ("c", 3), *([("x", 7)] if epoch else [])]


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_key_that_comes_again_in_a_later_batch_of_its_epoch(
    place: Place, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixedmode.sinks.tables.batches._ROWS_MAX", 3)
    monkeypatch.setattr("mixedmode.sinks.tables.batches._ROWS_READ", 2)
    sink = prepared(place)
    if epoch:
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("k1", -1)))])
    rows = [*up(*((f"k{i % 3}", i) for i in range(20))), ("delete", "k0", None), *up(("k5", 5))]
    sink.publish(Epoch(epoch), [place.stage(sink, epoch, rows)])
    assert place.rows() == [("k1", 19), ("k2", 17), ("k5", 5)]


def test_publishing_again_changes_nothing_more(place: Place) -> None:
    sink = prepared(place)
    files = [place.stage(sink, 0, up(("a", 1)))]
    sink.publish(Epoch(0), files)
    place.sql("UPDATE totals SET n = 99")
    sink.publish(Epoch(0), files)
    again = prepared(place, is_fresh=False, generation=2)
    again.publish(Epoch(0), files)
    assert place.rows() == [("a", 99)]


def test_rows_without_a_key_are_added_once_and_rolled_back_by_epoch(place: Place) -> None:
    sink = place.sink(name="late")
    sink.prepare(KEYLESS, (), is_fresh=True)
    files = [place.stage(sink, 0, [("x", 1), ("x", 1)], fields=KEYLESS)]
    sink.publish(Epoch(0), files)
    sink.publish(Epoch(0), files)
    sink.publish(Epoch(1), [place.stage(sink, 1, [("y", 2)], fields=KEYLESS)])
    sink.publish(Epoch(3), [place.stage(sink, 3, [("z", 3)], fields=KEYLESS)])
    assert place.rows() == [("x", 1, 0), ("x", 1, 0), ("y", 2, 1), ("z", 3, 3)]
    assert (sink.oldest_published(), sink.newest_published()) == (0, 3)
    assert sink.roll_back(Epoch(1)) == 1
    assert place.rows() == [("x", 1, 0), ("x", 1, 0), ("y", 2, 1)]
    assert sink.newest_published() == 1
    sink.publish(Epoch(3), [place.stage(sink, 3, [("z", 4)], fields=KEYLESS)])
    assert place.rows()[-1] == ("z", 4, 3)


def test_after_going_back_the_rows_of_later_epochs_are_gone_and_come_again(place: Place) -> None:
    sink = prepared(place)
    for epoch in range(3):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("a", epoch), (f"only {epoch}", 0)))])
    waiting = place.stage(sink, 3, up(("a", 3)))
    newer = prepared(place, is_fresh=False, generation=2)
    assert newer.roll_back(Epoch(0)) == 4, "three rows and the staged file"
    assert newer.roll_back(Epoch(0)) == 0, "a repeat"
    assert place.rows() == [("a", 0), ("only 0", 0)]
    assert newer.newest_published() == 0
    assert newer.problem(waiting, reads=True) == (waiting.staged_path, "is missing")
    newer.publish(Epoch(1), [place.stage(newer, 1, up(("a", 1), ("only 1", 0)))])
    assert place.rows() == [("a", 1), ("only 0", 0), ("only 1", 0)]
    with pytest.raises(FencedError, match="a newer generation of this job has written to its table"):
        sink.publish(Epoch(2), [place.stage(sink, 2, up(("a", 2)))])


def test_an_output_of_which_all_is_rolled_back_is_empty_and_begins_anew(place: Place) -> None:
    sink = prepared(place)
    sink.publish(Epoch(4), [place.stage(sink, 4, up(("a", 1), ("b", 2)))])
    assert sink.oldest_published() == 4
    assert sink.roll_back(Epoch(3)) == 2
    assert (sink.oldest_published(), sink.newest_published(), place.rows()) == (None, None, [])
    prepared(place, generation=2).publish(Epoch(4), [place.stage(sink, 4, up(("a", 5)))])
    assert place.rows() == [("a", 5)]


def test_an_older_start_of_the_job_is_fenced(place: Place) -> None:
    older = prepared(place)
    older.publish(Epoch(0), [place.stage(older, 0, up(("a", 0)))])
    newer = prepared(place, is_fresh=False, generation=2)
    late = place.stage(older, 1, up(("a", -1)))
    newer.publish(Epoch(1), [place.stage(newer, 1, up(("a", 1)))])
    message = (
        "a newer generation of this job has written to its table, so this start stops without writing. Either another "
        "start of the job is running: then it goes on, and nothing is lost; stop the one that is not wanted. Or no "
        "other start is running, and this checkpoint folder is an older copy of the one that was used last: then start "
        "the job with that one. If that one is lost, take a savepoint of this folder, and restore it into a new "
        "checkpointing.dir: that rolls the table back to what this folder knows. own_generation=1, "
        f"newest_generation=2, table={place.place()}"
    )
    with pytest.raises(FencedError, match=f"^{re.escape(message)}$"):
        older.publish(Epoch(2), [late])
    with pytest.raises(FencedError):
        older.roll_back(Epoch(0))
    with pytest.raises(FencedError):
        prepared(place, is_fresh=False, generation=1)
    assert place.rows() == [("a", 1)]


def test_another_run_over_another_checkpoint_folder_does_not_mix_with_this_one(place: Place, tmp_path: Path) -> None:
    sink = prepared(place)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 0)))])
    message = (
        "the table holds the output of an earlier run whose checkpoints are not here, and the two would be mixed. Name "
        f"another table, empty this one, or put the old checkpointing.dir back. table={place.place()}"
    )
    with pytest.raises(InvalidJobError, match=f"^{re.escape(message)}$"):
        prepared(place, base=tmp_path / "other")
    with pytest.raises(InvalidJobError, match="is not in this table, or was taken over by another run"):
        prepared(place, base=tmp_path / "other", is_fresh=False)
    with pytest.raises(InvalidJobError, match=r"another output, .*: job was 'job' and is 'other'\. "):
        prepared(place, base=tmp_path / "other", job="other")
    with pytest.raises(InvalidJobError, match=r"output was '' and is 'late'; run was 'continuous' and is 'batch'"):
        prepared(place, base=tmp_path / "other", name="late", generation=0, replaces=True)
    place.sql("DELETE FROM totals")
    other = prepared(place, base=tmp_path / "other", job="other")
    other.publish(Epoch(0), [place.stage(other, 0, up(("b", 1)))])
    with pytest.raises(FencedError, match="another job, or a restored savepoint, has taken over this table"):
        sink.publish(Epoch(1), [place.stage(sink, 1, up(("a", 1)))])
    assert place.rows() == [("b", 1)]


def test_rows_of_somebody_else_are_neither_mixed_with_nor_replaced(place: Place) -> None:
    place.sql("CREATE TABLE totals (k text NOT NULL PRIMARY KEY, n bigint)")
    place.sql("INSERT INTO totals VALUES ('theirs', 1)")
    for replaces in (False, True):
        with pytest.raises(InvalidJobError, match="holds rows that no job of mixedmode has written"):
            prepared(place, generation=0 if replaces else 1, replaces=replaces)
    assert place.rows() == [("theirs", 1)]
    assert place.sink().is_new()


def test_a_batch_run_takes_the_place_of_the_whole_table(place: Place) -> None:
    for rows in ([("a", 1), ("b", 2)], [("b", 3)], []):
        sink = prepared(place, generation=0, replaces=True)
        sink.publish(Epoch(0), [place.stage(sink, 0, up(*rows))] if rows else [])
        assert place.rows() == rows
        assert not place.staged(sink)


def test_a_restored_savepoint_takes_the_table_over(place: Place, tmp_path: Path) -> None:
    before = prepared(place, generation=7)
    for epoch in range(3):
        before.publish(Epoch(epoch), [place.stage(before, epoch, up(("a", epoch)))])
    elsewhere = tmp_path / "elsewhere"
    restoring = place.sink(base=elsewhere, generation=0)
    assert not restoring.is_new()
    restoring.prepare(FIELDS, ["k"], is_fresh=False)
    assert not elsewhere.exists(), "asking writes nothing"
    assert restoring.roll_back(Epoch(1)) == 1
    assert place.rows() == [("a", 1)]
    after = prepared(place, base=elsewhere, generation=1, is_fresh=False)
    after.publish(Epoch(2), [place.stage(after, 2, up(("a", 20)))])
    assert place.rows() == [("a", 20)]
    with pytest.raises(FencedError):
        before.publish(Epoch(3), [place.stage(before, 3, up(("a", 3)))])


def test_what_is_published_needs_no_staged_file_any_more_and_what_is_not_does(place: Place) -> None:
    sink = prepared(place)
    file, waiting = place.stage(sink, 0, up(("a", 1))), place.stage(sink, 1, up(("a", 2)))
    assert sink.problem(file, reads=True) is None
    sink.publish(Epoch(0), [file])
    assert sink.problem(file, reads=True) is None
    sink.store.delete([waiting.staged_path])
    assert sink.problem(waiting, reads=True) == (waiting.staged_path, "is missing")
    with pytest.raises(CorruptStateError, match="a committed output is gone, and the table does not have it"):
        sink.publish(Epoch(1), [waiting])
    assert (place.rows(), sink.newest_published()) == ([("a", 1)], 0)


def test_nothing_is_known_of_a_table_that_nobody_has_prepared(place: Place) -> None:
    sink = place.sink()
    assert sink.is_new()
    assert (sink.oldest_published(), sink.newest_published(), sink.roll_back(Epoch(0))) == (None, None, 0)
    assert sink.published_otherwise(Epoch(0), []) == ()


def test_names_that_sql_would_not_take_are_quoted(place: Place) -> None:
    table, fields = 'order "x".y; --', [pa.field("select", pa.string()), pa.field('a "b" %s {}', pa.int64())]
    sink = place.sink(table=table)
    sink.prepare(fields, ["select"], is_fresh=True)
    for epoch in (0, 1):
        rows = [*up(("k", epoch)), ("delete", "gone", None)]
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, rows, fields=fields)])
    quoted = table.replace('"', '""')
    assert place.sql(f'SELECT * FROM "{quoted}"') == [("k", 1)]


def test_a_table_of_keys_alone(place: Place) -> None:
    fields = [pa.field("k", pa.string())]
    sink = place.sink()
    sink.prepare(fields, ["k"], is_fresh=True)
    for epoch in (0, 1):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("a",), ("b",)), fields=fields)])
    assert place.rows() == [("a",), ("b",)]


def test_a_job_whose_table_is_gone_says_so(place: Place) -> None:
    sink = prepared(place)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1)))])
    place.sql("DROP TABLE totals")
    with pytest.raises(InvalidJobError, match=r"the table it has written so far is gone. Restore it with its row in"):
        prepared(place, is_fresh=False, generation=2)
    again = prepared(place, generation=2)
    again.publish(Epoch(0), [place.stage(again, 0, up(("b", 1)))])
    assert place.rows() == [("b", 1)], "a fresh job may begin where no rows are"


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE totals",
        "DROP TABLE _mixedmode",
        "DROP TABLE _mixedmode_history_totals",
        "ALTER TABLE totals DROP COLUMN n",
        "ALTER TABLE _mixedmode_history_totals DROP COLUMN n",
    ],
)
def test_a_table_that_is_changed_while_the_job_runs_is_told_as_such(place: Place, change: str) -> None:
    sink = prepared(place)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1)))])
    place.sql(change)
    staged = [place.stage(sink, 1, up(("a", 2)))]
    message = rf"dropped or changed while the job runs.*Put it back, .* cause=[^\n]*, table={re.escape(place.place())}$"
    with pytest.raises(InvalidJobError, match=message):
        sink.publish(Epoch(1), staged)
    assert place.staged(sink), "it is written when the table is there again"


def test_a_row_of_the_bookkeeping_that_is_deleted_while_the_job_runs_is_told_as_such(place: Place) -> None:
    sink = prepared(place)
    place.sql("DELETE FROM _mixedmode")
    staged = [place.stage(sink, 0, up(("a", 1)))]
    with pytest.raises(InvalidJobError, match="the row of this table in _mixedmode was deleted while the job runs"):
        sink.publish(Epoch(0), staged)
    assert place.rows() == []
    assert place.staged(sink)


# --- tables of a user's own ------------------------------------------------------------------------------------------


def test_a_row_of_the_bookkeeping_that_was_damaged_is_told_as_such(place: Place) -> None:
    sink = place.sink()
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    place.sql("UPDATE _mixedmode SET key_columns = 'k'")
    with pytest.raises(InvalidJobError, match=r"key_columns': 'k'.*table=totals$"):
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1)))])
    with pytest.raises(InvalidJobError, match="Put the row back from a copy"):
        place.sink(generation=2).prepare(FIELDS, ["k"], is_fresh=False)


def test_with_create_false_everything_has_to_be_there(place: Place) -> None:
    place.sql("CREATE TABLE another (x int)")
    with pytest.raises(InvalidJobError, match=r"the bookkeeping table is not there.*CREATE TABLE .*_mixedmode"):
        prepared(place, create=False)
    place.sql(place.database().ledger_ddl)
    with pytest.raises(InvalidJobError, match="there is no such table, and create: false says that it is yours"):
        prepared(place, create=False)
    place.sql("CREATE TABLE totals (n bigint, more text DEFAULT 'untouched', k text NOT NULL, UNIQUE (k))")
    with pytest.raises(InvalidJobError, match=r"Create it: .*CREATE TABLE .*_mixedmode_history_totals"):
        prepared(place, create=False)
    prepared(place)
    sink = prepared(place, create=False)
    for epoch in (0, 1):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("a", epoch)))])
    assert place.rows() == [(1, "untouched", "a")]


def test_two_jobs_do_not_share_a_table_that_the_database_calls_by_two_names(sqlite_place: Place) -> None:
    """SQLite's names have no case, so `Totals` is the table `totals`."""
    place = sqlite_place
    first = prepared(place)
    second = prepared(place, table="Totals", job="other", base=place.folder / "elsewhere")
    with pytest.raises(FencedError, match="has taken over this table"):
        first.publish(Epoch(0), [place.stage(first, 0, up(("a", 1)))])
    second.publish(Epoch(0), [place.stage(second, 0, up(("a", 2)))])
    renamed = prepared(place, table="TOTALS", job="other", base=place.folder / "elsewhere", is_fresh=False)
    renamed.publish(Epoch(1), [place.stage(renamed, 1, up(("b", 3)))])
    assert place.rows() == [("a", 2), ("b", 3)]
    assert place.sql("SELECT table_name, last_epoch FROM _mixedmode") == [("TOTALS", 1)]


def test_every_difference_of_a_users_own_table_is_named_at_once(place: Place) -> None:
    place.sql("CREATE TABLE totals (k bigint, needed text NOT NULL, twice bigint GENERATED ALWAYS AS (k * 2) STORED)")
    fields = [*FIELDS, pa.field("twice", pa.int64()), pa.field("more", pa.int32())]
    sink = place.sink()
    with pytest.raises(InvalidJobError) as caught:
        sink.prepare(fields, ["k"], is_fresh=True)
    bigint, text, integer = (
        ("bigint", "text", "integer") if place.kind == "postgres" else ("INTEGER", "TEXT", "INTEGER")
    )
    unique = (
        "constraint, of types and collations that distinguish all texts, is on exactly the key columns "
        '(ADD UNIQUE ("k"))'
    )
    if place.kind == "sqlite":
        unique = 'index, with the collation BINARY, is on exactly the key columns (CREATE UNIQUE INDEX: "k")'
    assert str(caught.value) == (
        f"the table is not as this job needs it, and nothing was written: column k is bigint and has to be {text}; "
        f'column n is missing (ADD COLUMN "n" {bigint}); column twice is computed by the database, and the job writes '
        f'it; column more is missing (ADD COLUMN "more" {integer}); column needed, which the job does not write, is '
        f"NOT NULL without a default; no primary key or unique {unique}. Change the table, or the job; or name another "
        f"table. table={place.place()}"
    )


#: declarations of the key for which `a` and `A`, or `a` and `a `, are one text
EQUATING = {
    "postgres": ("citext PRIMARY KEY", "folded PRIMARY KEY", 'text COLLATE "loose" PRIMARY KEY', "text PRIMARY KEY"),
    "sqlite": ("text COLLATE NOCASE PRIMARY KEY", "text COLLATE RTRIM UNIQUE", "text", "text"),
}


@pytest.mark.parametrize("number", range(4))
def test_a_key_whose_table_takes_two_texts_for_one_is_refused(place: Place, number: int) -> None:
    """Two keys of the job would share a row, and the newer one would replace the other."""
    if place.kind == "postgres":
        place.sql("CREATE EXTENSION citext; CREATE DOMAIN folded AS citext")
        place.sql("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    place.sql(f"CREATE TABLE totals (k {EQUATING[place.kind][number]}, n bigint)")
    if number == 3:  # the index alone
        loose = '"loose"' if place.kind == "postgres" else "NOCASE"
        place.sql(f"CREATE UNIQUE INDEX own ON totals (k COLLATE {loose})")
    with pytest.raises(InvalidJobError, match="is on exactly the key columns"):
        prepared(place)
    place.sql("DROP TABLE totals")
    sink = prepared(place)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1), ("A", 2), ("a ", 3)))])
    assert set(place.rows()) == {("a", 1), ("A", 2), ("a ", 3)}


def test_a_job_that_comes_to_have_another_column_is_told_what_to_add(place: Place) -> None:
    sink = prepared(place)
    sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 0)))])
    fields = [*FIELDS, pa.field("more", pa.int64())]
    later = place.sink(generation=2)
    with pytest.raises(InvalidJobError, match=r'column more is missing \(ADD COLUMN "more" (bigint|INTEGER)\)\. '):
        later.prepare(fields, ["k"], is_fresh=False)
    place.sql("ALTER TABLE totals ADD COLUMN more bigint")
    later.prepare(fields, ["k"], is_fresh=False)
    later.publish(Epoch(1), [place.stage(later, 1, up(("b", 1, 2)), fields=fields)])
    assert place.rows() == [("a", 0, None), ("b", 1, 2)]


# --- rows that a table refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_row_that_a_constraint_refuses_is_named(place: Place, epoch: int) -> None:
    place.sql("CREATE TABLE totals (k text NOT NULL PRIMARY KEY, n bigint NOT NULL, CONSTRAINT small CHECK (n < 1000))")
    sink = prepared(place)
    if epoch:
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("first", 1)))])
    rows = [*up(*((f"k{i}", i if i != 777 else 4_000) for i in range(990))), ("delete", "k5", None)]
    file = place.stage(sink, epoch, rows)
    with pytest.raises(InvalidJobError) as caught:
        sink.publish(Epoch(epoch), [file])
    why = {
        "postgres": 'new row for relation "totals" violates check constraint "small"',
        "sqlite": "CHECK constraint failed: small",
    }
    constraint = "constraint=small, " if place.kind == "postgres" else ""
    assert str(caught.value) == (
        f"the table refuses a row: {why[place.kind]}. Nothing of its epoch is in the table. With "
        "checkpoints, the epoch itself is committed, and is written when the job is started again. So change the "
        "table (its constraints, types or the rows they refer to), and start the job again; or go back to a savepoint, "
        f"with a job that does not emit such a row. {constraint}"
        f"row={{k: 'k777', n: 4000}}, epoch={epoch}, table={place.place()}"
    )
    assert place.rows() == ([("first", 1)] if epoch else [])
    with pytest.raises(InvalidJobError, match=r"row=\{k: 'x', n: None"):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("y", 1), ("x", None)))])
    place.sql("DROP TABLE totals")
    place.sql("CREATE TABLE totals (k text NOT NULL PRIMARY KEY, n bigint)")
    sink.publish(Epoch(epoch), [file])
    assert ("k777", 4_000) in place.rows()


def test_a_key_that_is_null_is_refused_as_it_would_be_there_twice(place: Place) -> None:
    place.sql("CREATE TABLE totals (k text UNIQUE, n bigint)")
    sink = prepared(place)
    with pytest.raises(InvalidJobError, match=r"a key column of an output is NULL.*column=k, row=\{k: None, n: 2"):
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1), (None, 2)))])


def test_a_foreign_key_of_the_users_own_is_told_with_the_row(place: Place) -> None:
    place.sql("CREATE TABLE shops (k text NOT NULL PRIMARY KEY)")
    place.sql("INSERT INTO shops VALUES ('a'), ('b')")
    deferred = "DEFERRABLE INITIALLY DEFERRED"
    place.sql(f"CREATE TABLE later (k text NOT NULL PRIMARY KEY REFERENCES shops {deferred}, n bigint)")
    place.sql("CREATE TABLE totals (k text NOT NULL PRIMARY KEY REFERENCES shops, n bigint)")
    sink = prepared(place)
    with pytest.raises(InvalidJobError, match=r"(?i)foreign key constraint.*row=\{k: 'c', n: 3"):
        sink.publish(Epoch(0), [place.stage(sink, 0, up(("a", 1), ("b", 2), ("c", 3)))])
    later = prepared(place, table="later", name="later")
    with pytest.raises(InvalidJobError, match=r"(?i)foreign key constraint.*epoch=0") as caught:
        later.publish(Epoch(0), [place.stage(later, 0, up(("a", 1), ("c", 3)))])
    assert place.kind == "sqlite" or '(Key (k)=(c) is not present in table "shops")' in str(caught.value)
    assert place.rows("later") == []
