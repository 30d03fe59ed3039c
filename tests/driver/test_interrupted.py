"""A run that is interrupted, as by Ctrl-C in a notebook: its query ends with it, and the next run goes on."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.job import Job, Sink, Source
from tests.harness import manifests, output_rows
from tests.local_engine import LocalEngine, LocalWriter, World, local_session

ROWS = pa.Table.from_pylist([{"k": "a"}], pa.schema([("k", pa.string())]))


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_the_query_of_a_run_that_is_interrupted_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """The driver waits for its query when the interrupt comes; nobody would end the query later."""
    (tmp_path / "in").mkdir()
    source = Source.parquet(tmp_path / "in", schema="k string")
    job = Job("counts", sources={"t": source}, mode="mixed", parallelism=1, checkpoint_dir=tmp_path / "checkpoints")
    job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))
    world, stopped = World({"0": ROWS}), list[LocalWriter]()

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
