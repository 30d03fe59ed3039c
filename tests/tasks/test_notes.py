"""Notes of tasks: what a task has noted is what the driver reads, and a note that cannot be written harms nobody."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import Epoch
from mixedmode.tasks import notes as notes_module
from mixedmode.tasks.notes import SILENT, Note, Notes, TaskNote, notes_in
from mixedmode.tasks.numbers import TaskNumbers


@pytest.fixture(autouse=True)
def task_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notes are those of task 5, and every change is written."""
    monkeypatch.setattr(notes_module, "numbers_from_spark", lambda: TaskNumbers(5, 0, 0))
    monkeypatch.setattr(notes_module, "_INTERVAL_SECONDS", 0.0)


def fill(note: Note) -> None:
    batch = pa.record_batch([[1, 2, 3]], names=["k"])
    assert [one.num_rows for one in note.counted(iter([batch, batch]))] == [3, 3]
    note.read(40)
    note.folded(5, 4)
    note.sent(3)
    note.unfolded(1)
    note.received(2, bytes_spilled=7)
    note.processed(0.25)


def test_what_a_task_notes_is_what_the_driver_reads(tmp_path: Path) -> None:
    step = "a step/with.any: name"
    fill(Notes(tmp_path, Epoch(3)).of_task("map", step, bytes_total=80))
    fill(Notes(tmp_path, Epoch(4)).of_task("map", step))
    (found,) = notes_in(tmp_path, Epoch(3))
    note = TaskNote(
        80, 40, records=6, records_folded=6, records_sent=4, rows=6, is_sorted=1, processed=0.25, bytes_spilled=7
    )
    assert found == ("map", step, note)


def test_the_end_of_a_part_of_the_work_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "_INTERVAL_SECONDS", 1e9)
    note = Notes(tmp_path).of_task("map", "step", bytes_total=100)

    def written() -> TaskNote:
        ((_, _, found),) = notes_in(tmp_path, Epoch(0))
        return found

    note.read(50)
    note.read(50)
    assert written().bytes_read == 50, "the first one, and then nothing for a while"
    note.folded(10, 4)
    assert written() == TaskNote(100, 100, records_folded=10, rows=4)
    note.sent(10)
    assert written().records_sent == 10
    note.processed(0.5)
    assert written().processed == 0
    note.stores()
    assert (written().is_sorted, written().processed, written().is_stored) == (1, 1, 1)


def test_a_task_without_a_folder_asks_spark_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "numbers_from_spark", lambda: pytest.fail("not a task of Spark"))
    fill(SILENT.of_task("subtask", "step"))


def test_a_folder_that_is_gone_harms_neither_task_nor_driver(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    fill(Notes(gone).of_task("map", "step"))
    assert list(notes_in(gone, Epoch(0))) == []


@given(st.binary(max_size=90), st.sampled_from(["0.map.1.step", "0.x.1.step", "0.", "0.map", "0.map.1"]))
def test_a_file_that_is_no_whole_note_is_skipped(data: bytes, name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        found = list(notes_in(Path(folder), Epoch(0)))
    assert len(found) == (len(data) == 80 and name == "0.map.1.step")
