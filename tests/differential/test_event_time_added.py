"""A source gets event time, or loses it, between two starts of a job: steps that it cannot reach see nothing of that.

The job's watermark is the least of all sources with event time. A step that only some of them can reach has its own,
which goes on where it was, whatever becomes of the other sources.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.driver.phases import Until
from mixedmode.job import Job, Sink, Source
from tests.differential.stories import case_folder, local_cases
from tests.harness import ManualClock, manifests, output_rows, run
from tests.local_engine import LocalEngine, World, local_session

MS = 1_000
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
OUTPUTS = ("windows", "sums", "firsts", "totals")
Record = tuple[int, str, int]  # time in milliseconds, key, value
#: the records of each source in an epoch
Epoch = tuple[Sequence[Record], Sequence[Record]]
records = st.lists(st.tuples(st.integers(-40, 60), st.sampled_from("ab"), st.integers(0, 5)), max_size=4)
epochs = st.lists(st.tuples(records, records), min_size=2, max_size=6)


def job(base: Path, *, is_timed: bool) -> Job:
    """Steps that go by the time of `a`, and one over `b` that goes by no time."""
    settings: dict[str, Any] = {"schema": "k string, v bigint, t timestamp"}
    timed: dict[str, Any] = {"event_time": "t", "max_ahead": "none"}
    sources = {
        "a": Source.parquet(base / "a", **settings, **timed),
        "b": Source.parquet(base / "b", **settings, **(timed if is_timed else {})),
    }
    made = Job("two", sources=sources, mode="mixed", checkpoint_dir=base / "c", parallelism=2, max_parallelism=8)
    a, b = made.source("a"), made.source("b")
    windows = a.key_by("k").window(tumbling="10ms", allowed_lateness="15ms").aggregate(n="count(*)", v="sum(v)")
    steps = {
        "windows": windows,
        "sums": windows.key_by("k").aggregate(n="sum(n)", v="sum(v)"),
        "firsts": a.key_by("k").deduplicate(keep="first", tie_break="v", within="20ms"),
        "totals": b.key_by("k").aggregate(n="count(*)", v="sum(v)"),
    }
    for name, step in steps.items():
        made = made.output(name, step, Sink.parquet(base / "out" / name))
    return made


def tables_of(epochs: Sequence[Epoch], starts: Sequence[bool], base: Path) -> Mapping[str, Counter[Any]]:
    """The outputs of a job with a start for each epoch.  starts: whether `b` has event time in each."""
    world = World()
    for name in ("a", "b"):
        (base / name).mkdir(parents=True)

    for number, (epoch, is_timed) in enumerate(zip(epochs, starts, strict=True)):
        for name, rows in zip("ab", epoch, strict=True):
            table = pa.Table.from_pylist([{"k": k, "v": v, "t": t * MS} for t, k, v in rows], SCHEMA)
            world.files[f"{name}/{number:03}"] = table
        until = Until.DRAINED if number == len(epochs) - 1 else Until.IDLE
        start = partial(run, until=until, engine=LocalEngine, clock=ManualClock())
        start(job(base, is_timed=is_timed), local_session(world))
    folders = {name: base / "out" / name for name in OUTPUTS}
    return {
        name: Counter(tuple(row.values()) for row in output_rows(folder)) if any(folder.glob("part-*")) else Counter()
        for name, folder in folders.items()
    }


#: windows of the first epoch are over in the second one, which has a record of them
OVER: list[Epoch] = [([(0, "a", 1), (100, "a", 1)], [(5, "a", 1)]), ([(6, "a", 1), (101, "a", 1)], [(6, "a", 1)])]


@given(epochs=epochs, change=st.integers(0, 5), is_timed=st.booleans())
@example(epochs=OVER, change=1, is_timed=False)
@example(epochs=OVER, change=1, is_timed=True)
@local_cases(0.01)
def test_steps_that_a_source_cannot_reach_do_not_see_if_it_has_event_time(
    epochs: list[Epoch], change: int, is_timed: bool
) -> None:
    changed = [is_timed if number < change else not is_timed for number in range(len(epochs))]
    with case_folder() as base:
        found = tables_of(epochs, changed, base / "changed")
        assert found == tables_of(epochs, [is_timed] * len(epochs), base / "same")


@pytest.mark.parametrize("is_timed", [False, True])
def test_the_watermark_of_a_step_goes_on_if_another_source_gets_or_loses_event_time(
    tmp_path: Path, is_timed: bool
) -> None:
    tables_of([*OVER, ([], [])], [is_timed, not is_timed, not is_timed], tmp_path)
    found = [manifest.watermark_us for manifest in manifests(tmp_path / "c")]
    own = [manifest.step_watermarks.get("aggregate_1", manifest.watermark_us) for manifest in manifests(tmp_path / "c")]
    assert own[:2] == [100 * MS, 101 * MS]
    assert found[:2] == [5 * MS, 101 * MS] if is_timed else [100 * MS, 100 * MS]
