"""Real records: domestic flights of the United States, January to March 2001, as often as it takes.

They are not part of the project. They are read where the variable MIXEDMODE_BENCH_FLIGHTS says, a folder of JSON lines
with `date`, `origin`, `destination`, `delay` and `distance`; without it, beside a source checkout, in
../shared/data/flights. Where they are not, there is no such workload.
"""

import os
from functools import partial
from pathlib import Path

from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Mode, Size, SparkStreaming, Workload, answers_in, in_spark

PLACE = "MIXEDMODE_BENCH_FLIGHTS"
_CHECKOUT = Path(__file__).parents[4]
_MILES_MIN = 100
_ANSWER = f"""
    SELECT origin, destination, count(*) AS flights, avg(delay) AS mean_delay, max(delay) AS worst
    FROM {events.FLIGHTS} WHERE distance > {_MILES_MIN} GROUP BY origin, destination
"""


def found_flights() -> Path | None:
    """The folder with the flights; None if they are not on this machine."""
    folder = Path(os.environ.get(PLACE) or _CHECKOUT.parent / "shared" / "data" / "flights")
    return folder if any(folder.glob("*.jsonl")) else None


def flights_workload(folder: Path) -> Workload:
    """Counts and delays by route, of the flights in `folder` that are not the shortest."""
    return Workload(
        name="flights",
        title="flights of 2001 in JSON, again and again: count, mean and worst delay by route, after a filter in SQL",
        size=Size(2_000_000, 220),  # keys: the airports; there is no choice
        write=partial(events.write_flights, folder),
        job=_job,
        key=("origin", "destination"),
        data="flights-json",
        answer=_ANSWER,
        version=events.VERSION,
        spark_batch=in_spark(_ANSWER),
        spark_streaming=SparkStreaming(in_spark(_ANSWER)),
    )


def _job(data: Path, work: Path, mode: Mode) -> Job:
    source = Source.json(data / events.FLIGHTS, schema=events.FLIGHTS_DDL)
    job = Job("bench", sources={"flights": source}, mode=mode, checkpoint_dir=work / "checkpoints")
    routes = job.sql(f"SELECT * FROM flights WHERE distance > {_MILES_MIN}").key_by("origin", "destination")
    counted = routes.aggregate(flights="count(*)", mean_delay="avg(delay)", worst="max(delay)")
    return counted.write(Sink.parquet(answers_in(work)))
