"""A savepoint is only taken when the rows of its epoch are published: those that are not are staged in no savepoint."""

from pathlib import Path

import pytest

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.driver.savepoints import savepoint_of
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sinks.sink import staging_folder
from tests.checkpoint.committed import Checkpoints


def staged(folder: Path, sink: str) -> StagedFile:
    """Return a file with the rows of an output in a topic or a table, which waits to be published."""
    path = output_paths.staged_path(Epoch(0), 0, "a", "parquet")
    ObjectStore(staging_folder(folder, sink)).put(path, b"rows")
    return StagedFile(path, output_paths.final_path(Epoch(0), 0, "parquet"), 4, 1, "0" * 16, sink)


def publish(folder: Path, file: StagedFile) -> None:
    ObjectStore(staging_folder(folder, file.sink)).delete([file.staged_path])


def test_it_waits_for_the_rows_that_a_running_job_is_about_to_publish(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    files = [staged(folder, "topic"), staged(folder, "")]
    Checkpoints(folder).commit(0, outputs=files)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        publish(folder, files.pop())

    savepoint_of(str(folder), str(tmp_path / "sp"), sleep=sleep)
    assert len(waited) == 2
    assert read_savepoint(ObjectStore(tmp_path / "sp")).epoch == 0


def test_rows_that_nobody_publishes_are_told_and_there_is_no_savepoint(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    file = staged(folder, "topic")
    Checkpoints(folder).commit(0, outputs=[file])
    with pytest.raises(RetryableError) as caught:
        savepoint_of(str(folder), str(tmp_path / "sp"), sleep=lambda _: None)
    assert str(caught.value) == (
        "rows of the newest checkpoint are not published yet, and a job that goes on from a savepoint would never "
        "publish them. Start the job, which does so first, or see why the running one cannot; then take the savepoint. "
        f"epoch=0, output=topic, folder={staging_folder(folder, 'topic')}"
    )
    with pytest.raises(InvalidJobError, match="this is no savepoint"):
        read_savepoint(ObjectStore(tmp_path / "sp"))
    publish(folder, file)
    savepoint_of(str(folder), str(tmp_path / "sp"), sleep=lambda _: None)
    assert read_savepoint(ObjectStore(tmp_path / "sp")).epoch == 0


def test_rows_in_the_folder_of_an_output_are_published_by_the_next_start(tmp_path: Path) -> None:
    path = output_paths.staged_path(Epoch(0), 0, "a", "parquet")
    file = StagedFile(path, output_paths.final_path(Epoch(0), 0, "parquet"), 4, 1, "0" * 16)
    Checkpoints(tmp_path / "checkpoints").commit(0, outputs=[file])
    savepoint_of(str(tmp_path / "checkpoints"), str(tmp_path / "sp"), sleep=lambda _: pytest.fail("it waits"))
