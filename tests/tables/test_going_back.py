"""Going back with a table: after any rollbacks and restored savepoints, it has the rows of its epochs and no others."""

import itertools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.contents import contents_after
from mixedmode.checkpoint.types import Epoch, Generation, Manifest, StagedFile
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError
from mixedmode.sinks.tables.history import HistoryTable, history_name
from mixedmode.sinks.tables.table_sink import TableSink
from tests.random_cases import random_cases
from tests.services.fixtures import Database
from tests.tables.places import FIELDS, Place, up

RETAINED = 3  # checkpoints that the job keeps
Table = Mapping[str, int | None]

MANIFEST = Manifest(
    job="job",
    epoch=Epoch(0),
    generation=Generation(1),
    previous=None,
    created_ms=0,
    is_backlog=False,
    strategy="streaming",
    parallelism=1,
    max_parallelism=1,
    sources={},
    offsets="",
    operators=(),
    outputs=(),
    records_in=0,
    rows_out=0,
    pairs=0,
)


@dataclass(frozen=True)
class Checkpoint:
    """A manifest, and the table as it is after its epoch."""

    manifest: Manifest
    table: Table
    #: the numbers of all epochs that led to it, each drawn once in a test
    past: tuple[int, ...]


@dataclass
class TableJob:
    """A job of one table, without Spark: commits epochs, goes back, is restored. `checkpoints` are of its past."""

    place: Place
    keys: tuple[str, ...] = ("k",)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    generation: int = 0
    #: the oldest epoch to which the history of the table leads; it stays when the job goes back
    oldest: int = 0
    _drawn: "itertools.count[int]" = field(default_factory=itertools.count)
    _folders: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.base = self.place.folder / f"checkpoints-{next(self._folders)}"
        self.sink = self.start(is_fresh=True)

    def start(self, *, is_fresh: bool = False) -> TableSink:
        self.generation += 1
        sink = self.place.sink(generation=self.generation, base=self.base, retained=RETAINED)
        sink.prepare(FIELDS, self.keys, is_fresh=is_fresh)
        return sink

    def commit(self, changes: Table, deleted: frozenset[str] = frozenset()) -> StagedFile | None:
        """An epoch that is committed, and not yet published."""
        last = self.checkpoints[-1] if self.checkpoints else None
        epoch = Epoch(0 if last is None else last.manifest.epoch + 1)
        rows = [*up(*changes.items()), *(("delete", key, None) for key in sorted(deleted - changes.keys()))]
        if not self.keys:
            rows = list(changes.items())
        files = (self.place.stage(self.sink, epoch, rows),) if rows else ()
        contents = contents_after(None if last is None else last.manifest, epoch, files, [""])
        table = {} if last is None else last.table
        if self.keys:
            table = {key: n for key, n in table.items() if key not in deleted} | {**changes}
        else:
            table = {**table} | {f"{key} {epoch}": n for key, n in changes.items()}
        manifest = replace(MANIFEST, epoch=epoch, outputs=files, output_contents=contents)
        past = (*(() if last is None else last.past), next(self._drawn))
        self.checkpoints.append(Checkpoint(manifest, table, past))
        return files[0] if files else None

    def publish(self) -> None:
        newest = self.checkpoints[-1].manifest
        self.sink.publish(newest.epoch, newest.outputs)
        self.oldest = max(self.oldest, newest.epoch - RETAINED)

    def go_back(self, count: int) -> None:
        """To an older one of the checkpoints that are kept, as a start does."""
        newest = self.checkpoints[-1].manifest.epoch
        count = min(count, RETAINED - 1, len(self.checkpoints) - 1, max(0, newest - self.oldest))
        self.sink = self.start()
        to = self.checkpoints[len(self.checkpoints) - 1 - count]
        assert self.sink.obstacle(to.manifest) is None
        self.sink.roll_back(to.manifest.epoch)
        self.checkpoints = self.checkpoints[: len(self.checkpoints) - count]

    def restore(self, savepoint: Checkpoint) -> str | None:
        """Into a new checkpoint folder, and a start there; or why that cannot be."""
        base = self.place.folder / f"checkpoints-{next(self._folders)}"
        asking = self.place.sink(generation=0, base=base, retained=RETAINED)
        asking.prepare(FIELDS, self.keys, is_fresh=False)
        manifest = replace(savepoint.manifest, generation=Generation(0), outputs=())  # its files are not in a savepoint
        obstacle = asking.obstacle(manifest)
        if obstacle is not None:
            return obstacle
        asking.roll_back(manifest.epoch)
        self.base, self.generation = base, 0
        self.checkpoints = [savepoint]  # the new folder has no older one
        self.oldest = min(self.oldest, manifest.epoch)
        self.sink = self.start()
        return None

    def check(self) -> None:
        rows = self.place.rows()
        found = dict(rows) if self.keys else {f"{row[0]} {row[2]}": row[1] for row in rows}
        assert found == (self.checkpoints[-1].table if self.checkpoints else {})


KEYS = st.sampled_from("abcde")
CHANGES = st.dictionaries(KEYS, st.integers(0, 9), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("epoch"), CHANGES, st.frozensets(KEYS, max_size=2)),
        st.tuples(st.just("back"), st.integers(0, RETAINED - 1), st.booleans()),
        st.tuples(st.just("savepoint"), st.none(), st.none()),
        st.tuples(st.just("restore"), st.integers(0, 5), st.none()),
    ),
    min_size=4,
    max_size=25,
)


#: a restored job cannot go back to epochs before its savepoint, whose history is gone
AFTER_A_RESTORE: list[tuple[str, object, object]] = [
    ("epoch", {}, frozenset("a")),
    ("epoch", {"a": 0}, frozenset()),
    ("epoch", {}, frozenset()),
    ("savepoint", None, None),
    ("epoch", {}, frozenset()),
    ("epoch", {}, frozenset("a")),
    ("restore", 0, None),
    ("back", 2, False),
]


#: after going back, the history still begins where the newest epoch ever has cut it
AFTER_GOING_BACK: list[tuple[str, object, object]] = [
    ("epoch", {}, frozenset("a")),
    ("savepoint", None, None),
    ("epoch", {}, frozenset("a")),
    ("epoch", {}, frozenset()),
    ("epoch", {}, frozenset()),
    ("epoch", {"a": 0}, frozenset()),
    ("back", 1, False),
    ("restore", 0, None),
]


def random_life_ends_right(job: TableJob, steps: list[tuple[str, object, object]]) -> None:
    savepoints: list[Checkpoint] = []
    for kind, first, second in steps:
        if kind == "epoch":
            job.commit(first, second)  # type: ignore[arg-type]
            job.publish()
        elif kind == "back" and job.checkpoints:
            if second:  # the newest epoch was committed, and the job died before it was published
                job.commit({"a": -1, "only there": -1})
            job.go_back(int(first) + bool(second))  # type: ignore[call-overload]
        elif kind == "savepoint" and job.checkpoints:
            savepoints.append(job.checkpoints[-1])
        elif kind == "restore" and savepoints:
            restore_and_check(job, savepoints[int(first) % len(savepoints)])  # type: ignore[call-overload]
        job.check()


def restore_and_check(job: TableJob, savepoint: Checkpoint) -> None:
    newest = job.checkpoints[-1]
    before = savepoint.manifest.epoch
    obstacle = job.restore(savepoint)
    is_of_this_past = newest.past[: before + 1] == savepoint.past
    if is_of_this_past and before >= job.oldest:
        assert obstacle is None, obstacle
    if obstacle is None:
        assert job.checkpoints[-1] == savepoint
    else:
        assert "Nothing was changed." in obstacle


def test_any_rollbacks_and_restored_savepoints_leave_the_rows_of_the_epochs_that_count() -> None:
    @settings(max_examples=random_cases(30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.sampled_from([("k",), ()]))
    @example(AFTER_A_RESTORE, ("k",))
    @example(AFTER_GOING_BACK, ("k",))
    def check(steps: list[tuple[str, object, object]], keys: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            random_life_ends_right(TableJob(Place("sqlite", Path(folder)), keys), steps)

    check()


@pytest.mark.soak
def test_the_same_in_postgres(database: Database, tmp_path: Path) -> None:
    numbers = itertools.count()

    @settings(max_examples=random_cases(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.sampled_from([("k",), ()]))
    def check(steps: list[tuple[str, object, object]], keys: tuple[str, ...]) -> None:
        place = Place("postgres", tmp_path / str(next(numbers)), database.url)
        for table in ("_mixedmode", "totals", "_mixedmode_history_totals"):
            place.sql(f"DROP TABLE IF EXISTS {table}")
        random_life_ends_right(TableJob(place, keys), steps)

    check()


def live(place: Place, *tables: Table) -> TableJob:
    """A job that has published these epochs."""
    job = TableJob(place)
    for changes in tables:
        job.commit(changes)
        job.publish()
    return job


def test_keys_of_epochs_that_are_left_go_and_older_values_come_back(place: Place) -> None:
    job = live(place, {"a": 1, "b": 1}, {"a": 2, "only there": 0})
    job.commit({"a": 3}, frozenset({"b"}))
    job.publish()
    assert place.rows() == [("a", 3), ("only there", 0)]
    job.go_back(1)
    assert place.rows() == [("a", 2), ("b", 1), ("only there", 0)]
    job.go_back(1)
    assert place.rows() == [("a", 1), ("b", 1)]


def test_a_key_that_comes_several_times_in_an_epoch_gets_its_row_of_before_the_epoch_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixedmode.sinks.tables.batches._ROWS_MAX", 3)
    monkeypatch.setattr("mixedmode.sinks.tables.batches._ROWS_READ", 2)
    job = live(place, {"k0": -1, "rank": -1})
    rows = [*up(*((f"k{i % 3}", i) for i in range(20))), ("delete", "k0", None), *up(("rank", 5))]
    job.sink.publish(Epoch(1), [place.stage(job.sink, 1, rows)])
    assert place.rows() == [("k1", 19), ("k2", 17), ("rank", 5)]
    job.sink.roll_back(Epoch(0))
    assert place.rows() == [("k0", -1), ("rank", -1)]


def test_a_savepoint_that_is_older_than_the_history_is_refused_until_the_table_is_renamed(place: Place) -> None:
    job = live(place, *({"a": n} for n in range(10)))
    rows = place.rows()
    obstacle = job.restore(job.checkpoints[2])
    assert obstacle == (
        "the table cannot become what it was after this epoch: its history (_mixedmode_history_*) no longer has the "
        "rows that later epochs, or a backfill, replaced. Nothing was changed. Rename or drop the table, or name "
        "another one, and give the job a new checkpointing.dir: it then starts from the beginning of its sources, or "
        "goes on from a savepoint with an output that begins anew. A larger checkpointing.num-retained keeps a longer "
        "history. "
        f"epoch=2, newest_epoch_in_table=9, table={place.place()}"
    )
    with pytest.raises(CorruptStateError, match="no longer has the rows that later epochs, or a backfill, replaced"):
        job.sink.roll_back(Epoch(2))
    assert (place.rows(), job.sink.newest_published()) == (rows, 9)
    place.sql("ALTER TABLE totals RENAME TO kept")
    anew = place.sink(base=place.folder / "anew")
    assert anew.is_new()
    assert anew.oldest_published() is None
    anew.prepare(FIELDS, ["k"], is_fresh=True)
    anew.publish(Epoch(3), [place.stage(anew, 3, up(("a", 3)))])
    anew.publish(Epoch(4), [place.stage(anew, 4, up(("a", 4)))])
    anew.roll_back(Epoch(3))
    assert (place.rows(), place.rows("kept")) == ([("a", 3)], rows)


def test_the_history_is_as_long_as_the_checkpoints_that_are_kept(place: Place) -> None:
    job = live(place, *({"a": n, f"k{n}": n} for n in range(20)))
    epochs = {row[0] for row in place.sql(f"SELECT _mixedmode_epoch FROM {history_name('totals')}")}
    assert epochs == set(range(19 - RETAINED, 20))
    job.go_back(RETAINED - 1)
    job.check()


def test_a_savepoint_of_a_past_that_the_table_has_left_is_refused(place: Place) -> None:
    """Both pasts have the same numbers of epochs; the last epochs of both have no rows for the table."""
    job = live(place, {"a": 1}, {"a": 2}, {})
    left = job.checkpoints[-1]
    job.go_back(2)
    for changes in ({"b": 7}, {}, {}):
        job.commit(changes)
        job.publish()
    obstacle = job.restore(left)
    assert obstacle is not None
    assert obstacle.startswith("the table was not written by the epochs that led to this checkpoint")
    assert place.rows() == [("a", 1), ("b", 7)]
    assert job.restore(job.checkpoints[1]) is None, "of the past that counts"


def test_a_start_over_an_older_copy_of_the_checkpoint_folder_notices_a_table_of_another_time(place: Place) -> None:
    job = live(place, {"a": 1})
    copied = job.checkpoints[-1].manifest
    for changes in ({"a": 2}, {"a": 3}):
        job.commit(changes)
        job.publish()
    contents = contents_after(copied, Epoch(2), [place.stage(job.sink, 2, up(("a", 9)))], [""])
    other = replace(MANIFEST, epoch=Epoch(2), output_contents=contents)
    assert "is a copy of another time" in (job.sink.obstacle(other) or "")
    assert job.sink.obstacle(job.checkpoints[-1].manifest) is None


def test_a_table_that_is_behind_its_checkpoints_takes_the_rows_that_wait(place: Place) -> None:
    job = live(place, {"a": 1})
    job.commit({"a": 2})
    waiting = job.checkpoints[-1].manifest
    assert job.sink.obstacle(waiting) is None
    job.publish()
    assert job.sink.obstacle(waiting) is None
    lost = replace(waiting, epoch=Epoch(5), outputs=(), output_contents={"": "what no epoch led to"})
    assert job.sink.obstacle(lost) is not None


def keep(place: Place) -> Callable[[], None]:
    """Keep a copy of the database after epoch 0; return what sets the database back to it."""
    tables = ("totals", "_mixedmode")
    for table in tables:
        place.sql(f'CREATE TABLE "kept {table}" AS SELECT * FROM {table}')

    def set_back() -> None:
        for table in tables:
            place.sql(f"DELETE FROM {table}")
            place.sql(f'INSERT INTO {table} SELECT * FROM "kept {table}"')
        place.sql(f"DELETE FROM {history_name('totals')} WHERE _mixedmode_epoch > 0")

    return set_back


@pytest.mark.parametrize("missed", [1, 3])
def test_a_database_that_is_set_back_under_a_running_job_gets_no_rows_that_hide_it(place: Place, missed: int) -> None:
    """As by a failover to a server that lacks the newest commits; the rows of the epochs between would be missing."""
    job = live(place, {"a": 1})
    set_back = keep(place)
    for changes in [{"b": 2}, {}, {"c": 3}][:missed]:
        job.commit(changes)
        job.publish()
    set_back()
    job.commit({"a": 9})
    with pytest.raises(CorruptStateError, match="the database was set back to an older time"):
        job.publish()
    job.sink = job.start()
    assert "is a copy of another time" in (job.sink.obstacle(job.checkpoints[-1].manifest) or ""), "although rows wait"
    assert place.rows() == [("a", 1)]
    assert job.sink.obstacle(job.checkpoints[0].manifest) is None, "a start may go back to what the table has"


def test_a_rollback_that_dies_in_the_middle_has_not_happened_and_is_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = live(place, {"a": 1}, {"a": 2, "b": 2}, {"a": 3})
    rows = place.rows()
    forget: Callable[[HistoryTable, Epoch], None] = HistoryTable.forget

    def die(history: HistoryTable, after: Epoch) -> None:
        forget(history, after)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HistoryTable, "forget", die)
        with pytest.raises(KeyboardInterrupt):
            job.sink.roll_back(Epoch(0))
    assert (place.rows(), job.sink.newest_published()) == (rows, 2)
    assert job.sink.roll_back(Epoch(0)) == 2
    assert (place.rows(), job.sink.newest_published(), job.sink.roll_back(Epoch(0))) == ([("a", 1)], 0, 0)


def test_an_older_start_neither_rolls_back_nor_writes_after_a_rollback(place: Place) -> None:
    job = live(place, {"a": 1}, {"a": 2})
    older = job.sink
    job.go_back(1)
    with pytest.raises(FencedError):
        older.roll_back(Epoch(-1))
    with pytest.raises(FencedError):
        older.publish(Epoch(1), [place.stage(older, 1, up(("a", 9)))])
    job.check()


def test_a_job_that_comes_to_have_another_column_keeps_a_history_from_then_on(place: Place) -> None:
    job = live(place, {"a": 1}, {"a": 2})
    place.sql("ALTER TABLE totals ADD COLUMN more bigint")
    fields = [*FIELDS, pa.field("more", pa.int64())]
    later = place.sink(generation=9, base=job.base, retained=RETAINED)
    later.prepare(fields, ["k"], is_fresh=False)
    for epoch in (2, 3):
        later.publish(Epoch(epoch), [place.stage(later, epoch, up(("a", epoch, epoch)), fields=fields)])
    with pytest.raises(CorruptStateError, match="no longer has the rows"):
        later.roll_back(Epoch(0))
    later.roll_back(Epoch(2))
    assert place.rows() == [("a", 2, 2)]
    later.roll_back(Epoch(1))
    assert place.rows() == [("a", 2, None)]


def test_with_create_false_the_history_has_to_be_there(place: Place) -> None:
    place.sql(place.database().ledger_ddl)
    place.sql("CREATE TABLE totals (k text NOT NULL PRIMARY KEY, n bigint, more text)")
    sink = place.sink(create=False)
    with pytest.raises(InvalidJobError, match=r"from which rows are brought back.*does not exist") as caught:
        sink.prepare(FIELDS, ["k"], is_fresh=True)
    for statement in str(caught.value).partition("Create it: ")[2].partition("; table=")[0].split("; "):
        place.sql(statement)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    for epoch in (0, 1):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("a", epoch)))])
        place.sql("UPDATE totals SET more = 'of its owner'")
    sink.roll_back(Epoch(0))
    assert place.rows() == [("a", 0, "of its owner")]


def test_rows_that_a_later_constraint_forbids_are_told(place: Place) -> None:
    job = live(place, {"a": 1, "b": 1}, {"a": 2})
    place.sql("CREATE UNIQUE INDEX one_n ON totals (n)")
    with pytest.raises(InvalidJobError, match="the table refuses rows that it had before"):
        job.sink.roll_back(Epoch(0))
    assert place.rows() == [("a", 2), ("b", 1)]
    place.sql("DROP INDEX one_n")
    assert job.sink.roll_back(Epoch(0)) == 1


def test_long_and_strange_names_have_a_history(place: Place) -> None:
    table, fields = 'order "x".y; -- ' + "z" * 45, [pa.field("a b", pa.string()), pa.field('"%s" {}', pa.int64())]
    sink = place.sink(table=table)
    sink.prepare(fields, ["a b"], is_fresh=True)
    for epoch in range(3):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, up(("k", epoch), (f"k{epoch}", 0)), fields=fields)])
    sink.roll_back(Epoch(1))
    quoted = table.replace('"', '""')
    assert sorted(place.sql(f'SELECT * FROM "{quoted}"')) == [("k", 1), ("k0", 0), ("k1", 0)]
