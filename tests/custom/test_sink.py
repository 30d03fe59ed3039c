"""A sink of the user's own, without Spark: what reaches it, when, and what is left of what was staged."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.checkpoint.types import Epoch, Generation, StagedFile
from mixedmode.connectors import CustomSink
from mixedmode.connectors.custom.sink import CustomSinkWriter
from mixedmode.connectors.custom.spec import CustomSinkSpec
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.sinks import SinkContext
from tests.staging import stage

FIELDS = [pa.field("shop", pa.string()), pa.field("sold", pa.int64())]


class Notes(CustomSink):
    """Keeps epochs as JSON, one file each, and notes its calls."""

    def __init__(self, folder: str, secret: str = "") -> None:
        self.folder, self.secret = Path(folder), secret

    def open(self, job: str, output: str, columns: pa.Schema, key_columns: Sequence[str]) -> None:
        self.folder.mkdir(exist_ok=True)
        self._note("open", job, output, columns.names, list(key_columns))

    def publish(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        rows = [row for batch in batches for row in batch.to_pylist()]
        self._note("publish", epoch, len(rows))
        (self.folder / f"epoch-{epoch}").write_text(json.dumps(rows))

    def rows(self, epoch: int) -> Any:
        return json.loads((self.folder / f"epoch-{epoch}").read_text())

    def _note(self, *what: Any) -> None:
        with (self.folder / "calls").open("a") as file:
            file.write(json.dumps(what) + "\n")


class KnowingNotes(Notes):
    """Also tells what it has, and forgets."""

    def published(self) -> int | None:
        return max((int(path.name.removeprefix("epoch-")) for path in self.folder.glob("epoch-*")), default=None)

    def roll_back(self, after: int) -> None:
        for path in self.folder.glob("epoch-*"):
            if int(path.name.removeprefix("epoch-")) > after:
                path.unlink()


class FailingNotes(Notes):
    """Fails, with its secret."""

    def publish(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        msg = f"{self.secret} was not taken\nby the server"
        raise ConnectionError(msg)


class LeavingNotes(Notes):
    """Ends the process, as a client of a command line does when it cannot connect."""

    def publish(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        raise SystemExit(0)


class WrongNotes(KnowingNotes):
    """Says what is no epoch."""

    def published(self) -> Any:
        return "two"


class Place:
    """A sink over a class of this module, and what its tasks would stage."""

    def __init__(self, folder: Path, kind: type[Notes] = Notes, *, replaces: bool = False, **args: str) -> None:
        self.folder = folder
        spec = CustomSinkSpec.model_validate(
            {
                "format": "custom",
                "class": f"{__name__}:{kind.__name__}",
                "args": {"folder": str(folder / "notes"), **args},
            }
        )
        session: Any = None
        context = SinkContext(
            job="sales",
            name="late",
            generation=Generation(1),
            base=str(folder / "base"),
            replaces=replaces,
            session=session,
            show=lambda *_: None,
        )
        self.sink = CustomSinkWriter(spec.model_copy(update={"folder_": str(Path(__file__).parents[2])}), context)
        self.notes = Notes(str(folder / "notes"))

    def prepare(self, key_columns: Sequence[str] = (), *, is_fresh: bool = True) -> None:
        self.sink.prepare([*FIELDS, pa.field("_op", pa.string())], key_columns, is_fresh=is_fresh)

    def stage(self, epoch: int, *subtasks: list[tuple[str, int]]) -> list[StagedFile]:
        staged: list[StagedFile] = []
        for number, rows in enumerate(subtasks):
            scratch = self.folder / f"scratch-{epoch}-{number}"
            table = pa.table({"shop": [shop for shop, _ in rows], "sold": [sold for _, sold in rows]})
            staged += stage(self.sink.task, scratch, f"u{number}", table, epoch=epoch, subtask=number)
        return staged

    def staged(self) -> list[str]:
        return [path for path, _ in self.sink.store.list()]

    def calls(self) -> list[Any]:
        return [json.loads(line) for line in (self.folder / "notes" / "calls").read_text().splitlines()]


def test_an_epoch_reaches_the_class_with_all_rows_in_order_and_is_not_kept(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare(["shop"])
    place.sink.publish(Epoch(0), place.stage(0, [("a", 1), ("b", 2)], [("c", 3)]))
    place.sink.publish(Epoch(1), [])
    assert place.calls() == [
        ["open", "sales", "late", ["shop", "sold"], ["shop"]],
        ["publish", 0, 3],
        ["publish", 1, 0],
    ]
    assert place.notes.rows(0) == [{"shop": "a", "sold": 1}, {"shop": "b", "sold": 2}, {"shop": "c", "sold": 3}]
    assert not place.staged()


def test_a_repeat_after_a_crash_never_hands_over_a_part(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    staged = place.stage(0, [("a", 1)], [("b", 2)])
    for _ in range(2):  # a crash before anything was deleted
        kept = [(file.staged_path, place.sink.store.get(file.staged_path)) for file in staged]
        place.sink.publish(Epoch(0), staged)
        for path, data in kept:
            assert data is not None
            place.sink.store.put(path, data)
    place.sink.store.delete([staged[0].staged_path])  # a crash between two deletions
    place.sink.publish(Epoch(0), staged)
    place.sink.publish(Epoch(0), staged)
    assert place.calls()[1:] == [["publish", 0, 2]] * 2
    assert not place.staged()


def test_rows_that_are_gone_are_noticed_where_the_class_tells_what_it_has(tmp_path: Path) -> None:
    place = Place(tmp_path, KnowingNotes)
    place.prepare()
    place.sink.publish(Epoch(0), place.stage(0, [("a", 1)]))
    staged = place.stage(1, [("b", 2)])
    assert place.sink.problem(staged[0], reads=True) is None
    place.sink.store.delete([staged[0].staged_path])
    assert place.sink.problem(staged[0], reads=True) is not None
    with pytest.raises(CorruptStateError, match="a committed output is gone, and the custom sink does not have its"):
        place.sink.publish(Epoch(1), staged)
    place.sink.publish(Epoch(1), place.stage(2, [("b", 2)]))
    assert place.sink.problem(staged[0], reads=True) is None, "the class has had it"
    assert place.sink.newest_published() == 1


def test_going_back_forgets_what_waits_and_asks_the_class_to(tmp_path: Path) -> None:
    place = Place(tmp_path, KnowingNotes)
    place.prepare()
    for epoch in range(3):
        place.sink.publish(Epoch(epoch), place.stage(epoch, [("a", epoch)]))
    place.stage(3, [("a", 3)])
    assert place.sink.roll_back(Epoch(1)) == 1
    assert (place.sink.newest_published(), place.staged()) == (1, [])


def test_what_can_be_rolled_back_is_told(tmp_path: Path) -> None:
    told = []
    for number, (kind, keys) in enumerate([(Notes, []), (Notes, ["shop"]), (KnowingNotes, [])]):
        (tmp_path / str(number)).mkdir()
        place = Place(tmp_path / str(number), kind)
        place.prepare(keys)
        told.append(place.sink.can_roll_back)
    assert told == [False, False, True], "keys of the epochs that are left would stay, if the class does nothing"


def test_a_fresh_job_refuses_the_output_of_another_run_but_a_batch_run_replaces_it(tmp_path: Path) -> None:
    place = Place(tmp_path, KnowingNotes)
    place.prepare()
    place.sink.publish(Epoch(0), place.stage(0, [("a", 1)]))
    with pytest.raises(InvalidJobError) as caught:
        Place(tmp_path, KnowingNotes).prepare()
    assert str(caught.value) == (
        "the custom sink holds the output of an earlier run whose checkpoints are not here, and the two would be "
        "mixed. Give it another place in `args`, empty the place, or put the old checkpointing.dir back. "
        f"class={__name__}:KnowingNotes, published=0"
    )
    Place(tmp_path, KnowingNotes).prepare(is_fresh=False)
    Place(tmp_path, KnowingNotes, replaces=True).prepare()


def test_an_exception_is_told_in_one_line_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_PASSWORD", "hunter2-and-more")
    place = Place(tmp_path, FailingNotes, secret="${env:NOTES_PASSWORD}")
    place.prepare()
    staged = place.stage(0, [("a", 1)])
    with pytest.raises(RetryableError) as caught:
        place.sink.publish(Epoch(0), staged)
    text = str(caught.value)
    assert text.startswith(
        "the custom sink raised ConnectionError: ${env:NOTES_PASSWORD} was not taken by the server in `publish`. "
        "The rows of this epoch are not lost: the sink gets all of them again. "
    )
    assert f"class={__name__}:FailingNotes, method=publish, at={__file__}:" in text
    assert "hunter2" not in text
    assert caught.value.__cause__ is None, "it would show the secret"
    assert place.staged(), "it is handed over again"


def test_a_class_that_exits_does_not_end_the_job_as_if_it_were_done(tmp_path: Path) -> None:
    place = Place(tmp_path, LeavingNotes)
    place.prepare()
    with pytest.raises(RetryableError, match=r"the custom sink raised SystemExit: 0 in `publish`"):
        place.sink.publish(Epoch(0), place.stage(0, [("roof", 1)]))


def test_arguments_that_do_not_fit_are_told_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_PASSWORD", "hunter2-and-more")
    with pytest.raises(InvalidJobError, match="the arguments do not fit the custom sink") as caught:
        Place(tmp_path, Notes, password="${env:NOTES_PASSWORD}").prepare()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidJobError, match=r"variable=NOTES_SALT"):
        Place(tmp_path, Notes, secret="${env:NOTES_SALT}").prepare()


def test_an_answer_that_is_no_epoch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"must return an epoch, .* method=published, found='two'"):
        Place(tmp_path, WrongNotes).prepare()
