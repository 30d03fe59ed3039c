"""A checkpoint folder that is moved while its job runs stops the job, which says so; put back, it goes on."""

import shutil
from pathlib import Path

import pytest

from mixedmode.driver.run import Until
from mixedmode.errors import CorruptStateError
from tests.driver.test_pausing import Paused, file_of
from tests.harness import manifests, output_rows


def test_a_folder_that_is_moved_is_named_if_spark_begins_again_in_its_place(tmp_path: Path) -> None:
    """Only Spark's own part of the folder was said to have changed, and that a start would go on."""
    job, away = Paused(tmp_path), tmp_path / "away"
    for name in ("1", "2"):
        job.run(lambda _: None, until=Until.IDLE)
        job.world.files[name] = file_of(2)

    def move(seen: str) -> None:
        if seen == "live":
            job.folder.rename(away)

    with pytest.raises(CorruptStateError) as caught:
        job.run(move)
    assert str(caught.value).startswith(
        "the record of this start of the job is gone, so the checkpoint folder was moved, deleted or replaced while "
        "the job ran. Nothing was committed. Find out what did it, and put the folder back in its place; then start"
    )
    shutil.rmtree(job.folder, ignore_errors=True)
    away.rename(job.folder)
    job.run(lambda _: None, until=Until.IDLE)
    assert sum(manifest.records_in for manifest in manifests(job.folder)) == 5
    assert output_rows(tmp_path / "out") == [{"k": "a", "n": 5}]
