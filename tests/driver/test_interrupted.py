"""A run that is interrupted, as by Ctrl-C in a notebook: its query ends with it, and the next run goes on.

So it does if the program stops the Spark session under the run.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import RetryableError
from mixedmode.job import Job, Sink, Source
from tests.harness import manifests, output_rows
from tests.local_engine import LocalEngine, LocalWriter, World, local_session

ROWS = pa.Table.from_pylist([{"k": "a"}], pa.schema([("k", pa.string())]))


def counts(folder: Path) -> Job:
    (folder / "in").mkdir()
    source = Source.parquet(folder / "in", schema="k string")
    job = Job("counts", sources={"t": source}, mode="mixed", parallelism=1, checkpoint_dir=folder / "checkpoints")
    return job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(folder / "out"))


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_the_query_of_a_run_that_is_interrupted_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """The driver waits for its query when the interrupt comes; nobody would end the query later."""
    job, world, stopped = counts(tmp_path), World({"0": ROWS}), list[LocalWriter]()

    def stop(query: LocalWriter) -> None:
        stopped.append(query)

    monkeypatch.setattr(LocalWriter, "stop", stop)

    def start(until: Until, command: Callable[[], str] | None = None) -> None:
        options = RunOptions(until, session=local_session(world, command), engine=LocalEngine)
        run_job(job.spec, job.where, options)

    def interrupted() -> str:
        raise interrupt

    with pytest.raises(interrupt):
        start(Until.STOPPED, interrupted)
    assert len(stopped) == 1

    world.files["1"] = ROWS
    start(Until.IDLE)
    assert [manifest.records_in for manifest in manifests(tmp_path / "checkpoints")] == [1, 1]
    assert [row["n"] for row in output_rows(tmp_path / "out")] == [2]


@pytest.mark.parametrize("has_context", [False, True])
def test_a_session_that_is_stopped_ends_the_run_and_the_next_one_goes_on(tmp_path: Path, has_context: bool) -> None:
    """Stopped by the program, which leaves no context of the JVM, or by another part of the JVM."""
    job, world = counts(tmp_path), World({"0": ROWS})
    stopped = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True)) if has_context else None

    def stop() -> str:
        session.sparkContext._jsc = stopped
        return "nothing"

    session = local_session(world, stop)
    with pytest.raises(RetryableError, match=r"^the Spark session was stopped while the job ran, .* it resumes\.$"):
        run_job(job.spec, job.where, RunOptions(Until.STOPPED, session=session, engine=LocalEngine))
    world.files["1"] = ROWS
    run_job(job.spec, job.where, RunOptions(Until.IDLE, session=local_session(world), engine=LocalEngine))
    assert [manifest.records_in for manifest in manifests(tmp_path / "checkpoints")] == [1, 1]
