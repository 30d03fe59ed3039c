"""`mixedmode compact`: which outputs and epochs it is about, and what it says where it cannot be."""

from pathlib import Path

import pytest

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import JobIdentity
from mixedmode.cli.compact import compaction_report
from mixedmode.config import JobSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.sinks.outputs import Output, change


def spec(folder: Path, *, mode: str = "mixed") -> JobSpec:
    source = Source.json(folder / "in", schema="k string, n long, v double")
    checkpoints = folder / "checkpoints" if mode == "mixed" else None
    job = Job("job", sources={"t": source}, mode=mode, checkpoint_dir=checkpoints)  # type: ignore[arg-type]
    return job.sql("SELECT * FROM t").write(Sink.parquet(folder / "out")).spec


def report(job: JobSpec, output: str | None = None) -> str:
    return compaction_report(job, target_bytes=1 << 20, newest_only=False, output=output)


def test_without_a_checkpoint_there_is_nothing_to_compact(tmp_path: Path) -> None:
    assert report(spec(tmp_path)) == f"{tmp_path}/out: nothing to compact, since the job has no checkpoint yet"


def test_epochs_of_retained_checkpoints_are_left_alone(tmp_path: Path) -> None:
    output = Output(tmp_path)
    for epoch in range(5):
        output.publish(epoch, [change("a", float(epoch))])
    for epoch in (3, 4):  # their manifests, as far as their names go
        ObjectStore(tmp_path / "checkpoints").put(f"manifests/{epoch:010}.json", b"")
    assert report(spec(tmp_path), str(tmp_path / "out")).startswith(f"{tmp_path}/out: 5 files, ")
    names = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert names == [
        "compacted-0000000000-0000000002-0000000000.parquet",
        "part-0000000003-0000000000.parquet",
        "part-0000000004-0000000000.parquet",
    ]
    assert output.read() == output.expected()


def test_a_job_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="a job without checkpoints writes its output anew with each run"):
        report(spec(tmp_path, mode="batch"))


def test_the_checkpoints_of_another_job_are_refused(tmp_path: Path) -> None:
    CheckpointLog(ObjectStore(tmp_path / "checkpoints")).create_identity(JobIdentity("other", 128, {}))
    with pytest.raises(InvalidJobError) as caught:
        report(spec(tmp_path))
    assert str(caught.value) == (
        "the checkpoint folder is another job's, so it does not say which epochs of this job's output are still "
        f"needed. Correct execution.checkpointing.dir. name=job, found=other, folder={tmp_path / 'checkpoints'}"
    )


def test_an_output_that_the_job_does_not_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        report(spec(tmp_path), "elsewhere")
    assert str(caught.value) == (
        "the job has no such output of files. Compaction is for outputs in Parquet, JSON and CSV. "
        f"folder=elsewhere, folders={tmp_path / 'out'}"
    )
