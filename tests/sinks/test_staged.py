"""The base of sinks that stage Parquet: what a missing file means, and what is left of what was staged."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import CorruptStateError
from mixedmode.sinks.staged import StagedSink
from tests import staging


class Rows(StagedSink):
    """Keeps the rows of each epoch, and knows its newest one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.rows: dict[int, list[int]] = {}

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        self.rows[epoch] = [row["n"] for batch in self.staged_rows(staged) for row in batch.to_pylist()]
        self.delete_staged(staged)

    @override
    def may_have(self, epoch: Epoch) -> bool:
        return epoch in self.rows


@pytest.fixture
def sink(tmp_path: Path) -> Rows:
    return Rows(tmp_path / "staged")


def stage(sink: StagedSink, folder: Path, values: Sequence[int], *, epoch: int, subtask: int = 0) -> StagedFile:
    local = folder / "local"
    table = pa.table({"n": pa.array(values, pa.int64())})
    (file,) = staging.stage(sink.task, local, f"{epoch}x{subtask}", table, epoch=epoch, subtask=subtask)
    (local / "output.parquet").unlink()
    return file


def test_rows_come_in_the_order_of_their_files_without_the_epoch(sink: Rows, tmp_path: Path) -> None:
    files = [stage(sink, tmp_path, [3, 1], epoch=0), stage(sink, tmp_path, [2], epoch=0, subtask=1)]
    assert [batch.schema.names for batch in sink.staged_rows(files)] == [["n"], ["n"]]
    sink.publish(Epoch(0), files)
    assert sink.rows == {0: [3, 1, 2]}


def test_a_file_that_is_gone_is_a_problem_unless_its_epoch_may_be_published(sink: Rows, tmp_path: Path) -> None:
    published, lost = stage(sink, tmp_path, [1], epoch=0), stage(sink, tmp_path, [2], epoch=1)
    assert sink.problem(published, reads=True) is None
    sink.publish(Epoch(0), [published])
    assert sink.problem(published, reads=True) is None
    sink.delete_staged([lost])
    found = sink.problem(lost, reads=True)
    assert found is not None
    assert found[0] == lost.staged_path
    with pytest.raises(CorruptStateError, match="disappeared while it was published"):
        sink.publish(Epoch(1), [lost])


def test_a_damaged_file_is_a_problem_whatever_is_published(sink: Rows, tmp_path: Path) -> None:
    file = stage(sink, tmp_path, [1], epoch=0)
    sink.rows[0] = [1]
    sink.store.put(file.staged_path, b"x" * file.bytes)
    assert sink.problem(file, reads=True) is not None


def test_going_back_deletes_the_staged_files_of_later_epochs_only(sink: Rows, tmp_path: Path) -> None:
    files = [stage(sink, tmp_path, [epoch], epoch=epoch) for epoch in range(3)]
    assert sink.delete_staged_after(Epoch(1)) == 1
    assert [sink.store.exists(file.staged_path) for file in files] == [True, True, False]
    assert sink.roll_back(Epoch(0)) == 0, "they are not counted: nothing of them was published"
    assert [sink.store.exists(file.staged_path) for file in files] == [True, False, False]
