"""The result of a run and the tables of outputs, without Spark; and on Spark, the whole path of a job."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode import Job, Sink, Source, read_state, read_table
from mixedmode.driver.events import EpochCommitted
from mixedmode.driver.run import RunOptions
from mixedmode.errors import InvalidJobError
from tests.docs.test_snippets import output_of_two_epochs
from tests.driver.committed import epoch_committed
from tests.harness import SPARK, write_json

TABLE = [{"origin": "LAX", "flights": 1}, {"origin": "SFO", "flights": 5}]


def a_job(folder: Path, sink: Any) -> Job:
    source = Source.json(folder / "in", schema="origin string, at timestamp", event_time="at")
    job = Job("airport-delays", sources={"t": source}, checkpoint_dir=folder / "checkpoints", mode="mixed", spark=SPARK)
    late = Sink.parquet(folder / "late")
    return job.key_by("origin").window(tumbling="1h", late=late).aggregate(flights="count(*)").write(sink)


def committed(epoch: int, records: int) -> EpochCommitted:
    return epoch_committed(
        epoch, strategy="streaming", records=records, rows_out=2, pairs=1, state_bytes=1, records_late=1, seconds=1.0
    )


def test_the_table_of_a_job_of_its_file_and_of_its_folder_are_one(tmp_path: Path) -> None:
    output_of_two_epochs(tmp_path / "out")
    job = a_job(tmp_path, Sink.parquet(tmp_path / "out"))
    (tmp_path / "job.yaml").write_text(job.to_yaml())
    for source in (job, tmp_path / "job.yaml", tmp_path / "out", str(tmp_path / "out")):
        assert read_table(source).to_pylist() == TABLE


def test_a_result_counts_its_epochs_and_reads_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output_of_two_epochs(tmp_path / "out")

    def run_job(_spec: object, _where: object, options: RunOptions) -> None:
        for event in (committed(4, 10), committed(5, 3)):
            for observer in options.observers:
                observer(event)

    monkeypatch.setattr("mixedmode.driver.run.run_job", run_job)
    seen: list[Any] = []
    result = a_job(tmp_path, Sink.parquet(tmp_path / "out")).run(observers=[seen.append])
    assert (result.epochs, result.records, result.records_late, result.rows) == (2, 13, 2, 4)
    assert result.seconds >= 0
    assert "spec" not in repr(result)
    assert [event.epoch for event in seen] == [4, 5], "other observers are asked as before"
    assert result.outputs == {"sink": f"parquet {tmp_path}/out", "steps[0].late": f"parquet {tmp_path}/late"}
    assert result.table().to_pylist() == TABLE


def test_an_output_that_cannot_be_read_here_is_refused_with_where_to_read_it(tmp_path: Path) -> None:
    job = a_job(tmp_path, Sink.console())
    with pytest.raises(InvalidJobError, match="no folder of files"):
        read_table(job)
    with pytest.raises(InvalidJobError, match=r"Did you mean sink\?"):
        read_table(job, output="sinks")
    with pytest.raises(InvalidJobError, match="not the output of a job"):
        read_table(job, output="steps[0].late")


def test_a_job_with_several_outputs_has_no_main_one_and_names_them(tmp_path: Path) -> None:
    job = Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c")
    for name in ("one", "two"):
        job = job.output(name, job.source("s").sql("SELECT * FROM s"), Sink.parquet(tmp_path / name))
    with pytest.raises(InvalidJobError) as caught:
        read_table(job)
    assert str(caught.value) == "the job has no output sink. Name one of its outputs: one, two."


def test_a_job_is_made_without_loading_spark() -> None:
    code = "import sys; from mixedmode import Job, read_table, read_state; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.spark
def test_a_run_on_spark_returns_a_result_and_leaves_state_that_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # the session of the process, which the job uses
    (tmp_path / "in").mkdir()
    rows = [{"origin": origin, "at": f"2024-01-01 0{hour}:10:00"} for origin, hour in (("A", 0), ("A", 0), ("B", 2))]
    write_json(tmp_path / "in", "1.json", rows)
    job = a_job(tmp_path, Sink.parquet(tmp_path / "out"))
    assert job.validate()["sink"].names == ["window_start", "window_end", "origin", "flights"]
    assert job.explain().startswith("airport-delays: mixed mode")
    result = job.run(until="idle")
    assert (result.epochs, result.records) == (1, 3)
    fired = result.table().select(["origin", "flights"])
    stored = read_state(tmp_path / "checkpoints", "aggregate-1").select(["origin", "flights", "_fired"])
    assert fired.to_pylist() == [{"origin": "A", "flights": 2}]
    assert stored.to_pylist() == [{"origin": "B", "flights": 1, "_fired": False}]
    assert stored.schema.field("flights").type == pa.int64()
