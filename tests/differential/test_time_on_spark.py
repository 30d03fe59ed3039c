"""Windows and sessions in jobs, in each mode: the cases and the answers of test_time.py.

They go through files, epochs, manifests and RocksDB; what the operators make of them is tested there. Nearly all cases
run on the local executor, two on Spark.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.driver.engine import Engine
from mixedmode.driver.run import Until
from mixedmode.job import Job, Sink, Source
from mixedmode.job.keyed import WindowArguments
from tests.differential.stories import Steps, case_folder, local_cases
from tests.differential.test_time import sessions, table_of, window_kinds, windowed
from tests.differential.timelines import MAX_PARALLELISM, MS, Case, Event, Mode, cases
from tests.harness import SPARK, SPARK_CASES, manifests, output_rows, run, write_parquet
from tests.local_engine import LocalEngine, World, local_session

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("is_big", pa.bool_())])
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "values": "collect_list(v, 100)",
    "big": "count(v) filter (where is_big)",
}


@st.composite
def windows(draw: st.DrawFn) -> WindowArguments:
    session: WindowArguments = {"session": draw(st.sampled_from(["3ms", "12ms"]))}
    window = draw(st.just(session) | window_kinds())
    window.pop("early_results_every", None)  # the clock stands still here
    return window


@dataclass(frozen=True)
class Windowed:
    """A case, its window, and the modes in which it runs."""

    case: Case
    window: WindowArguments
    is_keyed: bool
    modes: tuple[Mode, ...]


windowed_cases = st.builds(
    Windowed,
    cases(),
    windows(),
    st.booleans(),
    st.sampled_from([("mixed",), ("mixed",), ("mixed", "streaming"), ("mixed", "batch")]),
)


@local_cases(0.1)
@given(given_case=windowed_cases)
def test_windows_are_the_same_in_every_mode(given_case: Windowed) -> None:
    with case_folder() as folder:
        check(given_case, None, folder)


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=2)
@given(given_case=windowed_cases)
def test_windows_are_the_same_in_every_mode_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, given_case: Windowed
) -> None:
    check(given_case, spark, tmp_path_factory.mktemp("case"))


def check(given_case: Windowed, spark: SparkSession | None, folder: Path) -> None:
    """Run the case in its modes, and compare the table with the answer.  spark: None for local runs."""
    case, window = given_case.case, given_case.window
    is_keyed = given_case.is_keyed or "session" in window
    if "session" in window:
        expected = sessions(case.events, MS * int(str(window["session"]).removesuffix("ms")))
    else:
        kind = {name: text for name, text in window.items() if name != "allowed_lateness"}
        expected = windowed(case.events, kind, is_keyed=is_keyed)
    for mode in given_case.modes:
        base = folder / mode
        play(case, mode, window, spark, base, is_keyed=is_keyed)
        assert table_of(output_rows(base / "out"), 2 + is_keyed) == expected, mode
        if mode != "batch":
            assert sum(manifest.records_late for manifest in manifests(base / "checkpoints")) == 0


def play(
    case: Case, mode: Mode, window: WindowArguments, spark: SparkSession | None, base: Path, *, is_keyed: bool
) -> None:
    """One way to run a case of windows."""

    def steps(job: Job) -> Job:
        windowed_job = job.key_by("k").window(**window) if is_keyed else job.window(**window)
        return windowed_job.aggregate(AGGREGATES)

    play_steps(case, mode, steps, spark, base)


def play_steps(case: Case, mode: Mode, steps: Steps, spark: SparkSession | None, base: Path) -> None:
    """One way to run a case, to the end of its input; in mixed mode with another parallelism at the end."""
    (base / "in").mkdir(parents=True)
    live, world = iter(range(100)), World()
    session, engine = (local_session(world), LocalEngine) if spark is None else (spark, Engine)

    def job(parallelism: int, **source: Any) -> Job:
        read = Source.parquet(
            base / "in",
            schema="k string, v bigint, t timestamp, is_big boolean",
            event_time="t",
            out_of_orderness=f"{case.bound_ms}ms",
            **source,
        )
        empty = Job(
            "time",
            sources={"events": read},
            mode=mode,
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            checkpoint_dir=None if mode == "batch" else base / "checkpoints",
            checkpoints_retained=50,
            spark=SPARK,
        )
        return steps(empty).write(Sink.parquet(base / "out"))

    def write(events: tuple[Event, ...]) -> None:
        rows = [
            {"k": event.key, "v": event.v, "t": event.time_us, "is_big": None if event.v is None else event.v > 50}
            for event in events
        ]
        name, table = f"{next(live):03}.parquet", pa.Table.from_pylist(rows, SCHEMA)
        world.files[name] = table
        write_parquet(base / "in", name, table)

    if mode == "mixed":
        write(case.events[: case.flip])
        feed = [partial(write, epoch) for epoch in case.epochs(mode)]
        run(job(case.parallelism), session, feed=feed, engine=engine)
        run(job(3), session, until=Until.DRAINED, engine=engine)
        return
    for events in case.epochs(mode) or [case.events]:
        write(events)
    settings_of_source = {"max_files_per_epoch": 1} if mode == "streaming" else {}
    run(job(case.parallelism, **settings_of_source), session, until=Until.DRAINED, engine=engine)
