"""Windows and sessions in jobs on Spark, in each mode: the cases and the answers of test_time.py.

They go through files, epochs, manifests and RocksDB. There are few cases, since each is several runs; what the
operators make of them is tested there.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.driver.run import Until
from mixedmode.job import Job, Sink, Source
from mixedmode.job.keyed import WindowArguments
from tests.differential.test_time import sessions, table_of, window_kinds, windowed
from tests.differential.timelines import MAX_PARALLELISM, MS, Case, Event, Mode, cases
from tests.harness import SPARK, SPARK_CASES, manifests, output_rows, run, write_parquet

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "values": "collect_list(v, 100)",
    "big": "count(v) filter (where v > 50)",
}


@st.composite
def windows(draw: st.DrawFn) -> WindowArguments:
    session: WindowArguments = {"session": draw(st.sampled_from(["3ms", "12ms"]))}
    window = draw(st.just(session) | window_kinds())
    window.pop("early_results_every", None)  # the clock stands still here
    return window


@settings(SPARK_CASES, max_examples=6)
@given(
    case=cases(),
    window=windows(),
    is_keyed=st.booleans(),
    modes=st.sampled_from([("mixed",), ("mixed",), ("mixed", "streaming"), ("mixed", "batch")]),
)
def test_windows_are_the_same_in_every_mode_on_spark(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    window: WindowArguments,
    is_keyed: bool,
    modes: tuple[Mode, ...],
) -> None:
    is_keyed = is_keyed or "session" in window
    if "session" in window:
        expected = sessions(case.events, MS * int(str(window["session"]).removesuffix("ms")))
    else:
        kind = {name: text for name, text in window.items() if name != "allowed_lateness"}
        expected = windowed(case.events, kind, is_keyed=is_keyed)
    for mode in modes:
        base = tmp_path_factory.mktemp(mode)
        play(case, mode, window, spark, base, is_keyed=is_keyed)
        assert table_of(output_rows(base / "out"), 2 + is_keyed) == expected, mode
        if mode != "batch":
            assert sum(manifest.records_late for manifest in manifests(base / "checkpoints")) == 0


def play(case: Case, mode: Mode, window: WindowArguments, spark: SparkSession, base: Path, *, is_keyed: bool) -> None:
    """One way to run a case, to the end of its input; in mixed mode with another parallelism at the end."""
    (base / "in").mkdir()
    live = iter(range(100))

    def job(parallelism: int, **source: Any) -> Job:
        read = Source.parquet(
            base / "in",
            schema="k string, v bigint, t timestamp",
            event_time="t",
            out_of_orderness=f"{case.bound_ms}ms",
            **source,
        )
        steps = Job(
            "time",
            sources={"events": read},
            mode=mode,
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            checkpoint_dir=None if mode == "batch" else base / "checkpoints",
            checkpoints_retained=50,
            spark=SPARK,
        )
        windowed_job = steps.key_by("k").window(**window) if is_keyed else steps.window(**window)
        return windowed_job.aggregate(AGGREGATES).write(Sink.parquet(base / "out"))

    def write(events: tuple[Event, ...]) -> None:
        rows = [{"k": event.key, "v": event.v, "t": event.time_us} for event in events]
        write_parquet(base / "in", f"{next(live):03}.parquet", pa.Table.from_pylist(rows, SCHEMA))

    if mode == "mixed":
        write(case.events[: case.flip])
        run(job(case.parallelism), spark, feed=[partial(write, epoch) for epoch in case.epochs(mode)])
        run(job(3), spark, until=Until.DRAINED)
        return
    for events in case.epochs(mode) or [case.events]:
        write(events)
    settings_of_source = {"max_files_per_epoch": 1} if mode == "streaming" else {}
    run(job(case.parallelism, **settings_of_source), spark, until=Until.DRAINED)
