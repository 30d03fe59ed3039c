"""A table as an output, epoch by epoch: repeats, crashes between any two steps, going back, and others who write."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.contents import contents_after
from mixedmode.checkpoint.types import Epoch, Generation, StagedFile
from mixedmode.connectors.lakehouse import iceberg, iceberg_branches
from mixedmode.connectors.lakehouse.delta import DeltaTable
from mixedmode.connectors.lakehouse.sink import LakehouseSink
from mixedmode.connectors.lakehouse.table import Commit, Mark
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError, RetryableError
from mixedmode.sinks import SinkContext
from mixedmode.sinks.printed import print_rows
from tests.checkpoint.examples import a_manifest
from tests.lakehouse.tables import (
    FORMATS,
    FORMATS_AND_MODES,
    ICEBERG_BY_DEFAULT,
    Format,
    beside,
    remove_old_versions,
    rows_of,
    sink,
)
from tests.staging import stage

KEY, FIELDS = ["k"], [pa.field("k", pa.string()), pa.field("n", pa.int64())]
Changes = Iterable[tuple[str, int | None]]


class Output:
    """An output of a job, whose tasks this plays; `again` is another start of the job."""

    def __init__(
        self, spark: SparkSession, kind: Format, base: Path, *, is_fresh: bool = True, **settings: Any
    ) -> None:
        self.spark, self.kind, self.base = spark, kind, base
        self.path = base / "db" / "out"
        self.settings = settings
        self.keys: list[str] = [] if settings.get("mode") == "append" else KEY
        replaces = settings.pop("replaces", False)
        context = SinkContext(
            job="lake",
            name="",
            generation=Generation(0 if replaces else settings.pop("generation", 1)),
            base=str(base / settings.pop("folder", "check points")),
            replaces=replaces,
            session=spark,
            show=print_rows,
        )
        self.sink = LakehouseSink(sink(kind, self.path, **settings), context)
        self.local = base / "local"
        self.local.mkdir(exist_ok=True)
        self.sink.prepare(FIELDS, self.keys, is_fresh=is_fresh)

    def again(self) -> "Output":
        return Output(self.spark, self.kind, self.base, is_fresh=False, **self.settings)

    def stage(self, epoch: int, *tasks: Changes) -> list[StagedFile]:
        """Stage the changes of subtasks: for each key its new value, or None to delete it."""
        staged: list[StagedFile] = []
        for subtask, changes in enumerate(tasks):
            rows = list(changes)
            table = pa.table({"k": [k for k, _ in rows], "n": pa.array([n for _, n in rows], pa.int64())})
            if self.keys:
                table = table.append_column("_op", pa.array(["delete" if n is None else "update" for _, n in rows]))
            folder = self.local / f"{epoch}-{subtask}"
            folder.mkdir(exist_ok=True)
            unique = f"a{len(list(self.local.iterdir()))}"
            staged += stage(self.sink.task, folder, unique, table, epoch=epoch, subtask=subtask)
        return staged

    def publish(self, epoch: int, *tasks: Changes) -> list[StagedFile]:
        staged = self.stage(epoch, *tasks)
        self.sink.publish(Epoch(epoch), staged)
        return staged

    def rows(self) -> list[tuple[str, int]]:
        return sorted((row["k"], row["n"]) for row in rows_of(self.spark, self.kind, self.path))

    def write_beside(self, *rows: tuple[str, int]) -> None:
        """Write rows to the table, as somebody else would."""
        frame = self.spark.createDataFrame(rows, "k string, n bigint")
        if self.kind == "delta":
            frame.write.format("delta").mode("append").option("mergeSchema", "true").save(str(self.path))
            return
        self.sink._table.session.createDataFrame(rows, "k string, n bigint").createOrReplaceTempView("beside")
        self.sink._table.session.sql(f"INSERT INTO {self.sink._table.name} (k, n) SELECT * FROM beside")


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> Format:
    found: Format = request.param
    return found


def test_changes_are_merged_and_a_repeat_changes_nothing(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path)
    assert output.sink.is_new()
    assert output.sink.newest_published() is None
    output.publish(0, [("a", 1), ("b", 2), ("a", 3)], [("c", 4), ("c", None)])  # the last row of a key counts
    assert output.rows() == [("a", 3), ("b", 2)]
    staged = output.publish(1, [("a", None), ("d", None)], [("c", 5)])
    assert output.rows() == [("b", 2), ("c", 5)]
    assert not output.sink.store.list(output_paths.STAGING), "staged files are deleted"
    output.sink.publish(Epoch(1), staged)  # as a start does
    output.sink.publish(Epoch(2), [])  # an epoch without rows leaves no trace
    later = output.again()
    later.publish(1, [("b", 77)])  # the same epoch with its files still there, as after a crash before their deletion
    assert later.rows() == [("b", 2), ("c", 5)]
    assert not later.sink.store.list(output_paths.STAGING)
    assert (later.sink.newest_published(), later.sink.oldest_published()) == (1, 0)
    assert not later.sink.is_new()
    with pytest.raises(FencedError, match=r"an older copy of the one.*epoch=0, latest_published=1, table=\w+ /"):
        output.again().publish(0, [("a", 1)])
    with pytest.raises(InvalidJobError, match=r"output of an earlier run of this job.*latest_published=1"):
        Output(spark, kind, tmp_path)


def test_every_row_is_appended_once(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path, mode="append", partition_by=["k"])
    output.publish(0, [("a", 1), ("a", 1)], [("b", 2)])
    for _ in range(2):
        output.publish(1, [("a", 1)])
    assert output.rows() == [("a", 1), ("a", 1), ("a", 1), ("b", 2)]
    epochs = [row["_epoch"] for row in rows_of(spark, kind, output.path)]
    assert sorted(epochs) == [0, 0, 0, 1]
    # all of an epoch's rows are rolled back, and come again, with other rows than those of the past that was left
    assert output.sink.roll_back(Epoch(0)) == 1
    assert output.rows() == [("a", 1), ("a", 1), ("b", 2)]
    assert output.sink.newest_published() == 0
    later = output.again()
    later.publish(1, [("c", 3)])
    later.publish(2, [("c", 4)])
    assert later.rows() == [("a", 1), ("a", 1), ("b", 2), ("c", 3), ("c", 4)]
    if kind == "delta":  # a start of the past that was left: what it still publishes is refused by the table itself
        output.sink._table.write(
            f"INSERT INTO {output.sink._table.name} SELECT 'x', 1, 1", output.sink._mark("epoch", Epoch(2), 0)
        )
        assert ("x", 1) not in later.rows()


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_going_back_before_the_first_epoch_leaves_no_rows(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path, mode="append")
    output.publish(3, [("a", 1)])
    output.publish(4, [("a", 1)])
    for rolled_back in (2, 0):
        assert output.sink.roll_back(Epoch(2)) == rolled_back
        assert output.rows() == []
    output.publish(3, [("b", 1)])
    assert output.rows() == [("b", 1)]
    assert output.sink.newest_published() == 3


def test_going_back_with_a_merge_removes_later_keys_and_brings_older_rows_back(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    output = Output(spark, kind, tmp_path)
    output.publish(0, [("a", 1)])
    output.publish(1, [("a", 2), ("b", 2)])
    assert output.sink.roll_back(Epoch(0)) == 1
    assert (output.rows(), output.sink.newest_published()) == ([("a", 1)], 0)


@pytest.mark.parametrize(("kind", "mode"), FORMATS_AND_MODES)
def test_a_table_that_others_have_written_to_cannot_be_rolled_back(
    spark: SparkSession, tmp_path: Path, kind: Format, mode: str
) -> None:
    output = Output(spark, kind, tmp_path, mode=mode)
    output.publish(0, [("a", 1)])
    output.publish(1, [("a", 2), ("b", 2)])
    output.write_beside(("z", 9))
    rows = output.rows()
    with pytest.raises(InvalidJobError, match=r"somebody else wrote commit \d+ to the table since.*checkpoint=0"):
        output.sink.roll_back(Epoch(0))
    assert (output.rows(), output.sink.newest_published()) == (rows, 1)


@pytest.mark.parametrize(("kind", "mode"), FORMATS_AND_MODES)
def test_a_table_whose_old_versions_are_removed_is_refused_before_anything_is_changed(
    spark: SparkSession, tmp_path: Path, kind: Format, mode: str
) -> None:
    output = Output(spark, kind, tmp_path, mode=mode)
    first = output.publish(0, [("a", 1), ("b", 1)])
    manifest = replace(a_manifest(0, outputs=first), output_names=("",))
    output.publish(1, [("a", 2)])
    remove_old_versions(output.sink._table.session, output.kind, output.sink._table.name)
    rows = output.rows()
    if kind == "iceberg":  # its history is that of the snapshots
        for again in (lambda: output.publish(2, [("a", 3)]), output.again):
            with pytest.raises(InvalidJobError, match="history no longer tells what this job has published"):
                again()
        assert output.rows() == rows
        return
    later = output.again()
    assert "a file of commit 1 is gone, as after a VACUUM" in (later.sink.obstacle(manifest) or "")
    with pytest.raises(InvalidJobError, match="its table cannot be set back: a file of commit 1 is gone"):
        later.sink.roll_back(Epoch(0))
    assert output.rows() == rows
    later.publish(2, [("c", 3)])
    assert output.rows() == sorted([*rows, ("c", 3)])


def test_a_version_without_its_deletion_vectors_is_not_whole(spark: SparkSession, tmp_path: Path) -> None:
    """The data files are the same before and after a deletion of some of their rows, so these all exist."""
    path = tmp_path / "out"
    frame = spark.range(9).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true")
    frame.save(str(path))
    table = DeltaTable(spark, str(path), None)
    spark.sql(f"DELETE FROM {table.name} WHERE id = 1").collect()
    assert table.lost_file(Commit(1, None)) is None
    (first,) = path.glob("deletion_vector_*.bin")
    spark.sql(f"DELETE FROM {table.name} WHERE id = 2").collect()
    first.unlink()  # as VACUUM does
    assert table.lost_file(Commit(1, None)) == f"file:{first}"
    assert table.lost_file(Commit(2, None)) is None


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
@pytest.mark.parametrize("after", [0, pytest.param(-1, marks=pytest.mark.soak)])
def test_a_job_goes_on_after_a_rollback_that_did_not_end(
    spark: SparkSession, tmp_path: Path, kind: Format, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As when a savepoint's restore is killed, and the job that was running before is started again."""
    output = Output(spark, kind, tmp_path)
    output.publish(0, [("a", 1)])
    output.publish(1, [("b", 2)])
    rows, later = output.rows(), output.again()
    session, marked = later.sink._table.session, []

    def sql(statement: str, *args: Any, **kwargs: Any) -> DataFrame:
        if statement.startswith(("RESTORE", "CALL", "DELETE")):
            marked.append(statement)
            msg = "the cluster is away"
            raise PySparkException(msg)
        return spark_sql(statement, *args, **kwargs)

    spark_sql = session.sql

    def set_back(*_: object) -> None:
        sql("CALL")

    monkeypatch.setattr(session, "sql", sql)
    monkeypatch.setattr(iceberg, "set_back", set_back)
    with pytest.raises(RetryableError):
        later.sink.roll_back(Epoch(after))
    monkeypatch.undo()
    assert marked
    assert output.rows() == rows
    output.again().publish(2, [("c", 3)])
    assert output.rows() == [*rows, ("c", 3)]
    output.again().sink.roll_back(Epoch(0))
    assert output.rows() == [("a", 1)]
    output.again().publish(1, [("d", 4)])
    assert output.rows() == [("a", 1), ("d", 4)]


@pytest.mark.parametrize(("kind", "mode"), FORMATS_AND_MODES)
@pytest.mark.parametrize("after", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_savepoint_that_is_restored_takes_the_table_over(
    spark: SparkSession, tmp_path: Path, kind: Format, mode: str, after: int
) -> None:
    """Also if no row has to be rolled back. Else both jobs would take epochs of the other one for theirs."""
    old = Output(spark, kind, tmp_path, mode=mode)
    old.publish(0, [("a", 0)])
    old.publish(1, [("b", 1)])
    restored: dict[str, Any] = {"is_fresh": False, "mode": mode, "folder": "restored"}
    for rolled_back in (1 - after, 0):
        restore = Output(spark, kind, tmp_path, generation=0, **restored)
        assert restore.sink.roll_back(Epoch(after)) == rolled_back
    new = Output(spark, kind, tmp_path, **restored)
    new.publish(after + 1, [("new", 1)])
    rows = new.rows()
    assert rows == [("a", 0), *[("b", 1)][:after], ("new", 1)]
    for again in (lambda: old.publish(after + 1, [("old", 1)]), old.again):
        with pytest.raises(FencedError, match="another checkpoint folder of this job"):
            again()
    assert old.rows() == rows
    new.publish(after + 2, [("newer", 2)])
    assert new.rows() == [*rows, ("newer", 2)]
    assert Output(spark, kind, tmp_path, **restored).sink.newest_published() == after + 2


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_start_over_a_copy_of_the_folder_ends_before_it_writes(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    """Its epochs have the numbers of those of the other start, but not their rows."""
    output = Output(spark, kind, tmp_path, mode="append")
    output.publish(0, [("a", 0)])
    copy = output.again()  # with the same id of the folder
    output.publish(1, [("a", 1)])
    with pytest.raises(FencedError, match=r"a start over a copy of this checkpoint folder.*epoch=1, latest_publ"):
        copy.publish(1, [("copy", 1)])
    output.publish(2, [("a", 2)])
    assert output.rows() == [("a", 0), ("a", 1), ("a", 2)]


class Paused:
    """A start that is paused before a call of its table, while `then` runs; its first try only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, then: Callable[[], object]) -> None:
        self.tries = 0
        call = getattr(owner, name)

        def paused(*args: Any, **kwargs: Any) -> Any:
            self.tries += 1
            if self.tries == 1:
                then()
            return call(*args, **kwargs)

        monkeypatch.setattr(owner, name, paused)


def keeping_staged(old: Output, staged: Sequence[StagedFile], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a start read its staged files from a copy, as if it had read them before another start deletes them."""
    copy = old.base / "read before"
    copy.mkdir()
    files = [shutil.copy(f"{old.sink.store.url.removeprefix('file://')}/{file.staged_path}", copy) for file in staged]
    monkeypatch.setattr(old.sink, "_rows", lambda _: old.sink._table.session.read.parquet(*map(str, files)))


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_of_two_starts_that_commit_an_epoch_to_an_iceberg_table_one_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The old one has looked at the history and is paused. The new one publishes this epoch and the next one."""
    old = Output(spark, "iceberg", tmp_path, mode=mode)
    old.publish(0, [("a", 0)])
    staged = old.stage(1, [("a", 1)])
    new = old.again()

    def publish() -> None:
        new.sink.publish(Epoch(1), staged)
        new.publish(2, [("a", 2)])

    keeping_staged(old, staged, monkeypatch)
    paused = Paused(monkeypatch, old.sink._table, "write", publish)
    with pytest.raises(FencedError, match="epoch=1, latest_published=2"):
        old.sink.publish(Epoch(1), staged)
    assert paused.tries == 1
    assert new.rows() == ([("a", 2)] if mode == "merge" else [("a", 0), ("a", 1), ("a", 2)])
    new.publish(3, [("b", 3)])
    assert new.rows()[-1] == ("b", 3)


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("place", ["sql", "publish"])
def test_a_start_that_others_overtake_writes_nothing_to_an_iceberg_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, place: str
) -> None:
    """It is paused before the statement that writes its branch, or before the table takes the branch over. Meanwhile
    the job goes back, and somebody else writes to the table.
    """
    old = Output(spark, "iceberg", tmp_path, mode=mode)
    old.publish(0, [("a", 0)])
    old.publish(1, [("b", 1)])
    staged = old.stage(2, [("old", 2)])
    new = old.again()

    def go_back() -> None:
        new.sink.roll_back(Epoch(0))
        new.write_beside(("z", 9))

    keeping_staged(old, staged, monkeypatch)
    owner = iceberg_branches.EpochBranch if place == "publish" else old.sink
    Paused(monkeypatch, owner, "publish" if place == "publish" else "_put", go_back)
    with pytest.raises(FencedError, match="epoch=2, latest_published=0"):
        old.sink.publish(Epoch(2), staged)
    assert new.rows() == [("a", 0), ("z", 9)]
    new.publish(1, [("c", 1)])
    assert new.rows() == [("a", 0), ("c", 1), ("z", 9)]
    table = new.sink._table
    assert [row.name for row in table.session.read.table(f"{table.name}.refs").collect()] == ["main"]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_epoch_whose_branch_others_have_overtaken_is_known_by_its_mark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Rows that are appended are taken over after those of others; a merge is done again."""
    output = Output(spark, "iceberg", tmp_path, mode=mode)
    paused = Paused(monkeypatch, iceberg_branches.EpochBranch, "publish", lambda: output.write_beside(("z", 9)))
    output.publish(0, [("a", 0)])
    assert paused.tries == {"append": 1, "merge": 2}[mode]
    assert output.rows() == [("a", 0), ("z", 9)]
    later = output.again()
    assert (later.sink.newest_published(), later.sink.is_new()) == (0, False)
    later.publish(1, [("b", 1)])
    assert later.rows() == [("a", 0), ("b", 1), ("z", 9)]


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_staged_file_that_is_lost_is_told(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path)
    first = output.publish(0, [("a", 1)])
    lost, kept = output.stage(1, [("a", 2)], [("b", 2)])
    assert output.sink.problem(first[0], reads=True) is None
    assert output.sink.problem(lost, reads=True) is None
    output.sink.store.delete([lost.staged_path])
    problem = output.sink.problem(lost, reads=True)
    assert problem == (lost.staged_path, "does not exist, and the table does not have its epoch")
    with pytest.raises(CorruptStateError, match="an output of a committed epoch is lost"):
        output.sink.publish(Epoch(1), [lost, kept])
    assert output.rows() == [("a", 1)]


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_batch_run_replaces_its_own_rows_only(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    for rows in ([("a", 1), ("b", 2)], [("c", 3)], []):
        output = Output(spark, kind, tmp_path, replaces=True)
        output.sink.publish(Epoch(0), output.stage(0, rows) if rows else [])
        assert output.rows() == rows
    with pytest.raises(InvalidJobError, match="the output of a batch run of this job"):
        Output(spark, kind, tmp_path)
    other = tmp_path / "other"
    (other / "db").mkdir(parents=True)
    Output(spark, kind, other).publish(0, [("a", 1)])
    with pytest.raises(InvalidJobError, match="this one holds rows that no batch run of the job has written"):
        Output(spark, kind, other, replaces=True)


def test_a_table_with_other_columns_is_refused(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path, mode="append")
    with pytest.raises(InvalidJobError, match="column=n, type=string, in the table=bigint, table="):
        output.sink.prepare([FIELDS[0], pa.field("n", pa.string())], [], is_fresh=True)
    with pytest.raises(InvalidJobError, match="column=m, type=string, in the table=no such column"):
        output.sink.prepare([*FIELDS, pa.field("m", pa.string())], [], is_fresh=True)
    with pytest.raises(InvalidJobError, match="this table has no column `_op string`"):
        output.sink.prepare(FIELDS, KEY, is_fresh=True)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("n int", "column=n, type=bigint, in the table=int, table="),
        ("n bigint, x string NOT NULL", "a column that may not be NULL, and this output has no such column.*column=x,"),
    ],
)
def test_a_table_of_others_that_cannot_take_the_rows_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, kind: Format, column: str, found: str
) -> None:
    with pytest.raises(InvalidJobError, match=found):
        made_by_others(spark, tmp_path, kind, f"k string, {column}")


def test_a_column_of_fixed_length_which_would_change_values_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"column=k, type=string, in the table=char\(2\), table="):
        made_by_others(spark, tmp_path, "delta", "k char(2), n bigint")  # Iceberg makes strings of them


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_row_that_the_table_refuses_ends_the_job(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    """The next start would end in the same way, so it must not be told as a passing failure."""
    output = made_by_others(spark, tmp_path, kind, "k string, n bigint NOT NULL")
    staged = output.stage(0, [("a", None)])
    with pytest.raises(InvalidJobError, match=r"refuses a row of an epoch.*Remove the constraint.*NULL"):
        output.sink.publish(Epoch(0), staged)
    table = output.sink._table
    table.session.sql(f"ALTER TABLE {table.name} ALTER COLUMN n DROP NOT NULL").collect()
    output.again().sink.publish(Epoch(0), staged)
    assert [row["n"] for row in rows_of(spark, kind, output.path)] == [None]


def made_by_others(spark: SparkSession, base: Path, kind: Format, ddl: str) -> Output:
    """An output to append to a table that somebody else has created."""
    path = base / "db" / "out"
    name = f"delta.`{path}`" if kind == "delta" else beside(spark, path)
    spark.sql(f"CREATE TABLE {name} ({ddl}) USING {kind}").collect()
    return Output(spark, kind, base, mode="append")


def test_a_column_that_the_format_does_not_have_is_told_as_such(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    """A new start would end in the same way, so it must not be told as a passing failure."""
    output = Output(spark, kind, tmp_path)

    def prepare(name: str, field: pa.Field) -> None:
        context = replace(output.sink._context, name=name)
        other = LakehouseSink(sink(kind, tmp_path / "db" / name, mode="append"), context)
        other.prepare([FIELDS[0], field], [], is_fresh=True)

    with pytest.raises(InvalidJobError, match=r"cannot have such columns\. Cast or rename them in a sql step"):
        prepare("interval", pa.field("v", pa.duration("us")))
    prepare("quoted", pa.field("v", pa.struct([("a-`b", pa.int64())])))


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_table_that_was_made_anew_is_not_taken_for_the_jobs_own(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    first = Output(spark, kind, tmp_path).publish(0, [("a", 1)])
    rmtree(tmp_path / "db" / "out")
    Output(spark, kind, tmp_path)  # made anew with the same columns
    later = replace(a_manifest(1), output_names=("",), output_contents=contents_after(None, Epoch(0), first, [""]))
    found = Output(spark, kind, tmp_path, is_fresh=False).sink.obstacle(later)
    assert found is not None
    assert found.startswith("the table has no epoch of this job, although the job has written epochs to it")
    unpublished = replace(later, epoch=Epoch(0), outputs=tuple(first))
    assert Output(spark, kind, tmp_path, is_fresh=False).sink.obstacle(unpublished) is None, "it is yet to be written"


@pytest.mark.parametrize(("kind", "mode"), FORMATS_AND_MODES)
def test_a_commit_of_others_that_comes_in_between_does_not_end_the_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Format, mode: str
) -> None:
    """The epoch is written once, also if its own commit was told as failed."""
    output = Output(spark, kind, tmp_path, mode=mode)
    output.publish(0, [("a", 0)])
    table, attempts = output.sink._table, []
    text = {"delta": "Transaction conflict detected. a concurrent UPDATE", "iceberg": "Found conflicting files that"}

    def written(sql: str, mark: Mark) -> None:
        attempts.append(mark)
        if len(attempts) < 2:
            output.write_beside(("z", 9))
        else:
            write(sql, mark)
        raise SparkRuntimeException(text[kind])

    write = table.write
    monkeypatch.setattr(table, "write", written)
    output.publish(1, [("b", 1)])
    assert len(attempts) == 2
    assert output.rows() == [("a", 0), ("b", 1), ("z", 9)]


def test_a_job_goes_back_with_a_table_that_others_set_back(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    output = Output(spark, kind, tmp_path, mode="append")
    output.publish(0, [("a", 0)])
    (file,) = output.publish(1, [("b", 1)])
    table = output.sink._table
    first = next(one for one in table.commits(("lake", "")) if one.mark is not None and one.mark.epoch == 0)
    if kind == "delta":
        table.session.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF {first.number}").collect()
    else:
        table.go_back(first, output.sink._mark("epoch", 0, 0), output.sink._mark("epoch", 0, 0))
    with pytest.raises(FencedError, match=r"somebody has set the table back.*epoch=2, latest_published=0"):
        output.publish(2, [("c", 2)])
    later = output.again()
    assert later.sink.problem(file, reads=True) == (
        file.staged_path,
        "does not exist, and the table does not have its epoch",
    )
    later.sink.roll_back(Epoch(0))
    later.publish(1, [("new", 1)])
    later.publish(2, [("newer", 2)])
    assert later.rows() == [("a", 0), ("new", 1), ("newer", 2)]


@pytest.mark.parametrize("kind", ICEBERG_BY_DEFAULT)
def test_a_column_that_somebody_drops_while_the_job_runs_is_named(
    spark: SparkSession, tmp_path: Path, kind: Format
) -> None:
    output = Output(spark, kind, tmp_path)
    output.publish(0, [("a", 1)])
    table, session = output.sink._table.name, output.sink._table.session
    if kind == "delta":
        session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    session.sql(f"ALTER TABLE {table} DROP COLUMN n")
    with pytest.raises(InvalidJobError, match="column=n, type=bigint, in the table=no such column"):
        output.publish(1, [("a", 2)])


def test_a_job_that_goes_on_wants_its_table(spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    with pytest.raises(InvalidJobError, match="cannot open the table of an output"):
        Output(spark, kind, tmp_path, is_fresh=False)
    with pytest.raises(InvalidJobError, match=r"not a column='x', columns="):
        Output(spark, kind, tmp_path, partition_by=["x"])
