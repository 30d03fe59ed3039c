"""The estimate of the time that is left of a backlog, against the time that it then took.

    python bench/eta.py [--records 20000000] [--keys 2000000]

Estimates from a third of the epoch on count, until a tenth is left: an error of a second is much of little.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode import Job, Sink, Source
from mixedmode.driver.events import EpochCommitted, EpochProgress, Event

_FILES = 16


def main() -> None:
    """Print the errors of the estimates for two jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eta-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        chance, count = np.random.default_rng(1), given.records // _FILES
        for number in range(_FILES):
            values = {"k": chance.integers(0, given.keys, count), "v": chance.integers(0, 1000, count)}
            seconds = np.sort(chance.integers(0, 86400, count)) + 86400 * number
            table = pa.table({**values, "at": pa.array(1_000_000 * seconds, pa.timestamp("us", "UTC"))})
            pq.write_table(table, folder / "in" / f"{number:02}.parquet")
        sums = {"n": "count(*)", "s": "sum(v)", "top": "max(v)"}
        keyed = job(folder, "keys").key_by("k")
        report("an aggregate", keyed.aggregate(**sums).write(Sink.parquet(folder / "keys-out")))
        days = job(folder, "days").key_by("k").window(tumbling="1d")
        report("windows of a day", days.aggregate(**sums).write(Sink.parquet(folder / "days-out")))


def job(folder: Path, name: str) -> Job:
    """Return a job in mixed mode over the records."""
    source = Source.parquet(folder / "in", event_time="at")
    return Job(name, sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=folder / f"{name}-checkpoints")


def report(name: str, wanted: Job) -> None:
    """Run a job through its backlog, and print the errors of its estimates."""
    told: list[EpochProgress] = []
    ended: list[EpochCommitted] = []

    def observe(event: Event) -> None:
        if isinstance(event, EpochProgress) and event.is_backlog:
            told.append(event)
        elif isinstance(event, EpochCommitted) and event.is_backlog:
            ended.append(event)

    wanted.run(until="idle", observers=[observe])
    whole = told[-1].seconds  # when all tasks had ended
    counted = [event for event in told if whole / 3 <= event.seconds <= 0.9 * whole and event.seconds_left is not None]
    if not counted:
        print(f"{name}: its tasks took {whole:.0f} s, which is too short: take more records")
        return
    errors = [abs((event.seconds_left or 0) / (whole - event.seconds) - 1) for event in counted]
    shown = f"median {100 * np.median(errors):.0f} %, greatest {100 * max(errors):.0f} %"
    print(f"{name}: tasks of {whole:.0f} s, epoch of {ended[0].seconds:.0f} s; {len(errors)} estimates, error {shown}")


if __name__ == "__main__":
    main()
