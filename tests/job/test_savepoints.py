"""Savepoints from Python: what `Job.create_savepoint` takes, and where it refuses. Restores are tested on Spark."""

from pathlib import Path

import pytest

from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.checkpoint.committed import Checkpoints


def job(folder: Path | None) -> Job:
    source = Source.json("in", schema="k string", bounded=folder is None)
    made = Job("orders", sources={"t": source}, checkpoint_dir=folder)
    return made.sql("SELECT * FROM t").write(Sink.parquet("out"))


def test_the_newest_checkpoint_of_a_job_is_kept(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "checkpoints").commit(0)
    job(tmp_path / "checkpoints").create_savepoint(tmp_path / "sp")
    assert read_savepoint(ObjectStore(tmp_path / "sp")).epoch == 0


def test_a_job_without_checkpoints_has_no_savepoints(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        job(None).create_savepoint(tmp_path / "sp")
    assert str(caught.value) == (
        "a savepoint is taken of a checkpoint, and this job sets no execution.checkpointing.dir. Name the folder of "
        "its checkpoints. name=orders"
    )
    with pytest.raises(InvalidJobError, match="a savepoint is restored to a job with checkpoints, and a batch job has"):
        job(None).restore_savepoint(tmp_path / "sp")
