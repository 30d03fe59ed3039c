"""Compaction: every row once for who follows the rule, whatever is killed, merged again, or written meanwhile."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch
from mixedmode.config.partitions import parse_partition
from mixedmode.connectors.files.compact import Compacted, compact_output
from mixedmode.connectors.files.compaction import plan_merges
from mixedmode.crash_points import CrashPoint
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.sinks.files import FileFormat, FileLayout
from mixedmode.sinks.publish import parsed_files, superseded
from mixedmode.sinks.row_files import Compression
from mixedmode.sinks.table import current_table, output_files, read_output
from tests.random_cases import random_cases
from tests.s3 import S3Server, environment
from tests.sinks.outputs import FIELDS, Output, change, in_order, read_marker
from tests.walk.faults import Faults, KillAtPoint, Killed

BY_KEY = FileLayout(partitions=(parse_partition("k"),))
FORMATS: list[tuple[FileFormat, Compression]] = [
    ("parquet", "zstd"),
    ("json", "none"),
    ("json", "gzip"),
    ("csv", "none"),
    ("csv", "gzip"),
]
HUGE = 1 << 40


def filled(output: Output, epochs: int = 8, *, seed: int = 1) -> Output:
    """Some epochs of changes of a few keys by two subtasks, one of them without rows."""
    random = Random(seed)
    for epoch in range(epochs):
        keys = [random.choice(["a", "b", "c", "ü"]) for _ in range(6)] if epoch != 3 else []
        changes = [change(key, random.choice([None, 1.5, float(epoch)]), n) for n, key in enumerate(keys)]
        output.publish(epoch, [c for c in changes if c["k"] < "c"], [c for c in changes if c["k"] >= "c"])
    return output


def compacted(output: Output, before: int, *, target_bytes: int = HUGE, newest_only: bool = False) -> Compacted:
    task = output.sink().task
    return compact_output(task, before=Epoch(before), target_bytes=target_bytes, newest_only=newest_only)


def names(output: Output) -> list[str]:
    return [path for path, _ in parsed_files(output.store).values()]


def table_of(output: Output) -> dict[object, object]:
    found = current_table(output.url)
    assert found is not None
    return {row["k"]: row["v"] for row in found.rows.to_pylist()}


@pytest.mark.parametrize("keys", [("k",), ()], ids=["upserts", "appends"])
@pytest.mark.parametrize("moment", ["listing", "opening"])
def test_a_compaction_while_an_output_is_read_loses_and_repeats_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], moment: str
) -> None:
    output = filled(Output(tmp_path, keys=keys))
    compact_soon = [True]

    def compact_once() -> None:
        if compact_soon:
            compact_soon.clear()
            compacted(output, 6)

    class Slow(ObjectStore):
        """A store whose listing is passed by a compaction, or whose files are merged before they are opened."""

        def list(self, folder: str = "") -> Sequence[tuple[str, int]]:
            before = dict(ObjectStore.list(self, folder))
            if moment != "listing" or not compact_soon:
                return sorted(before.items())
            compact_once()
            return sorted(before.items() & dict(ObjectStore.list(self, folder)).items())  # neither the old nor the new

        def get(self, path: str) -> bytes | None:
            if moment == "opening" and path.startswith("part-"):
                compact_once()
            return ObjectStore.get(self, path)

    monkeypatch.setattr("mixedmode.sinks.table.ObjectStore", Slow)
    changes = read_output(output.url, changes=True).to_pylist()
    assert not compact_soon, "it was compacted meanwhile"
    assert in_order(changes) == output.expected()
    rows = read_output(output.url).to_pylist()
    if keys:
        assert {row["k"]: row["v"] for row in rows} == output.table()
    else:
        assert len(rows) == len(output.expected())


def test_other_readers_get_each_row_once_from_the_files_that_count(tmp_path: Path) -> None:
    """Before a compaction, and after one that was killed before it deleted anything."""
    output = filled(Output(tmp_path, keys=()))
    expected = len(output.expected())
    before = {path: (tmp_path / "out" / path).read_bytes() for path in names(output)}
    for is_compacted in (False, True):
        if is_compacted:
            compacted(output, 6)
            for path, data in before.items():
                (tmp_path / "out" / path).write_bytes(data)
        files = output_files(output.url)
        assert any("/compacted-" in file for file in files) == is_compacted
        with duckdb.connect() as connection:
            query = "SELECT count(*) FROM read_parquet($files)"
            assert connection.execute(query, {"files": files}).fetchall() == [(expected,)]
        assert sum(len(pd.read_parquet(file)) for file in files) == expected


@pytest.mark.parametrize(("file_format", "compression"), FORMATS)
@pytest.mark.parametrize("partitions", [(), BY_KEY.partitions], ids=["plain", "partitioned"])
def test_old_epochs_become_one_file_in_each_folder_and_no_row_is_lost(
    tmp_path: Path, file_format: FileFormat, compression: Compression, partitions: tuple[object, ...]
) -> None:
    output = filled(Output(tmp_path, file_format, FileLayout(compression, partitions)))  # type: ignore[arg-type]
    kept = {path for file, (path, _) in parsed_files(output.store).items() if file.first >= 6}
    compacted(output, 6)
    merged = set(names(output)) - kept
    folders = {file.folder for file in parsed_files(output.store)}
    assert len(merged) == len({path.rpartition("/")[0] for path in merged}) == len(folders), "one in each folder"
    assert kept <= set(names(output)), "later epochs are as they were"
    assert output.read() == output.expected()
    assert table_of(output) == output.table()
    assert compacted(output, 6).files_after == len(names(output)), "nothing more to do"


def test_a_merged_file_says_which_epochs_it_has(tmp_path: Path) -> None:
    output = filled(Output(tmp_path))
    compacted(output, 6)
    assert names(output)[0] == "compacted-0000000000-0000000005-0000000000.parquet"
    compacted(output, 8)
    assert names(output) == ["compacted-0000000000-0000000007-0000000001.parquet"], "merged files are merged again"
    assert output.read() == output.expected()


def test_files_are_merged_up_to_the_target_size(tmp_path: Path) -> None:
    output = filled(Output(tmp_path, "json"), 20)
    largest = 4 * max(size for _, size in parsed_files(output.store).values())
    compacted(output, 20, target_bytes=largest)
    sizes = [size for _, size in parsed_files(output.store).values()]
    assert max(sizes) <= largest
    assert len(sizes) > 2
    assert output.read() == output.expected()
    before = names(output)
    compacted(output, 20, target_bytes=largest)
    assert names(output) == before, "what is merged is left alone"


@pytest.mark.parametrize(("file_format", "compression"), FORMATS)
def test_only_the_newest_row_of_a_key_stays_if_asked(
    tmp_path: Path, file_format: FileFormat, compression: Compression
) -> None:
    output = filled(Output(tmp_path, file_format, FileLayout(compression)))
    compacted(output, 3)
    compacted(output, 6, newest_only=True)
    old = [row for epoch in range(6) for row in output.rows[epoch]]
    newest = {row["k"]: row for row in old}
    found = [row for row in output.read() if row["_epoch"] < 6]
    assert sorted(row["k"] for row in found) == sorted(newest), "one row a key"
    assert all({name: row[name] for name in newest[row["k"]]} == newest[row["k"]] for row in found)
    assert table_of(output) == output.table()
    assert compacted(output, 6, newest_only=True).files_after == len(names(output)), "nothing more to do"
    assert table_of(output) == output.table()


def test_a_merged_file_that_loses_rows_is_written_under_a_new_name(tmp_path: Path) -> None:
    output = filled(Output(tmp_path))
    compacted(output, 6)
    before = names(output)
    done = compacted(output, 6, newest_only=True)
    assert names(output) == [before[0].replace("-0000000000.parquet", "-0000000001.parquet"), *before[1:]]
    assert done.bytes_after < done.bytes_before
    assert table_of(output) == output.table()


def test_rows_without_a_key_all_stay(tmp_path: Path) -> None:
    output = filled(Output(tmp_path, keys=()))
    compacted(output, 8, newest_only=True)
    assert len(names(output)) == 1
    assert output.read() == output.expected()


# --- killed, and beside others ---------------------------------------------------------------------------------------

POINTS: list[CrashPoint] = ["compact-planned", "compact-written", "compact-merged", "compact-deleted"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("newest_only", [False, True])
def test_a_compaction_that_is_killed_loses_no_row_and_the_next_one_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: CrashPoint, newest_only: bool
) -> None:
    output = filled(Output(tmp_path, layout=BY_KEY))
    faults = Faults()
    with monkeypatch.context() as patch:
        faults.install(patch)
        with faults.armed(KillAtPoint(point, 6)), pytest.raises(Killed):
            compacted(output, 6, newest_only=newest_only)
    assert newest_only or output.read() == output.expected()
    assert table_of(output) == output.table()
    output.publish(8, [change("a", 8.0)])  # the job goes on
    compacted(output, 7)
    assert not superseded(parsed_files(output.store)), "nothing is left of the one that was killed"
    assert newest_only or output.read() == output.expected()
    assert table_of(output) == output.table()


def test_two_compactions_at_once_do_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins, and ends, when the first has written a merged file and not yet put it."""
    import mixedmode.connectors.files.compact as module

    output = filled(Output(tmp_path))
    reached: list[str] = []

    def meanwhile(name: str, epoch: int) -> None:
        if name == "compact-written" and not reached:
            reached.append(name)
            output.publish(8, [change("a", 8.0)])
            compacted(output, 8)
        assert epoch

    monkeypatch.setattr(module, "reach", meanwhile)
    compacted(output, 6)
    assert reached
    assert output.read() == output.expected()
    compacted(output, 8)
    assert not superseded(parsed_files(output.store))
    assert output.read() == output.expected()


def test_a_file_that_is_deleted_from_outside_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mixedmode.connectors.files.compact as module

    output = filled(Output(tmp_path))
    gone = output.staged[0][0].final_path

    def delete(name: str, epoch: int) -> None:
        if name == "compact-planned":
            output.store.delete([gone])
        assert epoch

    monkeypatch.setattr(module, "reach", delete)
    with pytest.raises(CorruptStateError) as caught:
        compacted(output, 6)
    assert str(caught.value) == (
        "files of the output are gone that were about to be merged, and the merged one is not there: they were deleted "
        "from outside, or rolled back by a job that was restored during the compaction. If it was the latter, delete "
        "the folder _compactions of the output and compact again; else restore the files from a copy. "
        f"folder={output.url}, merged=compacted-0000000000-0000000005-0000000000.parquet, first_input={gone}"
    )


# --- what others make of merged files --------------------------------------------------------------------------------


def test_going_back_behind_a_merged_file_is_refused_and_to_its_end_is_not(tmp_path: Path) -> None:
    output = filled(Output(tmp_path, marks_epochs=True))
    compacted(output, 5)
    sink, before = output.sink(), names(output)
    assert (sink.oldest_published(), sink.newest_published()) == (0, 7)
    with pytest.raises(InvalidJobError) as caught:
        sink.roll_back(Epoch(2))
    assert str(caught.value) == (
        "the job goes back to an epoch that a compaction has merged with later ones, so their rows cannot be taken out "
        "of the output. Nothing was changed. Give this output a new path, or restore its folder from a copy. "
        f"folder={output.url}, file=compacted-0000000000-0000000004-0000000000.parquet, epoch=2"
    )
    assert names(output) == before
    assert sink.published_otherwise(Epoch(2), output.staged[2]) == [
        "compacted-0000000000-0000000004-0000000000.parquet"
    ]
    assert sink.published_otherwise(Epoch(4), output.staged[4]) == []
    assert all(sink.problem(file, reads=True) is None for file in output.staged[4]), "its rows are in the merged file"
    assert all(sink.problem(file, reads=True) is None for file in output.staged[6])
    sink.roll_back(Epoch(4))
    output.rows = {epoch: rows for epoch, rows in output.rows.items() if epoch <= 4}
    assert output.read() == output.expected()
    assert read_marker(output.store, Epoch(5)) is None
    assert read_marker(output.store, Epoch(4)) is not None


def test_a_batch_output_is_not_compacted(tmp_path: Path) -> None:
    output = Output(tmp_path)
    output.sink(replaces=True).prepare(FIELDS, ["k"], is_fresh=True)
    with pytest.raises(InvalidJobError, match="this output is a batch run's, which the next run replaces as a whole"):
        compacted(output, 1)


def test_a_folder_without_output_is_not_compacted(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="there is no output of a job to compact here"):
        compacted(Output(tmp_path), 1)


# --- the plan --------------------------------------------------------------------------------------------------------


@settings(max_examples=random_cases(100))
@given(
    files=st.dictionaries(
        st.tuples(st.sampled_from(["", "k=a/"]), st.integers(0, 9), st.integers(0, 3)), st.integers(0, 100)
    ),
    merged=st.sampled_from([None, 0, 3]),
    before=st.integers(0, 11),
    target=st.integers(1, 300),
)
def test_a_plan_is_of_whole_epochs_of_one_folder(
    files: dict[tuple[str, int, int], int], merged: int | None, before: int, target: int
) -> None:
    sizes = {
        OutputFile(folder, Epoch(epoch), Epoch(epoch), subtask, -1, "json"): size
        for (folder, epoch, subtask), size in files.items()
        if merged is None or epoch > merged
    }
    if merged is not None:
        sizes[OutputFile("", Epoch(0), Epoch(merged), -1, 4, "json")] = 50
    plan = plan_merges(sizes, before=Epoch(before), target_bytes=target, number=5, extension="json")
    taken = [file for _, inputs in plan for file in inputs]
    assert len(taken) == len(set(taken))
    for name, inputs in plan:
        inside = [f for f in sizes if f.folder == name.folder and name.first <= f.first <= f.last <= name.last]
        assert sorted(inside) == list(inputs), "all that the name says, in the order of their rows"
        assert superseded([*sizes, name]) >= set(inputs)
        assert name.last < before
        assert sum(sizes[file] for file in inputs) <= target
        assert len(inputs) > 1
    ranges = sorted((name.folder, name.first, name.last) for name, _ in plan)
    assert all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(ranges)), "apart"


def test_names_of_merged_files_are_split_into_the_same_parts() -> None:
    path = output_paths.compacted_path(Epoch(3), Epoch(12), 7, "json.gz", folder="k=a%2Fb/")
    assert path == "k=a%2Fb/compacted-0000000003-0000000012-0000000007.json.gz"
    assert output_paths.parse_output_path(path) == OutputFile("k=a%2Fb/", Epoch(3), Epoch(12), -1, 7, "json.gz")
    assert output_paths.parse_output_path("compacted-0000000012-0000000003-0000000007.json") is None


# --- in an object store ----------------------------------------------------------------------------------------------


def test_partitions_markers_and_compaction_are_the_same_in_an_object_store(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    output = Output(
        tmp_path, "json", FileLayout("gzip", BY_KEY.partitions), marks_epochs=True, place=f"{s3.new_bucket()}/out"
    )
    for epoch in range(3):
        output.publish(epoch, [change(key, float(epoch)) for key in ("a/b", "50%", "ü", "#:*?'\\", None)])
    assert output.read() == output.expected()
    compacted(output, 2)
    assert len(names(output)) == 2 * 5
    assert output.read() == output.expected()
    assert table_of(output) == output.table()
    output.sink().roll_back(Epoch(1))
    del output.rows[2]
    assert output.read() == output.expected()
