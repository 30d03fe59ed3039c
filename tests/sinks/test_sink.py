"""Sinks as the driver sees them: what a start may find in the folder, and publication that may be repeated."""

import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.cli.messages import errors_as_messages
from mixedmode.connectors.console.sink import CONSOLE_ROWS, ConsoleSink
from mixedmode.connectors.files import claim
from mixedmode.connectors.files.claim import claim_of_folder, claim_of_run
from mixedmode.connectors.files.epoch_markers import EpochMarker, MarkedFile
from mixedmode.connectors.files.sink import FileSink
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError, RetryableError
from mixedmode.sinks import Sink, SinkTask, staging_folder
from mixedmode.sinks.printed import print_rows
from mixedmode.sinks.publish import published_files
from tests import staging
from tests.sinks.outputs import marked_epochs, read_marker

FIELDS = [pa.field("k", pa.string()), pa.field("n", pa.int64())]
NO_STATE_HERE = (
    "the output folder holds the output of an earlier run whose checkpoints are not here, and the two "
    "would be mixed. Give this output a new path, empty the folder, or put the old checkpointing.dir back. "
    "folder={}"
)
WRITTEN_BY_ANOTHER = (
    "a newer start writes to this output, so this one stops, and publishes nothing more. If the newer one is the right "
    "one, leave it. If it is unwanted, stop it, and start this job again. If both are wanted, give each an output of "
    "its own, and a checkpointing.dir of its own if it has one. folder={}, {}"
)


def stage(
    sink: Sink, folder: Path, values: Sequence[int], *, epoch: int = 0, subtask: int = 0, attempt: str = "a"
) -> StagedFile:
    local = folder / "local" / attempt
    table = pa.table({"k": [f"k{n}" for n in values], "n": pa.array(values, pa.int64())})
    (file,) = staging.stage(sink.task, local, f"{attempt}{epoch}x{subtask}", table, epoch=epoch, subtask=subtask)
    (local / "output.parquet").unlink()
    return file


def published(sink: FileSink) -> dict[str, list[int]]:
    return {
        path: pq.read_table(pa.BufferReader(sink.store.get(path))).column("n").to_pylist()
        for path, _ in published_files(sink.store)
    }


# --- files -----------------------------------------------------------------------------------------------------------


def continuous(folder: Path, *, job: str = "job", checkpoints: str = "/checkpoints") -> FileSink:
    return FileSink(job, str(folder / "out"), "parquet", replaces=False, claim=claim_of_folder(checkpoints))


def batch(folder: Path, *, marks_epochs: bool = False) -> FileSink:
    return FileSink(
        "job", str(folder / "out"), "parquet", replaces=True, claim=claim_of_run(), marks_epochs=marks_epochs
    )


def test_files_appear_when_they_are_published_and_not_before(tmp_path: Path) -> None:
    sink = continuous(tmp_path)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(sink, tmp_path, [1], subtask=0), stage(sink, tmp_path, [2], subtask=1)]
    assert published(sink) == {}
    sink.publish(Epoch(0), files)
    expected = {files[0].final_path: [1], files[1].final_path: [2]}
    assert published(sink) == expected
    sink.publish(Epoch(0), files)
    assert published(sink) == expected, "a repeat changes nothing"


def test_a_job_that_goes_on_finds_its_output_and_keeps_it(tmp_path: Path) -> None:
    first = continuous(tmp_path)
    first.prepare(FIELDS, ["k"], is_fresh=True)
    file = stage(first, tmp_path, [1])
    first.publish(Epoch(0), [file])
    again = continuous(tmp_path)
    again.prepare(FIELDS, ["k"], is_fresh=False)
    assert published(again) == {file.final_path: [1]}


def test_a_job_without_checkpoints_does_not_mix_with_an_earlier_run(tmp_path: Path) -> None:
    first = continuous(tmp_path)
    first.prepare(FIELDS, ["k"], is_fresh=True)
    first.prepare(FIELDS, ["k"], is_fresh=True)  # it crashed before it published anything
    first.publish(Epoch(0), [stage(first, tmp_path, [1])])
    with pytest.raises(InvalidJobError) as caught:
        continuous(tmp_path).prepare(FIELDS, ["k"], is_fresh=True)
    assert str(caught.value) == NO_STATE_HERE.format(tmp_path / "out")


def test_a_job_that_goes_on_without_its_output_folder_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        continuous(tmp_path).prepare(FIELDS, ["k"], is_fresh=False)
    assert str(caught.value) == (
        "the job goes on from a checkpoint, and the output it has written so far is not in this folder. Put the "
        f"old path of this output back, or move its whole folder to the new path. folder={tmp_path / 'out'}"
    )


@pytest.mark.parametrize(
    ("fields", "keys", "job", "difference"),
    [
        (FIELDS, ["k"], "other", "job was 'job' and is 'other'"),
        (FIELDS, ["n"], "job", "key_columns was (k) and is (n)"),
        (FIELDS[:1], ["k"], "job", "columns was (k string, n int64) and is (k string)"),
    ],
)
def test_the_folder_of_another_output_is_refused(
    tmp_path: Path, fields: list[pa.Field], keys: list[str], job: str, difference: str
) -> None:
    continuous(tmp_path).prepare(FIELDS, ["k"], is_fresh=True)
    with pytest.raises(InvalidJobError) as caught:
        continuous(tmp_path, job=job).prepare(fields, keys, is_fresh=True)
    assert str(caught.value) == (
        "the output folder holds the output of another job, or of this one with other columns, and files of both "
        f"would be mixed: {difference}. Give this output a new path, or put the setting back. "
        f"folder={tmp_path / 'out'}"
    )


def test_a_continuous_job_does_not_take_over_the_output_of_a_batch_run(tmp_path: Path) -> None:
    batch(tmp_path).prepare(FIELDS, ["k"], is_fresh=True)
    with pytest.raises(InvalidJobError, match="would be mixed: run was 'batch' and is 'continuous'"):
        continuous(tmp_path).prepare(FIELDS, ["k"], is_fresh=True)


def test_a_batch_run_takes_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    for values in ([[1], [2]], [[3]]):
        sink = batch(tmp_path)
        sink.prepare(FIELDS, ["k"], is_fresh=True)
        files = [stage(sink, tmp_path, v, subtask=i, attempt=f"run{v[0]}") for i, v in enumerate(values)]
        sink.publish(Epoch(0), files)
        assert published(sink) == {file.final_path: v for file, v in zip(files, values, strict=True)}
        sink.publish(Epoch(0), files)
        assert published(sink) == {file.final_path: v for file, v in zip(files, values, strict=True)}, "a repeat"


def test_the_publication_of_a_batch_run_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    before, now = batch(tmp_path), batch(tmp_path)
    before.prepare(FIELDS, ["k"], is_fresh=True)
    before.publish(Epoch(0), [stage(before, tmp_path, [n], subtask=n, attempt="before") for n in range(3)])
    now.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(now, tmp_path, [10 + n], subtask=n, attempt="now") for n in range(2)]
    now.store.rename_all([(files[0].staged_path, files[0].final_path)])
    now.publish(Epoch(0), files)
    assert published(now) == {files[0].final_path: [10], files[1].final_path: [11]}


def test_what_a_batch_run_that_died_has_staged_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    sink = batch(tmp_path)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    file = stage(sink, tmp_path, [1])
    batch(tmp_path).prepare(FIELDS, ["k"], is_fresh=True)
    assert not sink.store.exists(file.staged_path)


def test_of_two_batch_runs_at_the_same_time_the_newer_one_writes_the_output(tmp_path: Path) -> None:
    """Both published: rows of both could remain, or fewer, though both had ended well."""
    older, newer = batch(tmp_path), batch(tmp_path)
    for sink in (older, newer):
        sink.prepare(FIELDS, ["k"], is_fresh=True)
    of_older = [stage(older, tmp_path, [n], subtask=n, attempt="older") for n in range(4)]
    of_newer = [stage(newer, tmp_path, [10 + n], subtask=n, attempt="newer") for n in range(2)]
    with pytest.raises(FencedError) as caught:
        older.publish(Epoch(0), of_older)
    newest = f"host={socket.gethostname()}, process={os.getpid()}, run="
    assert str(caught.value).startswith(WRITTEN_BY_ANOTHER.format(tmp_path / "out", newest))
    newer.publish(Epoch(0), of_newer)
    assert published(newer) == {of_newer[0].final_path: [10], of_newer[1].final_path: [11]}


@pytest.mark.parametrize("marks_epochs", [False, True])
def test_a_batch_run_that_is_paused_in_its_publication_changes_nothing_of_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks_epochs: bool
) -> None:
    """All of the newer one is tried at each access to the disk of the paused one."""
    monkeypatch.setattr(claim, "LOOK_SECONDS", 0.0)
    for at in itertools.count():
        folder = tmp_path / str(at)
        before, older, newer = (batch(folder, marks_epochs=marks_epochs) for _ in range(3))
        run_through(before, folder, [20, 21, 22, 23], "before")
        older.prepare(FIELDS, ["k"], is_fresh=True)
        of_older = [stage(older, folder, [n], subtask=n, attempt="older") for n in range(2)]
        of_newer = list[dict[str, list[int]]]()

        def whole_run(newer: FileSink = newer, folder: Path = folder, ended: Any = of_newer) -> None:
            with contextlib.suppress(RetryableError):
                ended.append(run_through(newer, folder, [10, 11, 12], "newer"))

        expected = {file.final_path: [n] for n, file in enumerate(of_older)}
        with monkeypatch.context() as patched:
            began = called_at(at, patched, whole_run)
            try:
                older.publish(Epoch(0), of_older)
            except FencedError:
                (expected,) = of_newer
        if not began:
            break
        assert published(newer) == expected, at
        marker = read_marker(newer.store, Epoch(0))
        assert (marker is not None) == marks_epochs
        assert marker is None or [one.path for one in marker.files] == sorted(expected), at
    assert at > 10, "there are many moments"


def test_a_start_waits_for_no_publication_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "LOOK_SECONDS", 0.0)
    job, other, same = (continuous(tmp_path, checkpoints=place) for place in ("/a", "/b", "/a"))
    job.prepare(FIELDS, ["k"], is_fresh=True)
    with claim.publication(job.store, claim_of_folder("/a")):
        same.prepare(FIELDS, ["k"], is_fresh=True)  # a start over the same checkpoints, which generations fence
        same.publish(Epoch(0), [stage(same, tmp_path, [1])])
        with pytest.raises(RetryableError, match="another start publishes to this output") as caught:
            other.prepare(FIELDS, ["k"], is_fresh=False)
    assert str(caught.value).endswith(f"folder={tmp_path / 'out'}, checkpoints=/a, host={socket.gethostname()}")
    other.prepare(FIELDS, ["k"], is_fresh=False)
    with pytest.raises(FencedError):
        job.publish(Epoch(1), [stage(job, tmp_path, [1], epoch=1)])


def run_through(sink: FileSink, folder: Path, values: Sequence[int], attempt: str) -> dict[str, list[int]]:
    """Run a batch run to its end, and return what it has published."""
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(sink, folder, [value], subtask=n, attempt=attempt) for n, value in enumerate(values)]
    sink.publish(Epoch(0), files)
    return {file.final_path: [value] for file, value in zip(files, values, strict=True)}


def called_at(at: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> list[int]:
    """Let an action happen before one access to the disk. Return a list that it is in when it has happened."""
    numbers, happened = itertools.count(), list[int]()

    def accessed(access: Callable[..., Any]) -> Callable[..., Any]:
        def either(*given: Any, **named: Any) -> Any:
            if not happened and next(numbers) == at:
                happened.append(at)
                action()
            return access(*given, **named)

        return either

    for name in ("get", "size", "chunks", "list", "delete", "_rename"):
        monkeypatch.setattr(LocalFiles, name, accessed(getattr(LocalFiles, name)))
    return happened


def test_of_two_jobs_with_one_output_and_two_checkpoint_folders_the_newer_start_writes(tmp_path: Path) -> None:
    """Both may begin as long as neither has published, such as in a long backlog. Rows came twice."""
    older, newer = continuous(tmp_path, checkpoints="/older"), continuous(tmp_path, checkpoints="s3://b/newer")
    for sink in (older, newer):
        sink.prepare(FIELDS, ["k"], is_fresh=True)
    file = stage(newer, tmp_path, [1], subtask=1, attempt="newer")
    newer.publish(Epoch(0), [file])
    with pytest.raises(FencedError) as caught:
        older.publish(Epoch(0), [stage(older, tmp_path, [2], subtask=0, attempt="older")])
    assert str(caught.value) == WRITTEN_BY_ANOTHER.format(tmp_path / "out", "checkpoints=s3://b/newer")
    assert published(newer) == {file.final_path: [1]}


def test_starts_over_one_checkpoint_folder_are_one_writer(tmp_path: Path) -> None:
    """Generations fence them. An older start that was paused before it claimed the output stopped the newer one."""
    paused, newer = continuous(tmp_path), continuous(tmp_path)
    newer.prepare(FIELDS, ["k"], is_fresh=True)
    paused.prepare(FIELDS, ["k"], is_fresh=True)
    file = stage(newer, tmp_path, [1])
    newer.publish(Epoch(0), [file])
    assert published(newer) == {file.final_path: [1]}


@pytest.mark.parametrize("damage", [b"", b"{", b'{"kind": "another"}'])
def test_a_damaged_claim_is_written_anew_by_a_start(tmp_path: Path, damage: bytes) -> None:
    sink = continuous(tmp_path)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    file = stage(sink, tmp_path, [1])
    (tmp_path / "out" / "_claim").write_bytes(damage)
    with pytest.raises(RetryableError, match="Start the job again: it writes the claim anew"):
        sink.publish(Epoch(0), [file])
    again = continuous(tmp_path)
    again.prepare(FIELDS, ["k"], is_fresh=False)
    again.publish(Epoch(0), [file])
    assert published(again) == {file.final_path: [1]}


def test_a_command_that_looks_at_the_output_of_a_running_job_does_not_take_it_over(tmp_path: Path) -> None:
    job = continuous(tmp_path)
    job.prepare(FIELDS, ["k"], is_fresh=True)
    FileSink("job", str(tmp_path / "out"), "parquet", replaces=False).prepare(FIELDS, ["k"], is_fresh=False)
    file = stage(job, tmp_path, [1])
    job.publish(Epoch(0), [file])
    assert published(job) == {file.final_path: [1]}


def test_a_column_that_csv_has_no_form_for_is_refused(tmp_path: Path) -> None:
    sink = FileSink("job", str(tmp_path / "out"), "csv", replaces=False)
    with pytest.raises(InvalidJobError) as caught:
        sink.prepare([pa.field("k", pa.string()), pa.field("tags", pa.list_(pa.string()))], ["k"], is_fresh=True)
    assert str(caught.value) == (
        "the output cannot be CSV: it has no form for nested columns and the like. Write Parquet or JSON, or make it "
        "text with to_json(...) in a sql step. column=tags, type=list<item: string>"
    )


# --- markers ---------------------------------------------------------------------------------------------------------


def test_an_epoch_is_marked_after_its_files_and_naming_it_again_changes_nothing(tmp_path: Path) -> None:
    sink = FileSink("job", str(tmp_path / "out"), "parquet", replaces=False, marks_epochs=True)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(sink, tmp_path, [1, 2]), stage(sink, tmp_path, [3], subtask=1)]
    assert read_marker(sink.store, Epoch(0)) is None
    for _ in range(2):
        sink.publish(Epoch(0), files)
        sink.publish(Epoch(1), [])
        marker = read_marker(sink.store, Epoch(0))
        assert marker == EpochMarker(
            Epoch(0), 3, tuple(MarkedFile(f.final_path, f.bytes, f.rows, f.checksum) for f in files)
        )
        assert read_marker(sink.store, Epoch(1)) == EpochMarker(Epoch(1), 0, ())
    assert (tmp_path / "out" / "_epochs" / "0000000001").is_file()


def test_a_file_that_cannot_be_published_leaves_its_epoch_unmarked(tmp_path: Path) -> None:
    sink = FileSink("job", str(tmp_path / "out"), "parquet", replaces=False, marks_epochs=True)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(sink, tmp_path, [1]), stage(sink, tmp_path, [3], subtask=1)]
    sink.store.delete([files[1].staged_path])
    with pytest.raises(CorruptStateError):
        sink.publish(Epoch(0), files)
    assert marked_epochs(sink.store) == ()


def test_markers_of_later_epochs_are_rolled_back_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = FileSink("job", str(tmp_path / "out"), "parquet", replaces=False, marks_epochs=True)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    for epoch in range(3):
        sink.publish(Epoch(epoch), [stage(sink, tmp_path, [epoch], epoch=epoch)])
    deleted: list[str] = []
    delete = ObjectStore.delete

    def told(store: ObjectStore, paths: Sequence[str]) -> None:
        deleted.extend(paths)
        delete(store, paths)

    monkeypatch.setattr(ObjectStore, "delete", told)
    sink.roll_back(Epoch(0))
    assert deleted == [
        "_epochs/0000000002",
        "_epochs/0000000001",
        "part-0000000002-0000000000.parquet",
        "part-0000000001-0000000000.parquet",
    ]
    assert marked_epochs(sink.store) == (0,)
    again = stage(sink, tmp_path, [10, 11], epoch=1, attempt="again")
    sink.publish(Epoch(1), [again])
    marker = read_marker(sink.store, Epoch(1))
    assert marker is not None
    assert marker.rows == 2, "the repeat has a marker of its own"


def test_a_batch_run_takes_back_the_marker_of_the_one_before_it(tmp_path: Path) -> None:
    seen: list[bool] = []
    for number in range(2):
        sink = FileSink("job", str(tmp_path / "out"), "parquet", replaces=True, marks_epochs=True)
        sink.prepare(FIELDS, ["k"], is_fresh=True)
        files = [stage(sink, tmp_path, [number], attempt=f"run{number}")]
        sink.publish(Epoch(0), files)
        marker = read_marker(sink.store, Epoch(0))
        assert marker is not None
        seen.append(marker.files[0].checksum == files[0].checksum)
    assert seen == [True, True]


# --- the console -----------------------------------------------------------------------------------------------------


class Screen:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[list[int], int]] = []
        self.names: list[str] = []

    def __call__(self, rows: pa.Table, total: int, name: str) -> None:
        self.shown.append((rows.column("n").to_pylist(), total))
        self.names.append(name)


def test_the_console_shows_an_epoch_once_however_often_it_is_published(tmp_path: Path) -> None:
    screen = Screen()
    sink = ConsoleSink(str(tmp_path / "console"), screen)
    sink.prepare(FIELDS, ["k"], is_fresh=True)
    files = [stage(sink, tmp_path, [1, 2], subtask=0), stage(sink, tmp_path, [3], subtask=1)]
    sink.publish(Epoch(0), files)
    sink.publish(Epoch(0), files)
    ConsoleSink(str(tmp_path / "console"), screen).publish(Epoch(0), files)
    assert screen.shown == [([1, 2, 3], 3)]
    assert sink.store.list() == [], "nothing stays staged"


def test_the_console_shows_the_first_rows_and_how_many_there_are(tmp_path: Path) -> None:
    screen = Screen()
    sink = ConsoleSink(str(tmp_path / "console"), screen)
    sink.publish(Epoch(0), [stage(sink, tmp_path, list(range(15)), subtask=n) for n in range(3)])
    assert screen.shown == [([*range(15), *range(CONSOLE_ROWS - 15)], 45)]


def test_an_epoch_without_rows_shows_nothing(tmp_path: Path) -> None:
    screen = Screen()
    ConsoleSink(str(tmp_path / "console"), screen).publish(Epoch(0), [])
    assert screen.shown == []


def test_an_epoch_of_which_one_file_was_shown_before_a_crash_shows_the_rest(tmp_path: Path) -> None:
    screen = Screen()
    sink = ConsoleSink(str(tmp_path / "console"), screen)
    files = [stage(sink, tmp_path, [n], subtask=n) for n in range(2)]
    sink.store.delete([files[0].staged_path])
    sink.publish(Epoch(0), files)
    assert screen.shown == [([1], 2)]


def test_rows_are_printed_as_names_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"k": ["a", None], "n": [1, 2], "_op": ["insert", "delete"], "_epoch": [7, 7]})
    print_rows(rows, 2, "")
    print_rows(rows, 99, "late")
    print_rows(rows[:1], 1, "")
    assert capsys.readouterr().out == (
        "epoch 7: 2 rows\n  k=a  n=1  _op=insert\n  k=None  n=2  _op=delete\n"
        "epoch 7, late: 99 rows, the first 2\n  k=a  n=1  _op=insert\n  k=None  n=2  _op=delete\n"
        "epoch 7: 1 row\n  k=a  n=1  _op=insert\n"
    )


def piped(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make standard output a pipe, whose writer keeps small lines in a buffer. Return the end of the reader."""
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdout", os.fdopen(writer, "w"))
    os.set_blocking(reader, False)
    return reader


def test_printed_rows_have_left_the_process_so_a_kill_does_not_lose_them(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = piped(monkeypatch)
    print_rows(pa.table({"k": ["a"], "_epoch": [7]}), 1, "")
    assert os.read(reader, 1000) == b"epoch 7: 1 row\n  k=a\n"
    os.close(reader)
    sys.stdout.close()


def test_rows_whose_reader_has_ended_are_not_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = ConsoleSink(str(tmp_path / "console"), print_rows, "late")
    file = stage(sink, tmp_path, [1])
    os.close(piped(monkeypatch))
    with pytest.raises(typer.Exit), errors_as_messages():
        sink.publish(Epoch(0), [file])
    assert capsys.readouterr().err == (
        "error RetryableError\nthe program that reads standard output has ended, so the rows of an epoch cannot be "
        "printed. Start the job again with a reader: it prints them then. Or give the output another sink. epoch=0, "
        "output='late'\n"
    )
    assert sink.store.size(file.staged_path) is not None, "the next start prints them"
    sys.stdout.close()  # nothing is left in it that Python could complain about


@pytest.mark.parametrize(
    ("checkpoints", "folder"),
    [("run/checkpoints", "run/checkpoints/staged"), ("s3://b/c/", "s3://b/c/staged"), (Path("c"), "c/staged")],
)
def test_the_console_stages_below_the_checkpoints(checkpoints: Path | str, folder: str) -> None:
    assert staging_folder(checkpoints) == folder


def test_named_outputs_on_the_console_do_not_share_a_folder() -> None:
    names = ["", "late", "dead-letter", "a/b", "a b", ".."]
    folders = [staging_folder("c", name) for name in names]
    assert folders[:3] == ["c/staged", "c/staged-late", "c/staged-dead-letter"]
    assert len(set(folders)) == len(names)
    assert all(Path(folder).parent == Path("c") for folder in folders), "a name is one folder"


def test_the_console_says_which_output_it_shows(tmp_path: Path) -> None:
    screen = Screen()
    for name in ("", "late"):
        sink = ConsoleSink(staging_folder(tmp_path, name), screen, name)
        sink.publish(Epoch(0), [stage(sink, tmp_path, [1])])
    assert screen.names == ["", "late"]


def test_what_tasks_need_of_a_sink_is_a_value() -> None:
    sink = FileSink("job", "out", "json", replaces=False)
    assert sink.task == SinkTask("out", "json")
    assert replace(sink.task, url="elsewhere").url == "elsewhere"
