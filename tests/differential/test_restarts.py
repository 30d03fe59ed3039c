"""A walk through the life of a job: started again and again, each time a little differently, over growing input.

From start to start, other settings change: parallelism, the memory of the sorter, retention and, without Spark, how
soon runs are merged. A subtask may have lost its local copy of the state. The clock may have gone on, so that every
epoch from there on lags and uses the sorted strategy over the state.
"""

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.driver.engine import Engine
from mixedmode.job import Job, Sink, Source
from mixedmode.state import merging
from tests.differential.cases import Rows, parquet_piece
from tests.differential.oracle import differences
from tests.differential.stories import case_folder, fold, local_cases
from tests.differential.test_steps import CHAINS, DDL, LOCAL_CHAINS, SCHEMA, Chain
from tests.harness import SPARK, SPARK_CASES, ManualClock, manifests, output_changes, run
from tests.local_engine import LocalEngine, World, local_session

MAX_PARALLELISM = 12
HOUR_MS = 3_600_000
AT = datetime(2001, 1, 1, tzinfo=UTC)
AT_MS = int(AT.timestamp()) * 1000
WITH_TIME = SCHEMA.append(pa.field("at", pa.timestamp("us", "UTC")))


@dataclass(frozen=True)
class Start:
    """One start of the job: the files that are new, and how it is set up this time."""

    files: tuple[Rows, ...]
    parallelism: int
    sort_memory: int
    retained: int
    fan_in: int
    hours_later: int
    loses_replicas: bool


@st.composite
def starts(draw: st.DrawFn) -> Start:
    rows = st.fixed_dictionaries(
        {
            "k": st.none() | st.sampled_from("abcd"),
            "j": st.integers(0, 3),
            "v": st.none() | st.integers(-4, 4),
            "d": st.none() | st.sampled_from([0.5, -1.0, 2.25]),
        }
    )
    return Start(
        files=tuple(draw(st.lists(st.lists(rows, max_size=12), max_size=2))),
        parallelism=draw(st.sampled_from([1, 2, 3, 5, MAX_PARALLELISM])),
        sort_memory=draw(st.sampled_from([2**28, 1_000])),
        retained=draw(st.integers(1, 3)),
        fan_in=draw(st.sampled_from([2, 2, merging.FAN_IN])),
        hours_later=draw(st.sampled_from([0, 0, 5])),
        loses_replicas=draw(st.booleans()),
    )


def start(*files: Rows, hours_later: int = 0) -> Start:
    """One whose settings do not matter."""
    return Start(files, 2, 2**28, 2, merging.FAN_IN, hours_later, loses_replicas=False)


def row(v: int | None) -> dict[str, Any]:
    return {"k": "a", "j": 0, "v": v, "d": 0.5}


#: the first records do not pass the SQL of the chain, and move the watermark all the same
NOTHING_PASSES = [start([row(None), row(2)]), start([row(1)], hours_later=5)]


walks = st.lists(starts(), min_size=2, max_size=5)
modes = st.sampled_from(["mixed", "mixed", "streaming"])


@local_cases(0.04)
@given(chain=st.sampled_from(sorted(LOCAL_CHAINS)), walk=walks, mode=modes)
def test_every_start_goes_on_where_the_one_before_ended(chain: str, walk: list[Start], mode: str) -> None:
    with case_folder() as folder:
        check(LOCAL_CHAINS[chain], walk, mode, None, folder)


@pytest.mark.spark
@example(chain="filtered after", walk=NOTHING_PASSES, mode="mixed")
@example(chain="filtered after", walk=NOTHING_PASSES, mode="streaming")
@settings(SPARK_CASES, max_examples=1)
@given(chain=st.sampled_from(sorted(CHAINS)), walk=walks, mode=modes)
def test_every_start_of_a_chain_with_sql_goes_on_where_the_one_before_ended(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, chain: str, walk: list[Start], mode: str
) -> None:
    check(CHAINS[chain], walk, mode, spark, tmp_path_factory.mktemp("walk"))


def check(chain: Chain, walk: list[Start], mode: str, spark: SparkSession | None, base: Path) -> None:
    """Start the job again and again, and compare its table with the answer each time.  spark: None for local runs."""
    clock, rows, files, world = ManualClock(AT_MS), Rows(), 0, World()
    (base / "in").mkdir()
    for start in walk:
        has_watermark = bool(rows)  # without one, nothing is known to lag
        for piece in start.files:
            arrived = parquet_piece(f"{files:03}", [{**row, "at": AT} for row in piece], WITH_TIME)
            arrived(base / "in")
            world.files[arrived.name] = arrived.table
            rows += piece
            files += 1
        clock.time_ms += start.hours_later * HOUR_MS
        if start.loses_replicas:
            shutil.rmtree(replicas(), ignore_errors=True)
        world.fan_in = start.fan_in
        session, engine = (local_session(world), LocalEngine) if spark is None else (spark, Engine)
        observer = run(job(base, chain, start, is_mixed=mode == "mixed"), session, clock=clock, engine=engine)
        assert not differences(chain.answer(rows), fold(output_changes(base / "out"), chain.key_by))
        assert not observer.committed or len(manifests(base / "checkpoints")) <= start.retained
        if has_watermark and clock.time_ms > AT_MS:
            assert all(event.strategy == "sorted" for event in observer.committed)


def job(base: Path, chain: Chain, start: Start, *, is_mixed: bool) -> Job:
    read = partial(Source.parquet, schema=f"{DDL}, at timestamp", event_time="at")
    walking = Job(
        "walk",
        sources={"t": read(base / "in") if is_mixed else read(base / "in", max_files_per_epoch=1)},
        mode="mixed" if is_mixed else "streaming",
        parallelism=start.parallelism,
        max_parallelism=MAX_PARALLELISM,
        checkpoint_dir=base / "checkpoints",
        checkpoints_retained=start.retained,
        sort_memory=start.sort_memory,
        watermark_lag_threshold="1h",
        spark=SPARK,
    )
    return chain.steps(walking).write(Sink.parquet(base / "out"))


def replicas() -> Path:
    """Return the folder in which the subtasks of this test process keep their local copies of the state."""
    return next(iter(Path(tempfile.gettempdir()).glob("mixedmode-*/replicas")), Path("none"))
