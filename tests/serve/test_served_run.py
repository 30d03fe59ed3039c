"""A small mixed job on Spark with a server beside it: the API tells backlog, flip and live, and drains the job."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.events import EpochCommitted, EpochStarted, Event, Flipped, PhaseBegan
from mixedmode.driver.run import RunOptions, run_job
from mixedmode.job import Job, Sink, Source
from mixedmode.serve.address import Tokens, parse_address
from mixedmode.serve.running import server_of_run
from mixedmode.serve.server import Endpoint
from tests.harness import manifests, output_rows, write_json
from tests.serve.site import NO_TOKEN_CONTROL, Client

pytestmark = pytest.mark.spark


def test_the_api_tells_backlog_flip_and_live_of_a_run_and_drains_it(spark: SparkSession, tmp_path: Path) -> None:
    inputs, out, checkpoints = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoints"
    inputs.mkdir()
    counts, seen = Counter[str](), dict[str, Any]()

    def let_in(name: str, rows: int) -> None:
        given = [{"k": f"key {number % 7}", "at": f"2001-01-01 {number % 24:02}:00:00"} for number in range(rows)]
        counts.update(row["k"] for row in given)
        write_json(inputs, name, given)

    let_in("history.json", 500)
    source = Source.json(inputs, schema="k string, at timestamp", event_time="at")
    job = Job("counts", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=checkpoints)
    job = job.key_by("k", name="by_k").aggregate(n="count(*)").write(Sink.parquet(out))
    stop, drain = threading.Event(), threading.Event()
    endpoint, savepoints = Endpoint(parse_address("0"), Tokens()), str(tmp_path / "savepoints")
    made = server_of_run(job.spec, endpoint, stop=stop, drain=drain, savepoints=savepoints)

    def look(event: Event) -> None:
        """Ask the server after each event; the observers of the server have seen it."""
        match event:
            case EpochStarted(_, True, _):
                seen["backlog"] = (client("/api/v1/job").json, client("/readyz").status)
            case Flipped():
                seen["flip"] = client("/api/v1/timeline").json
            case PhaseBegan("live"):
                seen["live"] = (client("/api/v1/job").json, client("/readyz").status)
                let_in("live.json", 50)
            case EpochCommitted() if event.epoch == 1:
                seen["savepoint"] = client("/api/v1/savepoint", "POST", {"name": "one"}).json
                let_in("last.json", 20)
                seen["drain"] = client("/api/v1/drain", "POST").status
            case _:
                pass

    with made.server as server:
        client = Client(server.port, headers=NO_TOKEN_CONTROL)
        options = RunOptions(observers=[*made.observers, look], session=spark, stop=stop, drain=drain)
        run_job(job.spec, job.where, options)
        epochs = client("/api/v1/epochs").json["epochs"]
        metrics = client("/metrics").body.decode()
        phases = [span["kind"] for span in client("/api/v1/timeline").json["spans"]]
    assert (seen["backlog"][0]["epoch_under_way"]["kind"], seen["backlog"][1]) == ("backlog", 503)
    assert seen["flip"]["marks"][-1]["text"] == "flip: live from here on, after epoch 0"
    job_live, ready_live = seen["live"]
    assert (job_live["phase"], job_live["newest_epoch"]["records"], ready_live) == ("live", 500, 200)
    assert (seen["savepoint"]["epoch"], seen["drain"]) == (1, 202)
    assert phases == ["starting", "catching up", "backlog", "live", "ended"]
    assert [epoch["kind"] for epoch in epochs[:2]] == ["backlog", "live"]
    assert sum(epoch["records"] for epoch in epochs) == 570
    assert epochs[0]["steps"]["by_k"]["subtasks"] == 2
    for metric in ('mixedmode_records_total{kind="backlog"} 500.0', 'mixedmode_state_entries{step="by_k"}'):
        assert metric in metrics
    assert manifests(checkpoints)[-1].is_final, "the drain ended the input"
    assert {row["k"]: row["n"] for row in output_rows(out)} == counts
