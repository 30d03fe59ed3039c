"""The estimate of the time that is left of a backlog, against the time that it then took.

    python bench/eta.py [--records 20000000] [--keys 2000000] [--jobs keys,days,function] [--figures FOLDER]

Estimates from a third of the epoch on count, until a tenth is left: an error of a second is much of little. With
`--figures`, it also stores the figures of each run, which tests/driver/test_pace.py replays.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from bench.function import OUTPUT_DDL, CountAndSum
from mixedmode import Job, Sink, Source
from mixedmode.driver.events import EpochCommitted, EpochProgress, Event
from mixedmode.driver.pace import PartFigures
from mixedmode.driver.progress import EpochEstimate, Moment

_FILES = 16
_RECORDS_OF_FUNCTION = 0.25  # of all: Python runs for each of them


def main() -> None:
    """Print the errors of the estimates for three jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--jobs", default="keys,days,function")
    parser.add_argument("--figures", type=Path)
    given = parser.parse_args()
    for name in given.jobs.split(","):
        with tempfile.TemporaryDirectory(prefix="eta-") as folder, recorded() as story:
            share = _RECORDS_OF_FUNCTION if name == "function" else 1
            write_records(Path(folder), int(share * given.records), given.keys)
            story.update(report(name, job(Path(folder), name)))
            if given.figures:
                (given.figures / f"{name}.json").write_text(json.dumps(story) + "\n", encoding="utf-8")


def write_records(folder: Path, records: int, keys: int) -> None:
    """Write the input of a job."""
    (folder / "in").mkdir()
    chance, count = np.random.default_rng(1), records // _FILES
    for number in range(_FILES):
        values = {"k": chance.integers(0, keys, count), "v": chance.integers(0, 1000, count)}
        seconds = np.sort(chance.integers(0, 86400, count)) + 86400 * number
        table = pa.table({**values, "at": pa.array(1_000_000 * seconds, pa.timestamp("us", "UTC"))})
        pq.write_table(table, folder / "in" / f"{number:02}.parquet")


def job(folder: Path, name: str) -> Job:
    """Return a job in mixed mode over the records: an aggregate, windows of a day, or a process function."""
    source = Source.parquet(folder / "in", event_time="at")
    checkpoints = folder / "checkpoints"
    keyed = Job(name, sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=checkpoints).key_by("k")
    sums = {"n": "count(*)", "s": "sum(v)", "top": "max(v)"}
    if name == "function":
        step = keyed.process(CountAndSum, output=OUTPUT_DDL)
    else:
        step = (keyed.window(tumbling="1d") if name == "days" else keyed).aggregate(**sums)
    return step.write(Sink.parquet(folder / "out"))


@contextmanager
def recorded() -> Iterator[dict[str, Any]]:
    """Record the figures of the backlog that runs in the block: of its input, and of each moment by step."""
    moments: list[object] = []
    story: dict[str, Any] = {"moments": moments}

    class Recorded(EpochEstimate):
        @override
        def at(self, moment: Moment) -> EpochProgress:
            if self.is_backlog:
                story["bytes_total"], story["records_total"] = self.bytes_total, self.records_total
                moments.append([round(moment.seconds, 2), {name: figures(*of) for name, of in moment.steps.items()}])
            return super().at(moment)

    with mock.patch("mixedmode.driver.watched.EpochEstimate", Recorded):
        yield story


def figures(*parts: PartFigures) -> list[dict[str, float]]:
    """Return the figures that are not zero, of the map side and of the subtasks."""
    return [{name: round(value, 3) for name, value in asdict(part).items() if value} for part in parts]


def report(name: str, wanted: Job) -> dict[str, Any]:
    """Run a job through its backlog, and print the errors of its estimates. Return its seconds, and those by stage."""
    told: list[EpochProgress] = []
    ended: list[EpochCommitted] = []

    def observe(event: Event) -> None:
        if isinstance(event, EpochProgress) and event.is_backlog:
            told.append(event)
        elif isinstance(event, EpochCommitted) and event.is_backlog:
            ended.append(event)

    wanted.run(until="idle", observers=[observe])
    whole = told[-1].seconds  # when all tasks had ended
    story = {"seconds": whole, "profile": dict(ended[0].profile)}
    counted = [event for event in told if whole / 3 <= event.seconds <= 0.9 * whole and event.seconds_left is not None]
    if not counted:
        print(f"{name}: its tasks took {whole:.0f} s, which is too short: take more records")
        return story
    errors = [abs((event.seconds_left or 0) / (whole - event.seconds) - 1) for event in counted]
    shown = f"median {100 * np.median(errors):.0f} %, greatest {100 * max(errors):.0f} %"
    print(f"{name}: tasks of {whole:.0f} s, epoch of {ended[0].seconds:.0f} s; {len(errors)} estimates, error {shown}")
    return story


if __name__ == "__main__":
    main()
