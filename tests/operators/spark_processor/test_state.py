"""The state of a class of Spark, read from its checkpoint by the names that the class gives."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mixedmode.queryable.snapshot import read_state
from tests.operators.spark_processor.processors import Kept
from tests.queryable.jobs import RunningJob, rows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def process(job: Any) -> Any:
    return job.key_by("k").process(Kept, output="k string, v bigint", time_mode="EventTime")


def test_each_state_is_read_by_its_name(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, process)
    job.epoch([{"k": "a", "v": 1, "at": 1}, {"k": "a", "v": 2, "at": 2}])

    def read(name: str | None = None) -> list[dict[str, Any]]:
        return rows_of(read_state(job.checkpoints, "process-1", name=name))

    last = {"v": 2, "at": EPOCH + timedelta(minutes=2)}
    items = [{"v": 1}, {"v": 2}]
    assert read() == [{"k": "a", "_event_timers": [3_660_000, 3_720_000], "items": items, "last_x20_row": last}]
    assert read("last_x20_row") == [{"k": "a", "value": last}]
    assert read("entries") == [{"k": "a", "map_key": {"_0": "e", "_1": v}, "value": {"de": "1.5"}} for v in (1, 2)]
    assert [row["timer"] - EPOCH for row in read("event-time-timers")] == [timedelta(minutes=m) for m in (61, 62)]
